"""The ``Transport`` over gRPC: routes from a proxy, messages from the proxies in them, which send requests to
brokers."""

from __future__ import annotations

import logging
import secrets
import threading
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from functools import partial
from typing import Final, NoReturn, TypeVar

from rocketmq_spark.errors import RocketMQError, RouteError, TransportError
from rocketmq_spark.grouping import grouped
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.pop.invisible_duration import random_duration_ms
from rocketmq_spark.pop.proxied_handles import MAX_HANDLE_CHARACTERS, handles_of_response, opaque_handle
from rocketmq_spark.pop.receipt_handles import (
    BrokerHandle,
    ReceiptHandle,
    ReceivedMessage,
    RecordFormat,
    handle_of,
    is_unverified,
)
from rocketmq_spark.pop.receive_scheduler import ReceiveRequest, Target
from rocketmq_spark.pop.transport import (
    AckOutcome,
    ChangeOutcome,
    IncompleteResponse,
    ReceiveOutcome,
    ServerSideDeadLetters,
    result_or_error,
)
from rocketmq_spark.pop.workers import RunningThreads
from rocketmq_spark.proxy.session import Session
from rocketmq_spark.remoting.clock import Clock, monotonic_ms
from rocketmq_spark.remoting.error_kinds import is_conversion_failure, is_unknown_topic
from rocketmq_spark.remoting.local_address import new_client_id
from rocketmq_spark.remoting.outage_log import Throttle
from rocketmq_spark.wire.grpc import messaging_pb2 as pb
from rocketmq_spark.wire.grpc.requests import Subscription
from rocketmq_spark.wire.grpc.responses import Addresses

T = TypeVar("T")

log = logging.getLogger(__name__)

ROUTE_REFRESH_INTERVAL_MS: Final = 10_000
"""A proxy removes a client that has sent no heartbeat for about 100 s."""

ACKS_PER_REQUEST: Final = 1_000
POLL_JOIN_TIMEOUT_S: Final = 2.0


class GrpcTransport:
    """The ``Transport`` of one query over gRPC, to the proxies that routes list for the brokers.

    Threads: any; ``refresh_routes`` is called by one thread, and publishes its result atomically. Each poll has its own
    thread, ``rocketmq-proxy-poll``, on which ``on_response`` is called. Each proxy is kept alive, and left, on a thread
    of its own, ``rocketmq-proxy-session``.
    """

    route_refresh_interval_ms = ROUTE_REFRESH_INTERVAL_MS
    dead_letters = ServerSideDeadLetters()

    def __init__(self, options: ReadOptions, addresses: Addresses, clock: Clock = monotonic_ms) -> None:
        """Open nothing. ``addresses``: those of the proxy that returns the routes."""
        self._options = options
        self._entry = addresses
        self._subscription = Subscription(options.consumer_group, options.topics, *options.message_filter)
        self.client_id = new_client_id(addresses[0])
        self._sessions = {addresses: self._new_session(addresses)}
        self._topics = options.topics
        """The topics that are read, and other topics with unacknowledged messages."""
        self._routes: dict[str, dict[str, Addresses]] = {}
        self._topics_without_route: set[str] = set()
        """Topics for which the proxy has no broker."""
        self._clock = clock
        self._incomplete: defaultdict[Target, Throttle] = defaultdict(Throttle)
        """By target, of RESPONSE_INCOMPLETE."""
        self._logged_targets: frozenset[Target] = frozenset()
        """Targets for which RECEIPT_HANDLE_UNTRUSTED has been logged."""
        self._has_refreshed = False
        self._refreshing = threading.Lock()
        """Held while routes and sessions are replaced."""
        self._targets: list[Target] = []
        self._polls = RunningThreads("rocketmq-proxy-poll")
        self._is_closed = False

    def _new_session(self, addresses: Addresses) -> Session:
        """Return a new session with the proxy at ``addresses``. Open no connection, and do not store the session."""
        options = self._options
        return Session(addresses, self._subscription, self.client_id, options.security, options.broker_timeout_ms)

    # ------------------------------------------------------------------------------------------ routes

    def refresh_routes(self) -> dict[str, RocketMQError]:
        """Wait for a refresh that is running. Then request the topics' routes, register at each new proxy in them, send
        a heartbeat to known ones, wait, and replace the targets (``_refresh``). Return the errors by topic, {} without
        errors; raise no RocketMQError. After the first call ``_find_session`` refreshes no more."""
        with self._refreshing:
            failures = self._refresh()
            self._has_refreshed = True
        return failures

    def _refresh(self) -> dict[str, RocketMQError]:
        """Request the topics' routes and wait. Register at each new proxy in them, and send a heartbeat to known ones.
        If no topic failed, close the sessions with proxies in no route, except the one that returns routes. Replace the
        targets: the subscribed topics at each broker whose proxy responded. Return the errors by topic, of routes and
        proxies; {} without errors. Raises no RocketMQError."""
        routes, failures = self._request_topic_routes()
        required = {addresses for route in routes.values() for addresses in route.values()}
        # First the sessions: polls search the session of an address in the routes at any moment.
        self._sessions = self._sessions | {one: self._new_session(one) for one in required if one not in self._sessions}
        self._routes = routes
        if self._is_closed:
            self.close()
        failed = self._keep_alive(required)
        if not failures:
            self._close_sessions(self._sessions.keys() - required - {self._entry})
        entries = [(topic, *item) for topic, route in self._routes.items() for item in route.items()]
        self._targets = [
            Target(topic, broker_name)
            for topic, broker_name, one in entries
            if one not in failed and topic in self._options.topics
        ]
        return failures | {topic: failed[one] for topic, _, one in entries if one in failed}

    def _request_topic_routes(self) -> tuple[dict[str, dict[str, Addresses]], dict[str, RocketMQError]]:
        """Request the routes of all topics, one by one. Return the routes by topic and broker name, and the errors by
        topic; a topic that failed keeps its last route, if it had one. After a TransportError stop, and return all last
        routes, and that error for each topic."""
        failures: dict[str, RocketMQError] = {}
        found: dict[str, dict[str, Addresses]] = {}
        for topic in self._topics:
            try:
                found[topic] = self._sessions[self._entry].find_brokers(topic)
            except TransportError as error:
                return self._routes, dict.fromkeys(self._topics, error)
            except RocketMQError as error:
                failures[topic] = error
        self._topics_without_route = {topic for topic, error in failures.items() if is_unknown_topic(error)}
        return self._routes | found, failures

    def _keep_alive(self, required: Iterable[Addresses]) -> dict[Addresses, RocketMQError]:
        """Register at, or send a heartbeat to, each of these proxies, concurrently, and wait. Return the errors by
        proxy, and raise no RocketMQError."""
        failed: dict[Addresses, RocketMQError] = {}

        def keep_alive(addresses: Addresses) -> None:
            """Register or send a heartbeat; record a RocketMQError, and do not raise it."""
            try:
                self._sessions[addresses].keep_alive()
            except RocketMQError as error:
                failed[addresses] = error

        _call_concurrently(keep_alive, required)
        return failed

    def _close_sessions(self, unused: Iterable[Addresses]) -> None:
        """Remove the sessions with these proxies, and close them concurrently; wait up to a second for each proxy's
        response."""
        closed = {addresses: self._sessions[addresses] for addresses in unused}
        self._sessions = {addresses: one for addresses, one in self._sessions.items() if addresses not in closed}
        _call_concurrently(Session.close, closed.values())

    def targets(self) -> list[Target]:
        """Return the subscribed topics at the brokers whose proxies responded to the last refresh; [] before one."""
        return self._targets

    def _find_session(self, topic: str, broker_name: str) -> Session:
        """Return the session with the broker's proxy by the topic's cached route. From now on ``refresh_routes``
        includes the topic. Without a route, until ``refresh_routes`` has returned once, refresh here, or wait for a
        running refresh, and raise the topic's error. If the proxy that returns routes does not have the topic, return
        its session: it reports the handle of an expired message as invalid. Raises RouteError[MASTER_UNAVAILABLE] if
        the route lacks the broker."""
        if topic not in self._topics:
            self._topics = (*self._topics, topic)
        addresses = self._routes.get(topic, {}).get(broker_name)
        if addresses is None and not self._has_refreshed:
            with self._refreshing:
                failures = {} if self._has_refreshed else self._refresh()
            if topic in failures and topic not in self._topics_without_route:
                raise failures[topic]
            addresses = self._routes.get(topic, {}).get(broker_name)
        if addresses is None and topic in self._topics_without_route:
            return self._sessions[self._entry]
        if addresses is None:
            raise RouteError("MASTER_UNAVAILABLE", broker=broker_name, topic=topic)
        return self._sessions[addresses]

    # ------------------------------------------------------------------------------------------ messages

    def receive(self, request: ReceiveRequest, on_response: Callable[[ReceiveOutcome], None]) -> None:
        """Start a thread that polls one target, and return at once. That thread calls ``on_response`` once, with the
        messages or the error."""
        self._polls.start(lambda: on_response(result_or_error(lambda: self._receive(request))))

    def _receive(self, request: ReceiveRequest) -> ReceiveOutcome:
        """Poll on this thread, wait for the end of the response, and return its messages. Return IncompleteResponse,
        and log it, for an error after at least one message. Return it unlogged if the proxy could not convert a
        message. Return any other RocketMQError, also that of a too large response; raise none. Log once for a target if
        handles are unverified."""
        topic, broker_name = request.target
        invisible_ms = random_duration_ms(self._options.invisible_duration_ms, secrets.randbelow)
        try:
            messages, failure = self._find_session(topic, broker_name).receive(
                topic,
                broker_name,
                max_messages=request.max_messages,
                invisible_ms=invisible_ms,
                poll_ms=request.poll_ms,
            )
        except RocketMQError as error:
            return IncompleteResponse((), error) if is_conversion_failure(error) else error
        handles = handles_of_response(topic, broker_name, messages, invisible_ms)
        self._log_unverified(request.target, sum(map(is_unverified, handles)))
        received = [
            ReceivedMessage(handle, memoryview(_record_of(one.record, handle)), RecordFormat.PROXIED)
            for handle, one in zip(handles, messages, strict=True)
        ]
        if failure is None:
            return received
        if not is_conversion_failure(failure):
            self._log_incomplete(request.target, len(received), failure)
        return IncompleteResponse(received, failure)

    def _log_incomplete(self, target: Target, count: int, failure: RocketMQError) -> None:
        """Log a warning that a target's response ended early after ``count`` messages. Log nothing within the pause
        after the target's last warning, at least 15 s and growing."""
        if self._incomplete[target].try_acquire_event(self._clock()):
            log.warning(
                "RESPONSE_INCOMPLETE: Response for topic=%s broker=%s ended after %d messages: %s The broker "
                "redelivers the other messages after 'invisibleDurationMs'. If this line repeats, check the proxy's "
                "log.",
                *target,
                count,
                failure,
            )

    def _log_unverified(self, target: Target, count: int) -> None:
        """Log a warning, once for a target, that ``count`` messages cannot be acknowledged; nothing if ``count`` is
        0."""
        if count and target not in self._logged_targets:
            self._logged_targets = self._logged_targets | {target}
            log.warning(
                "RECEIPT_HANDLE_UNTRUSTED: %d messages of topic=%s broker=%s cannot be acknowledged: their receipt "
                "handles may be those of other messages, because a producer set the property POP_CK. The broker "
                "redelivers them, and their rows may be duplicates. Field 'expired' of the query progress counts "
                "these and later ones. This line is logged once per topic and broker.",
                count,
                *target,
            )

    def acknowledge(self, handles: Sequence[ReceiptHandle]) -> list[AckOutcome]:
        """Send acknowledgements in requests of up to 1,000 handles, all at once, and wait. Return for each handle, in
        order, True, or the RocketMQError, not raised. An expired handle gets False, and an unverified one too, without
        a request."""
        unverified = dict.fromkeys(filter(is_unverified, handles), False)
        submitted = [(part, self._submit_acknowledge(part)) for part in _by_broker(handles, unverified)]
        outcomes: dict[ReceiptHandle, AckOutcome] = {**unverified}
        for part, result in submitted:
            try:
                outcomes |= zip(part, result(), strict=True)
            except RocketMQError as error:
                outcomes |= dict.fromkeys(part, error)
        return [outcomes[handle] for handle in handles]

    def _submit_acknowledge(self, handles: Sequence[ReceiptHandle]) -> Callable[[], list[bool | RocketMQError]]:
        """Send one request for handles of one topic and broker, without waiting. Return a function that waits for the
        response and returns an outcome for each handle, in order. An error of sending is raised by that function, not
        here."""
        first, texts = handles[0], [handle.text for handle in handles]
        try:
            return self._find_session(first.topic, first.broker_name).submit_ack(first.topic, texts)
        except RocketMQError as error:
            return partial(_raise, error)

    def change_invisible_duration(
        self, handles: Sequence[ReceiptHandle], invisible_ms: int, *, suspend: bool
    ) -> list[ChangeOutcome]:
        """Send a request for each handle, then wait for all responses. Return for each handle, in order, its new
        handle, or the RocketMQError, not raised. A handle that is no longer valid gets None, and an unverified one too,
        without a request. With ``suspend``, the redelivery does not count as a delivery attempt."""
        submitted = [self._submit_change(handle, invisible_ms, suspend) for handle in handles]
        return [_await_change(handle, result) for handle, result in zip(handles, submitted, strict=True)]

    def _submit_change(self, handle: ReceiptHandle, invisible_ms: int, suspend: bool) -> Callable[[], str | None]:
        """Send one request without waiting; none for an unverified handle. Return a function that waits for the
        response and returns the new handle's text, None if the handle is no longer valid or unverified. An error of
        sending is raised by that function, not here."""
        if is_unverified(handle):
            return lambda: None
        try:
            session = self._find_session(handle.topic, handle.broker_name)
            return session.submit_change_invisible_duration(handle.topic, handle.text, invisible_ms, suspend=suspend)
        except RocketMQError as error:
            return partial(_raise, error)

    def close(self) -> None:
        """Close all sessions concurrently and wait. Then wait up to 2 s for the thread of each poll. A running
        ``refresh_routes`` closes the sessions that it still opens."""
        self._is_closed = True
        _call_concurrently(Session.close, self._sessions.values())
        self._polls.join(POLL_JOIN_TIMEOUT_S)


def _call_concurrently(call: Callable[[T], None], arguments: Iterable[T]) -> None:
    """Call ``call`` with each argument, each on a thread ``rocketmq-proxy-session``, or here if no thread can be
    started. Wait for all. Then raise the exception that was raised first, if there is one.

    A query is also stopped while Python exits: an executor starts no thread then, and Python 3.12 starts none at all.
    """
    errors: list[Exception] = []

    def run(argument: T) -> None:
        """Call ``call``; record its exception, and do not raise it."""
        try:
            call(argument)
        except Exception as error:  # noqa: BLE001  # raised once all have ended
            errors.append(error)

    started: list[threading.Thread] = []
    for argument in arguments:
        thread = threading.Thread(target=run, args=(argument,), name="rocketmq-proxy-session", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            run(argument)
        else:
            started.append(thread)
    for thread in started:
        thread.join()
    if errors:
        raise errors[0]


def _by_broker(handles: Sequence[ReceiptHandle], excluded: Container[ReceiptHandle]) -> Iterator[list[ReceiptHandle]]:
    """Yield the handles of each request, without those in ``excluded``: of one topic and broker, at most
    ACKS_PER_REQUEST."""
    included = (handle for handle in handles if handle not in excluded)
    for broker_handles in grouped(included, lambda handle: (handle.topic, handle.broker_name)).values():
        for first in range(0, len(broker_handles), ACKS_PER_REQUEST):
            yield broker_handles[first : first + ACKS_PER_REQUEST]


def _record_of(response: bytes, handle: ReceiptHandle) -> bytes:
    """Return the encoded response unchanged; if the handle is unverified, without the message's receipt handle, so that
    no row is sent back by it."""
    if not is_unverified(handle):
        return response
    record = pb.ReceiveMessageResponse.FromString(response)
    record.message.system_properties.ClearField("receipt_handle")
    return record.SerializeToString()


def _await_change(handle: ReceiptHandle, result: Callable[[], str | None]) -> ChangeOutcome:
    """Call ``result``, which waits for the text of the new handle, and return this handle. UNVERIFIED replaces a text
    longer than MAX_HANDLE_CHARACTERS. Return None without a text: ``handle`` is no longer valid. Return, not raise, a
    RocketMQError. A broker's new handle gets its message's offset as start offset. A proxy in one process with its
    broker returns another one, and then rejects acknowledgements by it (apache/rocketmq#9583)."""
    try:
        text = result()
    except RocketMQError as error:
        return error
    if text is None:
        return None
    changed = handle_of(handle.topic, handle.broker_name, text)
    if not isinstance(changed, BrokerHandle) or len(text) > MAX_HANDLE_CHARACTERS:
        return opaque_handle(handle.topic, handle.broker_name, text)
    return changed._replace(pop_check_point=changed.pop_check_point._replace(start_offset=changed.offset))


def _raise(error: RocketMQError) -> NoReturn:
    """Raise ``error``, in the form of an expression."""
    raise error
