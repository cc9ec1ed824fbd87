"""Private folders in the machine's temporary directory, where another user may have created the name, or a link of it.

Files are accessed through the folder's descriptor, so they are in the verified folder even if its name is replaced.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def private_folder(path: Path) -> Iterator[int]:
    """Open the folder at ``path`` for the block and yield its descriptor, to use as ``dir_fd``; close it afterwards.

    Raises OSError if the folder is missing or a symbolic link, PermissionError if another user owns it, or other users
    have any permission for it.
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
