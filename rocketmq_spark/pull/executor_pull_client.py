"""Pull client of executors. It verifies the broker's name on each new connection, where brokers report it, and a SQL92
filter. One client for each set of options; a process keeps the last 16 for more tasks."""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Final

from rocketmq_spark.errors import BrokerError, RocketMQError, RouteError
from rocketmq_spark.model import MASTER_ID, BrokerAddress, MessageFilter, MessageQueue, QueueBounds
from rocketmq_spark.options import RangeReadOptions
from rocketmq_spark.pull.pull_connection import PullConnection
from rocketmq_spark.pull.pull_connections import PullConnections, shared_pull_connections
from rocketmq_spark.pull.pull_request import Completion, PullRequest
from rocketmq_spark.remoting.cluster_client import MAX_SHARED_CLIENTS, ClusterClient
from rocketmq_spark.remoting.error_kinds import is_busy
from rocketmq_spark.remoting.pool import ConnectionPool, shared_pool
from rocketmq_spark.remoting.prober import prober_of
from rocketmq_spark.remoting.replicas import Server
from rocketmq_spark.remoting.route_table import RouteHistory, history_of
from rocketmq_spark.wire.body.task_report import Recipient, TaskReport, encode_task_report
from rocketmq_spark.wire.remoting.pull_frames import pull_frames

log = logging.getLogger(__name__)

UNFILTERED: Final = MessageFilter()
"""The filter that all messages pass."""


class ExecutorPullClient:
    """Client of a Spark task that pulls on behalf of a group without being a member of it. RangePuller calls ``pull``,
    then ``receive``. One thread pulls."""

    def __init__(
        self,
        options: RangeReadOptions,
        pool: ConnectionPool,
        pull_connections: PullConnections,
        history: RouteHistory | None = None,
    ) -> None:
        self._group = options.consumer_group
        self._filter_of = options.filter_of
        self._credentials = options.security.credentials
        self._pull_connections = pull_connections
        self._verified: dict[BrokerAddress, tuple[PullConnection, str | None]] = {}
        """By address: the last connection there that was verified, and the broker's name; None: it reports none."""
        self.cluster: Final = ClusterClient.of(options, pool, prober_of(options), history)
        self._routes = self.cluster.routes

    def pull(
        self,
        queue: MessageQueue,
        requests: Sequence[PullRequest],
        address: BrokerAddress | None,
        server: Server,
        *,
        is_filtered: bool,
    ) -> list[Completion]:
        """Send pulls of one queue to ``address``, or for None to ``server`` of its broker in the route.
        ``is_filtered``: with the topic's filter, else for all messages. Do not wait for their responses. Without an
        open connection, open and verify one, which waits (``_connection``). Return the pulls that failed already, with
        their errors; raise no RocketMQError. ``receive`` returns the other completions.
        """
        try:
            expression, expression_type = self._filter_of(queue.topic) if is_filtered else UNFILTERED
            frames = pull_frames(self._group, queue, expression, self._credentials, expression_type)
            return self._connection(queue, address, server).pull(requests, frames)
        except RocketMQError as error:
            return [(request, error, MASTER_ID) for request in requests]

    def _connection(self, queue: MessageQueue, address: BrokerAddress | None, server: Server) -> PullConnection:
        """Return a connection to ``address``, or for None to ``server`` of the queue's broker in the route. Open it if
        there is none. If the last connection there was lost, use a new route instead of ``address``: another broker may
        have the address now.

        Verify a connection that is new to this client: request the broker's name, have it check a SQL92 filter, and
        wait. Raises RouteError[BROKER_ADDRESS_MISMATCH] for another name; a broker that reports none is accepted.
        Raises the errors of ``RouteTable.find_replica``, of connecting, and of ``Broker.submit_filter_check``.
        """
        address = address or self._routes.find_replica(queue, server)
        if self._forget_lost_connection(address):
            self._routes.invalidate(queue.topic)
            address = self._routes.find_replica(queue, server)
        connection = self._pull_connections.get_or_open(address)
        verified, name = self._verified.get(address, (None, None))
        if connection is not verified:
            name = self._broker_name_at(address, queue.topic)
            self._check_filter(address, queue.topic)
            self._verified[address] = connection, name
        if name is not None and name != queue.broker_name:
            raise RouteError("BROKER_ADDRESS_MISMATCH", address=str(address), broker=queue.broker_name, other=name)
        return connection

    def _forget_lost_connection(self, address: BrokerAddress) -> bool:
        """Forget the verified connection to ``address`` if it was lost or replaced, and return whether it was. Does not
        wait."""
        if address not in self._verified or self._pull_connections.poll_open(address) is self._verified[address][0]:
            return False
        del self._verified[address]
        return True

    def _broker_name_at(self, address: BrokerAddress, topic: str) -> str | None:
        """Request the topic's statistics from the broker at ``address``, over a new connection, and return the broker
        name of a queue in them. A client that may read the topic may request them. Return None if the broker refuses
        the request, or has no queue of the topic. Raises the BrokerError of a busy broker, which is no refusal.

        Behind a proxy return the name in ``address``, without a request: the proxy forwards to the broker of that name.
        Raises TransportError and RemoteProtocolError.
        """
        if address.broker_name is not None:
            return address.broker_name
        self.cluster.require_new_connection(address)  # the current one may lead to a broker that had the address before
        try:
            stats = self.cluster.broker(address).query_topic_stats(topic)
        except BrokerError as error:
            if is_busy(error):
                raise
            return None
        return next((queue.broker_name for queue in stats), None)

    def _check_filter(self, address: BrokerAddress, topic: str) -> None:
        """If the topic's filter is SQL92, have the broker compile it, and wait. Raises the errors of
        ``Broker.submit_filter_check``."""
        message_filter = self._filter_of(topic)
        if message_filter.is_sql:
            self.cluster.broker(address).submit_filter_check(self._group, topic, message_filter).result()

    def receive(self, timeout_ms: int) -> list[Completion]:
        """Wait up to ``timeout_ms`` for completions of pulls of any queue, and return them, each once. Clients that
        share the connections get each other's. Completions that have arrived are returned at once; [] may come before
        the time is over."""
        return self._pull_connections.receive(timeout_ms)

    def forget_route(self, queue: MessageQueue) -> None:
        """Invalidate the queue's route: the next pull requests it from the name servers. Connections that are lost by
        now do not invalidate it once more."""
        self._routes.invalidate(queue.topic)
        self._verified = {address: (one, name) for address, (one, name) in self._verified.items() if one.is_open}

    def query_bounds(self, queues: Collection[MessageQueue]) -> dict[MessageQueue, QueueBounds]:
        """Request the bounds of ``queues`` from their masters, one topic and broker after another; wait and return
        them. Queues are missing whose broker does not respond, refuses, or has no master in the route; raises no
        RocketMQError."""
        found: dict[MessageQueue, QueueBounds] = {}
        for queue in queues:
            if queue not in found:
                with suppress(RocketMQError):
                    broker = self.cluster.broker(self._routes.find_master(queue))
                    found |= broker.submit_topic_stats(queue.topic).result()
        return {queue: found[queue] for queue in queues if queue in found}

    def report(self, member: Recipient, queue: MessageQueue, report: TaskReport) -> None:
        """Send ``report`` to the member that planned the task, on another machine, through the broker of ``queue``, and
        wait for the response. If that fails, log it at DEBUG; raises no RocketMQError."""
        try:
            body = encode_task_report(report, member.token)
            self.cluster.call(queue, lambda broker: broker.report_to_member(self._group, member.client_id, body))
        except RocketMQError as error:
            log.debug("REQUEST_FAILED: Cannot report to member clientId=%s: %s", member.client_id, error)


@lru_cache(maxsize=MAX_SHARED_CLIENTS)
def shared_pull_client(options: RangeReadOptions) -> ExecutorPullClient:
    """Return this process's client for these options; create it if there is none, without opening a connection. Its
    routes are its own: only its own lost connections invalidate them. With routes that another client has cached, it
    would not notice that another broker has an address now, if brokers do not report their names."""
    timeout_ms, security = options.broker_timeout_ms, options.security
    pool, pull_connections = shared_pool(timeout_ms, security), shared_pull_connections(timeout_ms, security.tls)
    return ExecutorPullClient(options, pool, pull_connections, history_of(options.name_servers))
