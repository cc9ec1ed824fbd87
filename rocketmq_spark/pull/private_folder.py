"""Folders among the machine's temporary files, where any user may have made the name, or a link of it, before.

Files in one are reached through its descriptor: whatever becomes of the name afterwards, it is the folder that was
checked.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def private_folder(path: Path) -> Iterator[int]:
    """Open the folder at ``path`` for the block, as a descriptor to use as ``dir_fd``.

    Raises OSError where there is none, or a link to one; PermissionError where it is another user's, or others may
    read or write it.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        status = os.fstat(descriptor)
        if status.st_uid != os.getuid():
            raise PermissionError(f"{path} belongs to another user")
        if stat.S_IMODE(status.st_mode) & (stat.S_IRWXG | stat.S_IRWXO):
            raise PermissionError(f"{path} is open to other users")
        yield descriptor
    finally:
        os.close(descriptor)
