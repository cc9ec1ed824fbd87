"""What a task does with its rows: check them, encode them, send them, and wait until all are stored."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

import pyarrow as pa

from rocketmq_spark.errors import LocalProtocolError
from rocketmq_spark.options import WriteOptions
from rocketmq_spark.sink.columns import BODY
from rocketmq_spark.sink.message_ids import id_prefix, row_ids
from rocketmq_spark.sink.outgoing_rows import OutgoingRows, cut_by_bytes, outgoing_rows
from rocketmq_spark.sink.row_checks import problems_of
from rocketmq_spark.sink.send_batches import SendBatch, send_batches
from rocketmq_spark.wire.arrow.message_encoder import encode_messages, properties_of, property_of

ENCODED_BYTES: Final = 8 * 1024 * 1024
"""Bodies that are encoded at once."""


class Sender(Protocol):
    """Where batches go: a ``BatchSender``."""

    def send(self, batch: SendBatch) -> None: ...

    def finish(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Task:
    """Whose rows they are: of a partition of ``job``, a query's micro-batch or a batch write."""

    job: str
    partition_id: int


def write_rows(
    batches: Iterable[pa.RecordBatch],
    positions: Mapping[str, int],
    task: Task,
    options: WriteOptions,
    sender: Sender,
) -> int:
    """Send all rows of a task; how many, once the brokers have stored them. ``positions`` of the columns.

    Raises LocalProtocolError[UNSENDABLE_ROW], before anything of its Arrow batch is sent, and what ``sender`` raises.
    """
    prefix = id_prefix(task.job, task.partition_id)
    row_count = 0
    for batch in batches:
        for piece in cut_by_bytes(batch, positions[BODY], ENCODED_BYTES):
            for sendable in _encoded(piece, positions, task, options, prefix, row_count):
                sender.send(sendable)
            row_count += len(piece)
    sender.finish()
    return row_count


def _encoded(
    piece: pa.RecordBatch,
    positions: Mapping[str, int],
    task: Task,
    options: WriteOptions,
    prefix: bytes,
    first_row: int,
) -> Iterable[SendBatch]:
    rows = outgoing_rows(piece, positions, options.topic, first_row)
    properties = _properties(rows)
    problems = problems_of(rows, properties, max_body_bytes=options.max_message_bytes)
    if problems:
        row, problem = next(iter(problems.items()))
        raise LocalProtocolError(
            "UNSENDABLE_ROW",
            row=first_row + row,
            partition=task.partition_id,
            job=task.job,
            problem=problem,
            others=len(problems) - 1,
        )
    ids = row_ids(prefix, first_row, len(rows))
    return send_batches(rows, encode_messages(rows.bodies, ids, properties))


def _properties(rows: OutgoingRows) -> list[pa.BinaryArray]:
    named = [property_of(name, values) for name, values in rows.texts.items()]
    return named if rows.properties is None else [*named, properties_of(rows.properties)]
