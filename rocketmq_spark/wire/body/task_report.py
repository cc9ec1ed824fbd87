"""Reports of tasks to the member that planned them, on another machine: lost offsets, and sizes of read data.

RocketMQ has no request for reports. A broker forwards GET_CONSUMER_RUNNING_INFO with its body, and no other client
gives this request a body. Any client may send one, so a report begins with a token that only the member and its tasks
have. Source: ``broker/processor/AdminBrokerProcessor.java#callConsumer``.
"""

from __future__ import annotations

import hmac
from typing import NamedTuple

from rocketmq_spark.model import MessageQueue, QueueRange
from rocketmq_spark.wire.body.decoding import decode_body, message_queue
from rocketmq_spark.wire.remoting.fastjson import write_fastjson
from rocketmq_spark.wire.remoting.typed import Object, as_object, int64, objects, text


class Recipient(NamedTuple):
    """Member that accepts reports with ``token``, a random text that no log line and no error may have."""

    client_id: str
    token: str

    def __repr__(self) -> str:
        """Return the recipient as text, without the token."""
        return f"Recipient(client_id={self.client_id!r}, token=...)"


class ReportedLoss(NamedTuple):
    """Offsets that a task has found lost, and the sub-condition of DATA_LOSS by which it has classified them."""

    range: QueueRange
    condition: str


class ReadSize(NamedTuple):
    """Number of offsets of a queue, >= 1, that a task has read, and bytes of their messages, as the broker stores them.
    With a filter at the broker only those of messages that match."""

    queue: MessageQueue
    offsets: int
    size_bytes: int


class TaskReport(NamedTuple):
    """Report of one task."""

    lost: tuple[ReportedLoss, ...] = ()
    read: tuple[ReadSize, ...] = ()


def encode_task_report(report: TaskReport, token: str) -> bytes:
    """Return ``report`` as the body of a GET_CONSUMER_RUNNING_INFO request: ``token``, then JSON. Only the member that
    has ``token`` accepts the report. Raises LocalProtocolError[INVALID_MESSAGE] for text that is not valid Unicode."""
    lost = [
        {
            "begin": one.range.begin_offset,
            "condition": one.condition,
            "end": one.range.end_offset,
            "queue": one.range.queue,
        }
        for one in report.lost
    ]
    read = [{"bytes": one.size_bytes, "offsets": one.offsets, "queue": one.queue} for one in report.read]
    return token.encode() + write_fastjson({"lost": lost, "read": read})


def decode_task_report(body: bytes | memoryview, token: str) -> TaskReport:
    """Decode the report in a request's body that begins with ``token``. Return an empty report, without parsing, for
    any other body: an empty one comes from an operator's tool, one without ``token`` from another client. Raises
    RemoteProtocolError[MALFORMED_RESPONSE.BODY] if what follows ``token`` is no report."""
    expected = token.encode()
    if not hmac.compare_digest(bytes(body[: len(expected)]), expected):
        return TaskReport()
    return decode_body("task report", body[len(expected) :], _task_report)


def _task_report(entry: Object) -> TaskReport:
    """Return the report that a body describes, its parts in order. Raises ValueError as ``_lost`` and ``_read`` do, and
    for a missing list."""
    return TaskReport(tuple(map(_lost, objects(entry, "lost"))), tuple(map(_read, objects(entry, "read"))))


def _lost(entry: Object) -> ReportedLoss:
    """Return lost offsets of one queue. Raises ValueError if a field is missing or of another type, and unless ``0 <=
    begin <= end``."""
    lost = QueueRange(_queue(entry), int64(entry, "begin"), int64(entry, "end"))
    return ReportedLoss(lost, text(entry, "condition"))


def _read(entry: Object) -> ReadSize:
    """Return the size of what a task has read of one queue. Raises ValueError if a field is missing or of another type,
    for less than one offset, or for a negative size."""
    size = ReadSize(_queue(entry), int64(entry, "offsets"), int64(entry, "bytes"))
    if size.offsets < 1 or size.size_bytes < 0:
        raise ValueError(f"not a size: {size.size_bytes} bytes of {size.offsets} offsets")
    return size


def _queue(entry: Object) -> MessageQueue:
    """Return the queue in field ``queue``. Raises ValueError if it is missing or no queue."""
    return message_queue(as_object(entry.get("queue"), "queue"))
