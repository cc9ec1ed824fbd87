"""Stores of a member's offsets. The brokers store them (RemoteBrokerOffsetStore), or, for a query that reads every
queue (BROADCASTING), a file of the query (LocalFileOffsetStore). This module decides; ``offset_committer`` sends
requests to brokers, and ``offset_file`` reads and writes the file.

Source: ``client/consumer/store/RemoteBrokerOffsetStore.java``. Differs where Java's could lose or lower an offset: the
broker checks nothing, so a read precedes every write, which only raises the stored offset (``offsets_to_raise``). An
update counts as persisted when the broker has acknowledged it, not when it was sent.

Source: ``client/consumer/store/LocalFileOffsetStore.java``. Differs: the file is plain JSON and belongs to one query,
by its ``instanceName``; Java's belongs to a client ID, which changes with the machine's address. Only a readable file
becomes the backup, so a torn one never replaces it.

    {"v": 1, "offsets": {"orders": {"broker-a": {"0": 180, "1": 7}}}}
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping
from typing import Any, Final, Protocol

from rocketmq_spark.errors import OptionError
from rocketmq_spark.model import MessageQueue, flat, nested


class PendingOffsets:
    """Next offsets of owned queues: completed but not confirmed by the store, and confirmed. Not thread-safe."""

    def __init__(self) -> None:
        self._unconfirmed: dict[MessageQueue, int] = {}
        self._confirmed: dict[MessageQueue, int] = {}

    @property
    def unconfirmed(self) -> dict[MessageQueue, int]:
        """Copy of the offsets to commit."""
        return dict(self._unconfirmed)

    def update(self, queue: MessageQueue, next_offset: int) -> None:
        """Record that all messages of ``queue`` before ``next_offset`` are processed: the offset is unconfirmed. Do
        nothing unless it is larger than the unconfirmed offset, or without one than the confirmed offset."""
        current = self._unconfirmed.get(queue, self._confirmed.get(queue, -1))
        if next_offset > current:
            self._unconfirmed[queue] = next_offset

    def confirm(self, queue: MessageQueue, offset: int) -> None:
        """Record that the store has ``offset`` at least; a smaller one does not lower the confirmed offset. An
        unconfirmed offset that is not larger is removed."""
        self._confirmed[queue] = max(offset, self._confirmed.get(queue, -1))
        if self._unconfirmed.get(queue, offset + 1) <= offset:
            del self._unconfirmed[queue]

    def confirmed(self, queue: MessageQueue) -> int | None:
        """Return the queue's offset that the store has confirmed, or None; it may store a larger one now."""
        return self._confirmed.get(queue)

    def remove(self, queue: MessageQueue) -> None:
        """Remove both offsets of a queue that another member owns now, or that is read from another offset. Nothing is
        stored."""
        self._unconfirmed.pop(queue, None)
        self._confirmed.pop(queue, None)


def offsets_to_raise(
    targets: Mapping[MessageQueue, int], stored: Mapping[MessageQueue, int | None]
) -> dict[MessageQueue, int]:
    """Return the ``targets`` that exceed the offset that the broker has ``stored`` (None: no offset). Queues that are
    missing in ``stored`` are omitted."""
    writes = {}
    for queue, at_broker in stored.items():
        if queue in targets and (at_broker is None or at_broker < targets[queue]):
            writes[queue] = targets[queue]
    return writes


log = logging.getLogger(__name__)

VERSION: Final = 1


class OffsetFile(Protocol):
    """A file and its backup, the previous version. ``str`` returns its path. Raises
    OptionError[OFFSET_FILE_UNUSABLE]."""

    def read(self) -> tuple[bytes | None, bytes | None]:
        """Return the content of the file and of its backup; a missing file has None."""

    def write(self, content: bytes, *, keep_backup: bool) -> None:
        """Replace the file atomically, even if the process crashes; with ``keep_backup`` the old file becomes the
        backup."""


class MemoryOffsetStore:
    """Next offsets by queue of one start of a query, an ``OffsetStore``, for a query that commits none. Not
    thread-safe."""

    def __init__(self) -> None:
        self._offsets: dict[MessageQueue, int] = {}

    def stored_offsets(self, queues: Iterable[MessageQueue]) -> dict[MessageQueue, int | None]:
        """Return the stored offset of each queue, or None without one."""
        return {queue: self._offsets.get(queue) for queue in queues}

    def write_offsets(self, offsets: Mapping[MessageQueue, int]) -> set[MessageQueue]:
        """Replace the stored offsets of the queues in ``offsets``, also by smaller ones. Keep those of other queues.
        Return all queues of ``offsets``."""
        self._offsets |= offsets
        return set(offsets)

    def may_write(self, _queue: MessageQueue) -> bool:
        """Return True. No write is paused; a failed one is raised."""
        return True

    def are_unchanged(self, completed: Iterable[MessageQueue]) -> dict[MessageQueue, bool]:
        """Return True for all queues: the offsets belong to one query, which checks its queues before it plans."""
        return dict.fromkeys(completed, True)


class LocalFileOffsetStore(MemoryOffsetStore):
    """Next offsets by queue in memory and in a file. All confirmed offsets are in the file. Not thread-safe.

    Raises OptionError[OFFSET_FILE_UNUSABLE] if a file exists and neither it nor its backup is valid. A restart from the
    start position would be an unnoticed loss.
    """

    def __init__(self, file: OffsetFile) -> None:
        """Read the file, or its backup if the file is missing or damaged. Raises OptionError[OFFSET_FILE_UNUSABLE]."""
        super().__init__()
        self._file = file
        content, backup = file.read()
        readable = None if content is None else decode_offsets(content)
        self._is_file_readable = readable is not None
        if readable is None:
            readable = self._read_backup(backup, is_torn=content is not None)
        self._offsets = readable

    def _read_backup(self, backup: bytes | None, *, is_torn: bool) -> dict[MessageQueue, int]:
        """Return the offsets of ``backup``, and log a warning; {} if neither file exists. ``is_torn``: the file exists
        and is damaged. Raises OptionError[OFFSET_FILE_UNUSABLE] if the backup is damaged, or missing beside a torn
        file."""
        if backup is None and not is_torn:
            return {}
        readable = None if backup is None else decode_offsets(backup)
        if readable is None:
            raise OptionError("OFFSET_FILE_UNUSABLE", file=str(self._file), problem="it is damaged")
        log.warning(
            "OFFSET_FILE_UNUSABLE: Cannot read offsets of file=%s, which is missing or damaged; using its previous "
            "version. Check the disk.",
            self._file,
        )
        return readable

    def write_offsets(self, offsets: Mapping[MessageQueue, int]) -> set[MessageQueue]:
        """Replace the stored offsets of the queues in ``offsets``, also by smaller ones, and keep the offsets of all
        other queues. Write the file only if an offset changes; a valid old file becomes the backup. Return all queues
        of ``offsets``. Raises OptionError[OFFSET_FILE_UNUSABLE]."""
        changed = self._offsets | dict(offsets)
        if changed != self._offsets:
            self._file.write(encode_offsets(changed), keep_backup=self._is_file_readable)
            self._offsets, self._is_file_readable = changed, True
        return set(offsets)


def encode_offsets(offsets: Mapping[MessageQueue, int]) -> bytes:
    """Return ``offsets`` as JSON of the module's form, in queue order; ``decode_offsets`` is the inverse."""
    return json.dumps({"v": VERSION, "offsets": nested(offsets)}, indent=1).encode()


def decode_offsets(content: bytes) -> dict[MessageQueue, int] | None:
    """Return the offsets of a file's content. Return None for invalid JSON, another form or version, and an offset that
    is negative or no integer."""
    try:
        value = json.loads(content)
        return dict(_checked(value)) if value["v"] == VERSION else None
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def _checked(value: Any) -> Iterable[tuple[MessageQueue, int]]:
    """Yield the offsets by queue. Raises, during iteration, TypeError for a value that is no integer from 0 on,
    KeyError without offsets, and the errors of ``flat``."""
    for queue, offset in flat(value["offsets"]):
        if type(offset) is not int or offset < 0:
            raise TypeError(f"no offset: {offset!r}")
        yield queue, offset
