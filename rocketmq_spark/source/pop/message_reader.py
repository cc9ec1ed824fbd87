"""What an executor runs where messages travel with their tasks: it decodes them, and asks nobody."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa
from pyspark.sql.types import StructType

from rocketmq_spark.errors import RemoteProtocolError
from rocketmq_spark.model import MessageQueue
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.pop.handles import Form
from rocketmq_spark.source.implementation import column_decoder
from rocketmq_spark.source.pop.message_tasks import Part
from rocketmq_spark.source.schema import arrow_schema, canonical_names
from rocketmq_spark.wire.body.subscription import exact_tags

log = logging.getLogger(__name__)

ALL: Final = 2**63 - 1


def read_parts(parts: Sequence[Part], options: ReadOptions, schema: StructType) -> Iterator[pa.RecordBatch]:
    """All messages of ``parts`` that the subscription wants, as batches of exactly ``arrow_schema(schema)``.

    Raises RemoteProtocolError[BAD_MESSAGE] (with ``badMessages`` ``fail``), [CORRUPT_MESSAGE] or [BAD_BODY].
    """
    target, columns = arrow_schema(schema), canonical_names(schema)
    tags = exact_tags(options.sub_expression)
    for part in parts:
        decode = _decode_stored if part.form is Form.STORED else _decode_received
        batch = decode(part, columns, tags, options)
        if len(batch):
            yield pa.RecordBatch.from_arrays(batch.columns, schema=target)


def _decode_stored(
    part: Part, columns: tuple[str, ...], tags: frozenset[str] | None, options: ReadOptions
) -> pa.RecordBatch:
    decoder = column_decoder()(columns, broker_name=part.broker_name, tags=tags)
    batch, bad = decoder.decode_around([part.body], 0, ALL)
    for message, problem in ((one.message, one.problem) for one in bad):
        queue = MessageQueue(message.topic, message.broker_name, message.queue_id)
        _settle(queue, message.queue_offset, problem, options)
    return batch


def _decode_received(
    part: Part, columns: tuple[str, ...], tags: frozenset[str] | None, options: ReadOptions
) -> pa.RecordBatch:
    from rocketmq_spark.wire.grpc.message_columns import decode_received

    batch, unreadable = decode_received(part.body, columns, broker_name=part.broker_name, tags=tags)
    for queue, offset, problem in unreadable:
        _settle(queue, offset, problem, options)
    return batch


def _settle(queue: MessageQueue, offset: int, problem: str, options: ReadOptions) -> None:
    if options.bad_messages == "fail":
        raise RemoteProtocolError("BAD_MESSAGE", queue=str(queue), offset=offset, problem=problem)
    log.warning("bad message read without body: queue=%s offset=%d: %s", queue, offset, problem)
