"""Write ``Cargo.lock`` from ``crates.lock``, which pins the same packages without the address that Cargo has for each.

    python native/lock.py

Where Cargo looks for packages is its own setting, and no part of this project: it is asked once, by a lock of its own.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parent
PINNED: Final = FOLDER / "crates.lock"
LOCK: Final = FOLDER / "Cargo.lock"

SOURCE: Final = "source = "
CHECKSUM: Final = "checksum = "


def lock() -> None:
    """Nothing is done where the lock is right. Raises OSError, CalledProcessError where Cargo does not work."""
    pinned = PINNED.read_text(encoding="utf-8")
    if LOCK.exists() and _without_source(LOCK.read_text(encoding="utf-8")) == pinned:
        return
    LOCK.unlink(missing_ok=True)
    _let_cargo_lock()
    made = LOCK.read_text(encoding="utf-8").splitlines(keepends=True)
    source = next(line for line in made if line.startswith(SOURCE))
    lines = pinned.splitlines(keepends=True)
    LOCK.write_text("".join(source + line if line.startswith(CHECKSUM) else line for line in lines), encoding="utf-8")


def _let_cargo_lock() -> None:
    """With what it knows already, else by asking."""
    command = ["cargo", "generate-lockfile", "--quiet", "--manifest-path", str(FOLDER / "Cargo.toml")]
    if subprocess.run([*command, "--offline"], capture_output=True, check=False).returncode:
        subprocess.run(command, check=True)


def _without_source(text: str) -> str:
    return "".join(line for line in text.splitlines(keepends=True) if not line.startswith(SOURCE))


if __name__ == "__main__":
    lock()
