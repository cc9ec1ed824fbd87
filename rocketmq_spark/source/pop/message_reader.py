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
from rocketmq_spark.source.implementation import column_decoder
from rocketmq_spark.source.pop.message_tasks import Part
from rocketmq_spark.source.schema import arrow_schema, canonical_names
from rocketmq_spark.wire.arrow.bad_messages import BadMessage
from rocketmq_spark.wire.body.subscription import exact_tags

log = logging.getLogger(__name__)

ALL: Final = 2**63 - 1


def read_parts(parts: Sequence[Part], options: ReadOptions, schema: StructType) -> Iterator[pa.RecordBatch]:
    """All messages of ``parts`` that the subscription wants, as batches of exactly ``arrow_schema(schema)``.

    Raises RemoteProtocolError[BAD_MESSAGE] (with ``badMessages`` ``fail``) or [CORRUPT_MESSAGE].
    """
    target, columns = arrow_schema(schema), canonical_names(schema)
    tags = exact_tags(options.sub_expression)
    for part in parts:
        decoder = column_decoder()(columns, broker_name=part.broker_name, tags=tags)
        batch, bad = decoder.decode_around([part.body], 0, ALL)
        for message in bad:
            _settle(message, options)
        if len(batch):
            yield pa.RecordBatch.from_arrays(batch.columns, schema=target)


def _settle(bad: BadMessage, options: ReadOptions) -> None:
    message = bad.message
    queue = str(MessageQueue(message.topic, message.broker_name, message.queue_id))
    if options.bad_messages == "fail":
        raise RemoteProtocolError("BAD_MESSAGE", queue=queue, offset=message.queue_offset, problem=bad.problem)
    log.warning("bad message read without body: queue=%s offset=%d: %s", queue, message.queue_offset, bad.problem)
