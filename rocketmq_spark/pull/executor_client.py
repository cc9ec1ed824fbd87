"""What executors pull and send back with; each connection is asked first who is there, where brokers tell that. One for
each set of options, the last 16 of a process kept for more tasks."""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from contextlib import suppress
from functools import lru_cache
from weakref import WeakKeyDictionary

from rocketmq_spark.errors import BrokerError, RocketMQError, RouteError
from rocketmq_spark.model import BrokerAddress, Message, MessageQueue, QueueBounds, QueueRange, StoredMessage
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.pull.pull_connection import PullConnection
from rocketmq_spark.pull.pull_connections import PullConnections, shared_pull_connections
from rocketmq_spark.pull.pull_request import Completion, PullRequest
from rocketmq_spark.remoting.broker import Broker
from rocketmq_spark.remoting.looker import TOOLS, Looker, nobody
from rocketmq_spark.remoting.namesrv import NameServers
from rocketmq_spark.remoting.peer import Question, code_only
from rocketmq_spark.remoting.pool import ConnectionPool, shared_pool
from rocketmq_spark.remoting.proxied_broker import ProxiedBroker
from rocketmq_spark.remoting.route_table import RouteHistory, RouteTable, history_of
from rocketmq_spark.wire.body.running_info import encode_told_losses
from rocketmq_spark.wire.remoting.codes import RequestCode
from rocketmq_spark.wire.remoting.command import RemotingCommand
from rocketmq_spark.wire.remoting.headers import GetConsumerRunningInfoRequest
from rocketmq_spark.wire.remoting.pull_frames import pull_frames

log = logging.getLogger(__name__)

CLIENTS_IN_A_PROCESS = 16


class ExecutorClient:
    """Pulls, and sends back, on behalf of a group, without being a member of it. Pulling is one thread's."""

    def __init__(
        self,
        options: ReadOptions,
        pool: ConnectionPool,
        pulling: PullConnections,
        history: RouteHistory | None = None,
    ) -> None:
        self._group = options.consumer_group
        self._expression_of = options.expression_of
        self._timeout_ms = options.broker_timeout_ms
        self._credentials = options.security.credentials
        self._pool = pool
        self._pulling = pulling
        self._names: WeakKeyDictionary[PullConnection, str | None] = WeakKeyDictionary()
        self._routes = RouteTable(NameServers(options.name_servers, pool, options.broker_timeout_ms), history)

    @staticmethod
    def shared(options: ReadOptions) -> ExecutorClient:
        """The process's own client for these options."""
        return _shared(options)

    def pull(
        self, queue: MessageQueue, requests: Sequence[PullRequest], address: BrokerAddress | None = None
    ) -> list[Completion]:
        """Send pulls of one queue to ``address``, without one to where the name servers have its master. Those that are
        returned have failed already; nothing is raised."""
        try:
            frames = pull_frames(self._group, queue, self._expression_of(queue.topic), self._credentials)
            return self._connection(queue, address).pull(requests, frames)
        except RocketMQError as error:
            return [(request, error) for request in requests]

    def _connection(self, queue: MessageQueue, address: BrokerAddress | None) -> PullConnection:
        """To the queue's broker. After a reconnection the address may be another's."""
        address = address or self._routes.find_master(queue)
        if self._pulling.notices_loss(address):
            self._routes.forget(queue.topic)
            address = self._routes.find_master(queue)
        connection = self._pulling.connection(address)
        if connection not in self._names:
            self._names[connection] = self._name_at(address, queue.topic)
        name = self._names[connection]
        if name is not None and name != queue.broker_name:
            raise RouteError("WRONG_BROKER", address=str(address), broker=queue.broker_name, other=name)
        return connection

    def _name_at(self, address: BrokerAddress, topic: str) -> str | None:
        """What the broker there calls itself: the queues in its statistics are named after it, and whoever may read a
        topic may ask for these. None if it does not tell. Nothing in a pull, nor in its answer, names a broker.

        A proxy passes on to whom it finds under the name, and says no more of that."""
        if address.broker_name is not None:
            return address.broker_name
        try:
            stats = Broker(address, self._pool, self._timeout_ms).topic_stats(topic)
        except BrokerError:
            return None
        return next((queue.broker_name for queue in stats), None)

    def receive(self, timeout_ms: int) -> list[Completion]:
        """What became of pulls, of any queue: what has come, or the next, waited for so long at most."""
        return self._pulling.receive(timeout_ms)

    def forget_route(self, queue: MessageQueue) -> None:
        """The next pull asks the name servers where the queue is."""
        self._routes.forget(queue.topic)

    def bounds(self, queues: Collection[MessageQueue]) -> dict[MessageQueue, QueueBounds]:
        """Of those queues whose brokers answer now."""
        found: dict[MessageQueue, QueueBounds] = {}
        for queue in queues:
            if queue not in found:
                with suppress(RocketMQError):
                    found |= self._broker_of(queue).submit_topic_stats(queue.topic).result()
        return {queue: found[queue] for queue in queues if queue in found}

    def _broker_of(self, queue: MessageQueue) -> Broker:
        address = self._routes.find_master(queue)
        if address.broker_name is None:
            return Broker(address, self._pool, self._timeout_ms)
        readable = {queue.topic: self._routes.route(queue.topic).read_queues()}
        looker = TOOLS if self._credentials is None else Looker(self._group, nobody)
        return ProxiedBroker(address, self._pool, self._timeout_ms, readable, looker)

    def tell_lost(self, client_id: str, ranges: Collection[QueueRange]) -> None:
        """To the member that has planned them, through a broker of theirs: it counts what tasks find, and they are on
        other machines. What is not heard is in the task's own line only."""
        header = GetConsumerRunningInfoRequest(consumer_group=self._group, client_id=client_id)
        fields, body = header.to_fields(), encode_told_losses(ranges)
        command = RemotingCommand(RequestCode.GET_CONSUMER_RUNNING_INFO, fields=fields, body=body)
        try:
            address = self._routes.find_master(next(iter(ranges)).queue)
            Broker(address, self._pool, self._timeout_ms).ask(Question(command, code_only))
        except RocketMQError as error:
            log.debug("the member %s was not told of losses: %s", client_id, error)

    def send_back(self, message: StoredMessage, delay_level: int, max_reconsume_times: int | None) -> None:
        """``Broker.send_back`` at the message's broker. After an error that ``refreshes_route`` the next call asks
        for it."""
        try:
            address = self._routes.find_master(MessageQueue(message.topic, message.broker_name, 0))
            Broker(address, self._pool, self._timeout_ms).send_back(
                self._group, message, delay_level=delay_level, max_reconsume_times=max_reconsume_times
            )
        except RocketMQError as error:
            self._routes.doubt(message.topic, error)
            raise

    def send_dead_letter(self, queue: MessageQueue, message: Message) -> None:
        """``Broker.send_dead_letter`` at the broker of ``queue``. After an error that ``refreshes_route`` the next
        call asks for it."""
        try:
            broker = Broker(self._routes.find_master(queue), self._pool, self._timeout_ms)
            broker.send_dead_letter(self._group, message, queue.broker_name)
        except RocketMQError as error:
            self._routes.doubt(queue.topic, error)
            raise


@lru_cache(maxsize=CLIENTS_IN_A_PROCESS)
def _shared(options: ReadOptions) -> ExecutorClient:
    timeout_ms, security = options.broker_timeout_ms, options.security
    pool, pulling = shared_pool(timeout_ms, security), shared_pull_connections(timeout_ms, security.tls)
    return ExecutorClient(options, pool, pulling, history_of(options.name_servers))
