"""Producer for the demo, tests and sink: round robin over queues, client-side message IDs, other brokers after
failures."""

from __future__ import annotations

import os
import secrets
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Final

from rocketmq_spark.errors import RocketMQError
from rocketmq_spark.model import Message, MessageQueue
from rocketmq_spark.remoting.broker import Broker
from rocketmq_spark.remoting.clock import Clock, monotonic_ms
from rocketmq_spark.remoting.cluster_client import ClusterClient
from rocketmq_spark.remoting.retry import SEND_ATTEMPTS, Retryability, retryability_of_send
from rocketmq_spark.remoting.write_queues import WriteQueues
from rocketmq_spark.wire.message.properties import UNIQ_KEY
from rocketmq_spark.wire.remoting.send import SendResult

RANDOM_INDEX: Final = partial(secrets.randbits, 16)
"""Random initial queue index: without it many producers of few messages would all send to the first queue."""

_ID_LAYOUT: Final = struct.Struct(">4sHIIH")


class Producer:
    """Producer of messages. After an error a message may be stored: a timeout leaves it open, a retry may duplicate it.

    Each attempt goes to the queue that ``queues`` selects, after a failure on another broker. A message gets one
    UNIQ_KEY, which its duplicates share. Threads: any.
    """

    def __init__(
        self,
        cluster: ClusterClient,
        *,
        group: str,
        unique_ids: UniqueIds | None = None,
        initial_queue_index: Callable[[], int] = RANDOM_INDEX,
        clock: Clock = monotonic_ms,
    ) -> None:
        self._cluster = cluster
        self._group = group
        self._unique_ids = unique_ids or UniqueIds()
        self.queues: Final = WriteQueues(cluster.routes, clock, initial_queue_index)

    def send(self, message: Message, queue: MessageQueue | None = None, sys_flag: int = 0) -> SendResult:
        """Send ``message`` to ``queue``, or for None to the next writable queue, and wait until it is stored. After a
        transient error try again at once, up to SEND_ATTEMPTS (3) attempts. A message without a UNIQ_KEY is sent as a
        copy with one. A ``status`` other than SEND_OK is returned, not retried. ``sys_flag``: compression of its body,
        by the caller.

        Raises TransportError, BrokerError, RouteError of the last attempt, LocalProtocolError[INVALID_MESSAGE] at once.
        """
        with_id = self._with_id(message)
        return self._send_with_retries(
            message.topic, queue, lambda target_queue, broker: broker.send(with_id, target_queue, self._group, sys_flag)
        )

    def send_batch(self, messages: Sequence[Message], queue: MessageQueue | None = None) -> SendResult:
        """Send ``messages``, at least one and all of one topic, to one queue as ``send`` does. The broker stores all
        consecutively or none. Raises what ``send`` does; IndexError for no message."""
        with_id = [self._with_id(message) for message in messages]
        return self._send_with_retries(
            messages[0].topic, queue, lambda target_queue, broker: broker.send_batch(with_id, target_queue, self._group)
        )

    def _send_with_retries(
        self, topic: str, queue: MessageQueue | None, send: Callable[[MessageQueue, Broker], SendResult]
    ) -> SendResult:
        """Call ``send`` with a queue and a client of its broker, up to SEND_ATTEMPTS (3) times, without a pause, and
        return its result. The queue is ``queue``, or for None each time another one, on a broker without a failed
        attempt if possible. An error that is not transient is raised at once; after the last attempt, its error is
        raised."""
        failed: set[str] = set()
        for attempt in range(1, SEND_ATTEMPTS + 1):
            try:
                target_queue = queue or self.queues.select_queue(topic, lambda name: name not in failed)
                failed.add(target_queue.broker_name)
                return self._cluster.call(target_queue, partial(send, target_queue))
            except RocketMQError as error:
                if attempt == SEND_ATTEMPTS or retryability_of_send(error) is not Retryability.TRANSIENT:
                    raise
        raise AssertionError("unreachable")

    def _with_id(self, message: Message) -> Message:
        """Return ``message`` with a UNIQ_KEY: its own, or a new one."""
        if UNIQ_KEY in message.properties:
            return message
        properties: Mapping[str, str] = {**message.properties, UNIQ_KEY: self._unique_ids.next_id()}
        return replace(message, properties=properties)


class UniqueIds:
    """Generator of message IDs, the property UNIQ_KEY. An ID has 32 upper-case hex digits: 4 random bytes, process, 4
    random bytes, milliseconds of the month, counter.

    ``mqadmin queryMsgByUniqueKey`` starts its search at that time. ``unix_ms`` is the wall clock.
    Source: ``common/message/MessageClientIDSetter.java``; differs: random bytes replace IP address and class loader.
    """

    def __init__(self, unix_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000) -> None:
        self._unix_ms = unix_ms
        self._counter = count(secrets.randbits(16))
        self._host = secrets.token_bytes(4)
        self._loader = secrets.randbits(32)

    def next_id(self) -> str:
        """Return an ID with the current time and the next counter, which restarts after 65,536 IDs, the maximum per
        millisecond. Threads: any."""
        span_ms = milliseconds_of_month(self._unix_ms())
        number = next(self._counter) & 0xFFFF
        return _ID_LAYOUT.pack(self._host, os.getpid() & 0xFFFF, self._loader, span_ms, number).hex().upper()


def milliseconds_of_month(unix_ms: int) -> int:
    """Return the milliseconds since the local midnight at the start of the month."""
    local = time.localtime(unix_ms // 1000)
    began_s = int(time.mktime((local.tm_year, local.tm_mon, 1, 0, 0, 0, 0, 0, -1)))
    return unix_ms - began_s * 1000
