"""``badMessages``: what becomes of messages whose bodies cannot be read, on the executor that meets them.

A task may run again, and a message may be met by two tasks if it is a batch: its dead letter comes at least once, and
always with the same RETRY_TOPIC and ORIGIN_MESSAGE_ID. It is stored, answered, before the rows beside it leave the
task; so where messages are shared it is there before its message is acknowledged, with the batch.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from functools import cached_property
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa

from rocketmq_spark.errors import RemoteProtocolError
from rocketmq_spark.model import MessageQueue
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.remoting.broker import Broker
from rocketmq_spark.remoting.clock import monotonic_ms
from rocketmq_spark.remoting.cluster_client import ClusterClient
from rocketmq_spark.remoting.failures import Failures, Policy
from rocketmq_spark.remoting.retry import SEND_BACK_PAUSES, broker_subject, retryability_of_request
from rocketmq_spark.source.dead_letter import dead_letter
from rocketmq_spark.source.range_decoding import QUEUE_OFFSET
from rocketmq_spark.wire.arrow.undecodable import UndecodableMessage

log = logging.getLogger(__name__)

SENT: Final = "sent to the group's dead-letter topic (badMessages=deadLetter)"
NULL_BODY: Final = "read with a null body (badMessages=null)"


class DeadLetterSender:
    """Sends dead letters from executors, with as much patience for a broker as anywhere. That of one task, or one range
    of it. Not thread-safe."""

    def __init__(self, options: ReadOptions, client: ClusterClient) -> None:
        limits_ms = options.cluster_timeout_ms, options.missing_topic_timeout_ms
        self._failures = Failures(Policy(retryability_of_request, SEND_BACK_PAUSES, *limits_ms), monotonic_ms)
        self._client = client
        self._group = options.consumer_group

    def send(self, undecodable: UndecodableMessage, queue: MessageQueue) -> None:
        """Returns when ``undecodable``, met in ``queue``, is in the group's dead letter topic on that broker.

        Raises what keeps it from there: a refusal that will not pass, RouteError for a topic that no broker serves for
        ``missingTopicTimeoutMs``, TransportError[CLUSTER_TIMEOUT] for a broker, or name servers, that are silent
        for ``clusterTimeoutMs``.
        """
        letter, subject = dead_letter(undecodable, queue), broker_subject(queue.broker_name)

        def send(broker: Broker) -> None:
            broker.send_dead_letter(self._group, letter, queue.broker_name)

        self._failures.retry_until_success(lambda: self._client.call(queue, send), subject, queue.topic, time.sleep)


class UndecodableMessages:
    """Those of one range of ``queue``, in the order of their offsets. Not thread-safe."""

    def __init__(self, queue: MessageQueue, options: ReadOptions, client: ClusterClient) -> None:
        self._queue = queue
        self._mode = options.bad_messages
        self._sender = DeadLetterSender(options, client)
        self._handled_to = -1

    def apply_mode(self, batch: pa.RecordBatch, undecodable: list[UndecodableMessage]) -> pa.RecordBatch:
        """The rows of ``batch`` that stay, of which ``undecodable`` have no body. Says each bad message once.

        Raises RemoteProtocolError[UNDECODABLE_MESSAGE_BODY] with ``fail``; with ``deadLetter`` what
        ``DeadLetterSender`` does.
        """
        new = [message for message in undecodable if message.offsets.start > self._handled_to]
        if not new:
            return self._without(batch, undecodable)
        if self._mode == "fail":
            first = new[0]
            offset = first.offsets.start
            raise RemoteProtocolError(
                "UNDECODABLE_MESSAGE_BODY", queue=str(self._queue), offset=offset, problem=first.problem
            )
        self._handled_to = new[-1].offsets.start
        if self._mode == "deadLetter":
            for message in new:
                self._sender.send(message, self._queue)
        self._warn(new)
        return self._without(batch, undecodable)

    def _without(self, batch: pa.RecordBatch, undecodable: list[UndecodableMessage]) -> pa.RecordBatch:
        if self._mode != "deadLetter" or not undecodable:
            return batch
        offsets = batch.column(QUEUE_OFFSET).to_numpy()
        is_undecodable = np.isin(offsets, [offset for message in undecodable for offset in message.offsets])
        return batch.filter(pa.array(~is_undecodable))

    def _warn(self, undecodable: list[UndecodableMessage]) -> None:
        action = SENT if self._mode == "deadLetter" else NULL_BODY
        offsets = " ".join(f"[{message.offsets.start}, {message.offsets.stop})" for message in undecodable)
        log.warning(
            "UNDECODABLE_MESSAGE_BODY: Messages of queue=%s offsets=%s %s; first problem: %s",
            self._queue,
            offsets,
            action,
            undecodable[0].problem,
        )


COMMIT_LOG_OFFSET: Final = "commitLogOffset"

ClientOf: TypeAlias = Callable[[ReadOptions], ClusterClient]


class UndecodablePopMessages:
    """Those of one task. Not thread-safe."""

    def __init__(self, options: ReadOptions, client_of: ClientOf) -> None:
        self._options = options
        self._client_of = client_of
        self._handled: set[tuple[MessageQueue, int]] = set()
        """By queue and place in the commit log: rows of one message may come in several batches."""

    @cached_property
    def _sender(self) -> DeadLetterSender:
        return DeadLetterSender(self._options, self._client_of(self._options))

    def apply_mode(self, queue: MessageQueue, offset: int, problem: str) -> None:
        """Of a message whose row stays, without body. Raises RemoteProtocolError[UNDECODABLE_MESSAGE_BODY] with
        ``fail``; with ``deadLetter`` too, which brokers' messages alone meet, unless a spool has kept those of a
        proxy."""
        if self._options.bad_messages == "deadLetter":
            problem += "; it was received through a proxy, so only 'badMessages' 'null' can skip it"
        if self._options.bad_messages != "null":
            raise RemoteProtocolError("UNDECODABLE_MESSAGE_BODY", queue=str(queue), offset=offset, problem=problem)
        _warn_of(queue, offset, NULL_BODY, problem)

    def apply_mode_to_rows(self, batch: pa.RecordBatch, undecodable: list[UndecodableMessage]) -> pa.RecordBatch:
        """The rows of ``batch`` that stay, by its column COMMIT_LOG_OFFSET; those of ``undecodable`` have no body.

        Raises RemoteProtocolError[UNDECODABLE_MESSAGE_BODY] with ``fail``; with ``deadLetter`` what
        ``DeadLetterSender`` does.
        """
        is_dead_letter_mode = self._options.bad_messages == "deadLetter"
        for one in undecodable:
            message = one.message
            queue = MessageQueue(message.topic, message.broker_name, message.queue_id)
            if (queue, message.commit_log_offset) in self._handled:
                continue
            self._handled.add((queue, message.commit_log_offset))
            if is_dead_letter_mode:
                self._send(one, queue)
            else:
                self.apply_mode(queue, message.queue_offset, one.problem)
        return _without(batch, undecodable) if is_dead_letter_mode and undecodable else batch

    def _send(self, undecodable: UndecodableMessage, queue: MessageQueue) -> None:
        self._sender.send(undecodable, queue)
        _warn_of(queue, undecodable.message.queue_offset, SENT, undecodable.problem)


def _warn_of(queue: MessageQueue, offset: int, action: str, problem: str) -> None:
    log.warning("UNDECODABLE_MESSAGE_BODY: Message of queue=%s offset=%d %s: %s", queue, offset, action, problem)


def _without(batch: pa.RecordBatch, undecodable: list[UndecodableMessage]) -> pa.RecordBatch:
    commit_log_offsets = batch.column(batch.schema.names.index(COMMIT_LOG_OFFSET)).to_numpy()
    is_undecodable = np.isin(commit_log_offsets, [one.message.commit_log_offset for one in undecodable])
    return batch.filter(pa.array(~is_undecodable))
