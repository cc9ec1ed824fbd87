"""Collection of facts from RocketMQ 5 proxies over gRPC. A session receives no message."""

from __future__ import annotations

from contextlib import closing

from rocketmq_spark.doctor.cluster_facts import STEP_MS, Announce
from rocketmq_spark.doctor.facts import Job, ServerFacts
from rocketmq_spark.errors import RocketMQError
from rocketmq_spark.options import ConnectionOptions
from rocketmq_spark.proxy.session import Session
from rocketmq_spark.remoting.clock import monotonic_ms
from rocketmq_spark.remoting.local_address import new_client_id
from rocketmq_spark.wire.grpc.requests import Subscription


def collect_proxy_facts(
    job: Job, options: ConnectionOptions, endpoints: tuple[str, ...], announce: Announce, total_ms: int
) -> ServerFacts:
    """Open a session with each proxy, request the routes of the job's topics, and close the session. Call ``announce``
    before each proxy. A request waits up to 3 s, or ``brokerTimeoutMs`` if that is shorter. After ``total_ms`` no
    further proxy is checked; ``unchecked`` lists the rest. Errors become facts; no RocketMQError is raised."""
    timeout_ms = min(STEP_MS, options.broker_timeout_ms)
    until_ms = monotonic_ms() + total_ms
    unchecked: list[str] = []
    subscription = Subscription(job.group or "", job.topics, *job.message_filter)
    proxies: dict[str, tuple[RocketMQError, ...]] = {}
    for address in endpoints:
        if monotonic_ms() >= until_ms:
            unchecked.append(f"proxy {address}")
            continue
        announce(f"proxy {address}, up to {timeout_ms} ms for each request")
        session = Session((address,), subscription, new_client_id(address), options.security, timeout_ms)
        with closing(session):
            proxies[address] = _session_errors(session, job.topics)
    return ServerFacts(proxies=proxies, unchecked=tuple(unchecked))


def _session_errors(session: Session, topics: tuple[str, ...]) -> tuple[RocketMQError, ...]:
    """Register the session. If it fails, return only its error. Otherwise request the route of each topic, and return
    the errors; () if there are none. The caller closes the session."""
    try:
        session.keep_alive()
    except RocketMQError as error:
        return (error,)
    errors: list[RocketMQError] = []
    for topic in topics:
        try:
            session.find_brokers(topic)
        except RocketMQError as error:
            errors.append(error)
    return tuple(errors)
