"""``badMessages`` where messages are shared: what becomes of those whose bodies cannot be read, on the executor.

A task may run again, and so may its batch: a dead letter comes at least once. It is stored, answered, before the rows
beside it leave the task; so it is there before its message is acknowledged, with the batch.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import cached_property
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa

from rocketmq_spark.errors import RemoteProtocolError
from rocketmq_spark.model import MessageQueue
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.pull.executor_client import ExecutorClient
from rocketmq_spark.source.bad_messages import DeadLetterSender
from rocketmq_spark.wire.arrow.bad_messages import BadMessage

log = logging.getLogger(__name__)

COMMIT_LOG_OFFSET: Final = "commitLogOffset"

ClientOf: TypeAlias = Callable[[ReadOptions], ExecutorClient]


class BadSharedMessages:
    """Those of one task. Not thread-safe."""

    def __init__(self, options: ReadOptions, client_of: ClientOf) -> None:
        self._options = options
        self._client_of = client_of
        self._settled: set[tuple[MessageQueue, int]] = set()
        """By queue and place in the commit log: rows of one message may come in several batches."""

    @cached_property
    def _sender(self) -> DeadLetterSender:
        return DeadLetterSender(self._options, self._client_of(self._options))

    def settle(self, queue: MessageQueue, offset: int, problem: str) -> None:
        """Of a message whose row stays, without body. Raises RemoteProtocolError[BAD_MESSAGE] with ``fail``; with
        ``deadLetter`` too, which brokers' messages alone meet, unless a spool has kept those of a proxy."""
        if self._options.bad_messages == "deadLetter":
            problem += "; it came through a proxy, so only 'null' leads past it"
        if self._options.bad_messages != "null":
            raise RemoteProtocolError("BAD_MESSAGE", queue=str(queue), offset=offset, problem=problem)
        log.warning("bad message read without body: queue=%s offset=%d: %s", queue, offset, problem)

    def settle_stored(self, batch: pa.RecordBatch, bad: list[BadMessage]) -> pa.RecordBatch:
        """The rows of ``batch`` that stay, by its column COMMIT_LOG_OFFSET; those of ``bad`` have no body.

        Raises RemoteProtocolError[BAD_MESSAGE] with ``fail``; with ``deadLetter`` what ``DeadLetterSender`` does.
        """
        sends = self._options.bad_messages == "deadLetter"
        for one in bad:
            message = one.message
            queue = MessageQueue(message.topic, message.broker_name, message.queue_id)
            if (queue, message.commit_log_offset) in self._settled:
                continue
            self._settled.add((queue, message.commit_log_offset))
            if sends:
                self._send(one, queue)
            else:
                self.settle(queue, message.queue_offset, one.problem)
        return _without(batch, bad) if sends and bad else batch

    def _send(self, bad: BadMessage, queue: MessageQueue) -> None:
        self._sender.send(bad, queue)
        done = "bad message sent to the dead letter topic: queue=%s offset=%d: %s"
        log.warning(done, queue, bad.message.queue_offset, bad.problem)


def _without(batch: pa.RecordBatch, bad: list[BadMessage]) -> pa.RecordBatch:
    places = batch.column(batch.schema.names.index(COMMIT_LOG_OFFSET)).to_numpy()
    is_bad = np.isin(places, [one.message.commit_log_offset for one in bad])
    return batch.filter(pa.array(~is_bad))
