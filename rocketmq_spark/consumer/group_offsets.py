"""GroupOffsets: up to where the group has come, as its keeper stores it: read before it is written, and only raised.

The keeper is the brokers (``BrokerOffsets``), or in BROADCASTING a file of the query's own (``LocalFileOffsetStore``).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Protocol

from rocketmq_spark.consumer.offset_store import RemoteBrokerOffsetStore, raising
from rocketmq_spark.consumer.resets import Resets
from rocketmq_spark.consumer.servers import BrokerPort, Servers
from rocketmq_spark.errors import RocketMQError
from rocketmq_spark.model import MessageQueue

log = logging.getLogger(__name__)


class OffsetKeeper(Protocol):
    """Where offsets are kept."""

    def stored_offsets(self, queues: Iterable[MessageQueue]) -> dict[MessageQueue, int | None]:
        """The offset of each queue; None where there is none. Queues whose broker is silent are left out."""

    def write_offsets(self, offsets: Mapping[MessageQueue, int]) -> set[MessageQueue]:
        """Store exactly ``offsets``; says for which queues that is confirmed."""

    def may_write(self, queue: MessageQueue) -> bool:
        """Whether it is of use to try now: the queue's offset was not refused a moment ago."""


class BrokerOffsets:
    """The group's offsets at the brokers, an ``OffsetKeeper``."""

    def __init__(self, group: str, servers: Servers, resets: Resets) -> None:
        self._group = group
        self._servers = servers
        self._resets = resets

    def stored_offsets(self, queues: Iterable[MessageQueue]) -> dict[MessageQueue, int | None]:
        """One round of requests a broker."""
        stored: dict[MessageQueue, int | None] = {}
        for _, answer in self._servers.ask_each(queues, self._query):
            stored |= answer
        return stored

    def _query(self, broker: BrokerPort, queues: Collection[MessageQueue]) -> dict[MessageQueue, int | None]:
        return broker.query_offsets(self._group, queues)

    def write_offsets(self, offsets: Mapping[MessageQueue, int]) -> set[MessageQueue]:
        """What a broker does not take, an operator has reset: then it is noted where to."""
        written: set[MessageQueue] = set()

        def update(broker: BrokerPort, queues: Collection[MessageQueue]) -> dict[MessageQueue, RocketMQError]:
            return broker.update_offsets(self._group, {queue: offsets[queue] for queue in queues})

        due = [queue for queue in offsets if self._servers.may_commit(queue)]
        for queues, failures in self._servers.ask_each(due, update):
            for queue in queues:
                if queue in failures:
                    self._not_written(queue, offsets[queue], failures[queue])
                else:
                    written.add(queue)
                    self._servers.note_commit(queue, None)
        return written

    def may_write(self, queue: MessageQueue) -> bool:
        return self._servers.may_commit(queue)

    def _not_written(self, queue: MessageQueue, offset: int, error: RocketMQError) -> None:
        log.warning("offset not stored queue=%s offset=%d: %s", queue, offset, error)
        if error.condition == "OFFSET_NOT_TAKEN":
            self._resets.take_mark(queue)
        else:
            self._servers.note_commit(queue, error)


class GroupOffsets:
    """The group's offsets as one member sees them, and what it has proven and the keeper has not confirmed.

    ``is_ours`` says which queues the member owns: only their progress is remembered. Not thread-safe.
    """

    def __init__(self, keeper: OffsetKeeper, resets: Resets, is_ours: Callable[[MessageQueue], bool]) -> None:
        self.keeper = keeper
        self._resets = resets
        self._is_ours = is_ours
        self._progress = RemoteBrokerOffsetStore()

    # ------------------------------------------------------------------------------------------ our progress

    @property
    def unconfirmed(self) -> dict[MessageQueue, int]:
        """A copy of what is proven and the keeper is still to be told."""
        return self._progress.unconfirmed

    def prove(self, queue: MessageQueue, next_offset: int) -> None:
        """Everything of a queue of ours below ``next_offset`` is in the sink."""
        self._progress.update(queue, next_offset)

    def persist(self) -> bool:
        """Tell the keeper what it has not confirmed; says whether it has confirmed everything by now."""
        self.raise_to({queue: at for queue, at in self.unconfirmed.items() if self.keeper.may_write(queue)})
        return not self.unconfirmed

    def forget(self, queue: MessageQueue) -> None:
        """The queue is another member's now."""
        self._progress.remove(queue)

    # ------------------------------------------------------------------------------------------ the keeper's

    def raise_to(self, wanted: Mapping[MessageQueue, int]) -> set[MessageQueue]:
        """See to it that the keeper stores at least ``wanted``; says for which queues it has confirmed that.

        Of the first offsets of a group and topic that come at once, a broker may confirm one and lose it
        (``ConsumerOffsetManager#commitOffset`` makes the table for them unguarded). So look again where there was none.
        """
        confirmed, first = self._raise(wanted)
        if first:
            confirmed -= first - self._raise({queue: wanted[queue] for queue in first})[0]
        self._confirm({queue: wanted[queue] for queue in confirmed})
        return confirmed

    def _raise(self, wanted: Mapping[MessageQueue, int]) -> tuple[set[MessageQueue], set[MessageQueue]]:
        """Which offsets the keeper has confirmed, and which of these are the first that it has of their queue."""
        found = self.keeper.stored_offsets(wanted)
        stored = {queue: offset for queue, offset in found.items() if queue not in self._resets}
        writes = raising(wanted, stored)
        confirmed = (stored.keys() - writes.keys()) | self.keeper.write_offsets(writes)
        return confirmed, {queue for queue in confirmed if stored[queue] is None}

    def lower_to(self, wanted: Mapping[MessageQueue, int]) -> set[MessageQueue]:
        """Let the keeper store exactly ``wanted``, for queues that do not reach as far as the group's offset any more;
        says for which queues it has confirmed that. What was proven of such a queue is of another one now."""
        for queue in wanted:
            self._progress.remove(queue)
        written = self.keeper.write_offsets(wanted)
        self._confirm({queue: wanted[queue] for queue in written})
        return written

    def _confirm(self, offsets: Mapping[MessageQueue, int]) -> None:
        for queue, offset in offsets.items():
            if self._is_ours(queue):
                self._progress.confirm(queue, offset)
