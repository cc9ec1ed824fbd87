"""Work in a Python of its own, as small as an executor's.

In the benchmark's, which has loaded much, the collection of garbage takes longer.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from connector_tests.support.other_sparks import ROOT, environment_of


def run_apart(module: str, *arguments: str, python: Path = Path(sys.executable)) -> str:
    """What a module prints that is run as a program. ``python``: see ``python_of``."""
    command = [str(python), "-m", module, *arguments]
    environment = {**environment_of(python), "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout
