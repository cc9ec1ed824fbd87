"""Work in a Python of its own, as small as an executor's.

In the benchmark's, which has loaded much, the collection of garbage takes longer.
"""

from __future__ import annotations

import subprocess
import sys


def run_apart(module: str, *arguments: str) -> str:
    """What a module prints that is run as a program."""
    command = [sys.executable, "-m", module, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout
