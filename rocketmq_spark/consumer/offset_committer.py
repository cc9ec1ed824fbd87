"""GroupOffsets: up to where the group has come, as its keeper stores it: read before it is written, and only raised,
but by ``lower_to``.

The keeper is the brokers (``RemoteBrokerOffsetStore``), or in BROADCASTING a file of the query's own
(``LocalFileOffsetStore``).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple, Protocol

from rocketmq_spark.consumer.cluster_api import BrokerApi, Future, Link
from rocketmq_spark.consumer.offset_resets import OffsetResets
from rocketmq_spark.consumer.offset_store import PendingOffsets, offsets_to_raise
from rocketmq_spark.consumer.outage_aware_client import OutageAwareClient
from rocketmq_spark.errors import RocketMQError
from rocketmq_spark.model import MessageQueue
from rocketmq_spark.remoting.retry import is_reset_pending

log = logging.getLogger(__name__)

Check = Callable[[Mapping[MessageQueue, int]], dict[MessageQueue, int]]


class Completion(NamedTuple):
    """Everything of a queue below ``next_offset`` is in the sink, and was stored at ``stored_to_ms`` (unix) or before;
    0: that is not known."""

    next_offset: int
    stored_to_ms: int


class OffsetStore(Protocol):
    """Where offsets are kept."""

    def stored_offsets(self, queues: Iterable[MessageQueue]) -> dict[MessageQueue, int | None]:
        """The offset of each queue; None where there is none. Queues whose broker is silent are left out."""

    def write_offsets(self, offsets: Mapping[MessageQueue, int]) -> set[MessageQueue]:
        """Store exactly ``offsets``; says for which queues that is confirmed."""

    def may_write(self, queue: MessageQueue) -> bool:
        """Whether it is of use to try now: the queue's offset was not refused a moment ago."""

    def are_unchanged(self, completions: Mapping[MessageQueue, Completion]) -> dict[MessageQueue, bool]:
        """Whether the last proven message of each queue is still the one that was planned. Queues of which that is not
        known now are left out."""


class RemoteBrokerOffsetStore:
    """The group's offsets at the brokers, an ``OffsetStore``."""

    def __init__(self, group: str, client: OutageAwareClient, resets: OffsetResets) -> None:
        self._group = group
        self._client = client
        self._resets = resets

    def stored_offsets(self, queues: Iterable[MessageQueue]) -> dict[MessageQueue, int | None]:
        stored: dict[MessageQueue, int | None] = {}
        for _, response in self._client.call_each(queues, self._query):
            stored |= response
        return stored

    def _query(self, broker: BrokerApi, queues: Collection[MessageQueue]) -> Future[dict[MessageQueue, int | None]]:
        return broker.submit_query_offsets(self._group, queues)

    def write_offsets(self, offsets: Mapping[MessageQueue, int]) -> set[MessageQueue]:
        """What a broker does not take, an operator has reset: then it is noted where to."""
        written: set[MessageQueue] = set()

        def update(broker: BrokerApi, queues: Collection[MessageQueue]) -> Future[dict[MessageQueue, RocketMQError]]:
            return broker.submit_update_offsets(self._group, {queue: offsets[queue] for queue in queues})

        due = [queue for queue in offsets if self._client.may_commit(queue)]
        for queues, failures in self._client.call_each(due, update):
            for queue in queues:
                if queue in failures:
                    self._record_write_failure(queue, offsets[queue], failures[queue])
                else:
                    written.add(queue)
                    self._client.record_commit(queue, None)
        return written

    def may_write(self, queue: MessageQueue) -> bool:
        return self._client.may_commit(queue)

    def are_unchanged(self, completions: Mapping[MessageQueue, Completion]) -> dict[MessageQueue, bool]:
        """By a search, which fetches nothing; where that finds something newer below what is proven, by a look."""
        dated = {queue: completion for queue, completion in completions.items() if completion.stored_to_ms > 0}
        hints = self._client.search_hints({queue: completion.stored_to_ms + 1 for queue, completion in dated.items()})
        to_probe = {queue: dated[queue].next_offset - 1 for queue, at in hints.items() if at < dated[queue].next_offset}
        probed = self._client.store_times(to_probe)
        unchanged = dict.fromkeys(completions.keys() - dated.keys() | hints.keys() - to_probe.keys(), True)
        return unchanged | {queue: at is not None and at <= dated[queue].stored_to_ms for queue, at in probed.items()}

    def _record_write_failure(self, queue: MessageQueue, offset: int, error: RocketMQError) -> None:
        log.debug("OFFSET_COMMIT_FAILED: Broker did not store queue=%s offset=%d; retrying: %s", queue, offset, error)
        if is_reset_pending(error):
            self._resets.consume_mark(queue)
        else:
            self._client.record_commit(queue, error)


class OffsetCommitter:
    """The group's offsets as one member sees them, and what it has proven and the keeper has not confirmed.

    Of a queue whose offset the keeper has confirmed to us it must have that offset, or a larger one of the next owner.
    Where it has none any more, or the last message that is proven is not the one that was planned, the queue may be
    another one (``suspect``), and nothing is written before somebody has looked. Where it has a smaller one and the
    connection is still the same, an operator has spoken (``OffsetResets``); over another connection it is a broker that
    was killed and forgot, and is told again.

    Parameters
    ----------
    is_ours : which queues the member owns: only their progress is remembered
    link_to : the connection to the broker of that name; None where a smaller offset is no operator's word

    Not thread-safe.
    """

    def __init__(
        self,
        store: OffsetStore,
        resets: OffsetResets,
        is_owned: Callable[[MessageQueue], bool],
        link_to: Callable[[str], Link | None],
    ) -> None:
        self.store = store
        self.suspect: set[MessageQueue] = set()
        """Queues that may be others than those of which something was proven or confirmed; until they are forgotten."""
        self.changes = 0
        """How often a queue was found doubtful."""
        self._resets = resets
        self._is_owned = is_owned
        self._link_to = link_to
        self._links: dict[MessageQueue, Link | None] = {}
        self._progress = PendingOffsets()
        self._stored_to_ms: dict[MessageQueue, int] = {}

    # ------------------------------------------------------------------------------------------ our progress

    @property
    def unconfirmed(self) -> dict[MessageQueue, int]:
        """A copy of what is proven and the keeper is still to be told; not of queues that an operator has reset."""
        return {queue: at for queue, at in self._progress.unconfirmed.items() if queue not in self._resets}

    def mark_completed(self, queue: MessageQueue, next_offset: int, stored_to_ms: int = 0) -> None:
        """Everything of a queue of ours below ``next_offset`` is in the sink. No message of it was stored later than
        ``stored_to_ms``; 0: that is not known."""
        self._progress.update(queue, next_offset)
        self._stored_to_ms[queue] = stored_to_ms

    def persist(self) -> bool:
        """Tell the keeper what it has not confirmed; says whether it has confirmed everything by now.

        A proof that comes late would be a place in another queue of the same name, for its owner to go on from.
        """
        due = {queue: at for queue, at in self.unconfirmed.items() if self.store.may_write(queue)}
        self.raise_to(due, self._select_unchanged)
        return not self.unconfirmed

    def _select_unchanged(self, writes: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]:
        """Those of which the last message is still the one that was planned."""
        unchanged = self.store.are_unchanged(
            {queue: Completion(at, self._stored_to_ms[queue]) for queue, at in writes.items()}
        )
        self._mark_suspect(queue for queue, is_unchanged in unchanged.items() if not is_unchanged)
        return {queue: at for queue, at in writes.items() if unchanged.get(queue, False)}

    def has_confirmed(self, queue: MessageQueue) -> bool:
        """Whether the keeper has confirmed an offset to us since the queue is ours and nothing has been forgotten."""
        return self._progress.confirmed(queue) is not None

    def discard(self, queue: MessageQueue) -> None:
        """The queue is another member's now, or may be another queue: what was known says nothing any more."""
        self._progress.remove(queue)
        self._links.pop(queue, None)
        self._stored_to_ms.pop(queue, None)
        self.suspect.discard(queue)

    # ------------------------------------------------------------------------------------------ the keeper's

    def raise_to(self, targets: Mapping[MessageQueue, int], check: Check = dict) -> set[MessageQueue]:
        """See to it that the keeper stores at least ``targets``; says for which queues it has confirmed that. ``check``
        says which of the writes that it takes may be made.

        Of the first offsets of a group and topic that come at once, a broker may confirm one and lose it
        (``ConsumerOffsetManager#commitOffset`` makes the table for them unguarded). So look again where there was none.
        """
        confirmed, first = self._raise(targets, check)
        if first:
            confirmed -= first - self._raise({queue: targets[queue] for queue in first}, check)[0]
        self._confirm({queue: targets[queue] for queue in confirmed})
        return confirmed

    def _raise(self, targets: Mapping[MessageQueue, int], check: Check) -> tuple[set[MessageQueue], set[MessageQueue]]:
        """Which offsets the keeper has confirmed, and which of these are the first that it has of their queue."""
        found = self.store.stored_offsets(targets)
        self._detect_resets(found)
        self._detect_vanished(found)
        stored = {queue: at for queue, at in found.items() if queue not in self._resets and queue not in self.suspect}
        writes = offsets_to_raise(targets, stored)
        confirmed = (stored.keys() - writes.keys()) | self.store.write_offsets(check(writes))
        return confirmed, {queue for queue in confirmed if stored[queue] is None}

    def _detect_resets(self, found: Mapping[MessageQueue, int | None]) -> None:
        """Where the keeper has less than it has confirmed over the same connection."""
        for queue, offset in found.items():
            confirmed = self._progress.confirmed(queue)
            if offset is None or confirmed is None or offset >= confirmed or queue in self._resets:
                continue
            if self._is_still_connected(queue):
                self._resets.note(queue, offset)
                self._resets.consume_mark(queue)

    def detect_resets(self, queues: Iterable[MessageQueue]) -> None:
        """Note where an operator has reset ``queues`` to since they were planned, though a task has taken the mark."""
        self._detect_resets(self.store.stored_offsets(queues))

    def _is_still_connected(self, queue: MessageQueue) -> bool:
        link = self._link_to(queue.broker_name)
        return link is not None and link == self._links.get(queue)

    def _detect_vanished(self, found: Mapping[MessageQueue, int | None]) -> None:
        self._mark_suspect(queue for queue, at in found.items() if at is None and self.has_confirmed(queue))

    def _mark_suspect(self, queues: Iterable[MessageQueue]) -> None:
        """Somebody is to look whether these are still what they were."""
        found = set(queues) - self.suspect
        self.changes += len(found)
        self.suspect |= found

    def lower_to(self, targets: Mapping[MessageQueue, int]) -> set[MessageQueue]:
        """Let the keeper store exactly ``targets``; says for which queues it has confirmed that, and forgets what was
        proven of them. For queues that do not reach as far as the group's offset any more, those that an operator has
        reset, and all of a group that a new checkpoint moves (``groupOffsets=ignore``)."""
        for queue in targets:
            self.discard(queue)
        written = self.store.write_offsets(targets)
        self._confirm({queue: targets[queue] for queue in written})
        return written

    def _confirm(self, offsets: Mapping[MessageQueue, int]) -> None:
        links = {broker_name: self._link_to(broker_name) for broker_name in {queue.broker_name for queue in offsets}}
        for queue, offset in offsets.items():
            if self._is_owned(queue):
                self._progress.confirm(queue, offset)
                self._links[queue] = links[queue.broker_name]
