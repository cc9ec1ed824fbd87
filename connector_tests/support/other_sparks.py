"""Virtual environments with Sparks that are not ours, below ``build/sparks``; made once, by pip."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from importlib.metadata import requires
from importlib.metadata import version as installed
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement

from connector_tests.support.timeouts import TIMEOUT_FACTOR

ROOT: Final = Path(__file__).parents[2]
SPARKS: Final = ROOT / "build" / "sparks"
INSTALL_S: Final = 900 * TIMEOUT_FACTOR
OF_OUR_SPARK: Final = ("PYSPARK_PYTHON", "SPARK_HOME", "SPARK_SUBMIT_OPTS")


def python_of(version: str) -> Path:
    """Return the Python of the environment with this PySpark, and what the package and its tests need beside it; our
    own if it is ours."""
    if version == installed("pyspark"):
        return Path(sys.executable)
    folder = SPARKS / version
    python = folder / "bin" / "python"
    stamp = folder / ".installed"
    requirement = [f"pyspark=={version}", *_other_requirements()]
    if not stamp.exists() or stamp.read_text(encoding="utf-8").splitlines() != requirement:
        venv.create(folder, with_pip=True, clear=True, symlinks=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *requirement], check=True, timeout=INSTALL_S)
        stamp.write_text("\n".join(requirement), encoding="utf-8")
    return python


def _other_requirements() -> list[str]:
    """What the package that is installed here and its tests need of others than PySpark."""
    requirement = [one for one in map(Requirement, requires("rocketmq-spark") or ()) if _is_for_tests(one)]
    assert requirement, f"the package is not installed in {sys.prefix}"
    return [f"{one.name}{one.specifier}" for one in requirement if one.name != "pyspark"]


def _is_for_tests(one: Requirement) -> bool:
    return one.marker is None or one.marker.evaluate({"extra": "test"})


def environment_of(python: Path) -> dict[str, str]:
    """Ours, without what is for our own PySpark where ``python`` has another one."""
    if python == Path(sys.executable):
        return dict(os.environ)
    return {name: value for name, value in os.environ.items() if name not in OF_OUR_SPARK}
