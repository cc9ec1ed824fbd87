"""A producer for the demo, the tests and the sink: round-robin over queues, message IDs made here, other brokers at
failure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from secrets import randbits
from typing import Final, TypeVar

from rocketmq_spark.errors import RocketMQError, RouteError
from rocketmq_spark.model import Message, MessageQueue
from rocketmq_spark.remoting.broker import Broker
from rocketmq_spark.remoting.cluster_client import ClusterClient
from rocketmq_spark.remoting.retry import SEND_ATTEMPTS, Outlook, outlook_of_send
from rocketmq_spark.remoting.send_result import SendResult
from rocketmq_spark.remoting.unique_id import UniqueIds
from rocketmq_spark.wire.message.properties import UNIQ_KEY

ANY_TURN: Final = partial(randbits, 16)
"""The queue of a topic to begin with: of many that send little, all messages would go to the first queue."""

T = TypeVar("T")


class Producer:
    """Sends messages. An error means 'perhaps stored': a timeout tells nothing, and another attempt may store it twice.

    Each attempt goes to the next queue with write permission, beginning with any (``first_turn``), and after a failure
    to another broker. A message gets its UNIQ_KEY once; its copies share it. Threads: any.

    Source: ``client/impl/producer/TopicPublishInfo.java#selectOneMessageQueue``; differs: avoids each broker that has
    failed, not the last one only.
    """

    def __init__(
        self,
        cluster: ClusterClient,
        *,
        group: str,
        unique_ids: UniqueIds | None = None,
        first_turn: int | None = None,
    ) -> None:
        self._cluster = cluster
        self._group = group
        self._unique_ids = unique_ids or UniqueIds()
        self._turn = count(ANY_TURN() if first_turn is None else first_turn)

    def send(self, message: Message, queue: MessageQueue | None = None, sys_flag: int = 0) -> SendResult:
        """Store ``message``, in ``queue`` if that is given. ``sys_flag`` says how its body is compressed.

        Raises TransportError, BrokerError, RouteError of the last attempt, LocalProtocolError[INVALID_MESSAGE] at once.
        """
        named = self._with_id(message)
        return self._attempts(
            message.topic, queue, lambda where, broker: broker.send(named, where, self._group, sys_flag)
        )

    def send_batch(self, messages: Sequence[Message], queue: MessageQueue | None = None) -> SendResult:
        """Store ``messages`` of one topic in one queue, one after another, or none. Raises what ``send`` does."""
        named = [self._with_id(message) for message in messages]
        return self._attempts(
            messages[0].topic, queue, lambda where, broker: broker.send_batch(named, where, self._group)
        )

    def _attempts(
        self, topic: str, queue: MessageQueue | None, send: Callable[[MessageQueue, Broker], SendResult]
    ) -> SendResult:
        failed: set[str] = set()
        for attempt in range(1, SEND_ATTEMPTS + 1):
            try:
                where = queue if queue is not None else self._next_queue(topic, failed)
                failed.add(where.broker_name)
                return self._cluster.call(where, partial(send, where))
            except RocketMQError as error:
                if attempt == SEND_ATTEMPTS or outlook_of_send(error) is not Outlook.PASSES:
                    raise
        raise AssertionError("unreachable")

    def _next_queue(self, topic: str, failed: Collection[str]) -> MessageQueue:
        """Return the next queue, of a broker that has not ``failed`` if there is one."""
        queues = self._cluster.routes.route(topic).write_queues()
        if not queues:
            self._cluster.routes.forget(topic)
            raise RouteError("TOPIC_UNAVAILABLE.NO_WRITABLE_QUEUE", topic=topic)
        good = [queue for queue in queues if queue.broker_name not in failed] or queues
        return good[next(self._turn) % len(good)]

    def _with_id(self, message: Message) -> Message:
        if UNIQ_KEY in message.properties:
            return message
        properties: Mapping[str, str] = {**message.properties, UNIQ_KEY: self._unique_ids.next_id()}
        return replace(message, properties=properties)
