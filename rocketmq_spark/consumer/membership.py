"""Membership: one member of a consumer group, accessed through a ``GroupLock``. It decides the order in which its parts
send requests and change state.

That order keeps messages from being lost or read twice; the tests' model runs this code against a simulated cluster.
Each part covers one subject: ``route_table``, ``outage_tracker``, ``outage_aware_client``, ``group_members``,
``offset_committer``, ``offset_resets``, ``queue_locks``, ``rebalance``. No part has a thread, lock or clock of its own,
and none is thread-safe: the caller holds the ``GroupLock``. All other threads read ``GroupLock.published``.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

from rocketmq_spark.condition import listed
from rocketmq_spark.consumer.cluster_api import ClusterApi, Link, MetadataSnapshot, QueueQueries, links_to
from rocketmq_spark.consumer.group_members import GroupMembers
from rocketmq_spark.consumer.membership_state import MembershipAction
from rocketmq_spark.consumer.offset_committer import OffsetCommitter, OffsetStore, RemoteBrokerOffsetStore
from rocketmq_spark.consumer.offset_resets import OffsetResets
from rocketmq_spark.consumer.outage_aware_client import OutageAwareClient
from rocketmq_spark.consumer.outage_tracker import OutageTracker
from rocketmq_spark.consumer.process_queue import ProcessQueue
from rocketmq_spark.consumer.queue_locks import QueueLocks
from rocketmq_spark.consumer.rebalance import QueueEvent, QueueState, QueueStates, RebalanceImpl, RebalancePlan
from rocketmq_spark.consumer.request_handlers import MemberView, process_queue_info
from rocketmq_spark.consumer.standalone_consumer import StandaloneConsumer
from rocketmq_spark.consumer.strategy_names import strategy_of
from rocketmq_spark.consumer.subscribed_topics import SubscribedTopics
from rocketmq_spark.consumer.task_reports import TaskReports
from rocketmq_spark.model import BrokerAddress, MessageQueue
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.remoting.outage_log import Outage

if TYPE_CHECKING:
    from rocketmq_spark.remoting.clock import Clock

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Published:
    """Snapshot of a membership that any thread may read without the group lock. Replaced as a whole, never changed.

    ``view``: for operators' tools. ``changes``: number of changes that affect plans: of ownership, of responsive
    servers, of operators' resets. ``masters``: addresses by name of the brokers that may be polled. ``next_try_ms``:
    time of the next request to an unresponsive server; None while all respond. ``outages``: the current outages.
    """

    view: MemberView
    changes: int
    masters: Mapping[str, BrokerAddress]
    next_try_ms: int | None
    outages: tuple[Outage, ...]

    def is_due(self, now_ms: int) -> bool:
        """Return whether a request to an unresponsive server is due at ``now_ms``."""
        return self.next_try_ms is not None and now_ms >= self.next_try_ms


class Membership:
    """One member of ``options.consumer_group``: its queues, ranges in flight, offsets. Callers hold the ``GroupLock``.

    ``clock``, ``lease_clock``: monotonic milliseconds; ``lease_clock`` includes the time in which the machine sleeps.
    ``started_ms``: epoch milliseconds; the version of the subscription, of which brokers keep the newest.
    ``checkpoint_id``: ID of the query's checkpoint, unique in the group; None: not compared. ``local_offsets``: store
    of offsets that no other query uses (BROADCASTING, ``commitOffsets=false``); None: the brokers store them.
    """

    def __init__(
        self,
        options: ReadOptions,
        client_id: str,
        cluster: ClusterApi,
        clock: Clock,
        lease_clock: Clock,
        *,
        started_ms: int,
        checkpoint_id: str | None = None,
        local_offsets: OffsetStore | None = None,
    ) -> None:
        """Send nothing. Raises the errors of ``starting_point`` and ``strategy_of``."""
        group = options.consumer_group
        self.crash: Exception | None = None
        """Exception that ended the thread of the scheduled work; None while it runs."""
        self.completed_after_rebalance = 0
        """Number of ranges completed after the assignment generation in which they were planned had ended."""
        self.task_reports = TaskReports()
        self._options = options
        self._started_ms = started_ms
        self._routes = cluster.routes
        self._topics = SubscribedTopics(options)
        self._outage_tracker = OutageTracker(self._topics, self._routes, clock)
        self.client = OutageAwareClient(options, cluster, self._topics, self._outage_tracker, self._record_reset)
        self.queries: QueueQueries = self.client
        self.slave_reads = self.client.slave_reads
        members = GroupMembers if options.assigned is None else StandaloneConsumer
        self.members = members(options, client_id, self.client, started_ms=started_ms, checkpoint_id=checkpoint_id)
        self.resets = OffsetResets(group, self.client)
        store = local_offsets or RemoteBrokerOffsetStore(group, self.client, self.resets)
        link_to = self.client.link if local_offsets is None else _no_link
        self._rebalance_impl = RebalanceImpl(group, client_id, strategy_of(options))
        self.offsets = OffsetCommitter(store, self.resets, self._rebalance_impl.table.__contains__, link_to)
        self._locks = QueueLocks(group, client_id, self.client, lease_clock)
        self._positions: dict[MessageQueue, int] = {}
        self._planned_generations: dict[MessageQueue, int] = {}
        self._queue_states = QueueStates()
        self._ownership_changes = 0
        self._last_view: MemberView | None = None

    def _record_reset(self, queue: MessageQueue, offset: int) -> None:
        """Record an operator's reset that a message probe has received. Sends nothing."""
        self.resets.record(queue, offset)

    # ------------------------------------------------------------------------------------------ for the planner

    def refresh_metadata(self, expected: Collection[MessageQueue] = ()) -> MetadataSnapshot:
        """Renew stale locks, ``rebalance``, request the bounds of readable queues, wait, and return the results, except
        of unresponsive servers. If ``rebalance`` returns False, ``owned`` and ``releasing`` are empty: another member
        may own these queues too. ``expected``: queues that the query has read; the caller limits their outages. Raises
        ``crash``, permanent errors (MembershipError[UNKNOWN_MACHINE_ROOM], BrokerError, OptionError[NOT_A_NAME_SERVER])
        and those of outages at their limits: TransportError[CLUSTER_TIMEOUT], RouteError[TOPIC_NOT_FOUND |
        TOPIC_UNAVAILABLE.NO_READABLE_QUEUE], MembershipError[NOT_REGISTERED_IN_GROUP | GROUP_HAS_OTHER_MEMBERS |
        DUPLICATE_CLIENT_ID | INCONSISTENT_SUBSCRIPTION | INCONSISTENT_GROUP_SETTINGS | CHECKPOINT_SHARED]."""
        if self.crash is not None:
            raise self.crash
        self.renew_locks(stale_only=True)
        self._topics.expect(expected)
        is_decided = self.rebalance()
        links_before = links_to(chain.from_iterable(self._routes.queues.values()), self.client.link)
        bounds = self.client.query_bounds(of_slaves=True)
        self._outage_tracker.postpone_due()
        links = _links_of(bounds, links_before, self.client)
        unavailable = self._outage_tracker.unavailable(filter(self._options.reads, expected), bounds)
        self._outage_tracker.raise_expired(unavailable)
        return MetadataSnapshot(
            self._usable(QueueState.OWNED) if is_decided else frozenset(),
            bounds,
            is_decided and self._outage_tracker.is_complete(unavailable),
            unavailable,
            links,
            self._usable(QueueState.RELEASING) if is_decided else frozenset(),
            frozenset(filter(self.client.deletes_offsets, links)),
            self.slave_reads.brokers,
            frozenset(self._topics),
        )

    def set_queue_outages(self, outages: Iterable[Outage]) -> None:
        """Replace the outages of unavailable queues; all are logged together. The caller decides their limits."""
        self._outage_tracker.set_queue_outages(outages)

    def require_masters(self, broker_names: Collection[str] = ()) -> None:
        """Call ``SlaveReads.require_masters`` with ``broker_names`` and the brokers of unconfirmed offsets."""
        self.slave_reads.require_masters({*broker_names, *(queue.broker_name for queue in self.offsets.unconfirmed)})

    def prune_resets(self) -> dict[MessageQueue, int]:
        """Discard pending resets of queues that this member does not own, because their owners detect them. Return a
        copy of the remaining resets, which stay pending: offset by queue."""
        for queue in self.resets.pending.keys() - self._rebalance_impl.table.keys():
            self.resets.discard(queue)
        return self.resets.pending

    def mark_in_flight(self, ranges: Mapping[MessageQueue, tuple[int, int]]) -> None:
        """Record one planned range ``[begin_offset, end_offset)`` for each queue as in flight until ``mark_completed``.
        Its end is reported as the queue's next offset. With ranges, require no masters. Raises KeyError for a queue not
        owned, ValueError for a range that is empty or overlaps one in flight; earlier ranges stay recorded."""
        self._last_view = None
        self.slave_reads.end_requirement(is_reading=bool(ranges))
        for queue, (begin_offset, end_offset) in ranges.items():
            process_queue = self._rebalance_impl.table[queue]
            process_queue.put(begin_offset, end_offset)
            self._positions[queue] = end_offset
            self._planned_generations[queue] = process_queue.generation

    def mark_completed(self, end_offsets: Mapping[MessageQueue, int], stored_to_ms: Mapping[MessageQueue, int]) -> None:
        """Remove the ranges in flight up to each queue's offset in ``end_offsets``: they are in the sink. If a range
        was removed, or an offset is unconfirmed, commit all unconfirmed offsets and wait. Then unlock and drop
        RELEASING queues with nothing in flight or unconfirmed. ``stored_to_ms``: store time (epoch ms) of a queue's
        newest message when it was planned; missing: unknown. Permanent errors are raised."""
        if self._complete_ranges(end_offsets, stored_to_ms) or self.offsets.unconfirmed:
            self._last_view = None
            self.offsets.persist()
            self._release(self._queue_states.in_state(QueueState.RELEASING))

    # ------------------------------------------------------------------------------------------ scheduled work

    def rebalance(self) -> bool:
        """Request routes, drop queues of deleted topics without a commit, send first heartbeats, request the members,
        wait, run ``members.update_state``. After SHARE allocate queues: commit, unlock and drop, or lock and add. Else
        all queues stay. Return whether queues were allocated, or there is no topic. Permanent errors are raised."""
        self.client.refresh_routes()
        if self.members.update_topics():
            self._last_view = None
            # A deleted topic has no broker at which to commit or unlock its queues.
            self._drop([queue for queue in self._rebalance_impl.table if queue.topic not in self._topics])
        self.members.send_first_heartbeats()
        client_ids = self.members.query_members()
        may_share = self.members.update_state(client_ids) is MembershipAction.SHARE
        plan = self._rebalance_impl.decide(self._routes.queues, client_ids) if may_share else None
        if plan is not None:
            self._apply_plan(plan)
        # Without topics there is no broker at which to join the group.
        return plan is not None or (self._topics.is_known and not self._topics)

    def renew_locks(self, *, stale_only: bool = False) -> None:
        """Lock all owned queues again, and wait; with ``stale_only`` only queues whose lock is not held any more
        (``QueueLocks.is_held``). Drop, without a commit, queues whose lock a broker denies. Renewed stale locks count
        as a change: the metadata refresh omitted their queues. Do nothing without ``consumeOrderly``."""
        held = self._rebalance_impl.table.keys() if self._options.consume_orderly else frozenset()
        stale = [queue for queue in held if not self._locks.is_held(queue)]
        due = stale if stale_only else list(held)
        if due:
            self._last_view = None
            self._drop(self._locks.lock(due))
            self._ownership_changes += any(self._locks.is_held(queue) for queue in stale)

    def retry_locks(self) -> None:
        """If a queue awaits its lock (``consumeOrderly``), ``rebalance``: it may be unlocked now. Else do nothing."""
        if self._queue_states.in_state(QueueState.AWAITING_LOCK):
            self.rebalance()

    def leave(self, *, restores_resets: bool = False) -> None:
        """Commit unconfirmed offsets, unlock queues without such offsets and without a range in flight, ``unregister``;
        wait for each step. Other locks expire. ``restores_resets``: before the unlock, detect resets and
        ``restore_all``. Raise a permanent error at once, without later steps; ``unregister`` raises none."""
        self.offsets.persist()
        if restores_resets:
            self.offsets.detect_resets(self._rebalance_impl.table)
            self.resets.restore_all()
        locked = [queue for queue in self._rebalance_impl.table if self._locks.is_held(queue)]
        self._locks.unlock([queue for queue in locked if self._is_drained(queue)])
        self.members.unregister()

    # ------------------------------------------------------------------------------------------ ownership and progress

    def _apply_plan(self, plan: RebalancePlan) -> None:
        """If the plan drops queues, commit all unconfirmed offsets, wait, and drop these queues. With
        ``consumeOrderly`` make them RELEASING instead, and ``_release`` them. RELEASING queues that the plan keeps are
        OWNED again. ``_add`` the plan's new queues."""
        if plan.drop:
            self.offsets.persist()
        leaving = {queue for queue in plan.drop if self._options.consume_orderly}
        self._queue_states.apply(QueueEvent.RETAINED, self._queue_states.in_state(QueueState.RELEASING) - leaving)
        self._queue_states.apply(QueueEvent.REASSIGNED, leaving)
        self._drop(set(plan.drop) - leaving)
        self._release(leaving)
        self._add(plan.add)

    def _add(self, queues: Collection[MessageQueue]) -> None:
        """Own and log ``queues``. With ``consumeOrderly`` request their locks first, wait, and own only granted queues.
        A denied queue is AWAITING_LOCK. An AWAITING_LOCK one neither granted nor denied becomes NOT_OWNED."""
        if self._options.consume_orderly:
            self._last_view = None
            denied = self._locks.lock(queues)
            queues = [queue for queue in queues if self._locks.is_held(queue)]
            awaited = self._queue_states.in_state(QueueState.AWAITING_LOCK)
            self._queue_states.apply(QueueEvent.LOCK_NOT_REQUESTED, awaited - denied - set(queues))
            self._queue_states.apply(QueueEvent.LOCK_DENIED, denied)
        self._change(RebalancePlan(add=tuple(queues)))

    def _release(self, queues: Collection[MessageQueue]) -> None:
        """Unlock and drop those of ``queues`` without a range in flight or an unconfirmed offset, and wait."""
        drained = {queue for queue in queues if self._is_drained(queue)}
        self._locks.unlock(drained)
        self._drop(drained)

    def _drop(self, queues: Collection[MessageQueue]) -> None:
        """Remove queues from ownership, log them, discard their state and unconfirmed offsets. Send no request."""
        self._locks.discard(queues)
        for queue in queues:
            self.offsets.discard(queue)
            self.resets.discard(queue)
            self._outage_tracker.discard_commit_failure(queue)
            self._positions.pop(queue, None)  # not _planned_generations: they show which completions follow a drop
        self._change(RebalancePlan(drop=tuple(sorted(queues, key=MessageQueue.sort_key))))

    def _change(self, plan: RebalancePlan) -> None:
        """Apply ``plan`` to the table of owned queues, count and log the change. Do nothing for an empty plan."""
        if not plan:
            return
        self._queue_states.apply(QueueEvent.DROPPED, plan.drop)
        self._queue_states.apply(QueueEvent.ADDED, plan.add)
        self._rebalance_impl.apply(plan)
        self._last_view = None
        self._ownership_changes += 1
        log.info("REBALANCED: Queues added: %s; queues removed: %s", _list_queues(plan.add), _list_queues(plan.drop))

    def _is_drained(self, queue: MessageQueue) -> bool:
        """Return whether an owned queue has nothing in flight or unconfirmed. Raises KeyError if it is not owned."""
        return not self._rebalance_impl.table[queue].in_flight and queue not in self.offsets.unconfirmed

    def _usable(self, state: QueueState) -> frozenset[MessageQueue]:
        """Return the queues in ``state``; if ``consumeOrderly``, only those whose lock ``QueueLocks.is_held``."""
        queues = self._queue_states.in_state(state)
        return frozenset(filter(self._locks.is_held, queues) if self._options.consume_orderly else queues)

    def _complete_ranges(
        self, end_offsets: Mapping[MessageQueue, int], stored_to_ms: Mapping[MessageQueue, int]
    ) -> bool:
        """Complete the owned queues of ``end_offsets`` (``_complete_queue``); return whether a range was removed. Count
        in ``completed_after_rebalance`` queues that were lost since they were last planned, whether owned again or not.
        The offset of a queue that is not owned is left to its next owner."""
        table = self._rebalance_impl.table
        for queue in self._planned_generations.keys() & end_offsets.keys():
            generation = self._planned_generations.pop(queue)
            self.completed_after_rebalance += queue not in table or table[queue].generation != generation
        finished = [
            self._complete_queue(table[queue], end_offsets[queue], stored_to_ms.get(queue, 0))
            for queue in table.keys() & end_offsets.keys()
        ]
        return any(finished)

    def _complete_queue(self, process_queue: ProcessQueue, completed_to: int, stored_to_ms: int) -> bool:
        """Remove the ranges in flight that end at ``completed_to`` or before, and return whether there was one. In any
        case call ``OffsetCommitter.mark_completed``, which never lowers an offset, with ``completed_to``, or the begin
        of the first remaining range if it is smaller."""
        is_any_finished = process_queue.remove_completed(completed_to)
        remaining = process_queue.in_flight
        next_offset = min(completed_to, remaining[0][0]) if remaining else completed_to
        self.offsets.mark_completed(process_queue.queue, next_offset, stored_to_ms)
        return is_any_finished

    # ------------------------------------------------------------------------------------------ published state

    @property
    def masters(self) -> dict[str, BrokerAddress]:
        """Addresses to pull from, by broker name: masters, or slaves that ``readFrom`` or ``SlaveReads`` selects."""
        return self._routes.pull_addresses(self._options.read_from) | self.slave_reads.addresses

    @property
    def process_queues(self) -> tuple[ProcessQueue, ...]:
        """Process queues of the owned queues."""
        return tuple(self._rebalance_impl.table.values())

    def log_and_snapshot(self) -> Published:
        """Log the outages that are due, and return a new ``Published``; rebuild its view only after a change."""
        self._outage_tracker.log_outages()
        if self._last_view is None:
            self._last_view = self._view()
        return Published(
            view=self._last_view,
            changes=self._ownership_changes + self._outage_tracker.changes + self.resets.changes + self.offsets.changes,
            masters=self._outage_tracker.responsive_masters(),
            next_try_ms=self._outage_tracker.next_try_ms,
            outages=self._outage_tracker.outages,
        )

    def _view(self) -> MemberView:
        """Build the view that operators' tools get. Sends nothing."""
        return MemberView(
            consumer=self.members.consumer_data,
            name_servers=self._options.name_servers,
            started_ms=self._started_ms,
            process_queues={
                queue: process_queue_info(held, self._positions.get(queue, 0), self._locks.locked_ms(queue))
                for queue, held in self._rebalance_impl.table.items()
            },
            positions=dict(self._positions),
            consumer_settings=self.members.consumer_settings,
        )


def _links_of(
    bounds: Collection[MessageQueue], before: Mapping[str, Link | None], client: OutageAwareClient
) -> dict[str, Link | None]:
    """Return the links over which ``bounds`` were received, by broker name. If the link is not the one ``before`` the
    requests, return one with connection number 0, which is never the current one: the bounds may be outdated."""
    links = links_to(bounds, client.link)
    for name, link in links.items():
        earlier = before.get(name)
        if earlier is not None and earlier != link:
            links[name] = (earlier[0], 0)
    return links


def _no_link(_broker_name: str) -> None:
    """Return None: operators cannot reset offsets in a query's own file."""


def _list_queues(queues: Collection[MessageQueue]) -> str:
    """Return the number of queues, and in parentheses the first ``MAX_LISTED`` (8), then "..." if there are more;
    "none" without queues."""
    return f"{len(queues)} ({listed([*queues], more=', ...')})" if queues else "none"
