"""Membership: one member of a group, from which a turn is lent. It decides the order in which its parts ask and change.

That order is what keeps messages from being lost or read twice; the model of the tests runs this very code against a
simulated cluster. The parts are a subject each: ``route_table``, ``outages``, ``servers``, ``group_members``,
``group_offsets``, ``resets``, ``queue_locks``, ``rebalance``. None has a thread, lock or clock of its own, and none is
thread-safe: whoever uses one holds the ``Turn``. ``published`` is for everybody else.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from rocketmq_spark.consumer.answers import MemberView, process_queue_info
from rocketmq_spark.consumer.group_members import GroupMembers
from rocketmq_spark.consumer.group_offsets import BrokerOffsets, GroupOffsets, OffsetKeeper
from rocketmq_spark.consumer.outages import Outages
from rocketmq_spark.consumer.ports import Cluster, Survey
from rocketmq_spark.consumer.process_queue import ProcessQueue
from rocketmq_spark.consumer.queue_life import QueueEvent, QueueLives, QueueState
from rocketmq_spark.consumer.queue_locks import QueueLocks
from rocketmq_spark.consumer.rebalance import RebalanceImpl, RebalancePlan
from rocketmq_spark.consumer.resets import Resets
from rocketmq_spark.consumer.servers import Servers
from rocketmq_spark.consumer.strategy_names import strategy_of
from rocketmq_spark.model import BrokerAddress, MessageQueue, QueueRange
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.remoting.waits import Wait
from rocketmq_spark.wire.body.running_info import ProcessQueueInfo

if TYPE_CHECKING:
    from rocketmq_spark.remoting.clock import Clock

log = logging.getLogger(__name__)

MOST_NAMED: Final = 8
"""Queues that a line names."""
NOT_KNOWN: Final[Mapping[MessageQueue, int]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Published:
    """What anybody may know of a membership without the turn. It is made anew as a whole, never changed.

    ``view``: for operators' tools. ``changes``: how often something has changed that plans depend on: ownership, who
    answers, or an operator's reset. ``masters``: addresses by broker name of those that may be polled.
    ``next_try_ms``: when something that did not answer is to be asked again; None while everything answers.
    ``waits``: what is waited for.
    """

    view: MemberView
    changes: int
    masters: Mapping[str, BrokerAddress]
    next_try_ms: int | None
    waits: tuple[Wait, ...]

    def is_due(self, now_ms: int) -> bool:
        """Whether something that did not answer is to be asked again now."""
        return self.next_try_ms is not None and now_ms >= self.next_try_ms


class Membership:
    """One client id in ``options.consumer_group``.

    Parameters
    ----------
    clock : milliseconds that never go back
    lease_clock : the same, and it goes on while the machine sleeps
    started_ms : epoch milliseconds; the version of the subscription, of which brokers keep the newest
    checkpoint_id : that no other member of the group may have; None: not compared
    local_offsets : in BROADCASTING; else the brokers keep the offsets
    """

    def __init__(
        self,
        options: ReadOptions,
        client_id: str,
        cluster: Cluster,
        clock: Clock,
        lease_clock: Clock,
        *,
        started_ms: int,
        checkpoint_id: str | None = None,
        local_offsets: OffsetKeeper | None = None,
    ) -> None:
        group = options.consumer_group
        self.crash: Exception | None = None
        """What ended the thread that does the timed work, if anything did."""
        self.completed_after_rebalance = 0
        """How many ranges were proven after the life of their queue in which they were planned had ended."""
        self.told_lost: set[QueueRange] = set()
        """What tasks say that they have found to be lost."""
        self._options = options
        self._started_ms = started_ms
        self._routes = cluster.routes
        self._outages = Outages(options.read_topics, self._routes, clock)
        self.servers = Servers(options, cluster, self._outages)
        self.members = GroupMembers(
            options,
            client_id,
            self.servers,
            self._routes,
            self._outages,
            started_ms=started_ms,
            checkpoint_id=checkpoint_id,
        )
        self.resets = Resets(group, self.servers)
        self.servers.hand_resets_to(self.resets.note)
        keeper = local_offsets or BrokerOffsets(group, self.servers, self.resets)
        link_to = self.servers.link if local_offsets is None else _no_link
        self.offsets = GroupOffsets(keeper, self.resets, self._is_ours, link_to)
        self._locks = QueueLocks(group, client_id, self.servers, lease_clock)
        self._rebalance_impl = RebalanceImpl(group, client_id, strategy_of(options))
        self._positions: dict[MessageQueue, int] = {}
        self._planned_in: dict[MessageQueue, int] = {}
        self._lives = QueueLives()
        self._moves = 0
        self._last_view: MemberView | None = None

    # ------------------------------------------------------------------------------------------ for the planner

    def survey(self, known: Collection[MessageQueue] = ()) -> Survey:
        """Ask for routes, members and bounds afresh, and rebalance. While the group does not list us, or nobody says
        whom it lists, our queues stay ours but are not to be planned: others may have them.

        What does not answer is left out and tried again by a later survey; what has not answered for its whole limit is
        raised: TransportError[CLUSTER_TIMEOUT], RouteError[TOPIC_NOT_FOUND | TOPIC_UNAVAILABLE.NO_READABLE_QUEUE],
        MembershipError[NOT_REGISTERED_IN_GROUP | GROUP_HAS_OTHER_MEMBERS | DUPLICATE_CLIENT_ID |
        INCONSISTENT_SUBSCRIPTION | INCONSISTENT_GROUP_SETTINGS | CHECKPOINT_SHARED]. What no
        waiting changes is raised at once: MembershipError[UNKNOWN_MACHINE_ROOM], BrokerError for a refusal, and
        OptionError[NOT_A_NAME_SERVER]. How long queues of ``known`` may be away is the caller's to say. Raises
        ``crash`` too: nobody lives on unseen without timed work.
        """
        if self.crash is not None:
            raise self.crash
        self.renew_locks(stale_only=True)
        is_settled = self.rebalance()
        bounds = self.servers.bounds()
        self._outages.all_asked()
        links = {name: self.servers.link(name) for name in {queue.broker_name for queue in bounds}}
        away = self._outages.away(known, bounds)
        self._outages.check(away)
        nothing = frozenset[MessageQueue]()
        return Survey(
            self._locked(QueueState.OWNED) if is_settled else nothing,
            bounds,
            is_settled and self._outages.is_complete(away),
            away,
            links,
            self._locked(QueueState.LEAVING) if is_settled else nothing,
            frozenset(filter(self.servers.deletes_offsets, links)),
        )

    def wait_for_queues(self, waits: Iterable[Wait]) -> None:
        """Queues that are away are waited for so long: the caller's to decide, and to be said with all else."""
        self._outages.wait_for_queues(waits)

    def pending_resets(self) -> dict[MessageQueue, int]:
        """Where an operator has reset queues of ours to. The owners of others find out by themselves."""
        for queue in self.resets.pending.keys() - self._rebalance_impl.table.keys():
            self.resets.forget(queue)
        return self.resets.pending

    def take(self, ranges: Mapping[MessageQueue, tuple[int, int]]) -> None:
        """These ranges are planned: in flight until they are proven."""
        self._last_view = None
        for queue, (begin_offset, end_offset) in ranges.items():
            process_queue = self._rebalance_impl.table[queue]
            process_queue.put(begin_offset, end_offset)
            self._positions[queue] = end_offset
            self._planned_in[queue] = process_queue.life

    def prove(
        self, end_offsets: Mapping[MessageQueue, int], stored_to_ms: Mapping[MessageQueue, int] = NOT_KNOWN
    ) -> None:
        """Everything below these is in the sink: finish what is in flight there, and commit what is ours, answered.
        ``stored_to_ms``: when the last message was stored that was there when the queue was planned.

        What was not answered before is due again too: after a machine has slept the timer may come later than others.
        """
        if self._finish(end_offsets, stored_to_ms) or self.offsets.unconfirmed:
            self._last_view = None
            self.offsets.persist()
            self._release(self._lives.those(QueueState.LEAVING))

    # ------------------------------------------------------------------------------------------ timed work

    def rebalance(self) -> bool:
        """Make ownership what the routes and the group's members say. False: too little is known to decide."""
        self.servers.refresh_routes()
        self.members.greet()
        client_ids = self.members.listed()
        may_own = self.members.may_own(client_ids)
        plan = self._rebalance_impl.decide(self._routes.queues, client_ids) if may_own else None
        if plan is not None:
            self._carry_out(plan)
        return plan is not None

    def renew_locks(self, *, stale_only: bool = False) -> None:
        """Orderly: ask again for the locks of our queues. What a broker refuses is another member's, and dropped. What
        may be planned again is news: the survey that found the lock too old has left its queue out."""
        held = self._rebalance_impl.table.keys() if self._options.consume_orderly else frozenset()
        stale = [queue for queue in held if not self._locks.is_held(queue)]
        due = stale if stale_only else list(held)
        if due:
            self._last_view = None
            self._drop(self._locks.lock(due))
            self._moves += any(self._locks.is_held(queue) for queue in stale)

    def retry_locks(self) -> None:
        """Orderly: a queue that is ours by the group's lists was locked by its last owner; try it again."""
        if self._lives.those(QueueState.AWAITING_LOCK):
            self.rebalance()

    def leave(self, *, puts_resets_back: bool = False) -> None:
        """Persist what is proven and unregister everywhere. A lock outlives us while its queue has unproven ranges.
        ``puts_resets_back``: an operator's resets that no plan came after are the next start's."""
        self.offsets.persist()
        if puts_resets_back:
            self.offsets.look_for_resets(self._rebalance_impl.table)
            self.resets.put_back()
        locked = [queue for queue in self._rebalance_impl.table if self._locks.is_held(queue)]
        self._locks.unlock([queue for queue in locked if self._is_settled(queue)])
        self.members.unregister()

    # ------------------------------------------------------------------------------------------ ownership

    def _is_ours(self, queue: MessageQueue) -> bool:
        return queue in self._rebalance_impl.table

    def _carry_out(self, plan: RebalancePlan) -> None:
        """Persist before a queue is given up, so that its next owner begins where we proved to be.

        Orderly: a queue with an unproven range stays until ``prove``, and a new one is ours only with its lock.
        """
        if plan.drop:
            self.offsets.persist()
        leaving = {queue for queue in plan.drop if self._options.consume_orderly}
        self._lives.happen(QueueEvent.KEPT, self._lives.those(QueueState.LEAVING) - leaving)
        self._lives.happen(QueueEvent.GIVEN_AWAY, leaving)
        self._drop(set(plan.drop) - leaving)
        self._release(leaving)
        self._gain(plan.add)

    def _gain(self, queues: Collection[MessageQueue]) -> None:
        if self._options.consume_orderly:
            self._last_view = None
            refused = self._locks.lock(queues)
            queues = [queue for queue in queues if self._locks.is_held(queue)]
            awaited = self._lives.those(QueueState.AWAITING_LOCK)
            self._lives.happen(QueueEvent.NOT_AWAITED, awaited - refused - set(queues))
            self._lives.happen(QueueEvent.REFUSED, refused)
        self._change(RebalancePlan(add=tuple(queues)))

    def _release(self, queues: Collection[MessageQueue]) -> None:
        """Orderly: give up those of ``queues`` of which nothing is unproven and nothing unconfirmed."""
        settled = {queue for queue in queues if self._is_settled(queue)}
        self._locks.unlock(settled)
        self._drop(settled)

    def _drop(self, queues: Collection[MessageQueue]) -> None:
        self._locks.forget(queues)
        for queue in queues:
            self.offsets.forget(queue)
            self.resets.forget(queue)
            self._outages.forget_commits(queue)
            self._positions.pop(queue, None)
        self._change(RebalancePlan(drop=tuple(sorted(queues, key=MessageQueue.sort_key))))

    def _change(self, plan: RebalancePlan) -> None:
        if not plan:
            return
        self._lives.happen(QueueEvent.DROPPED, plan.drop)
        self._lives.happen(QueueEvent.ADDED, plan.add)
        self._rebalance_impl.apply(plan)
        self._last_view = None
        self._moves += 1
        log.info("REBALANCED: Queues added: %s; queues removed: %s", _names(plan.add), _names(plan.drop))

    def _is_settled(self, queue: MessageQueue) -> bool:
        return not self._rebalance_impl.table[queue].in_flight and queue not in self.offsets.unconfirmed

    def _locked(self, state: QueueState) -> frozenset[MessageQueue]:
        """The queues in that state; orderly, less those whose lock may have expired."""
        return frozenset(
            queue
            for queue in self._lives.those(state)
            if not self._options.consume_orderly or self._locks.is_held(queue)
        )

    # ------------------------------------------------------------------------------------------ progress

    def _finish(self, end_offsets: Mapping[MessageQueue, int], stored_to_ms: Mapping[MessageQueue, int]) -> bool:
        """Move the windows of our queues past what is proven; says whether anything was in flight there.

        What was planned before a queue was lost is late. Of a queue that is not ours it is left to the next owner; of
        one that came back it is proven too, though its new window never held it.
        """
        table = self._rebalance_impl.table
        for queue in self._planned_in.keys() & end_offsets.keys():
            planned_in = self._planned_in.pop(queue)
            self.completed_after_rebalance += queue not in table or table[queue].life != planned_in
        finished = [
            self._finish_queue(table[queue], end_offsets[queue], stored_to_ms.get(queue, 0))
            for queue in table.keys() & end_offsets.keys()
        ]
        return any(finished)

    def _finish_queue(self, process_queue: ProcessQueue, proven_to: int, stored_to_ms: int) -> bool:
        """Says whether anything was in flight below ``proven_to``."""
        finished = [(begin, end) for begin, end in process_queue.in_flight if end <= proven_to]
        for begin_offset, end_offset in finished:
            process_queue.remove(begin_offset, end_offset)
        rest = process_queue.in_flight
        self.offsets.prove(process_queue.queue, min(proven_to, rest[0][0]) if rest else proven_to, stored_to_ms)
        return bool(finished)

    # ------------------------------------------------------------------------------------------ what others may know

    @property
    def masters(self) -> dict[str, BrokerAddress]:
        """Addresses by broker name, as the name servers last told."""
        return self._routes.masters()

    @property
    def process_queues(self) -> tuple[ProcessQueue, ...]:
        """Of the queues that are ours."""
        return tuple(self._rebalance_impl.table.values())

    def publish(self) -> Published:
        """What is so now, and say what is to be said of it. The view is made anew only where something has changed:
        there is a turn in every plan."""
        self._outages.say()
        if self._last_view is None:
            self._last_view = self._view()
        return Published(
            view=self._last_view,
            changes=self._moves + self._outages.news + self.resets.news + self.offsets.news,
            masters=self._outages.answering(),
            next_try_ms=self._outages.next_try_ms,
            waits=self._outages.waits,
        )

    def _view(self) -> MemberView:
        return MemberView(
            consumer=self.members.we,
            name_servers=self._options.name_servers,
            started_ms=self._started_ms,
            process_queues={held.queue: self._info(held) for held in self.process_queues},
            positions=dict(self._positions),
            manner=self.members.manner,
        )

    def _info(self, held: ProcessQueue) -> ProcessQueueInfo:
        return process_queue_info(held, self._positions.get(held.queue, 0), self._locks.asked_ms(held.queue))


def _no_link(_broker_name: str) -> None:
    """A file that a query keeps by itself is nothing that operators reset."""


def _names(queues: Collection[MessageQueue]) -> str:
    """How many, and the first few."""
    named = ", ".join(map(str, list(queues)[:MOST_NAMED]))
    more = ", ..." if len(queues) > MOST_NAMED else ""
    return f"{len(queues)} ({named}{more})" if queues else "none"
