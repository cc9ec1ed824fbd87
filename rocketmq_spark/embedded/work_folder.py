"""Temporary folders that are deleted after their owner has ended: at its end, or when the next folder is created.

The owner holds the lock on the folder's file ``owner``: this process, and the children that inherit its descriptor. The
kernel releases the lock when the last of them has ended. So a reused process ID, processes of another container on the
same disk, or a JVM that briefly outlives its Python process cause no mistakes.
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
    """Path of the folder, and the descriptor that every child process working in it must inherit."""

    path: Path
    owner: int


@contextmanager
def work_folder(purpose: str) -> Iterator[WorkFolder]:
    """Delete the temporary folders of this ``purpose`` whose owners have ended. Then yield a new one,
    ``rocketmq-<purpose>-…``, locked, which is deleted after the block."""
    prefix = f"{PREFIX}{purpose}-"
    remove_abandoned(Path(tempfile.gettempdir()), prefix)
    folder = tempfile.TemporaryDirectory(prefix=prefix)
    owner = lock_folder(Path(folder.name))
    try:
        yield WorkFolder(Path(folder.name), owner)
    finally:
        # The lock is released last, so that no other process removes the folder meanwhile.
        folder.cleanup()
        os.close(owner)


def lock_folder(folder: Path) -> int:
    """Create the folder's owner file, lock it, and return its descriptor, which holds the lock. The file gets the name
    ``owner`` after locking, so it never exists unlocked."""
    unnamed = folder / f"{OWNER_FILE}.new"
    owner = os.open(unnamed, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    fcntl.flock(owner, fcntl.LOCK_EX)
    unnamed.rename(folder / OWNER_FILE)
    return owner


def remove_abandoned(parent: Path, prefix: str) -> None:
    """Delete this user's folders in ``parent`` whose names start with ``prefix`` and whose owners have ended. Folders
    without a file ``owner``, and those that cannot be deleted, are kept without an error."""
    for folder in parent.glob(f"{prefix}*"):
        with suppress(OSError):  # another process removes it at the same time, or owns it
            if is_own_folder(folder):
                _remove_if_abandoned(folder)


def is_own_folder(folder: Path) -> bool:
    """Return whether it is this user's folder, not a link to one."""
    status = folder.lstat()
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid()


def _remove_if_abandoned(folder: Path) -> None:
    """Delete the folder and its contents if no process holds the lock on its owner file. Raises OSError if one does, if
    there is no such file, or if deleting fails."""
    owner = os.open(folder / OWNER_FILE, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # The owner file last: if this is interrupted, the rest is still recognised as abandoned.
        for entry in folder.iterdir():
            if entry.name != OWNER_FILE:
                remove(entry)
        shutil.rmtree(folder)
    finally:
        os.close(owner)


def remove(entry: Path) -> None:
    """Delete a file, a link, or a folder with its contents. Raises OSError, also if there is no such entry."""
    if entry.is_dir() and not entry.is_symlink():
        shutil.rmtree(entry)
    else:
        entry.unlink()
