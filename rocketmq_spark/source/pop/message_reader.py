"""Executor side of message-based reads: decodes the messages that its task contains.

It opens no connections, except to send undecodable messages to the dead-letter topic.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress

import pyarrow as pa
from pyspark.sql.types import StructType

from rocketmq_spark.options import ReadOptions
from rocketmq_spark.pop.receipt_handles import RecordFormat
from rocketmq_spark.remoting.cluster_client import ClusterClient
from rocketmq_spark.source.pop.message_tasks import Part, extra_string_columns
from rocketmq_spark.source.range_decoding import COMMIT_LOG_OFFSET, in_parts
from rocketmq_spark.source.schema import arrow_schema, canonical_names
from rocketmq_spark.source.undecodable_messages import ClientOf, UndecodablePopMessages
from rocketmq_spark.spark_version import forget_zip_importers
from rocketmq_spark.wire.arrow.column_table import RECEIPT_HANDLE
from rocketmq_spark.wire.arrow.columns import BatchTooLargeError, ColumnDecoder
from rocketmq_spark.wire.arrow.undecodable import UndecodableMessage
from rocketmq_spark.wire.body.subscription import tags_of
from rocketmq_spark.wire.bounds import INNER_MESSAGES
from rocketmq_spark.wire.implementation import column_decoder
from rocketmq_spark.wire.message.stored_message import MAX_OFFSET, first_queue_offset, split_records


def read_parts(
    parts: Sequence[Part],
    options: ReadOptions,
    schema: StructType,
    client_of: ClientOf = ClusterClient.shared,
) -> Iterator[pa.RecordBatch]:
    """Decode ``parts`` and yield the messages that match the subscription, as non-empty batches with the schema
    ``arrow_schema(schema)``, each of limited size (``in_parts``). A generator: it acts on iteration. ``badMessages``
    handles undecodable messages: ``deadLetter`` sends them to the dead-letter topic, waits and omits their rows;
    ``null`` logs them and yields a null body; ``fail`` raises.

    Raises RemoteProtocolError[UNDECODABLE_MESSAGE_BODY] (with ``fail``, and for a proxy's message with ``deadLetter``),
    [CORRUPT_MESSAGE.RESPONSE] or [MALFORMED_RESPONSE.BODY], and what ``DeadLetterSender`` does."""
    forget_zip_importers()
    target, columns = arrow_schema(schema), canonical_names(schema, extra_string_columns(options))
    tags = tags_of(options.message_filter)
    policy = UndecodablePopMessages(options, client_of)
    for part in parts:
        decode = _decode_stored if part.record_format is RecordFormat.STORED else _decode_received
        for batch in filter(len, decode(part, columns, tags, policy)):
            yield from in_parts(pa.RecordBatch.from_arrays(batch.columns, schema=target))


def _decode_stored(
    part: Part, columns: tuple[str, ...], tags: frozenset[str] | None, policy: UndecodablePopMessages
) -> Iterator[pa.RecordBatch]:
    """Decode the stored records of ``part`` and yield batches of ``columns``, which may be empty. ``tags``: keep
    messages with one of these; None: all. Before a batch, ``policy`` handles its undecodable messages: it may log them,
    send dead letters, drop their rows, or raise."""
    stored = tuple(COMMIT_LOG_OFFSET if name == RECEIPT_HANDLE else name for name in columns)
    decoder = column_decoder()((*stored, COMMIT_LOG_OFFSET), broker_name=part.broker_name, tags=tags)
    for found, undecodable in _decode_splitting(decoder, [memoryview(part.body)]):
        batch = policy.apply_mode_to_rows(found, undecodable)
        if RECEIPT_HANDLE in columns:
            batch = _with_handles(batch, columns.index(RECEIPT_HANDLE), part.handles)
        yield batch.select(range(len(columns)))


def _decode_splitting(
    decoder: ColumnDecoder, bodies: Sequence[memoryview]
) -> Iterator[tuple[pa.RecordBatch, list[UndecodableMessage]]]:
    """Decode all messages of ``bodies`` together and yield one batch, with its undecodable messages. If the batch would
    be too large, decode each half of the messages by itself in the same way. A single inner batch is split by
    ``_decode_inner_batch``, which raises BatchTooLargeError if one of its messages is too large."""
    with suppress(BatchTooLargeError):
        yield decoder.decode_with_undecodable(bodies, 0, MAX_OFFSET)
        return
    records = [record for body in bodies for _, _, record in split_records(body)]
    if len(records) == 1:
        begin_offset = first_queue_offset(records[0]) or 0
        yield from _decode_inner_batch(decoder, records, begin_offset, begin_offset + INNER_MESSAGES.maximum)
        return
    middle = len(records) // 2
    yield from _decode_splitting(decoder, records[:middle])
    yield from _decode_splitting(decoder, records[middle:])


def _decode_inner_batch(
    decoder: ColumnDecoder, records: Sequence[memoryview], begin_offset: int, end_offset: int
) -> Iterator[tuple[pa.RecordBatch, list[UndecodableMessage]]]:
    """Decode the messages of one inner batch with queue offsets in ``[begin_offset, end_offset)`` and yield one batch.
    If it would be too large, decode each half of the offsets by itself in the same way. Raises BatchTooLargeError for a
    range of one offset that is too large."""
    try:
        yield decoder.decode_with_undecodable(records, begin_offset, end_offset)
        return
    except BatchTooLargeError:
        if end_offset - begin_offset == 1:
            raise
    middle = (begin_offset + end_offset) // 2
    yield from _decode_inner_batch(decoder, records, begin_offset, middle)
    yield from _decode_inner_batch(decoder, records, middle, end_offset)


def _with_handles(batch: pa.RecordBatch, position: int, handles: Sequence[str]) -> pa.RecordBatch:
    """Return ``batch`` with receipt handles as the column at ``position``, in place of the messages' commit log
    offsets. ``handles``: texts of ``receipt_handle``, which end with that offset, in any order. Raises KeyError for a
    message without a handle."""
    handles_by_offset = {int(handle.rpartition(" ")[2]): handle for handle in handles}
    texts = pa.array(
        [handles_by_offset[commit_log_offset] for commit_log_offset in batch.column(position).to_pylist()], pa.string()
    )
    return batch.set_column(position, RECEIPT_HANDLE, texts)


def _decode_received(
    part: Part, columns: tuple[str, ...], tags: frozenset[str] | None, policy: UndecodablePopMessages
) -> Iterator[pa.RecordBatch]:
    """Decode messages that a proxy delivered and yield batches of ``columns``, which may be empty. ``tags``: keep
    messages with one of these; None: all. Before a batch, ``policy`` logs each undecodable message, whose row has a
    null body, or raises what ``UndecodablePopMessages.apply_mode`` does."""
    from rocketmq_spark.wire.grpc.message_columns import decode_received

    for batch, unreadable in decode_received(part.body, columns, broker_name=part.broker_name, tags=tags):
        for queue, offset, problem in unreadable:
            policy.apply_mode(queue, offset, problem)
        yield batch
