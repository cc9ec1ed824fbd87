"""RemoteBrokerOffsetStore: what this member has to tell the brokers about the group's progress.

Source: ``client/consumer/store/RemoteBrokerOffsetStore.java``. It differs where Java's could lose or lower an offset:
the broker checks nothing, so every write is preceded by a read and only ever raises the stored value (``raising``); an
update counts as persisted when the broker has answered it, not when it was sent. This decides, ``group_offsets`` asks.
"""

from __future__ import annotations

from collections.abc import Mapping

from rocketmq_spark.model import MessageQueue


class RemoteBrokerOffsetStore:
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
        known = self._unconfirmed.get(queue, self._confirmed.get(queue, -1))
        if next_offset > known:
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


def raising(wanted: Mapping[MessageQueue, int], stored: Mapping[MessageQueue, int | None]) -> dict[MessageQueue, int]:
    """Those of ``wanted`` that are more than the broker has ``stored`` (None: nothing). Unread queues are left out."""
    writes = {}
    for queue, at_broker in stored.items():
        if queue in wanted and (at_broker is None or at_broker < wanted[queue]):
            writes[queue] = wanted[queue]
    return writes
