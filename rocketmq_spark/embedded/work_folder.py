"""Temporary folders that go with their owner, whatever ends it: the next one that is made removes what the dead left.

The owner is whoever holds the lock on the folder's file ``owner``: this process, and the children that inherit its
descriptor. The kernel lets go of the lock when the last of them is gone, so a process id that is used again, another
container's processes on the same disk, or a JVM that outlives its Python for a moment deceive nobody.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

OWNER_FILE: Final = "owner"
PREFIX: Final = "rocketmq-"


@dataclass(frozen=True, slots=True)
class WorkFolder:
    """Where it is, and the descriptor that every child process has to inherit that works in it."""

    path: Path
    owner: int


@contextmanager
def work_folder(purpose: str) -> Iterator[WorkFolder]:
    """A folder ``rocketmq-<purpose>-…`` among the temporary ones, for as long as the block runs."""
    prefix = f"{PREFIX}{purpose}-"
    remove_abandoned(Path(tempfile.gettempdir()), prefix)
    folder = tempfile.TemporaryDirectory(prefix=prefix)
    owner = lock_folder(Path(folder.name))
    try:
        yield WorkFolder(Path(folder.name), owner)
    finally:
        # The lock is let go of last: nobody else begins to remove it meanwhile.
        folder.cleanup()
        os.close(owner)


def lock_folder(folder: Path) -> int:
    """Own it; the descriptor of its lock. ``owner`` gets its name when it is locked, so none is there without one."""
    unnamed = folder / f"{OWNER_FILE}.new"
    owner = os.open(unnamed, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    fcntl.flock(owner, fcntl.LOCK_EX)
    unnamed.rename(folder / OWNER_FILE)
    return owner


def remove_abandoned(parent: Path, prefix: str) -> None:
    """Remove this user's folders whose owners are gone; those that never had one are not ours to judge."""
    for folder in parent.glob(f"{prefix}*"):
        with suppress(OSError):  # somebody else removes it at the same time, or it is not ours
            if is_own_folder(folder):
                _remove_if_abandoned(folder)


def is_own_folder(folder: Path) -> bool:
    """Whether it is a folder, not a link to one, and this user's."""
    status = folder.lstat()
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid()


def _remove_if_abandoned(folder: Path) -> None:
    owner = os.open(folder / OWNER_FILE, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Its file last: were this interrupted, what is left would still be known as abandoned.
        for entry in folder.iterdir():
            if entry.name != OWNER_FILE:
                remove(entry)
        shutil.rmtree(folder)
    finally:
        os.close(owner)


def remove(entry: Path) -> None:
    """Remove a file, a link, or a folder with all that is in it."""
    if entry.is_dir() and not entry.is_symlink():
        shutil.rmtree(entry)
    else:
        entry.unlink()
