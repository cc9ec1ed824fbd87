"""A virtual environment with what clients of Spark Connect need beside PySpark, below ``build/connect``; made once, by
pip. Our own environment does without pandas, as the connector does."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path
from typing import Final

from connector_tests.support.timeouts import TIMEOUT_FACTOR

ENVIRONMENT: Final = Path(__file__).parents[2] / "build" / "connect"
REQUIREMENTS: Final = (
    "pandas>=2.2,<3",
    "grpcio-status>=1.76",
    "googleapis-common-protos>=1.71",
    "zstandard>=0.25",
    "pyyaml>=3.11",
)
"""Of PySpark's extras ``connect`` and ``pipelines``; newer versions of pandas make PySpark warn."""
INSTALL_S: Final = 900 * TIMEOUT_FACTOR


def connect_python() -> str:
    """The Python of the environment, which also has all packages of ours."""
    python = ENVIRONMENT / "bin" / "python"
    stamp = ENVIRONMENT / ".installed"
    ours = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    contents = "\n".join((*sorted(ours), *REQUIREMENTS))
    if not stamp.exists() or stamp.read_text(encoding="utf-8") != contents:
        venv.create(ENVIRONMENT, clear=True, symlinks=True)
        (site_packages,) = (ENVIRONMENT / "lib").glob("python*/site-packages")
        (site_packages / "ours.pth").write_text("\n".join(ours), encoding="utf-8")
        pip = (
            sys.executable,
            "-m",
            "pip",
            "--python",
            str(python),
            "install",
            "--quiet",
            "--disable-pip-version-check",
        )
        subprocess.run([*pip, *REQUIREMENTS], check=True, timeout=INSTALL_S)
        stamp.write_text(contents, encoding="utf-8")
    return str(python)


def without_java() -> dict[str, str]:
    """Our environment, in which a process cannot start a JVM."""
    return {name: value for name, value in os.environ.items() if name != "JAVA_HOME"} | {"PATH": "/nowhere"}
