"""Virtual environments with Sparks that are not ours, below ``build/sparks``; made once, by pip."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import venv
from importlib.metadata import requires
from importlib.metadata import version as installed
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
SPARKS: Final = ROOT / "build" / "sparks"
INSTALL_S: Final = 900
OF_OUR_SPARK: Final = ("PYSPARK_PYTHON", "SPARK_HOME", "SPARK_SUBMIT_OPTS")


def python_of(version: str) -> Path:
    """Return the Python of the environment with this PySpark and what the package needs beside it; our own if it is
    ours."""
    if version == installed("pyspark"):
        return Path(sys.executable)
    folder = SPARKS / version
    python = folder / "bin" / "python"
    stamp = folder / ".installed"
    if not stamp.exists():
        venv.create(folder, with_pip=True, clear=True, symlinks=True)
        wanted = [f"pyspark=={version}", *_other_requirements()]
        subprocess.run([python, "-m", "pip", "install", "--quiet", *wanted], check=True, timeout=INSTALL_S)
        stamp.touch()
    return python


def _other_requirements() -> list[str]:
    """What the package that is installed here needs of others than PySpark."""
    plain = [one for one in requires("rocketmq-spark") or () if "extra ==" not in one]
    assert plain, f"the package is not installed in {sys.prefix}"
    return [one for one in plain if not re.match(r"pyspark\b", one)]


def environment_of(python: Path) -> dict[str, str]:
    """Ours, without what is for our own PySpark where ``python`` has another one."""
    if python == Path(sys.executable):
        return dict(os.environ)
    return {name: value for name, value in os.environ.items() if name not in OF_OUR_SPARK}
