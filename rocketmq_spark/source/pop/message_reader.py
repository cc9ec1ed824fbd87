"""What an executor runs where messages travel with their tasks: it decodes them, and speaks to nobody, unless bodies
cannot be read and their messages are to be dead letters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa
from pyspark.sql.types import StructType

from rocketmq_spark.options import ReadOptions
from rocketmq_spark.pop.handles import Form
from rocketmq_spark.pull.executor_client import ExecutorClient
from rocketmq_spark.source.arrow_schema import arrow_schema
from rocketmq_spark.source.implementation import column_decoder
from rocketmq_spark.source.pop.bad_shared_messages import COMMIT_LOG_OFFSET, BadSharedMessages, ClientOf
from rocketmq_spark.source.pop.message_tasks import Part, texts_beside_columns
from rocketmq_spark.source.schema import canonical_names
from rocketmq_spark.wire.arrow.column_table import RECEIPT_HANDLE
from rocketmq_spark.wire.body.subscription import exact_tags

ALL: Final = 2**63 - 1


def read_parts(
    parts: Sequence[Part],
    options: ReadOptions,
    schema: StructType,
    client_of: ClientOf = ExecutorClient.shared,
) -> Iterator[pa.RecordBatch]:
    """All messages of ``parts`` that the subscription wants, as batches of exactly ``arrow_schema(schema)``.

    Raises RemoteProtocolError[BAD_MESSAGE] (with ``badMessages`` ``fail``), [CORRUPT_MESSAGE] or [BAD_BODY], and what
    ``DeadLetterSender`` does.
    """
    target, columns = arrow_schema(schema), canonical_names(schema, texts_beside_columns(options))
    tags = exact_tags(options.sub_expression)
    settling = BadSharedMessages(options, client_of)
    for part in parts:
        decode = _decode_stored if part.form is Form.STORED else _decode_received
        batch = decode(part, columns, tags, settling)
        if len(batch):
            yield pa.RecordBatch.from_arrays(batch.columns, schema=target)


def _decode_stored(
    part: Part, columns: tuple[str, ...], tags: frozenset[str] | None, settling: BadSharedMessages
) -> pa.RecordBatch:
    stored = tuple(COMMIT_LOG_OFFSET if name == RECEIPT_HANDLE else name for name in columns)
    decoder = column_decoder()((*stored, COMMIT_LOG_OFFSET), broker_name=part.broker_name, tags=tags)
    batch = settling.settle_stored(*decoder.decode_around([part.body], 0, ALL))
    if RECEIPT_HANDLE in columns:
        batch = _with_handles(batch, columns.index(RECEIPT_HANDLE), part.handles)
    return batch.select(range(len(columns)))


def _with_handles(batch: pa.RecordBatch, position: int, handles: Sequence[str]) -> pa.RecordBatch:
    """In place of the messages' places in the commit log, by which they are told apart."""
    by_place = {int(handle.rpartition(" ")[2]): handle for handle in handles}
    texts = pa.array([by_place[place] for place in batch.column(position).to_pylist()], pa.string())
    return batch.set_column(position, RECEIPT_HANDLE, texts)


def _decode_received(
    part: Part, columns: tuple[str, ...], tags: frozenset[str] | None, settling: BadSharedMessages
) -> pa.RecordBatch:
    from rocketmq_spark.wire.grpc.message_columns import decode_received

    batch, unreadable = decode_received(part.body, columns, broker_name=part.broker_name, tags=tags)
    for queue, offset, problem in unreadable:
        settling.settle(queue, offset, problem)
    return batch
