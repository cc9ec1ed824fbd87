"""Where a member's progress is kept: by the brokers (RemoteBrokerOffsetStore), or, of a query that reads every queue
(BROADCASTING), in a file of its own (LocalFileOffsetStore). These decide; ``offset_committer`` asks brokers, and
``offset_file`` reads and writes the file.

Source: ``client/consumer/store/RemoteBrokerOffsetStore.java``. It differs where Java's could lose or lower an offset:
the broker checks nothing, so every write is preceded by a read and only ever raises the stored value
(``offsets_to_raise``); an update counts as persisted when the broker has answered it, not when it was sent.

Source: ``client/consumer/store/LocalFileOffsetStore.java``. Differs: the file is plain JSON and belongs to one query,
by its ``instanceName``; Java's belongs to a client id, which changes with the machine's address. And only a file that
could be read becomes the one before, so that a torn one never takes its place.

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
    """Next offsets of the queues that are ours: proven and not confirmed by the broker, and confirmed. Not
    thread-safe."""

    def __init__(self) -> None:
        self._unconfirmed: dict[MessageQueue, int] = {}
        self._confirmed: dict[MessageQueue, int] = {}

    @property
    def unconfirmed(self) -> dict[MessageQueue, int]:
        """A copy of what the brokers are still to be told."""
        return dict(self._unconfirmed)

    def update(self, queue: MessageQueue, next_offset: int) -> None:
        """Everything of ``queue`` below ``next_offset`` is processed. Never moves back; what is confirmed needs no
        telling."""
        current = self._unconfirmed.get(queue, self._confirmed.get(queue, -1))
        if next_offset > current:
            self._unconfirmed[queue] = next_offset

    def confirm(self, queue: MessageQueue, offset: int) -> None:
        """The broker stores at least ``offset``. A larger update stays unconfirmed."""
        self._confirmed[queue] = max(offset, self._confirmed.get(queue, -1))
        if self._unconfirmed.get(queue, offset + 1) <= offset:
            del self._unconfirmed[queue]

    def confirmed(self, queue: MessageQueue) -> int | None:
        """What the broker has confirmed to store of a queue, at least."""
        return self._confirmed.get(queue)

    def remove(self, queue: MessageQueue) -> None:
        """The queue is another member's now, or reads another place: what was known of it says nothing any more."""
        self._unconfirmed.pop(queue, None)
        self._confirmed.pop(queue, None)


def offsets_to_raise(
    targets: Mapping[MessageQueue, int], stored: Mapping[MessageQueue, int | None]
) -> dict[MessageQueue, int]:
    """Those of ``targets`` that are more than the broker has ``stored`` (None: nothing). Unread queues are left out."""
    writes = {}
    for queue, at_broker in stored.items():
        if queue in targets and (at_broker is None or at_broker < targets[queue]):
            writes[queue] = targets[queue]
    return writes


log = logging.getLogger(__name__)

VERSION: Final = 1


class OffsetFile(Protocol):
    """A file and the one before it. ``str`` says where. Raises OptionError[OFFSET_FILE_UNUSABLE]."""

    def read(self) -> tuple[bytes | None, bytes | None]:
        """The file and the one before; None for one that is not there."""

    def write(self, content: bytes, *, keep_backup: bool) -> None:
        """Replace the file at once, whatever happens meanwhile; with ``keep_backup`` it becomes the one before."""


class LocalFileOffsetStore:
    """Next offsets by queue, an ``OffsetStore``. Whatever it confirms is in the file. Not thread-safe.

    Raises OptionError[OFFSET_FILE_UNUSABLE] where neither the file nor the one before can be understood: to begin
    anew then would be a loss that nobody notices.
    """

    def __init__(self, file: OffsetFile) -> None:
        self._file = file
        content, backup = file.read()
        readable = None if content is None else decode_offsets(content)
        self._is_file_readable = readable is not None
        if readable is None:
            readable = self._read_backup(backup, is_torn=content is not None)
        self._offsets = readable

    def _read_backup(self, backup: bytes | None, *, is_torn: bool) -> dict[MessageQueue, int]:
        if backup is None and not is_torn:
            return {}
        readable = None if backup is None else decode_offsets(backup)
        if readable is None:
            raise OptionError("OFFSET_FILE_UNUSABLE", file=str(self._file), problem="it is damaged")
        log.warning(
            "OFFSET_FILE_UNUSABLE: Cannot read offsets of file=%s, it is missing or damaged; using the previous "
            "version",
            self._file,
        )
        return readable

    def stored_offsets(self, queues: Iterable[MessageQueue]) -> dict[MessageQueue, int | None]:
        """The offset of each queue; None where there is none."""
        return {queue: self._offsets.get(queue) for queue in queues}

    def write_offsets(self, offsets: Mapping[MessageQueue, int]) -> set[MessageQueue]:
        """Store exactly ``offsets`` beside the others; all of them are confirmed."""
        changed = self._offsets | dict(offsets)
        if changed != self._offsets:
            self._file.write(encode_offsets(changed), keep_backup=self._is_file_readable)
            self._offsets, self._is_file_readable = changed, True
        return set(offsets)

    def may_write(self, _queue: MessageQueue) -> bool:
        """Always: what a file refuses is raised."""
        return True

    def are_unchanged(self, completions: Iterable[MessageQueue]) -> dict[MessageQueue, bool]:
        """Always: the file is one query's, which looks before it plans."""
        return dict.fromkeys(completions, True)


def encode_offsets(offsets: Mapping[MessageQueue, int]) -> bytes:
    """The content of a file."""
    return json.dumps({"v": VERSION, "offsets": nested(offsets)}, indent=1).encode()


def decode_offsets(content: bytes) -> dict[MessageQueue, int] | None:
    """What ``encode_offsets`` was given; None for content that it has not made."""
    try:
        value = json.loads(content)
        return dict(_checked(value)) if value["v"] == VERSION else None
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def _checked(value: Any) -> Iterable[tuple[MessageQueue, int]]:
    for queue, offset in flat(value["offsets"]):
        if type(offset) is not int or offset < 0:
            raise TypeError(f"no offset: {offset!r}")
        yield queue, offset
