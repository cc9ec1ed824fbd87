"""Membership: what a member of a group knows, decides and says. No thread, lock or clock of its own; ``member`` has
them.

The order of requests in here is what keeps messages from being lost or read twice; the model of the tests runs this
very code against a simulated cluster. Not thread-safe: the caller makes one call at a time. ``view`` may be read by
anybody.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Final

from rocketmq_spark.consumer.answers import MemberView
from rocketmq_spark.consumer.consume_from_where import starting_point
from rocketmq_spark.consumer.inquiry import Clock, Inquiry
from rocketmq_spark.consumer.offset_store import RemoteBrokerOffsetStore, raising
from rocketmq_spark.consumer.ports import Cluster, OffsetKeeper, Survey
from rocketmq_spark.consumer.process_queue import ProcessQueue
from rocketmq_spark.consumer.queue_locks import QueueLocks
from rocketmq_spark.consumer.rebalance import RebalanceImpl, RebalancePlan
from rocketmq_spark.consumer.strategy_names import strategy_of
from rocketmq_spark.consumer.subscription_check import SubscriptionCheck
from rocketmq_spark.errors import MembershipError
from rocketmq_spark.model import MessageQueue, QueueBounds
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.wire.body.heartbeat import ConsumerData, Heartbeat
from rocketmq_spark.wire.body.subscription import SubscriptionData, build_subscription

log = logging.getLogger(__name__)

GROUP: Final = "the group"
IDENTITY: Final = "our client id"
SUBSCRIPTIONS: Final = "the group's subscriptions"

NAMESAKE_LIMIT_MS: Final = 120_000
"""How long a newcomer waits for the connection that has its client id: a broker notices a dead one within so long."""


class Membership:
    """One client id in ``options.consumer_group``.

    Parameters
    ----------
    clock : milliseconds that never go back
    lease_clock : the same, and it goes on while the machine sleeps
    started_ms : epoch milliseconds; the version of the subscription, of which brokers keep the newest
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
        local_offsets: OffsetKeeper | None = None,
    ) -> None:
        self.client_id = client_id
        self._moves = 0
        self._options = options
        self._group = options.consumer_group
        self._inquiry = Inquiry(options, cluster, clock)
        self._offsets: OffsetKeeper = local_offsets or self._inquiry
        self._lease_clock = lease_clock
        self._started_ms = started_ms
        self._greeted: set[str] = set()
        self._rebalance_impl = RebalanceImpl(self._group, client_id, strategy_of(options))
        self._locks = QueueLocks()
        self._leaving: set[MessageQueue] = set()
        self._awaiting_lock = False
        self._has_been_alone = False
        self._store = RemoteBrokerOffsetStore()
        self._positions: dict[MessageQueue, int] = {}
        self.view = self._new_view()
        self._subscriptions = SubscriptionCheck(
            self._group, client_id, self.view.consumer.subscriptions, options.retry_topic
        )
        self._has_agreed = False

    @property
    def changes(self) -> int:
        """How often something has changed that plans depend on: ownership, who answers, or an operator's reset."""
        return self._moves + self._inquiry.news

    # ------------------------------------------------------------------------------------------ for the planner

    def survey(self, known: Collection[MessageQueue] = ()) -> Survey:
        """Ask for routes, members and bounds afresh, and rebalance. While the group does not list us, or nobody says
        whom it lists, our queues stay ours but are not to be planned: others may have them.

        What does not answer is left out and tried again by a later survey; what has not answered for its whole limit is
        raised: TransportError[CLUSTER_UNREACHABLE], RouteError[TOPIC_NOT_FOUND],
        MembershipError[NOT_LISTED | DUPLICATE_CLIENT_ID | SUBSCRIPTIONS_DIFFER]. How long queues of ``known`` may be
        away is the caller's to say.
        """
        self.renew_locks(stale_only=True)
        is_settled = self.rebalance()
        bounds = self._inquiry.bounds()
        away = self._inquiry.away(known, bounds)
        self._inquiry.check(away)
        owned = self._plannable() if is_settled else frozenset[MessageQueue]()
        return Survey(owned, bounds, is_settled and self._inquiry.is_complete(away), away)

    def ask_bounds(self) -> dict[MessageQueue, QueueBounds]:
        """See ``Inquiry.bounds``."""
        return self._inquiry.bounds()

    def search_offsets(self, timestamps_ms: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]:
        """See ``Inquiry.search_offsets``."""
        return self._inquiry.search_offsets(timestamps_ms)

    def stored_offsets(self, queues: Iterable[MessageQueue]) -> dict[MessageQueue, int | None]:
        """See ``Inquiry.stored_offsets``."""
        return self._offsets.stored_offsets(queues)

    def raise_offsets(self, wanted: Mapping[MessageQueue, int]) -> set[MessageQueue]:
        """See to it that the brokers store at least ``wanted``; says for which queues a broker has confirmed it.

        Of the first offsets of a group and topic that come at once, a broker may confirm one and lose it
        (``ConsumerOffsetManager#commitOffset`` makes the table for them unguarded). So look again where there was none.
        """
        confirmed, first = self._raise(wanted)
        if first:
            confirmed -= first - self._raise({queue: wanted[queue] for queue in first})[0]
        self._confirm({queue: wanted[queue] for queue in confirmed})
        return confirmed

    def _raise(self, wanted: Mapping[MessageQueue, int]) -> tuple[set[MessageQueue], set[MessageQueue]]:
        """Which offsets a broker has confirmed, and which of these are the first that it has of their queue."""
        stored = {
            queue: offset for queue, offset in self.stored_offsets(wanted).items() if queue not in self._inquiry.resets
        }
        writes = raising(wanted, stored)
        confirmed = (stored.keys() - writes.keys()) | self._offsets.write_offsets(writes)
        return confirmed, {queue for queue in confirmed if stored[queue] is None}

    def lower_offsets(self, wanted: Mapping[MessageQueue, int]) -> set[MessageQueue]:
        """Let the brokers store exactly ``wanted``, for queues that do not reach as far as the group's offset any more;
        says for which queues a broker has confirmed it. What was proven of such a queue is of another one now."""
        for queue in wanted:
            self._store.remove(queue)
        written = self._offsets.write_offsets(wanted)
        self._confirm({queue: wanted[queue] for queue in written})
        return written

    def note_reset(self, queue: MessageQueue, offset: int) -> None:
        """See ``Inquiry.note_reset``."""
        self._inquiry.note_reset(queue, offset)

    def look_for_resets(self, queues: Iterable[MessageQueue]) -> None:
        """Learn of operators' resets before a pull of somebody else is told, and nobody again."""
        self._inquiry.refresh_routes()
        for queue in queues:
            self._inquiry.take_reset(queue)

    def take_resets(self) -> dict[MessageQueue, int]:
        """Where an operator has reset queues of ours to, each told once."""
        resets, self._inquiry.resets = self._inquiry.resets, {}
        return {queue: offset for queue, offset in resets.items() if queue in self._rebalance_impl.table}

    def keep_resets(self, resets: Mapping[MessageQueue, int]) -> None:
        """See ``Inquiry.keep_resets``."""
        self._inquiry.keep_resets(resets)

    def take(self, ranges: Mapping[MessageQueue, tuple[int, int]]) -> None:
        """These ranges are planned: in flight until they are proven."""
        for queue, (begin_offset, end_offset) in ranges.items():
            self._rebalance_impl.table[queue].put(begin_offset, end_offset)
            self._positions[queue] = end_offset
        self.view = self._new_view()

    def prove(self, end_offsets: Mapping[MessageQueue, int]) -> None:
        """Everything below these is in the sink: finish what is in flight there, and commit what is ours, answered.

        What was not answered before is due again too: after a machine has slept the timer may come later than others.
        """
        if self._finish(end_offsets) or self._store.unconfirmed:
            self.persist()
            self._release(self._leaving)
            self.view = self._new_view()

    def may_try_again(self) -> bool:
        """Whether something that did not answer is to be asked again now."""
        return self._inquiry.may_try_again()

    def may_ask(self, broker_name: str) -> bool:
        """See ``Inquiry.may_ask``."""
        return self._inquiry.may_ask(broker_name)

    def address_of(self, broker_name: str) -> str | None:
        """See ``Inquiry.address_of``."""
        return self._inquiry.address_of(broker_name)

    # ------------------------------------------------------------------------------------------ timed work

    def heartbeat(self) -> None:
        """To every broker of the topics, slaves included, as Java's client does."""
        beat = Heartbeat(self.client_id, (self._group_data(),))
        for address in sorted(self._inquiry.addresses()):
            if self._inquiry.tell(address, lambda broker: broker.heartbeat(beat)):
                self._greeted.add(address)

    def rebalance(self) -> bool:
        """Make ownership what the routes and the group's members say. False: too little is known to decide."""
        self._inquiry.refresh_routes()
        if self._inquiry.masters() - self._greeted:
            self.heartbeat()
        client_ids = self._inquiry.consumer_ids()
        if self._is_somebody_else(client_ids) or self._is_at_odds(client_ids):
            return False
        plan = self._rebalance_impl.decide(self._inquiry.queues, client_ids)
        if plan is None:
            self._not_listed(client_ids)
            return False
        self._inquiry.succeeded(GROUP)
        self._carry_out(plan)
        return True

    def persist(self) -> bool:
        """Tell the brokers what they have not confirmed; says whether they have confirmed everything by now."""
        self.raise_offsets(self._store.unconfirmed)
        return not self._store.unconfirmed

    def renew_locks(self, *, stale_only: bool = False) -> None:
        """Orderly: ask again for the locks of our queues. What a broker refuses is another member's, and dropped."""
        held = self._rebalance_impl.table.keys() if self._options.consume_orderly else ()
        self._drop(self._lock([queue for queue in held if not (stale_only and self._is_locked(queue))]))

    def retry_locks(self) -> None:
        """Orderly: a queue that is ours by the group's lists was locked by its last owner; try it again."""
        if self._awaiting_lock:
            self.rebalance()

    def leave(self) -> None:
        """Persist what is proven and unregister everywhere. A lock outlives us while its queue has unproven ranges,
        and an operator's reset that we did not come to obey."""
        self.persist()
        self._inquiry.put_back_resets(self._rebalance_impl.table.keys())
        locked = [queue for queue in self._rebalance_impl.table if self._is_locked(queue)]
        self._inquiry.unlock(self.client_id, [queue for queue in locked if self._is_settled(queue)])
        for address in sorted(self._greeted):
            self._inquiry.tell(address, lambda broker: broker.unregister(self.client_id, self._group))

    # ------------------------------------------------------------------------------------------ ownership

    def _carry_out(self, plan: RebalancePlan) -> None:
        """Persist before a queue is given up, so that its next owner begins where we proved to be.

        Orderly: a queue with an unproven range stays until ``prove``, and a new one is ours only with its lock.
        """
        if plan.drop:
            self.persist()
        self._leaving = {queue for queue in plan.drop if self._options.consume_orderly}
        self._drop(set(plan.drop) - self._leaving)
        self._release(self._leaving)
        self._gain(plan.add)

    def _gain(self, queues: Collection[MessageQueue]) -> None:
        if self._options.consume_orderly:
            self._awaiting_lock = bool(self._lock(queues))
            queues = [queue for queue in queues if self._is_locked(queue)]
        self._change(RebalancePlan(add=tuple(queues)))

    def _release(self, queues: Collection[MessageQueue]) -> None:
        """Orderly: give up those of ``queues`` of which nothing is unproven and nothing unconfirmed."""
        settled = {queue for queue in queues if self._is_settled(queue)}
        self._inquiry.unlock(self.client_id, settled)
        self._drop(settled)

    def _drop(self, queues: Collection[MessageQueue]) -> None:
        self._locks.forget(queues)
        self._leaving -= set(queues)
        for queue in queues:
            self._store.remove(queue)
            self._inquiry.resets.pop(queue, None)
            self._positions.pop(queue, None)
        self._change(RebalancePlan(drop=tuple(sorted(queues, key=MessageQueue.sort_key))))

    def _change(self, plan: RebalancePlan) -> None:
        if not plan:
            return
        self._rebalance_impl.apply(plan)
        self._moves += 1
        self.view = self._new_view()
        log.info("rebalanced client_id=%s dropped=%s added=%s", self.client_id, _names(plan.drop), _names(plan.add))

    def _is_settled(self, queue: MessageQueue) -> bool:
        return not self._rebalance_impl.table[queue].in_flight and queue not in self._store.unconfirmed

    def _plannable(self) -> frozenset[MessageQueue]:
        """Our queues, less those that are being given up; orderly, less those whose lock may have expired."""
        return frozenset(
            queue
            for queue in self._rebalance_impl.table.keys() - self._leaving
            if not self._options.consume_orderly or self._is_locked(queue)
        )

    # ------------------------------------------------------------------------------------------ locks

    def _is_locked(self, queue: MessageQueue) -> bool:
        return self._locks.is_held(queue, self._lease_clock())

    def _lock(self, queues: Collection[MessageQueue]) -> set[MessageQueue]:
        """Lock queues at their brokers; answers those that a broker has refused. Silent brokers change nothing."""
        asked_ms = self._lease_clock()
        granted, refused = self._inquiry.lock(self.client_id, queues)
        self._locks.granted(granted, asked_ms)
        return refused

    # ------------------------------------------------------------------------------------------ members

    def _is_somebody_else(self, client_ids: list[str] | None) -> bool:
        """Whether our client id was another connection's before it was ours: then we own nothing until that is gone.

        A broker lists an id once for each of its connections. Who was alone once stays who it is: a second entry is a
        newcomer then, or our own connection of before.
        """
        if client_ids is None or self._has_been_alone:
            return False
        if client_ids.count(self.client_id) > 1:
            error = MembershipError("DUPLICATE_CLIENT_ID", group=self._group, client_id=self.client_id)
            self._inquiry.failed(IDENTITY, error, NAMESAKE_LIMIT_MS)
            return True
        self._inquiry.succeeded(IDENTITY)
        self._has_been_alone = self.client_id in client_ids
        return False

    def _is_at_odds(self, client_ids: list[str] | None) -> bool:
        """Whether a member subscribes to something else and we are the newcomer, who owns nothing and fails at once.

        Who was there before goes on for its limit: a newcomer should leave, and take nobody with it.
        """
        if client_ids is None or self.client_id not in client_ids:
            return False
        to_ask = self._subscriptions.to_ask(client_ids)
        if to_ask:
            self._subscriptions.answered(self._inquiry.subscriptions_of(to_ask))
            self._warn_of_retries()
        error = self._subscriptions.difference()
        if error is None:
            self._has_agreed = True
            self._inquiry.succeeded(SUBSCRIPTIONS)
            return False
        limit_ms = self._options.cluster_timeout_ms if self._has_agreed else 0
        self._inquiry.failed(SUBSCRIPTIONS, error, limit_ms)
        return not self._has_agreed

    def _warn_of_retries(self) -> None:
        for client_id in self._subscriptions.at_odds_over_retries():
            log.warning(
                "of client_id=%s and client_id=%s only one reads topic=%s: what was sent back may wait there",
                self.client_id,
                client_id,
                self._options.retry_topic,
            )

    def _not_listed(self, client_ids: list[str] | None) -> None:
        """The group does not know this member (yet): heartbeat again, decide nothing."""
        self.heartbeat()
        if client_ids is not None:
            error = MembershipError("NOT_LISTED", group=self._group, client_id=self.client_id)
            self._inquiry.failed(GROUP, error, self._options.cluster_timeout_ms)

    # ------------------------------------------------------------------------------------------ offsets

    def _confirm(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Brokers have confirmed these."""
        for queue in offsets.keys() & self._rebalance_impl.table.keys():
            self._store.confirm(queue, offsets[queue])

    def _finish(self, end_offsets: Mapping[MessageQueue, int]) -> bool:
        """Move the windows of our queues past what is proven; says whether anything was in flight there.

        What was planned before a queue was lost and came back is proven too, though its new window never held it.
        """
        queues = self._rebalance_impl.table.keys() & end_offsets.keys()
        finished = [self._finish_queue(self._rebalance_impl.table[queue], end_offsets[queue]) for queue in queues]
        return any(finished)

    def _finish_queue(self, process_queue: ProcessQueue, proven_to: int) -> bool:
        """Says whether anything was in flight below ``proven_to``."""
        finished = [(begin, end) for begin, end in process_queue.in_flight if end <= proven_to]
        for begin_offset, end_offset in finished:
            process_queue.remove(begin_offset, end_offset)
        rest = process_queue.in_flight
        self._store.update(process_queue.queue, min(proven_to, rest[0][0]) if rest else proven_to)
        return bool(finished)

    # ------------------------------------------------------------------------------------------ the view

    def _new_view(self) -> MemberView:
        table = self._rebalance_impl.table
        return MemberView(
            consumer=self._consumer_data(),
            name_servers=self._options.name_servers,
            started_ms=self._started_ms,
            process_queues=tuple(table.values()),
            positions=dict(self._positions),
            locked_ms={queue: at for queue in table if (at := self._locks.asked_ms(queue)) is not None},
            is_orderly=self._options.consume_orderly,
        )

    def _consumer_data(self) -> ConsumerData:
        return ConsumerData(
            group=self._group,
            consume_type="CONSUME_ACTIVELY",
            message_model=self._options.message_model,
            consume_from_where=starting_point(self._options).where.value,
            subscriptions=tuple(map(self._subscription, self._options.read_topics)),
        )

    def _group_data(self) -> ConsumerData:
        """What brokers are told: as Java's push consumers do, the retry topic is among the topics, read or not.

        A broker takes the topics of the last heartbeat for the group's, and lets nobody pull from others that has not
        said so in the pull: without it, Java members could not read their retry topic after each heartbeat of ours.
        """
        read = self.view.consumer
        topics = dict.fromkeys((*self._options.topics, self._options.retry_topic))
        return replace(read, subscriptions=tuple(map(self._subscription, topics)))

    def _subscription(self, topic: str) -> SubscriptionData:
        return build_subscription(topic, self._options.expression_of(topic), self._started_ms)


def _names(queues: Iterable[MessageQueue]) -> str:
    return ",".join(str(queue) for queue in queues) or "-"
