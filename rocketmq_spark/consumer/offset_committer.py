"""OffsetCommitter: the group's offsets in their ``OffsetStore``. It reads before each write, and only raises offsets,
except in ``replace_offsets``.

The store is the brokers (``RemoteBrokerOffsetStore``), or in BROADCASTING the query's own file
(``LocalFileOffsetStore``).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple, Protocol

from rocketmq_spark.consumer.cluster_api import BrokerApi, Future, Link, links_to
from rocketmq_spark.consumer.offset_resets import OffsetResets
from rocketmq_spark.consumer.offset_store import PendingOffsets, offsets_to_raise
from rocketmq_spark.consumer.outage_aware_client import OutageAwareClient
from rocketmq_spark.errors import RocketMQError
from rocketmq_spark.model import MessageQueue
from rocketmq_spark.remoting.error_kinds import is_reset_pending

log = logging.getLogger(__name__)

Check = Callable[[Mapping[MessageQueue, int]], dict[MessageQueue, int]]


class CompletedOffset(NamedTuple):
    """Progress of a queue: all messages before ``next_offset`` are in the sink, and none was stored after
    ``stored_to_ms`` (epoch ms; 0: unknown)."""

    next_offset: int
    stored_to_ms: int


class OffsetStore(Protocol):
    """Store of the group's offsets: ``RemoteBrokerOffsetStore``, ``LocalFileOffsetStore`` or ``MemoryOffsetStore``."""

    def stored_offsets(self, queues: Iterable[MessageQueue]) -> dict[MessageQueue, int | None]:
        """Return the stored offset of each queue, or None without one. Queues of unresponsive brokers are missing."""

    def write_offsets(self, offsets: Mapping[MessageQueue, int]) -> set[MessageQueue]:
        """Replace the stored offsets of the queues in ``offsets``, also by smaller ones; return the queues for which
        that is confirmed."""

    def may_write(self, queue: MessageQueue) -> bool:
        """Return whether to write now: the queue's last write succeeded, or the pause after it is over."""

    def are_unchanged(self, completed: Mapping[MessageQueue, CompletedOffset]) -> dict[MessageQueue, bool]:
        """Return whether the last completed message of each queue is still the planned one. Queues that cannot be
        checked now are missing."""


class RemoteBrokerOffsetStore:
    """The group's offsets at the brokers, an ``OffsetStore``."""

    def __init__(self, group: str, client: OutageAwareClient, resets: OffsetResets) -> None:
        self._group = group
        self._client = client
        self._resets = resets

    def stored_offsets(self, queues: Iterable[MessageQueue]) -> dict[MessageQueue, int | None]:
        """Request the group's offsets from the queues' brokers, concurrently, and wait. None: no offset. Queues of
        unresponsive brokers are missing. While there is no master, ``readFrom`` may allow slaves, whose offsets may be
        older. Permanent errors are raised."""
        stored: dict[MessageQueue, int | None] = {}
        for _, response in self._client.call_each(queues, self._query, of_slaves=True):
            stored |= response
        return stored

    def _query(self, broker: BrokerApi, queues: Collection[MessageQueue]) -> Future[dict[MessageQueue, int | None]]:
        """Send the request of the group's offsets of ``queues``, without waiting for the response."""
        return broker.submit_query_offsets(self._group, queues)

    def write_offsets(self, offsets: Mapping[MessageQueue, int]) -> set[MessageQueue]:
        """Replace the stored offsets of queues that ``may_write``, also by smaller ones; wait, and return the confirmed
        queues. If a broker rejects a write because an operator has reset the queue, pull once to consume the reset mark
        and record the reset. Other rejections are recorded as outages of the commit. Permanent errors of whole requests
        are raised."""
        written: set[MessageQueue] = set()

        def update(broker: BrokerApi, queues: Collection[MessageQueue]) -> Future[dict[MessageQueue, RocketMQError]]:
            """Send the commits of ``queues`` without waiting for the result, the errors of rejected ones."""
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
        """Return whether the queue's last commit did not fail or the pause after it is over, and its broker is not read
        at a slave."""
        return self._client.may_commit(queue)

    def are_unchanged(self, completed: Mapping[MessageQueue, CompletedOffset]) -> dict[MessageQueue, bool]:
        """Search each queue's first offset stored after ``stored_to_ms``: True if it is ``next_offset`` or larger.
        Otherwise probe the message at ``next_offset - 1``: True if it exists and was stored at ``stored_to_ms`` or
        before, else False. Waits. True without a request if ``stored_to_ms`` is 0. Queues of unresponsive brokers are
        missing."""
        dated = {queue: one for queue, one in completed.items() if one.stored_to_ms > 0}
        hints = self._client.query_search_hints({queue: one.stored_to_ms + 1 for queue, one in dated.items()})
        to_probe = {queue: dated[queue].next_offset - 1 for queue, at in hints.items() if at < dated[queue].next_offset}
        probed = self._client.probe_store_times(to_probe)
        unchanged = dict.fromkeys(completed.keys() - dated.keys() | hints.keys() - to_probe.keys(), True)
        return unchanged | {queue: at is not None and at <= dated[queue].stored_to_ms for queue, at in probed.items()}

    def _record_write_failure(self, queue: MessageQueue, offset: int, error: RocketMQError) -> None:
        """Log a rejected write at DEBUG. If an operator has reset the queue, call ``OffsetResets.consume_mark``, which
        sends a pull and waits. Otherwise record an outage of the commit."""
        log.debug("OFFSET_COMMIT_FAILED: Broker did not store queue=%s offset=%d; retrying: %s", queue, offset, error)
        if is_reset_pending(error):
            self._resets.consume_mark(queue)
        else:
            self._client.record_commit(queue, error)


class OffsetCommitter:
    """The group's offsets as seen by one member, and the completed offsets that the store has not confirmed.

    The store must return a confirmed offset later, or a larger one that the queue's next owner wrote. If it returns
    none, or the last completed message is not the planned one, the queue is ``suspect``: it may have been re-created.
    Nothing is written to a suspect queue until this is checked. A smaller offset over the same connection is an
    operator's reset (``OffsetResets``). A smaller offset over a new connection was lost by a killed broker; it is
    committed again.

    Parameters
    ----------
    is_owned : whether the member owns a queue: only the progress of owned queues is recorded
    link_to : the link to a broker by name; None where a smaller offset is no operator's reset

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
        """Queues that may have been re-created since an offset was completed or confirmed; until ``discard``."""
        self.changes = 0
        """Number of times that a queue became suspect."""
        self._resets = resets
        self._is_owned = is_owned
        self._link_to = link_to
        self._links: dict[MessageQueue, Link | None] = {}
        self._progress = PendingOffsets()
        self._stored_to_ms: dict[MessageQueue, int] = {}

    # ------------------------------------------------------------------------------------------ progress of this member

    @property
    def unconfirmed(self) -> dict[MessageQueue, int]:
        """Copy of the completed offsets that the store has not confirmed, without queues that an operator has reset."""
        return {queue: at for queue, at in self._progress.unconfirmed.items() if queue not in self._resets}

    def mark_completed(self, queue: MessageQueue, next_offset: int, stored_to_ms: int = 0) -> None:
        """Record that all messages of a queue before ``next_offset`` are in the sink, none stored after
        ``stored_to_ms`` (0: unknown). A recorded offset stays unless ``next_offset`` is larger; ``stored_to_ms`` is
        always replaced. Sends nothing. The caller ensures that the queue is owned."""
        self._progress.update(queue, next_offset)
        self._stored_to_ms[queue] = stored_to_ms

    def persist(self) -> bool:
        """Commit (``raise_to``) the unconfirmed offsets of queues whose last write succeeded or whose pause is over,
        and wait. Return whether all offsets are confirmed afterwards. Queues that an operator has reset do not count.
        Permanent errors are raised.

        Before a write ``OffsetStore.are_unchanged`` checks the queue. True allows the write, False makes the queue
        ``suspect``, without a result the offset stays unconfirmed. A late commit to a re-created queue of the same name
        would move its owner's resume offset.
        """
        due = {queue: at for queue, at in self.unconfirmed.items() if self.store.may_write(queue)}
        self.raise_to(due, self._check_unchanged)
        return not self.unconfirmed

    def _check_unchanged(self, writes: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]:
        """Return the ``writes`` to queues whose last completed message is still the planned one
        (``OffsetStore.are_unchanged``, which may wait for brokers). Add queues with another message to ``suspect``.
        Queues that cannot be checked are missing."""
        unchanged = self.store.are_unchanged(
            {queue: CompletedOffset(at, self._stored_to_ms[queue]) for queue, at in writes.items()}
        )
        self._mark_suspect(queue for queue, is_unchanged in unchanged.items() if not is_unchanged)
        return {queue: at for queue, at in writes.items() if unchanged.get(queue, False)}

    def has_confirmed(self, queue: MessageQueue) -> bool:
        """Return whether the store has confirmed an offset of the queue since its last ``discard``."""
        return self._progress.confirmed(queue) is not None

    def discard(self, queue: MessageQueue) -> None:
        """Discard the confirmed and completed offsets of a queue; it is no longer ``suspect``. Call it if another
        member owns the queue now, or if it may have been re-created. Sends nothing."""
        self._progress.remove(queue)
        self._links.pop(queue, None)
        self._stored_to_ms.pop(queue, None)
        self.suspect.discard(queue)

    # ------------------------------------------------------------------------------------------ offsets of the store

    def stored_offsets(self, queues: Iterable[MessageQueue]) -> dict[MessageQueue, int | None]:
        """Return ``OffsetStore.stored_offsets``: requests of brokers, for which this waits, or of the query's file."""
        return self.store.stored_offsets(queues)

    def raise_to(self, targets: Mapping[MessageQueue, int], check: Check = dict) -> set[MessageQueue]:
        """Read the stored offsets, write the larger ones of ``targets``, and wait. Return the queues whose stored
        offset is confirmed to be at least the target. ``check`` gets the required writes, by queue, and returns the
        writes to make; by default all. Permanent errors are raised.

        Missing in the result are queues of unresponsive brokers, queues that ``check`` omits, queues whose write failed
        or is paused, queues that an operator has reset, and ``suspect`` ones. The read detects resets and suspect
        queues.

        If several first offsets of a group and topic arrive at once, a broker may confirm one and lose it
        (``ConsumerOffsetManager#commitOffset`` creates their table without a lock). So a write to a queue that had no
        offset is confirmed only by a second read.
        """
        links = links_to(targets, self._link_to)
        confirmed, first = self._write_larger(targets, check)
        if first:
            confirmed -= first - self._write_larger({queue: targets[queue] for queue in first}, check)[0]
        self._confirm({queue: targets[queue] for queue in confirmed}, links)
        return confirmed

    def _write_larger(
        self, targets: Mapping[MessageQueue, int], check: Check
    ) -> tuple[set[MessageQueue], set[MessageQueue]]:
        """Read, check and write once (``raise_to``). Return the queues whose stored offset is at least the target now.
        Return as a second set which of these had no offset before."""
        found = self.store.stored_offsets(targets)
        undecided = self._detect_resets(found)
        self._detect_vanished(found)
        undecided |= self.suspect
        stored = {queue: at for queue, at in found.items() if queue not in self._resets and queue not in undecided}
        writes = offsets_to_raise(targets, stored)
        confirmed = (stored.keys() - writes.keys()) | self.store.write_offsets(check(writes))
        return confirmed, {queue for queue in confirmed if stored[queue] is None}

    def _detect_resets(self, found: Mapping[MessageQueue, int | None]) -> set[MessageQueue]:
        """Select queues whose ``found`` offset is smaller than the confirmed one, over the same connection; skip those
        with a pending reset. Request their routes. If a route names the same master, record an operator's reset and
        consume its mark by a pull. Return the remaining queues: a replaced master has older offsets. Permanent errors
        of the pull are raised."""
        lower = {
            queue: offset
            for queue, offset in found.items()
            if offset is not None
            and (confirmed := self._progress.confirmed(queue)) is not None
            and offset < confirmed
            and queue not in self._resets
            and self._is_still_connected(queue)
        }
        reset = self._resets.at_current_masters(lower)
        for queue in lower:
            if queue in reset:
                self._resets.record(queue, lower[queue])
                self._resets.consume_mark(queue)
        return lower.keys() - reset

    def detect_resets(self, queues: Iterable[MessageQueue]) -> None:
        """Request the stored offsets of ``queues`` and wait. Offsets smaller than the confirmed ones are operators'
        resets (``_detect_resets``), even if a task has consumed the mark. Permanent errors are raised."""
        self._detect_resets(self.store.stored_offsets(queues))

    def _is_still_connected(self, queue: MessageQueue) -> bool:
        """Return whether the queue's offset was confirmed over the current link to its broker; False without a link."""
        link = self._link_to(queue.broker_name)
        return link is not None and link == self._links.get(queue)

    def _detect_vanished(self, found: Mapping[MessageQueue, int | None]) -> None:
        """Make queues ``suspect`` whose ``found`` offset is None although one was confirmed."""
        self._mark_suspect(queue for queue, at in found.items() if at is None and self.has_confirmed(queue))

    def _mark_suspect(self, queues: Iterable[MessageQueue]) -> None:
        """Add ``queues`` to ``suspect``, for a check of whether they have been re-created. Add the number of new ones
        to ``changes``."""
        found = set(queues) - self.suspect
        self.changes += len(found)
        self.suspect |= found

    def replace_offsets(self, targets: Mapping[MessageQueue, int]) -> set[MessageQueue]:
        """Discard all state of the queues in ``targets``, write their offsets, also smaller ones, and wait. Return the
        queues whose write the store has confirmed. Permanent errors are raised. Called for truncated queues."""
        for queue in targets:
            self.discard(queue)
        links = links_to(targets, self._link_to)
        written = self.store.write_offsets(targets)
        self._confirm({queue: targets[queue] for queue in written}, links)
        return written

    def reset_offsets(self, targets: Mapping[MessageQueue, int]) -> set[MessageQueue]:
        """Call ``replace_offsets``, and return the queues whose write the store has confirmed. Discard an operator's
        pending reset of each of these: it is applied, or overridden."""
        written = self.replace_offsets(targets)
        for queue in written:
            self._resets.discard(queue)
        return written

    def _confirm(self, offsets: Mapping[MessageQueue, int], links: Mapping[str, Link | None]) -> None:
        """Record offsets that the store has confirmed, of owned queues, and the ``links`` before the requests."""
        for queue, offset in offsets.items():
            if self._is_owned(queue):
                self._progress.confirm(queue, offset)
                self._links[queue] = links[queue.broker_name]
