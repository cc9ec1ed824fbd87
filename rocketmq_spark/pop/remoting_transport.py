"""Messages one by one over RocketMQ's own protocol: the name servers' routes, and the masters that they name."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, TypeAlias

from rocketmq_spark.errors import OptionError, RocketMQError, RouteError, TransportError
from rocketmq_spark.model import BrokerAddress, TopicRoute
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.pop.dead_letter_mover import DeadLetterMover
from rocketmq_spark.pop.handles import AnyHandle, Handle
from rocketmq_spark.pop.polls import Poll, Target
from rocketmq_spark.pop.popped import acks_of, received_of
from rocketmq_spark.pop.retention_check import Report, RetentionCheck, unheard
from rocketmq_spark.pop.transport import Acknowledged, Answer, Changed
from rocketmq_spark.remoting.clock import monotonic_ms
from rocketmq_spark.remoting.cluster_client import ClusterClient
from rocketmq_spark.remoting.local_address import new_client_id
from rocketmq_spark.remoting.peer import ResponseFuture
from rocketmq_spark.remoting.pool import ConnectionPool
from rocketmq_spark.remoting.pop_broker import PopBroker, PopOutcome
from rocketmq_spark.remoting.retry import Outlook, is_topic_unrouted, outlook_of_request
from rocketmq_spark.remoting.route_table import history_of
from rocketmq_spark.remoting.secured import Connect
from rocketmq_spark.wire.body.subscription import TAG
from rocketmq_spark.wire.remoting.headers import (
    ChangeInvisibleTimeRequest,
    ChangeInvisibleTimeResponse,
    PopMessageRequest,
)

log = logging.getLogger(__name__)

ACKS_A_REQUEST: Final = 4_000

FROM_FIRST, FROM_END = 0, 1
"""Where a group begins that has no offset. Source: ``common/constant/ConsumeInitMode.java``."""

LOOK_INTERVAL_MS: Final = 30_000
LAST_CONNECTS_S: Final = 2.0

_Asked: TypeAlias = ResponseFuture[ChangeInvisibleTimeResponse | None] | RocketMQError | None
"""None: nobody, for the topic is gone."""

_Place: TypeAlias = PopBroker | RocketMQError | None
"""Whom to ask about messages of one topic and broker, or why nobody can be asked; None: the topic is gone."""


class RemotingTransport:
    """See ``Transport``. Its handles are those of brokers: a checkpoint with others is refused, and in a spool they are
    of messages that no broker knows.

    Threads: any; ``look`` is one thread's, and a topic is polled once that has found that it may be. A poll that
    has to wait for a connection or a ``RetentionCheck`` is sent by a thread ``rocketmq-pop-prepare``.
    """

    look_interval_ms = LOOK_INTERVAL_MS

    def __init__(self, options: ReadOptions, report: Report = unheard, connect: Connect | None = None) -> None:
        """``report``: see ``RetentionCheck``."""
        self.client_id = new_client_id(options.name_servers[0])
        self._options = options
        self._pool = ConnectionPool(options.broker_timeout_ms, limit=None, security=options.security, connect=connect)
        history = history_of(options.name_servers)
        self._cluster = ClusterClient(options.name_servers, self._pool, options.broker_timeout_ms, history=history)
        self._routes = self._cluster.routes
        """Also of topics that are not read any more, of which messages are held."""
        self._readable: frozenset[str] = frozenset()
        self._told_gone: set[Target] = set()
        self._may_be_read: set[str] = set()
        self._preparing: list[threading.Thread] = []
        self._ending = threading.Event()
        self._retention = RetentionCheck(options.consumer_group, report, self._ending.wait, monotonic_ms)
        self.dead_letters = DeadLetterMover(options.consumer_group, self._broker, self._cluster.broker)

    # ------------------------------------------------------------------------------------------ where

    def look(self) -> dict[str, RocketMQError]:
        """Ask for the routes. What went wrong, by topic; of these the last known one stays."""
        failures = self._routes.refresh(self._options.topics)
        routes = self._routes.routes
        found = {topic: routes[topic] for topic in self._options.topics if topic not in failures}
        refused = {topic: error for topic, route in found.items() if (error := self._refusal(topic, route)) is not None}
        self._readable = (self._readable | found.keys()) - refused.keys()
        unreadable = {topic for topic, route in found.items() if not route.read_queues()}
        return (
            failures
            | refused
            | {topic: RouteError("TOPIC_UNAVAILABLE.NO_READABLE_QUEUE", topic=topic) for topic in unreadable}
        )

    def _refusal(self, topic: str, route: TopicRoute) -> RocketMQError | None:
        """Why a topic is not to be read: a proxy stands before its brokers; its messages are in order, or none of its
        brokers says now whether they are. It is asked once; who may not ask reads."""
        if topic in self._may_be_read:
            return None
        names = {queue.broker_name for queue in route.read_queues()}
        addresses = [address for name in sorted(names) if (address := route.master_address(name)) is not None]
        if any(address.broker_name is not None for address in addresses):
            reason = "its remoting port does not support loadBalance=message"
            return TransportError("PROXY_REQUIRES_ENDPOINTS", address=addresses[0].server, reason=reason)
        failure: RocketMQError | None = None
        for address in addresses:
            try:
                if self._pop_broker(address).is_in_order(topic):
                    return OptionError("FIFO_NOT_SUPPORTED", subject=f"Topic {topic!r}")
            except RocketMQError as error:
                failure = error
                if outlook_of_request(error) is not Outlook.FINAL:
                    continue
                log.info(
                    "FIFO_CHECK_SKIPPED: Cannot check whether topic=%s is FIFO; reading it, in any order: %s",
                    topic,
                    error,
                )
            self._may_be_read.add(topic)
            return None
        return failure

    def targets(self) -> list[Target]:
        """Brokers that have readable queues of our topics."""
        readable = self._readable
        topics = self._routes.queues.items()
        queues = (queue for topic, of_topic in topics if topic in readable for queue in of_topic)
        return list(dict.fromkeys(Target(queue.topic, queue.broker_name) for queue in queues))

    def _broker(self, topic: str, broker_name: str) -> PopBroker:
        """Raises RouteError[MASTER_UNAVAILABLE], and what ``RouteTable.route`` raises."""
        address = self._routes.route(topic).master_address(broker_name)
        if address is None:
            if topic not in self._readable:  # else the next look asks, and nobody waits for it meanwhile
                self._routes.forget(topic)
            raise RouteError("MASTER_UNAVAILABLE", broker=broker_name, topic=topic)
        return self._pop_broker(address)

    def _pop_broker(self, address: BrokerAddress) -> PopBroker:
        return PopBroker(address, self._pool, self._options.broker_timeout_ms)

    def _places(self, handles: Sequence[Handle]) -> dict[Target, _Place]:
        return {place: self._place(place) for place in dict.fromkeys(map(_target, handles))}

    def _place(self, place: Target) -> _Place:
        try:
            return self._broker(*place)
        except RouteError as error:
            return None if self._is_gone(place) else error
        except RocketMQError as error:
            return error

    def _is_gone(self, place: Target) -> bool:
        """Whether the broker is there and has not the topic, by one name server: it is told of a broker and of its
        topics together. Where the broker is not there either, nobody knows."""
        try:
            is_gone = self._master(place) is None and place.broker_name in self._masters()
        except RocketMQError:
            return False
        if is_gone and place not in self._told_gone:
            self._told_gone.add(place)
            log.warning(
                "TOPIC_DELETED: Topic=%s was deleted on broker=%s; its outstanding messages need no acknowledgement",
                *place,
            )
        return is_gone

    def _master(self, place: Target) -> BrokerAddress | None:
        """Asks anew. Raises what ``RouteTable.route`` does for other reasons than that there is no topic."""
        try:
            return self._routes.route(place.topic, refresh=True).master_address(place.broker_name)
        except RouteError as error:
            if is_topic_unrouted(error):
                return None
            raise

    def _masters(self) -> set[str]:
        """Names of brokers that have one. Raises what ``NameServers.cluster_info`` does."""
        brokers = self._cluster.name_servers.cluster_info().brokers
        return {name for name, broker in brokers.items() if broker.master_address is not None}

    # ------------------------------------------------------------------------------------------ what

    def poll(self, poll: Poll, on_answer: Callable[[Answer], None]) -> None:
        try:
            broker = self._broker(*poll.target)
        except RocketMQError as error:
            on_answer(error)
            return

        def pop() -> None:
            broker.pop(self._request(poll), lambda outcome: on_answer(self._delivered(poll.target, outcome)))

        if broker.is_connected and not self._retention.is_due(poll.target):
            pop()
        else:
            self._preparing = [one for one in self._preparing if one.is_alive()]
            prepare = partial(self._prepare, poll.target, broker.address, pop, on_answer)
            self._preparing.append(threading.Thread(target=prepare, name="rocketmq-pop-prepare", daemon=True))
            self._preparing[-1].start()

    def _request(self, poll: Poll) -> PopMessageRequest:
        """Made when it is sent: a broker refuses one that was born longer ago than its poll lasts."""
        options = self._options
        return PopMessageRequest(
            consumer_group=options.consumer_group,
            topic=poll.target.topic,
            max_message_count=poll.most,
            invisible_ms=options.invisible_duration_ms,
            poll_ms=poll.poll_ms,
            born_timestamp_ms=int(time.time() * 1000),
            init_mode=FROM_FIRST if options.begins_at_first else FROM_END,
            expression_type=TAG,
            expression=options.sub_expression,
        )

    def _prepare(
        self, target: Target, address: BrokerAddress, pop: Callable[[], None], on_answer: Callable[[Answer], None]
    ) -> None:
        """Connect, and look for what was deleted, which the pop would hide."""
        try:
            if self._retention.is_due(target):
                self._retention.check(target, self._cluster.broker(address))
        except RocketMQError as error:
            on_answer(error)
        else:
            pop()

    def _delivered(self, target: Target, outcome: PopOutcome) -> Answer:
        answer = _answer(target, outcome)
        if answer and not isinstance(answer, RocketMQError):
            self._retention.delivered(target)
        return answer

    def acknowledge(self, handles: Sequence[AnyHandle]) -> list[Acknowledged]:
        ours = _brokers_own(handles)
        places = self._places(ours)
        failures = self._acknowledge(ours, places)
        return [
            isinstance(handle, Handle) and _acknowledged(places[_target(handle)], failures.get(handle.broker_name))
            for handle in handles
        ]

    def _acknowledge(self, handles: Sequence[Handle], places: Mapping[Target, _Place]) -> dict[str, RocketMQError]:
        """What went wrong, by broker name."""
        answers: list[tuple[str, ResponseFuture[None]]] = []
        failures: dict[str, RocketMQError] = {}
        for broker, broker_name, some in _by_broker(handles, places):
            try:
                acks = acks_of(self._options.consumer_group, some)
                answers.append((broker_name, broker.submit_acknowledge(broker_name, acks)))
            except RocketMQError as error:
                failures[broker_name] = error
        for broker_name, answer in answers:
            try:
                answer.result()
            except RocketMQError as error:
                failures[broker_name] = error
        return failures

    def change(self, handles: Sequence[AnyHandle], invisible_ms: int, *, suspend: bool) -> list[Changed]:
        failed: dict[str, RocketMQError] = {}
        ours = _brokers_own(handles)
        places = self._places(ours)
        asked = {
            handle: self._ask_change(places[_target(handle)], handle, invisible_ms, suspend, failed) for handle in ours
        }
        return [_changed(handle, asked[handle]) if isinstance(handle, Handle) else None for handle in handles]

    def _ask_change(
        self, place: _Place, handle: Handle, invisible_ms: int, suspend: bool, failed: dict[str, RocketMQError]
    ) -> _Asked:
        """``failed``: brokers that cannot be sent to; each is tried once."""
        if not isinstance(place, PopBroker):
            return place
        group, check_point = self._options.consumer_group, handle.check_point
        request = ChangeInvisibleTimeRequest(
            consumer_group=group,
            topic=handle.real_topic(group),
            queue_id=check_point.queue_id,
            extra_info=handle.text,
            offset=handle.offset,
            invisible_ms=invisible_ms,
            suspend=suspend,
        )
        if handle.broker_name not in failed:
            try:
                return place.submit_change(request)
            except RocketMQError as error:
                failed[handle.broker_name] = error
        return failed[handle.broker_name]

    def close(self) -> None:
        self._ending.set()
        self._pool.close()
        for thread in self._preparing:
            thread.join(LAST_CONNECTS_S)


def _answer(target: Target, outcome: PopOutcome) -> Answer:
    if outcome is None or isinstance(outcome, RocketMQError):
        return outcome or ()
    try:
        return received_of(target.topic, target.broker_name, outcome.header, outcome.body)
    except RocketMQError as error:
        return error


def _brokers_own(handles: Sequence[AnyHandle]) -> list[Handle]:
    return [handle for handle in handles if isinstance(handle, Handle)]


def _target(handle: Handle) -> Target:
    return Target(handle.topic, handle.broker_name)


def _acknowledged(place: _Place, failure: RocketMQError | None) -> Acknowledged:
    if isinstance(place, PopBroker):
        return failure or True
    return place or True


def _changed(handle: Handle, asked: _Asked) -> Changed:
    if asked is None or isinstance(asked, RocketMQError):
        return asked
    try:
        answer = asked.result()
    except RocketMQError as error:
        return error
    if answer is None:
        return None
    return handle.changed(answer.pop_time_ms, answer.invisible_ms, answer.revive_queue_id)


def _by_broker(
    handles: Sequence[Handle], places: Mapping[Target, _Place]
) -> Iterator[tuple[PopBroker, str, Sequence[Handle]]]:
    """(a broker, its name, handles), in parts that one request can carry; without those that nobody is asked about."""
    by_broker: dict[str, tuple[PopBroker, list[Handle]]] = {}
    for handle in handles:
        place = places[_target(handle)]
        if isinstance(place, PopBroker):
            by_broker.setdefault(handle.broker_name, (place, []))[1].append(handle)
    for broker_name, (broker, ours) in by_broker.items():
        for first in range(0, len(ours), ACKS_A_REQUEST):
            yield broker, broker_name, ours[first : first + ACKS_A_REQUEST]
