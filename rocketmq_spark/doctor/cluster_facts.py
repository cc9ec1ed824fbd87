"""Collection of facts from name servers and brokers. Each request has a short timeout and no effect. Only a broker that
creates groups on demand creates the group of the job, as the job does."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from functools import partial
from typing import Final, NamedTuple, TypeVar

from rocketmq_spark.doctor.facts import BrokerFacts, Job, RouteResult, ServerFacts, Trial
from rocketmq_spark.errors import BrokerError, OptionError, RemoteProtocolError, RocketMQError, TransportError
from rocketmq_spark.model import BrokerAddress, BrokerData, MessageQueue, QueueBounds, TopicRoute
from rocketmq_spark.options import ConnectionOptions
from rocketmq_spark.remoting.broker import Broker
from rocketmq_spark.remoting.clock import monotonic_ms
from rocketmq_spark.remoting.cluster_client import ClusterClient
from rocketmq_spark.remoting.error_kinds import is_disconnected
from rocketmq_spark.remoting.namesrv import NameServers, reachable_route
from rocketmq_spark.remoting.pool import ConnectionPool
from rocketmq_spark.remoting.read_checks import NO_QUEUE, SELF_TEST_TOPIC
from rocketmq_spark.remoting.secured import connect_with
from rocketmq_spark.security import Tls
from rocketmq_spark.wire.body.connections import GroupConnections
from rocketmq_spark.wire.body.inspection import GroupSwitches, clock_ahead_ms

T = TypeVar("T")
E = TypeVar("E")

Announce = Callable[[str], None]
"""Shows which server the next request waits for."""

_Check = Callable[[ClusterClient, str, BrokerAddress, Job, Sequence[str], Tls | None], BrokerFacts]
"""``_broker_facts`` or ``_slave_facts``."""

STEP_MS: Final = 3_000
"""Maximum timeout of a request; ``brokerTimeoutMs`` if that is shorter."""

TRIAL_PRODUCER: Final = "CLIENT_INNER_PRODUCER"
"""Producer group of messages that no broker stores. Source: ``common/MixAll.java``."""


def collect_server_facts(job: Job, options: ConnectionOptions, announce: Announce, total_ms: int) -> ServerFacts:
    """Request the routes of the job's topics, or of SELF_TEST_TOPIC if it has none, from each name server, then the
    facts of ``_broker_facts`` from each master in the routes, then, if the job reads slaves, those of ``_slave_facts``
    from the slave with the lowest ID of each broker. Call ``announce`` before each server. Errors become facts; no
    RocketMQError is raised. A request waits up to 3 s, or ``brokerTimeoutMs`` if that is shorter. After ``total_ms`` no
    further server is checked; ``unchecked`` lists the rest."""
    timeout_ms = min(STEP_MS, options.broker_timeout_ms)
    until_ms = monotonic_ms() + total_ms
    unchecked: list[str] = []
    with closing(ConnectionPool(timeout_ms, security=options.security)) as pool:
        name_servers: dict[str, dict[str, RouteResult]] = {}
        advertised = set[str]()
        for address in options.name_servers:
            if monotonic_ms() >= until_ms:
                unchecked.append(f"name server {address}")
                continue
            announce(f"name server {address}, up to {timeout_ms} ms")
            routes = NameServers((address,), pool, timeout_ms).query_topic_routes(job.topics or (SELF_TEST_TOPIC,))
            advertised |= _advertised(routes.values())
            name_servers[address] = {
                topic: reachable_route(one, options.broker_address_map)
                if isinstance(one, TopicRoute)
                else _explained(one, options.security.tls)
                for topic, one in routes.items()
            }
        cluster = ClusterClient.of(options, pool, timeout_ms=timeout_ms)
        checks = _Checks(cluster, job, options.security.tls, announce, timeout_ms, until_ms, unchecked)
        found = ServerFacts(name_servers=name_servers).routes()
        brokers = checks.each("broker", _servers(found, lambda broker: broker.master_address), _broker_facts)
        slaves_to_check = _servers(found, _lowest_slave) if job.reads_slaves else {}
        slaves = checks.each("slave of broker", slaves_to_check, _slave_facts)
    return ServerFacts(
        name_servers=name_servers,
        brokers=brokers,
        slaves=slaves,
        unchecked=tuple(unchecked),
        advertised=frozenset(advertised),
        address_map=dict(options.broker_address_map),
    )


def _advertised(routes: Iterable[RouteResult]) -> set[str]:
    """Return the addresses of all brokers in the routes, slaves included; errors among ``routes`` have none."""
    brokers = (broker for route in routes if isinstance(route, TopicRoute) for broker in route.brokers)
    return {address for broker in brokers for address in broker.addresses.values()}


def _servers(
    routes: dict[str, RouteResult], choose: Callable[[BrokerData], BrokerAddress | None]
) -> dict[tuple[str, BrokerAddress], list[str]]:
    """Return, by broker name and address of the server that ``choose`` returns of each broker, the topics whose route
    lists the broker with this server. Topics without a route and brokers without such a server are left out."""
    topics: dict[tuple[str, BrokerAddress], list[str]] = {}
    for topic, route in routes.items():
        if isinstance(route, TopicRoute):
            for broker in route.brokers:
                if (address := choose(broker)) is not None:
                    topics.setdefault((broker.broker_name, address), []).append(topic)
    return topics


def _lowest_slave(broker: BrokerData) -> BrokerAddress | None:
    """Return the slave that a job with ``readFrom`` reads, the one with the lowest ID; None without a slave."""
    return next(iter(broker.slave_addresses.values()), None)


class _Checks(NamedTuple):
    """Checks of brokers, one server after another, until ``until_ms``. Servers that are not checked are added to
    ``unchecked``."""

    cluster: ClusterClient
    job: Job
    tls: Tls | None
    announce: Announce
    timeout_ms: int
    until_ms: int
    unchecked: list[str]

    def each(
        self, kind: str, servers: dict[tuple[str, BrokerAddress], list[str]], check: _Check
    ) -> tuple[BrokerFacts, ...]:
        """Call ``check`` for each server, with those of its topics that the job has, and return the facts. ``kind``
        begins the text that is announced, and that of an unchecked server."""
        facts: list[BrokerFacts] = []
        for (name, address), topics in servers.items():
            title = f"{kind} {name} at {address.server}"
            if monotonic_ms() >= self.until_ms:
                self.unchecked.append(title)
                continue
            self.announce(f"{title}, up to {self.timeout_ms} ms for each request")
            trial_topics = [topic for topic in topics if topic in self.job.topics]
            facts.append(check(self.cluster, name, address, self.job, trial_topics, self.tls))
        return tuple(facts)


def _slave_facts(
    cluster: ClusterClient, name: str, address: BrokerAddress, job: Job, topics: Sequence[str], tls: Tls | None
) -> BrokerFacts:
    """Send the requests of ``_BrokerCheck.try_topic`` to a slave for each of ``topics``. Stop at the first error other
    than a BrokerError: it becomes ``failure``. ``address``: of the slave of broker ``name``."""
    check = _BrokerCheck(cluster.broker(address), name)
    failure: RocketMQError | None = None
    try:
        for topic in topics:
            check.try_topic(job, topic)
    except (OptionError, TransportError, RemoteProtocolError) as error:
        failure = _explained(error, tls)
    return BrokerFacts(
        name=name,
        server=address.server,
        failure=failure,
        version=cluster.version(address),
        trials=tuple(check.trials),
    )


def _broker_facts(
    cluster: ClusterClient, name: str, address: BrokerAddress, job: Job, topics: Sequence[str], tls: Tls | None
) -> BrokerFacts:
    """Request a broker's clock, then send the requests of ``_BrokerCheck.try_topic`` for each of ``topics``. If the job
    is a member of its group, request the group's switches and connections. If it starts at the group's offsets, request
    these. The first error other than a BrokerError becomes ``failure``, and ends the requests: the remaining facts stay
    None or empty. ``address``: of the master of broker ``name``."""
    check = _BrokerCheck(cluster.broker(address), name)
    ahead_ms, switches, connections = None, None, None
    bounds: dict[MessageQueue, QueueBounds] = {}
    committed: dict[MessageQueue, int] = {}
    failure: RocketMQError | None = None
    try:
        ahead_ms = check.clock_ahead_ms()
        for topic in topics:
            bounds |= check.try_topic(job, topic)
        if job.group is not None and job.is_member:
            switches = check.group_switches(job.group, is_required=job.reads_retry_topic)
            connections = check.group_connections(job.group)
        if job.group is not None and job.starts_at_group:
            committed = check.committed_offsets(job.group, bounds)
    except (OptionError, TransportError, RemoteProtocolError) as error:
        failure = _explained(error, tls)
    return BrokerFacts(
        name=name,
        server=address.server,
        failure=failure,
        version=cluster.version(address),
        clock_ahead_ms=ahead_ms,
        trials=tuple(check.trials),
        switches=switches,
        connections=connections,
        bounds=bounds,
        committed=committed,
    )


class _BrokerCheck:
    """Sends the doctor's requests to one broker. Each response is recorded in ``trials``, also a refusal (BrokerError),
    which is not raised. Methods raise OptionError, TransportError and RemoteProtocolError. For one thread."""

    def __init__(self, broker: Broker, name: str) -> None:
        self.trials: list[Trial] = []
        self._broker = broker
        self._name = name

    def clock_ahead_ms(self) -> int | None:
        """Request the broker's clock, record the trial, and return by how many ms it is ahead of this machine's at
        least. It is negative if behind, 0 if both may be equal. Return None if the broker reports none or refuses,
        which with ACLs it does for all but administrators."""
        sent_ms = _unix_ms()
        clock_ms = self._attempt("GET", "the broker's clock", self._broker.query_clock_ms, is_required=False)
        return None if clock_ms is None else clock_ahead_ms(clock_ms, sent_ms, _unix_ms())

    def try_topic(self, job: Job, topic: str) -> dict[MessageQueue, QueueBounds]:
        """Send the requests that the job needs for one topic and record them; none reads or stores a message. A writing
        job sends a message to a queue that no topic has, and requests the topic's settings, not required. A job that
        reads as ``job.group`` pulls from such a queue and from an empty one, has a SQL92 filter checked, and requests
        the topic's offsets, required for queue-based load balancing. A read without a group sends nothing. Return the
        bounds of the topic's queues on the broker, {} if they were not requested or are refused."""
        if job.is_writing:
            queue = MessageQueue(topic, self._name, NO_QUEUE)
            send = partial(self._broker.submit_send, b"-", queue, TRIAL_PRODUCER, properties="")
            self._attempt("PUB", f"writing topic '{topic}'", lambda: send().result())
            purpose = f"detecting that topic '{topic}' discards rows without keys"
            self._attempt("GET", purpose, lambda: self._broker.query_topic_settings(topic), is_required=False)
        elif job.group is not None:
            pulls = self._broker.submit_group_check(job.group, topic)
            self._attempt("SUB", f"reading topic '{topic}'", pulls.result)
            self._attempt("SUB", "a group that is allowed to consume", pulls.pull.result)
            if job.message_filter.is_sql:
                check = self._broker.submit_filter_check(job.group, topic, job.message_filter)
                self._attempt("SUB", f"filtering topic '{topic}'", check.result)
            purpose = f"the offsets of topic '{topic}'"
            stats = self._attempt(
                "GET", purpose, lambda: self._broker.query_topic_stats(topic), is_required=not job.is_message_based
            )
            return stats or {}
        return {}

    def group_switches(self, group: str, *, is_required: bool) -> GroupSwitches | None:
        """Request and return the group's ``consumeEnable`` and ``consumeBroadcastEnable``, or None if the broker
        refuses. Record response or refusal as a trial with ``is_required``. Other errors are raised without a trial. A
        broker that creates groups on demand creates the group."""
        purpose = f"the settings of group '{group}'"
        return self._attempt("GET", purpose, lambda: self._broker.query_group_switches(group), is_required=is_required)

    def group_connections(self, group: str) -> GroupConnections | None:
        """Request the members of the group that are connected to the broker, and record the trial, which is not
        required. None if the broker refuses; other errors are raised, without a trial."""
        purpose = f"comparing the members of group '{group}'"
        return self._attempt("GET", purpose, lambda: self._broker.query_group_connections(group), is_required=False)

    def committed_offsets(self, group: str, queues: Iterable[MessageQueue]) -> dict[MessageQueue, int]:
        """Request the group's committed offset of each queue, and record the trial, which is required. Queues without
        one are left out; {} if the broker refuses. Other errors are raised, without a trial."""
        purpose = f"the committed offsets of group '{group}'"
        offsets = self._attempt("SUB", purpose, lambda: self._broker.query_offsets(group, queues))
        return {queue: offset for queue, offset in (offsets or {}).items() if offset is not None}

    def _attempt(self, action: str, purpose: str, call: Callable[[], T], *, is_required: bool = True) -> T | None:
        """Call ``call`` and return its value, or None if it raises a BrokerError. In both cases add a Trial with
        ``action``, ``purpose`` and the error or None to ``trials``. Other errors are raised, without a Trial."""
        try:
            value = call()
        except BrokerError as error:
            self.trials.append(Trial(action, purpose, error, is_required))
            return None
        self.trials.append(Trial(action, purpose, None, is_required))
        return value


def _explained(result: E, tls: Tls | None) -> E | RocketMQError:
    """Return the error that explains ``result``, if ``result`` is CONNECT_FAILED or CONNECTION_LOST and ``tls`` is set.
    To find it, connect to the server again, send nothing, and wait up to 3 s for data. The error of this attempt
    explains the first, such as a rejected client certificate. Without one, or for another of these two, return
    ``result``.

    A server rejects the certificate after the handshake. If the client has sent data before, the server resets the
    connection, and the client does not receive the reason.
    """
    if tls is None or not isinstance(result, TransportError) or not is_disconnected(result):
        return result
    address = str(result.context["address"])
    try:
        with closing(connect_with(tls)(address, STEP_MS)) as stream:
            stream.recv(1, STEP_MS)
    except RocketMQError as cause:
        return result if is_disconnected(cause) else cause
    return result


def _unix_ms() -> int:
    return time.time_ns() // 1_000_000
