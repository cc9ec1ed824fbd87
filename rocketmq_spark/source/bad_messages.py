"""``badMessages``: what becomes of messages whose bodies cannot be read, on the executor that meets them.

A task may run again, and a message may be met by two tasks if it is a batch: its dead letter comes at least once, and
always with the same RETRY_TOPIC and ORIGIN_MESSAGE_ID. It is stored, answered, before the rows after it leave the task.
"""

from __future__ import annotations

import logging
import time

import numpy as np
import pyarrow as pa

from rocketmq_spark.errors import RemoteProtocolError
from rocketmq_spark.model import MessageQueue
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.pull.executor_client import ExecutorClient
from rocketmq_spark.remoting.clock import monotonic_ms
from rocketmq_spark.remoting.failures import Failures, Policy
from rocketmq_spark.remoting.retry import SENDING_BACK, broker_subject, outlook_of_request
from rocketmq_spark.source.dead_letter import dead_letter
from rocketmq_spark.source.range_decoding import QUEUE_OFFSET
from rocketmq_spark.wire.arrow.bad_messages import BadMessage

log = logging.getLogger(__name__)


class DeadLetterSender:
    """Sends dead letters from executors, with as much patience for a broker as anywhere. That of one task, or one range
    of it. Not thread-safe."""

    def __init__(self, options: ReadOptions, client: ExecutorClient) -> None:
        limits_ms = options.cluster_timeout_ms, options.missing_topic_timeout_ms
        self._failures = Failures(Policy(outlook_of_request, SENDING_BACK, *limits_ms), monotonic_ms)
        self._client = client

    def send(self, bad: BadMessage, queue: MessageQueue) -> None:
        """Returns when ``bad``, met in ``queue``, is in the group's dead letter topic on that broker.

        Raises what keeps it from there: a refusal that will not pass, RouteError for a topic that no broker serves for
        ``missingTopicTimeoutMs``, TransportError[CLUSTER_UNREACHABLE] for a broker, or name servers, that are silent
        for ``clusterTimeoutMs``.
        """
        letter, subject = dead_letter(bad, queue), broker_subject(queue.broker_name)
        self._failures.retrying(lambda: self._client.send_dead_letter(queue, letter), subject, queue.topic, time.sleep)


class BadMessages:
    """Those of one range of ``queue``, in the order of their offsets. Not thread-safe."""

    def __init__(self, queue: MessageQueue, options: ReadOptions, client: ExecutorClient) -> None:
        self._queue = queue
        self._mode = options.bad_messages
        self._sender = DeadLetterSender(options, client)
        self._settled_to = -1

    def settle(self, batch: pa.RecordBatch, bad: list[BadMessage]) -> pa.RecordBatch:
        """The rows of ``batch`` that stay, of which ``bad`` have no body. Says each bad message once.

        Raises RemoteProtocolError[BAD_MESSAGE] with ``fail``; with ``deadLetter`` what ``DeadLetterSender`` does.
        """
        new = [message for message in bad if message.offsets.start > self._settled_to]
        if not new:
            return self._without(batch, bad)
        if self._mode == "fail":
            first = new[0]
            offset = first.offsets.start
            raise RemoteProtocolError("BAD_MESSAGE", queue=str(self._queue), offset=offset, problem=first.problem)
        self._settled_to = new[-1].offsets.start
        if self._mode == "deadLetter":
            for message in new:
                self._sender.send(message, self._queue)
        self._warn(new)
        return self._without(batch, bad)

    def _without(self, batch: pa.RecordBatch, bad: list[BadMessage]) -> pa.RecordBatch:
        if self._mode != "deadLetter" or not bad:
            return batch
        offsets = batch.column(QUEUE_OFFSET).to_numpy()
        is_bad = np.isin(offsets, [offset for message in bad for offset in message.offsets])
        return batch.filter(pa.array(~is_bad))

    def _warn(self, bad: list[BadMessage]) -> None:
        done = "sent to the dead letter topic" if self._mode == "deadLetter" else "read without body"
        offsets = " ".join(f"[{message.offsets.start}, {message.offsets.stop})" for message in bad)
        log.warning("bad messages %s: queue=%s offsets=%s; the first: %s", done, self._queue, offsets, bad[0].problem)
