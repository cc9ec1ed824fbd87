"""LocalOffsetFile: a file that is replaced atomically, and its previous version. The file access of
``offset_store``."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final
from urllib.parse import quote

from rocketmq_spark.errors import OptionError
from rocketmq_spark.options import ReadOptions

DEFAULT_FOLDER: Final = "~/.rocketmq_offsets"
"""Same folder as that of Java's client, which names its files differently."""


class LocalOffsetFile:
    """``path`` and ``path.bak``; an ``OffsetFile``. The first write creates missing folders.

    Both methods raise OptionError[OFFSET_FILE_UNUSABLE] when the system refuses to read or to write.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._backup = path.with_name(f"{path.name}.bak")
        self._new_file = path.with_name(f"{path.name}.new")

    def __str__(self) -> str:
        return str(self._path)

    def read(self) -> tuple[bytes | None, bytes | None]:
        """Return the content of the file and of its previous version; a missing file has None.

        Raises OptionError[OFFSET_FILE_UNUSABLE] if reading fails.
        """
        with self._raising_file_unusable():
            return _content(self._path), _content(self._backup)

    def write(self, content: bytes, *, keep_backup: bool) -> None:
        """Replace the file atomically, synced to the disk; create missing folders. With ``keep_backup`` the old file
        becomes the previous version, else it is lost. The previous version stays without ``keep_backup``, or if the old
        file was deleted. A crash leaves the old file, the new one, or only the previous version.

        Raises OptionError[OFFSET_FILE_UNUSABLE] if writing fails.
        """
        with self._raising_file_unusable():
            self._path.parent.mkdir(parents=True, exist_ok=True)
            _write_synced(self._new_file, content)
            if keep_backup:
                with suppress(FileNotFoundError):
                    self._path.replace(self._backup)
            self._new_file.replace(self._path)

    @contextmanager
    def _raising_file_unusable(self) -> Iterator[None]:
        """Replace an OSError of the block by OptionError[OFFSET_FILE_UNUSABLE]."""
        try:
            yield
        except OSError as error:
            raise OptionError("OFFSET_FILE_UNUSABLE", file=str(self), problem=str(error)) from error


def offset_file_of(options: ReadOptions) -> LocalOffsetFile:
    """Return the offset file of a query in BROADCASTING: ``group/instanceName.json``, percent-encoded, in folder
    ``localOffsetStoreDir``, by default ``~/.rocketmq_offsets``. ``instanceName`` must be set. Opens nothing."""
    assert options.instance_name is not None, "BROADCASTING needs one"
    folder = Path(options.local_offset_store_dir or DEFAULT_FOLDER).expanduser()
    return LocalOffsetFile(folder / quote(options.consumer_group, "") / f"{quote(options.instance_name, '')}.json")


def _content(path: Path) -> bytes | None:
    """Return the file's content, or None if the file is missing. Raises OSError if it cannot be read."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def _write_synced(path: Path, content: bytes) -> None:
    """Create or overwrite the file with ``content``, and sync it to the disk. Raises OSError on failure."""
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
