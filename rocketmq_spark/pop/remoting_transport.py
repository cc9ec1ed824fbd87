"""The ``Transport`` over RocketMQ's remoting protocol: routes from name servers, messages from the masters."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, TypeAlias

from rocketmq_spark.errors import RocketMQError, RouteError, TransportError
from rocketmq_spark.model import BrokerAddress
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.pop.dead_letter_mover import DeadLetterMover
from rocketmq_spark.pop.pop_responses import batch_acks_of, decode_pop_response
from rocketmq_spark.pop.receipt_handles import BrokerHandle, ReceiptHandle
from rocketmq_spark.pop.receive_scheduler import ReceiveRequest, Target
from rocketmq_spark.pop.retention_check import ReportDeleted, RetentionCheck, ignore_deleted
from rocketmq_spark.pop.topic_checks import TopicChecks
from rocketmq_spark.pop.transport import AckOutcome, ChangeOutcome, ReceiveOutcome, result_or_error
from rocketmq_spark.pop.workers import RunningThreads
from rocketmq_spark.remoting.clock import monotonic_ms
from rocketmq_spark.remoting.cluster_client import ClusterClient
from rocketmq_spark.remoting.error_kinds import is_response_lost, is_topic_without_route
from rocketmq_spark.remoting.future import Future
from rocketmq_spark.remoting.local_address import new_client_id
from rocketmq_spark.remoting.pool import ConnectionPool
from rocketmq_spark.remoting.pop_broker import PopBroker, PopOutcome
from rocketmq_spark.remoting.route_table import history_of
from rocketmq_spark.remoting.secured import Connect
from rocketmq_spark.wire.remoting.headers import (
    ChangeInvisibleTimeRequest,
    ChangeInvisibleTimeResponse,
    PopMessageRequest,
)

log = logging.getLogger(__name__)

ACKS_PER_REQUEST: Final = 4_000

FROM_FIRST, FROM_END = 0, 1
"""Start position of a group that has no offset. Source: ``common/constant/ConsumeInitMode.java``."""

ROUTE_REFRESH_INTERVAL_MS: Final = 30_000
CONNECT_JOIN_TIMEOUT_S: Final = 2.0

_SubmittedChange: TypeAlias = Future[ChangeInvisibleTimeResponse | None] | RocketMQError | None
"""None: no request is needed, for the topic was deleted."""

_BrokerOrError: TypeAlias = PopBroker | RocketMQError | None
"""The broker for requests about messages of one target, or why there is none; None: the topic was deleted there."""


class RemotingTransport:
    """The ``Transport`` of one query over the remoting protocol, to the masters in routes of name servers.

    Its handles are those of brokers. Checkpoints with other handles are rejected; other handles in a spool count as no
    longer valid. Threads: any; ``refresh_routes`` is called by one thread, and finds which topics may be polled. A poll
    that must wait for a connection or a ``RetentionCheck`` is sent by a thread ``rocketmq-pop-prepare``.
    """

    route_refresh_interval_ms = ROUTE_REFRESH_INTERVAL_MS

    def __init__(
        self, options: ReadOptions, report: ReportDeleted = ignore_deleted, connect: Connect | None = None
    ) -> None:
        """Open nothing. ``report``: see ``RetentionCheck``."""
        self.client_id = new_client_id(options.name_servers[0])
        self._options = options
        self._pool = ConnectionPool(options.broker_timeout_ms, limit=None, security=options.security, connect=connect)
        history = history_of(options.name_servers)
        self._cluster = ClusterClient.of(options, self._pool, history=history)
        self._routes = self._cluster.routes
        """Also of topics that are no longer read but have unacknowledged messages."""
        self._readable: frozenset[str] = frozenset()
        self._reported_deleted: set[Target] = set()
        self._topic_checks = TopicChecks(options, self._new_pop_broker)
        self._preparing = RunningThreads("rocketmq-pop-prepare")
        self._ending = threading.Event()
        self._retention = RetentionCheck(options.consumer_group, report, self._ending.wait, monotonic_ms)
        self.dead_letters = DeadLetterMover(options.consumer_group, self._pop_broker_of, self._cluster.broker)

    # ------------------------------------------------------------------------------------------ routes

    def refresh_routes(self) -> dict[str, RocketMQError]:
        """Request the routes of the subscribed topics and wait. Run the ``TopicChecks`` of each topic that has not
        passed them, which sends requests to masters. Return the errors by topic: of routes, of checks, and
        RouteError[TOPIC_UNAVAILABLE.NO_READABLE_QUEUE]. A topic whose request failed keeps its last route; one that
        fails a check is not polled."""
        failures = self._routes.refresh(self._options.topics)
        routes = self._routes.routes
        found = {topic: routes[topic] for topic in self._options.topics if topic not in failures}
        errors = {topic: self._topic_checks.find_error(topic, route) for topic, route in found.items()}
        rejected = {topic: error for topic, error in errors.items() if error is not None}
        self._readable = (self._readable | found.keys()) - rejected.keys()
        unreadable = {topic for topic, route in found.items() if not route.read_queues()}
        return (
            failures
            | rejected
            | {topic: RouteError("TOPIC_UNAVAILABLE.NO_READABLE_QUEUE", topic=topic) for topic in unreadable}
        )

    def targets(self) -> list[Target]:
        """Return, from cached routes, each topic of ``subscribe`` that passed the ``TopicChecks``, with each broker
        that has readable queues of it."""
        readable = self._readable
        topics = self._routes.queues.items()
        queues = (queue for topic, of_topic in topics if topic in readable for queue in of_topic)
        return list(dict.fromkeys(Target(queue.topic, queue.broker_name) for queue in queues))

    def _pop_broker_of(self, topic: str, broker_name: str) -> PopBroker:
        """Return the client of the broker's master in the topic's route, which is requested if it is not cached. Raises
        RouteError[MASTER_UNAVAILABLE] if the route has no such master; the cached route is then removed, unless
        ``refresh_routes`` includes the topic and it passed the checks. Raises what ``RouteTable.route`` does."""
        address = self._routes.route(topic).master_address(broker_name)
        if address is None:
            if topic not in self._readable:  # routes of readable ones are refreshed in the background
                self._routes.invalidate(topic)
            raise RouteError("MASTER_UNAVAILABLE", broker=broker_name, topic=topic)
        return self._new_pop_broker(address)

    def _new_pop_broker(self, address: BrokerAddress) -> PopBroker:
        return PopBroker(address, self._pool, self._options.broker_timeout_ms)

    def _resolve_brokers(self, handles: Sequence[BrokerHandle]) -> dict[Target, _BrokerOrError]:
        """Return ``_resolve_broker`` of each distinct target of the handles; may wait."""
        return {target: self._resolve_broker(target) for target in dict.fromkeys(map(_target, handles))}

    def _resolve_broker(self, target: Target) -> _BrokerOrError:
        """Return the client of the target's master, or the RocketMQError, which is not raised. Return None, and log
        that once for a target, if the broker no longer has the topic. May request routes and the cluster's brokers, and
        wait."""
        try:
            return self._pop_broker_of(*target)
        except RouteError as error:
            if not self._query_is_deleted(target):
                return error
            self._log_deleted(target)
            return None
        except RocketMQError as error:
            return error

    def _query_is_deleted(self, target: Target) -> bool:
        """Request the topic's route, though it is cached. If there is no route, or it lacks a master of the broker,
        request the cluster's brokers. Return True if these have a master of the broker. Return False otherwise, and
        after a failed request."""
        try:
            return self._query_master(target) is None and target.broker_name in self._query_masters()
        except RocketMQError:
            return False

    def _log_deleted(self, target: Target) -> None:
        """Log a warning, once for a target, that the topic was deleted on the broker."""
        if target not in self._reported_deleted:
            self._reported_deleted.add(target)
            log.warning(
                "TOPIC_DELETED: Topic=%s was deleted on broker=%s; its outstanding messages need no acknowledgement. "
                "If 'subscribe' lists the topic, remove it.",
                *target,
            )

    def _query_master(self, target: Target) -> BrokerAddress | None:
        """Request the topic's route, though it is cached, and return the address of the broker's master. Return None if
        the topic has no route, or its route lacks the broker's master. Raises other errors of ``RouteTable.route``."""
        try:
            return self._routes.route(target.topic, refresh=True).master_address(target.broker_name)
        except RouteError as error:
            if is_topic_without_route(error):
                return None
            raise

    def _query_masters(self) -> set[str]:
        """Request the cluster's brokers and return the names of those that have a master. Raises what
        ``NameServers.cluster_info`` does."""
        brokers = self._cluster.name_servers.cluster_info().brokers
        return {name for name, broker in brokers.items() if broker.master_address is not None}

    # ------------------------------------------------------------------------------------------ messages

    def receive(self, request: ReceiveRequest, on_response: Callable[[ReceiveOutcome], None]) -> None:
        """Send one poll without waiting for its response; may wait for a route. ``on_response`` is called once: here
        with an error of resolving the broker or of sending, else later on another thread. If a connection must be
        opened or a retention check is due, a new thread ``rocketmq-pop-prepare`` opens, checks and sends."""
        try:
            broker = self._pop_broker_of(*request.target)
        except RocketMQError as error:
            on_response(error)
            return

        def pop() -> None:
            broker.pop(
                self._request(request),
                lambda outcome: on_response(result_or_error(lambda: self._process_outcome(request.target, outcome))),
            )

        if broker.is_connected and not self._retention.is_due(request.target):
            pop()
        else:
            self._preparing.start(partial(self._prepare, request.target, broker.address, pop, on_response))

    def _request(self, request: ReceiveRequest) -> PopMessageRequest:
        """Return the request of a poll with the current time as its born timestamp; do not send it. Call this just
        before sending: a broker rejects a request that is older than its ``poll_ms``."""
        options = self._options
        return PopMessageRequest(
            consumer_group=options.consumer_group,
            topic=request.target.topic,
            max_message_count=request.max_messages,
            invisible_ms=options.invisible_duration_ms,
            poll_ms=request.poll_ms,
            born_timestamp_ms=int(time.time() * 1000),
            init_mode=FROM_FIRST if options.starts_at_earliest else FROM_END,
            expression=options.sub_expression,
            expression_type=options.expression_type,
        )

    def _prepare(
        self,
        target: Target,
        address: BrokerAddress,
        pop: Callable[[], None],
        on_response: Callable[[ReceiveOutcome], None],
    ) -> None:
        """Run the retention check if it is due, then call ``pop``, which connects. The check comes first because the
        pop would hide deleted messages. After an error of the check, pass it to ``on_response`` and do not pop."""
        failure = result_or_error(lambda: self._check_retention(target, address))
        if failure is None:
            pop()
        else:
            on_response(failure)

    def _check_retention(self, target: Target, address: BrokerAddress) -> None:
        """Run the retention check if it is due; raises what ``RetentionCheck.report_deleted`` does."""
        if self._retention.is_due(target):
            self._retention.report_deleted(target, self._cluster.broker(address))

    def _process_outcome(self, target: Target, outcome: PopOutcome) -> ReceiveOutcome:
        """Return the decoded messages of a poll, () if it found none, or the RocketMQError, which is not raised. If
        there are messages, record the delivery for the retention check."""
        response = _decode_outcome(target, outcome)
        if response and not isinstance(response, RocketMQError):
            self._retention.record_delivery(target)
        return response

    def acknowledge(self, handles: Sequence[ReceiptHandle]) -> list[AckOutcome]:
        """Acknowledge messages in requests of up to 4,000, all at once, and wait. May request routes before. Return for
        each handle, in order: True, or its broker's RocketMQError, not raised. True also if the message had expired,
        which brokers do not report. An ``OpaqueHandle`` gets False, and a handle of a deleted topic True, without a
        request."""
        broker_handles = _only_broker_handles(handles)
        brokers = self._resolve_brokers(broker_handles)
        failures = self._acknowledge(broker_handles, brokers)
        return [
            isinstance(handle, BrokerHandle)
            and _ack_outcome(brokers[_target(handle)], failures.get(handle.broker_name))
            for handle in handles
        ]

    def _acknowledge(
        self, handles: Sequence[BrokerHandle], brokers: Mapping[Target, _BrokerOrError]
    ) -> dict[str, RocketMQError]:
        """Send acknowledgements, up to 4,000 in a request, then wait for all responses. Skip handles for which
        ``brokers`` has None or an error. Return the last error of each broker with a failed request, by its name; none
        for skipped handles. Raise no RocketMQError."""
        responses: list[tuple[str, Future[None]]] = []
        failures: dict[str, RocketMQError] = {}
        for broker, broker_name, part in _by_broker(handles, brokers):
            try:
                acks = batch_acks_of(self._options.consumer_group, part)
                responses.append((broker_name, broker.submit_ack(broker_name, acks)))
            except RocketMQError as error:
                failures[broker_name] = error
        for broker_name, response in responses:
            try:
                response.result()
            except RocketMQError as error:
                failures[broker_name] = error
        return failures

    def change_invisible_duration(
        self, handles: Sequence[ReceiptHandle], invisible_ms: int, *, suspend: bool
    ) -> list[ChangeOutcome]:
        """Send a request for each handle, then wait for all responses. Return for each handle, in order, its new handle
        or the RocketMQError, not raised. None: the old handle is no longer valid, is opaque, or its topic was deleted.
        After an error of sending, skip that broker: see ``_unsent_error``. ``suspend``: see ``Transport``."""
        failed: dict[str, RocketMQError] = {}
        broker_handles = _only_broker_handles(handles)
        brokers = self._resolve_brokers(broker_handles)
        submitted = {
            handle: self._submit_change(brokers[_target(handle)], handle, invisible_ms, suspend, failed)
            for handle in broker_handles
        }
        return [_await_change(one, submitted[one]) if isinstance(one, BrokerHandle) else None for one in handles]

    def _submit_change(
        self,
        broker: _BrokerOrError,
        handle: BrokerHandle,
        invisible_ms: int,
        suspend: bool,
        failed: dict[str, RocketMQError],
    ) -> _SubmittedChange:
        """Send one request without waiting, and return its future. Return ``broker`` if it is no client, or the error
        that ``failed`` has for its name. Return an error of sending, and add its ``_unsent_error`` to ``failed``.
        Raises no RocketMQError."""
        if not isinstance(broker, PopBroker):
            return broker
        group, pop_check_point = self._options.consumer_group, handle.pop_check_point
        request = ChangeInvisibleTimeRequest(
            consumer_group=group,
            topic=handle.real_topic(group),
            queue_id=pop_check_point.queue_id,
            extra_info=handle.text,
            offset=handle.offset,
            invisible_ms=invisible_ms,
            suspend=suspend,
        )
        if handle.broker_name not in failed:
            try:
                return broker.submit_change_invisible_time(request)
            except RocketMQError as error:
                failed[handle.broker_name] = _unsent_error(broker, error)
                return error
        return failed[handle.broker_name]

    def close(self) -> None:
        """End the waits of retention checks, close all connections, and wait up to 2 s for each thread
        ``rocketmq-pop-prepare``."""
        self._ending.set()
        self._pool.close()
        self._preparing.join(CONNECT_JOIN_TIMEOUT_S)


def _decode_outcome(target: Target, outcome: PopOutcome) -> ReceiveOutcome:
    """Return the decoded messages of a poll, () if it found none, or the RocketMQError of the poll or of decoding, not
    raised."""
    if outcome is None or isinstance(outcome, RocketMQError):
        return outcome or ()
    try:
        return decode_pop_response(target.topic, target.broker_name, outcome.header, outcome.body)
    except RocketMQError as error:
        return error


def _only_broker_handles(handles: Sequence[ReceiptHandle]) -> list[BrokerHandle]:
    return [handle for handle in handles if isinstance(handle, BrokerHandle)]


def _target(handle: BrokerHandle) -> Target:
    return Target(handle.topic, handle.broker_name)


def _ack_outcome(broker: _BrokerOrError, failure: RocketMQError | None) -> AckOutcome:
    """Return ``broker`` if it is an error, True if None (deleted topic); for a client its ``failure``, or True."""
    if isinstance(broker, PopBroker):
        return failure or True
    return broker or True


def _unsent_error(broker: PopBroker, error: RocketMQError) -> RocketMQError:
    """Return the error of requests that are not sent after the ``error`` of sending another. It is the same error, or
    CONNECT_FAILED if ``error`` means a lost response: a request that was not sent may be repeated."""
    if not is_response_lost(error):
        return error
    return TransportError("CONNECT_FAILED", address=str(broker.address), reason="a request lost the connection")


def _await_change(handle: BrokerHandle, submitted: _SubmittedChange) -> ChangeOutcome:
    """Wait for the response and return the new handle. Return None if ``handle`` is no longer valid or its topic was
    deleted, or the RocketMQError, which is not raised."""
    if submitted is None or isinstance(submitted, RocketMQError):
        return submitted
    try:
        response = submitted.result()
    except RocketMQError as error:
        return error
    if response is None:
        return None
    return handle.after_change(response.pop_time_ms, response.invisible_ms, response.revive_queue_id)


def _by_broker(
    handles: Sequence[BrokerHandle], brokers: Mapping[Target, _BrokerOrError]
) -> Iterator[tuple[PopBroker, str, Sequence[BrokerHandle]]]:
    """Yield (broker, broker name, handles) of each request, with at most ACKS_PER_REQUEST handles. Omit handles whose
    target has no client in ``brokers``."""
    by_broker: dict[str, tuple[PopBroker, list[BrokerHandle]]] = {}
    for handle in handles:
        broker_or_error = brokers[_target(handle)]
        if isinstance(broker_or_error, PopBroker):
            by_broker.setdefault(handle.broker_name, (broker_or_error, []))[1].append(handle)
    for broker_name, (broker, broker_handles) in by_broker.items():
        for first in range(0, len(broker_handles), ACKS_PER_REQUEST):
            yield broker, broker_name, broker_handles[first : first + ACKS_PER_REQUEST]
