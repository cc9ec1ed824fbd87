"""What executors pull and send back with: a client for each cluster and group in a process, kept between tasks."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import lru_cache

from rocketmq_spark.errors import RocketMQError
from rocketmq_spark.model import MessageQueue, StoredMessage
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.remoting.broker import Broker, Pull
from rocketmq_spark.remoting.namesrv import NameServers
from rocketmq_spark.remoting.pool import ConnectionPool, shared_pool
from rocketmq_spark.remoting.routes import RouteCache

log = logging.getLogger(__name__)

CLIENTS_IN_A_PROCESS = 16


class ExecutorClient:
    """Pulls, and sends back, on behalf of a group, without being a member of it.

    Answers to pulls come in while the thread that pulls is in ``receive``; ``pulling`` is a pool without readers.
    """

    def __init__(self, options: ReadOptions, pool: ConnectionPool, pulling: ConnectionPool) -> None:
        self._group = options.consumer_group
        self._expression_of = options.expression_of
        self._timeout_ms = options.broker_timeout_ms
        self._pool = pool
        self._pulling = pulling
        self._routes = RouteCache(NameServers(options.name_servers, pool, options.broker_timeout_ms))

    @staticmethod
    def shared(options: ReadOptions) -> ExecutorClient:
        """The process's own client for these options."""
        return _shared(options)

    def submit_pulls(self, queue: MessageQueue, pulls: Sequence[Pull]) -> None:
        """Send pulls of one queue; each is told its answer or the error, now or in ``receive``; nothing is raised.

        After an error the next pull asks for the route again.
        """
        try:
            broker = Broker(self._routes.master(queue), self._pulling, self._timeout_ms)
            expression = self._expression_of(queue.topic)
            broker.pull_all_then(self._group, queue, pulls, expression, lambda: self._routes.forget(queue.topic))
        except RocketMQError as error:
            for pull in pulls:
                pull.on_answer(error)

    def receive(self, timeout_ms: int) -> None:
        """Let answers to pulls be told: those that have come, or the next, waited for so long at most."""
        self._pulling.receive(timeout_ms)

    def put_back_reset(self, queue: MessageQueue, offset: int) -> None:
        """Mark the queue as reset to ``offset`` again, on behalf of the operator who did it; nothing is raised."""
        try:
            Broker(self._routes.master(queue), self._pool, self._timeout_ms).reset_offset(self._group, queue, offset)
        except RocketMQError as error:
            self._routes.forget(queue.topic)
            log.warning("an operator's reset is lost queue=%s offset=%d: %s", queue, offset, error)

    def send_back(self, message: StoredMessage, delay_level: int, max_reconsume_times: int | None) -> None:
        """``Broker.send_back`` at the message's broker. After an error the next call asks for the route again."""
        try:
            address = self._routes.master(MessageQueue(message.topic, message.broker_name, 0))
            Broker(address, self._pool, self._timeout_ms).send_back(
                self._group, message, delay_level=delay_level, max_reconsume_times=max_reconsume_times
            )
        except RocketMQError:
            self._routes.forget(message.topic)
            raise


@lru_cache(maxsize=CLIENTS_IN_A_PROCESS)
def _shared(options: ReadOptions) -> ExecutorClient:
    timeout_ms = options.broker_timeout_ms
    return ExecutorClient(options, shared_pool(timeout_ms), shared_pool(timeout_ms, has_readers=False))
