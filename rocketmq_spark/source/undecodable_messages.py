"""Option ``badMessages``: handling of messages with undecodable bodies, on the executor that reads them.

A task may be retried, and two tasks may read parts of one inner batch. Its dead letter is sent at least once, always
with the same RETRY_TOPIC and ORIGIN_MESSAGE_ID. The broker acknowledges it before the rows beside it leave the task.
With message-based load balancing it is thus stored before its message is acknowledged, with the batch.
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
from rocketmq_spark.options import RangeReadOptions, ReadOptions
from rocketmq_spark.remoting.broker import Broker
from rocketmq_spark.remoting.clock import monotonic_ms
from rocketmq_spark.remoting.cluster_client import ClusterClient
from rocketmq_spark.remoting.failures import Failures
from rocketmq_spark.remoting.outage_log import broker_subject
from rocketmq_spark.remoting.retry import send_back_policy
from rocketmq_spark.source.dead_letter import dead_letter
from rocketmq_spark.source.range_decoding import COMMIT_LOG_OFFSET, QUEUE_OFFSET
from rocketmq_spark.wire.arrow.undecodable import UndecodableMessage

log = logging.getLogger(__name__)

SENT: Final = "sent to the group's dead-letter topic (badMessages=deadLetter)"
NULL_BODY: Final = "read with a null body (badMessages=null)"


class DeadLetterSender:
    """Sender of dead letters from executors, with the same retry deadlines as other requests. One per task, or per
    range of a task. Not thread-safe."""

    def __init__(self, options: RangeReadOptions, client: ClusterClient) -> None:
        policy = send_back_policy(options.cluster_timeout_ms, options.missing_topic_timeout_ms)
        self._failures = Failures(policy, monotonic_ms)
        self._client = client
        self._group = options.consumer_group

    def send(self, undecodable: UndecodableMessage, queue: MessageQueue) -> None:
        """Send ``undecodable``, read from ``queue``, to the group's dead-letter topic (DLQ) on the queue's broker, and
        wait until it is stored.

        Raises the permanent error that prevents it, RouteError if no broker has the topic for
        ``missingTopicTimeoutMs``, TransportError[CLUSTER_TIMEOUT] if a broker, or all name servers, are unresponsive
        for ``clusterTimeoutMs``.
        """
        letter, subject = dead_letter(undecodable, queue), broker_subject(queue.broker_name)

        def send(broker: Broker) -> None:
            broker.send_dead_letter(self._group, letter, queue.broker_name)

        self._failures.retry_until_success(lambda: self._client.call(queue, send), subject, queue.topic, time.sleep)


class UndecodableMessages:
    """Handling of undecodable messages of one range of ``queue``, by ``badMessages``, in the order of their offsets.
    Not thread-safe."""

    def __init__(self, queue: MessageQueue, options: RangeReadOptions, client: ClusterClient) -> None:
        self._queue = queue
        self._mode = options.bad_messages
        self._sender = DeadLetterSender(options, client)
        self._handled: set[tuple[int, int]] = set()
        """Messages of the last call that handled any, by first offset and commit log offset: of messages that an
        earlier call has handled, those that are found again are among them."""

    def apply_mode(self, batch: pa.RecordBatch, undecodable: list[UndecodableMessage]) -> pa.RecordBatch:
        """Apply ``badMessages`` to ``undecodable``, whose rows have a null body, and return the rows of ``batch`` to
        keep. With ``deadLetter``, send each message to the dead-letter topic, wait until it is stored, and omit its
        rows; with ``null``, keep them. Log a warning. A message is sent and logged once. ``undecodable`` may have it
        twice, if several pulls returned its inner batch, or an earlier call may have handled it; its rows are kept or
        omitted as before.

        Raises RemoteProtocolError[UNDECODABLE_MESSAGE_BODY] with ``fail``; with ``deadLetter`` the errors of
        ``DeadLetterSender.send``.
        """
        found = {(one.offsets.start, one.message.commit_log_offset): one for one in undecodable}
        new = [message for key, message in found.items() if key not in self._handled]
        if not new:
            return self._rows_to_keep(batch, undecodable)
        if self._mode == "fail":
            first = new[0]
            offset = first.offsets.start
            raise RemoteProtocolError(
                "UNDECODABLE_MESSAGE_BODY", queue=str(self._queue), offset=offset, problem=first.problem
            )
        self._handled = set(found)
        if self._mode == "deadLetter":
            for message in new:
                self._sender.send(message, self._queue)
        self._warn(new)
        return self._rows_to_keep(batch, undecodable)

    def _rows_to_keep(self, batch: pa.RecordBatch, undecodable: list[UndecodableMessage]) -> pa.RecordBatch:
        """Return ``batch`` itself, or, with ``deadLetter`` and any ``undecodable``, a batch without the rows that have
        one of their queue offsets. Send nothing."""
        if self._mode != "deadLetter" or not undecodable:
            return batch
        return _without(batch, QUEUE_OFFSET, [offset for message in undecodable for offset in message.offsets])

    def _warn(self, undecodable: list[UndecodableMessage]) -> None:
        """Log one warning for all of ``undecodable``, with the action and the first problem."""
        action = SENT if self._mode == "deadLetter" else NULL_BODY
        offsets = " ".join(f"[{message.offsets.start}, {message.offsets.stop})" for message in undecodable)
        log.warning(
            "UNDECODABLE_MESSAGE_BODY: Messages of queue=%s offsets=%s %s; first problem: %s",
            self._queue,
            offsets,
            action,
            undecodable[0].problem,
        )


ClientOf: TypeAlias = Callable[[ReadOptions], ClusterClient]


class UndecodablePopMessages:
    """Handling of undecodable messages of one task with message-based load balancing, by ``badMessages``.
    ``client_of``: called once, for the first dead letter. Not thread-safe."""

    def __init__(self, options: ReadOptions, client_of: ClientOf) -> None:
        self._options = options
        self._client_of = client_of
        self._handled: set[tuple[MessageQueue, int]] = set()
        """Handled messages by queue and commit log offset: rows of one message may be in several batches."""

    @cached_property
    def _sender(self) -> DeadLetterSender:
        return DeadLetterSender(self._options, self._client_of(self._options))

    def apply_mode(self, queue: MessageQueue, offset: int, problem: str) -> None:
        """If ``badMessages`` is ``null``, log a message whose row stays, with a null body. Otherwise raise
        RemoteProtocolError[UNDECODABLE_MESSAGE_BODY]. With ``deadLetter``, which excludes a proxy, only messages that
        an earlier start received through a proxy reach this, from the spool."""
        if self._options.bad_messages == "deadLetter":
            problem += "; it was received through a proxy, so only 'badMessages' 'null' can skip it"
        if self._options.bad_messages != "null":
            raise RemoteProtocolError("UNDECODABLE_MESSAGE_BODY", queue=str(queue), offset=offset, problem=problem)
        _warn_of(queue, offset, NULL_BODY, problem)

    def apply_mode_to_rows(self, batch: pa.RecordBatch, undecodable: list[UndecodableMessage]) -> pa.RecordBatch:
        """Apply ``badMessages`` to ``undecodable``, whose rows have a null body, and return the rows of ``batch`` to
        keep, by its column COMMIT_LOG_OFFSET. With ``deadLetter``, send each message to the dead-letter topic, wait
        until it is stored, and omit its rows; with ``null``, keep them. Log a warning for each message, once in a task.

        Raises RemoteProtocolError[UNDECODABLE_MESSAGE_BODY] with ``fail``; with ``deadLetter`` the errors of
        ``DeadLetterSender.send``.
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
        if not (is_dead_letter_mode and undecodable):
            return batch
        return _without(batch, COMMIT_LOG_OFFSET, [one.message.commit_log_offset for one in undecodable])

    def _send(self, undecodable: UndecodableMessage, queue: MessageQueue) -> None:
        """Send a dead letter, wait until it is stored, and log a warning; see ``DeadLetterSender.send``."""
        self._sender.send(undecodable, queue)
        _warn_of(queue, undecodable.message.queue_offset, SENT, undecodable.problem)


def _warn_of(queue: MessageQueue, offset: int, action: str, problem: str) -> None:
    """Log a warning of one undecodable message. ``action``: its handling, as text."""
    log.warning("UNDECODABLE_MESSAGE_BODY: Message of queue=%s offset=%d %s: %s", queue, offset, action, problem)


def _without(batch: pa.RecordBatch, column: str, offsets: list[int]) -> pa.RecordBatch:
    """Return ``batch`` without the rows that have one of ``offsets`` in ``column``, or in the first of several columns
    of that name."""
    is_omitted = np.isin(batch.column(batch.schema.names.index(column)).to_numpy(), offsets)
    return batch.filter(pa.array(~is_omitted))
