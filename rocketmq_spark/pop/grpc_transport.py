"""Messages one by one over gRPC: a proxy's routes, and the proxies that they name, which ask the brokers."""

from __future__ import annotations

import logging
import secrets
import threading
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from functools import partial
from typing import Final, NoReturn

from rocketmq_spark.errors import RocketMQError, RouteError, TransportError
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.pop.handles import AnyHandle, Form, Handle, Received, handle_of, is_made_up
from rocketmq_spark.pop.invisible_duration import unforeseen_ms
from rocketmq_spark.pop.polls import Poll, Target
from rocketmq_spark.pop.proxied_handles import handles_of_response
from rocketmq_spark.pop.transport import Acknowledged, Answer, Changed, MovedByTheServer
from rocketmq_spark.proxy.session import Session
from rocketmq_spark.remoting.clock import Clock, monotonic_ms
from rocketmq_spark.remoting.local_address import new_client_id
from rocketmq_spark.remoting.retry import is_unknown_topic
from rocketmq_spark.wire.grpc import messaging_pb2 as pb
from rocketmq_spark.wire.grpc.requests import Subscription
from rocketmq_spark.wire.grpc.responses import Addresses

log = logging.getLogger(__name__)

LOOK_INTERVAL_MS: Final = 10_000
"""A proxy forgets who has not shown that it is there for some 100 s."""

ACKS_A_REQUEST: Final = 1_000
LAST_POLLS_S: Final = 2.0
BROKEN_OFF_PAUSE_MS: Final = 60_000


class GrpcTransport:
    """See ``Transport``.

    Threads: any; ``look`` is one thread's, and what it has found replaces what was known in one step. Each poll has a
    thread of its own, ``rocketmq-proxy-poll``, on which it is answered.
    """

    look_interval_ms = LOOK_INTERVAL_MS
    dead_letters = MovedByTheServer()

    def __init__(self, options: ReadOptions, addresses: Addresses, clock: Clock = monotonic_ms) -> None:
        """``addresses``: of the proxy that is asked first."""
        self._options = options
        self._entry = addresses
        self._subscription = Subscription(options.consumer_group, options.topics, options.sub_expression)
        self.client_id = new_client_id(addresses[0])
        self._sessions = {addresses: self._session(addresses)}
        self._topics = options.topics
        """Those that are read, and others of which messages are held."""
        self._routes: dict[str, dict[str, Addresses]] = {}
        self._unserved: set[str] = set()
        """Topics of which no broker is known."""
        self._clock = clock
        self._broken_off_due_ms: dict[Target, int] = {}
        """When a line may say next that a response broke off."""
        self._noted: frozenset[Target] = frozenset()
        """Of which a line says that they have messages that cannot be acknowledged."""
        self._is_looked_after = False
        self._targets: list[Target] = []
        self._polling: list[threading.Thread] = []
        self._is_closed = False

    def _session(self, addresses: Addresses) -> Session:
        options = self._options
        return Session(addresses, self._subscription, self.client_id, options.security, options.broker_timeout_ms)

    # ------------------------------------------------------------------------------------------ where

    def look(self) -> dict[str, RocketMQError]:
        self._is_looked_after = True
        return self._look()

    def _look(self) -> dict[str, RocketMQError]:
        failures = self._find()
        wanted = {addresses for route in self._routes.values() for addresses in route.values()}
        self._sessions = self._sessions | {one: self._session(one) for one in wanted if one not in self._sessions}
        if self._is_closed:
            self.close()
        unknown = self._keep(wanted)
        if not failures:
            self._leave(self._sessions.keys() - wanted - {self._entry})
        places = [(topic, *place) for topic, route in self._routes.items() for place in route.items()]
        self._targets = [
            Target(topic, broker_name)
            for topic, broker_name, one in places
            if one not in unknown and topic in self._options.topics
        ]
        return failures | {topic: unknown[one] for topic, _, one in places if one in unknown}

    def _find(self) -> dict[str, RocketMQError]:
        """Ask for the routes. What went wrong, by topic; of these the last known one stays."""
        failures: dict[str, RocketMQError] = {}
        found: dict[str, dict[str, Addresses]] = {}
        for topic in self._topics:
            try:
                found[topic] = self._sessions[self._entry].find(topic)
            except TransportError as error:
                return dict.fromkeys(self._topics, error)
            except RocketMQError as error:
                failures[topic] = error
        self._routes = self._routes | found
        self._unserved = {topic for topic, error in failures.items() if is_unknown_topic(error)}
        return failures

    def _keep(self, wanted: Iterable[Addresses]) -> dict[Addresses, RocketMQError]:
        """Those who do not know us, and why."""
        unknown: dict[Addresses, RocketMQError] = {}
        for addresses in wanted:
            try:
                self._sessions[addresses].keep()
            except RocketMQError as error:
                unknown[addresses] = error
        return unknown

    def _leave(self, unwanted: Iterable[Addresses]) -> None:
        """No route names them any more."""
        left = {addresses: self._sessions[addresses] for addresses in unwanted}
        self._sessions = {addresses: one for addresses, one in self._sessions.items() if addresses not in left}
        for session in left.values():
            session.close()

    def targets(self) -> list[Target]:
        return self._targets

    def _session_of(self, topic: str, broker_name: str) -> Session:
        """Looks for it, where nobody does that by a timer yet. Of a topic that no broker has any proxy is asked: it
        finds the broker, and once the time of a message is over it says that it knows it no more. Raises what is in the
        way of that, RouteError[MASTER_UNAVAILABLE] where no proxy says that it asks this broker."""
        if topic not in self._topics:
            self._topics = (*self._topics, topic)
        addresses = self._routes.get(topic, {}).get(broker_name)
        if addresses is None and not self._is_looked_after:
            failures = self._look()
            if topic in failures and topic not in self._unserved:
                raise failures[topic]
            addresses = self._routes.get(topic, {}).get(broker_name)
        if addresses is None and topic in self._unserved:
            return self._sessions[self._entry]
        if addresses is None:
            raise RouteError("MASTER_UNAVAILABLE", broker=broker_name, topic=topic)
        return self._sessions[addresses]

    # ------------------------------------------------------------------------------------------ what

    def poll(self, poll: Poll, on_answer: Callable[[Answer], None]) -> None:
        thread = threading.Thread(target=lambda: on_answer(self._answer(poll)), name="rocketmq-proxy-poll", daemon=True)
        self._polling = [*(one for one in self._polling if one.is_alive()), thread]
        thread.start()

    def _answer(self, poll: Poll) -> Answer:
        topic, broker_name = poll.target
        invisible_ms = unforeseen_ms(self._options.invisible_duration_ms, secrets.randbelow)
        try:
            given, failure = self._session_of(topic, broker_name).receive(
                topic, broker_name, most=poll.most, invisible_ms=invisible_ms, poll_ms=poll.poll_ms
            )
        except RocketMQError as error:
            return error
        if failure is not None:
            self._note_broken_off(poll.target, len(given), failure)
        handles = handles_of_response(topic, broker_name, given, invisible_ms)
        self._note_made_up(poll.target, sum(map(is_made_up, handles)))
        return [
            Received(handle, memoryview(_record(one.record, handle)), Form.ANSWERED)
            for handle, one in zip(handles, given, strict=True)
        ]

    def _note_broken_off(self, target: Target, count: int, failure: RocketMQError) -> None:
        """A topic and broker at most once in BROKEN_OFF_PAUSE_MS."""
        now_ms = self._clock()
        if now_ms >= self._broken_off_due_ms.get(target, now_ms):
            self._broken_off_due_ms[target] = now_ms + BROKEN_OFF_PAUSE_MS
            log.warning(
                "RESPONSE_INCOMPLETE: Response for topic=%s broker=%s ended after %d messages: %s The broker "
                "redelivers the other messages after 'invisibleDurationMs'. If this line repeats, search for messages "
                "that the proxy cannot convert: with a property POP_CK or TIMER_DELIVER_MS, or an impossible "
                "bornTimestamp.",
                *target,
                count,
                failure,
            )

    def _note_made_up(self, target: Target, count: int) -> None:
        """Once a topic and broker; how many there are in all is counted where they expire."""
        if count and target not in self._noted:
            self._noted = self._noted | {target}
            log.warning(
                "RECEIPT_HANDLE_UNTRUSTED: %d messages of topic=%s broker=%s cannot be acknowledged: their receipt "
                "handles may be those of other messages, because a producer set the property POP_CK. The broker "
                "redelivers them, and their rows may be duplicates. 'expired' counts them and later ones; this line "
                "is logged once.",
                count,
                *target,
            )

    def acknowledge(self, handles: Sequence[AnyHandle]) -> list[Acknowledged]:
        made_up = dict.fromkeys(filter(is_made_up, handles), False)
        asked = [(some, self._ask_acknowledge(some)) for some in _by_broker(handles, made_up)]
        outcomes: dict[AnyHandle, Acknowledged] = {**made_up}
        for some, result in asked:
            try:
                outcomes |= zip(some, result(), strict=True)
            except RocketMQError as error:
                outcomes |= dict.fromkeys(some, error)
        return [outcomes[handle] for handle in handles]

    def _ask_acknowledge(self, handles: Sequence[AnyHandle]) -> Callable[[], list[bool | RocketMQError]]:
        first, texts = handles[0], [handle.text for handle in handles]
        try:
            return self._session_of(first.topic, first.broker_name).submit_acknowledge(first.topic, texts)
        except RocketMQError as error:
            return partial(_raise, error)

    def change(self, handles: Sequence[AnyHandle], invisible_ms: int, *, suspend: bool) -> list[Changed]:
        asked = [self._ask_change(handle, invisible_ms, suspend) for handle in handles]
        return [_changed(handle, result) for handle, result in zip(handles, asked, strict=True)]

    def _ask_change(self, handle: AnyHandle, invisible_ms: int, suspend: bool) -> Callable[[], str | None]:
        if is_made_up(handle):
            return lambda: None
        try:
            session = self._session_of(handle.topic, handle.broker_name)
            return session.submit_change(handle.topic, handle.text, invisible_ms, suspend=suspend)
        except RocketMQError as error:
            return partial(_raise, error)

    def close(self) -> None:
        """While somebody looks: no session is opened any more."""
        self._is_closed = True
        for session in self._sessions.values():
            session.close()
        for thread in self._polling:
            thread.join(LAST_POLLS_S)


def _by_broker(handles: Sequence[AnyHandle], unasked: Container[AnyHandle]) -> Iterator[list[AnyHandle]]:
    """In parts that one request can carry: of one topic, and one broker's."""
    parts: dict[tuple[str, str], list[AnyHandle]] = {}
    for handle in handles:
        if handle not in unasked:
            parts.setdefault((handle.topic, handle.broker_name), []).append(handle)
    for ours in parts.values():
        for first in range(0, len(ours), ACKS_A_REQUEST):
            yield ours[first : first + ACKS_A_REQUEST]


def _record(answer: bytes, handle: AnyHandle) -> bytes:
    """As it came; without its handle, where no request is to be made by that, for rows that are sent back."""
    if not is_made_up(handle):
        return answer
    record = pb.ReceiveMessageResponse.FromString(answer)
    record.message.system_properties.ClearField("receipt_handle")
    return record.SerializeToString()


def _changed(handle: AnyHandle, result: Callable[[], str | None]) -> Changed:
    """A broker's own handle begins at its message from now on. A proxy beside its broker tells that wrong, and then
    takes no acknowledgement by what it has told (apache/rocketmq#9583)."""
    try:
        text = result()
    except RocketMQError as error:
        return error
    if text is None:
        return None
    changed = handle_of(handle.topic, handle.broker_name, text)
    if not isinstance(changed, Handle):
        return changed
    return changed._replace(check_point=changed.check_point._replace(start_offset=changed.offset))


def _raise(error: RocketMQError) -> NoReturn:
    raise error
