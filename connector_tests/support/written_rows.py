"""Rows that a task writes to a real broker, without Spark, and what its readers find."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql.types import StructType

from connector_tests.support.admin_broker import AdminBroker
from connector_tests.support.timeouts import PATIENT, PATIENT_MS
from rocketmq_spark.embedded import EmbeddedCluster
from rocketmq_spark.model import BrokerAddress, MessageQueue, QueueRange
from rocketmq_spark.options import ReadOptions, WriteOptions
from rocketmq_spark.remoting.namesrv import NameServers
from rocketmq_spark.remoting.pool import ConnectionPool
from rocketmq_spark.sink.batch_sender import BatchSender
from rocketmq_spark.sink.write_task import Columns, WriteTask, write_rows
from rocketmq_spark.source.partition_reader import read_ranges
from rocketmq_spark.source.schema import default_schema

SCHEMA = pa.schema(
    {
        "body": pa.binary(),
        "tags": pa.string(),
        "keys": pa.string(),
        "properties": pa.map_(pa.string(), pa.string()),
        "shardingKey": pa.string(),
        "brokerName": pa.string(),
        "queueId": pa.int32(),
        "delayLevel": pa.int32(),
        "delaySeconds": pa.int64(),
        "deliverTimestamp": pa.timestamp("us", tz="UTC"),
        "topic": pa.string(),
    }
)
COLUMNS = Columns({name: position for position, name in enumerate(SCHEMA.names)})


def arrow(rows: Iterable[dict[str, Any]]) -> pa.RecordBatch:
    """Rows as Spark hands them over; what one does not name is null."""
    return pa.RecordBatch.from_pylist(list(rows), schema=SCHEMA)


def row_number(message_id: str) -> int:
    """Return the number of a row in its task, as its ID has it."""
    return int(message_id[20:], 16)


def write(
    namesrv_addr: str,
    topic: str,
    batches: Iterable[pa.RecordBatch],
    task: WriteTask,
    pool: ConnectionPool,
    **given: str,
) -> int:
    """What one attempt of a task does. ``topic`` is empty where rows name theirs."""
    topics = {"topic": topic} if topic else {}
    options = WriteOptions.parse({"namesrvAddr": namesrv_addr, **topics, **PATIENT, **given})
    return write_rows(batches, COLUMNS, task, options, BatchSender(options, pool))


def write_by_body(
    namesrv_addr: str, topic: str, batches: Iterable[pa.RecordBatch], task: WriteTask, pool: ConnectionPool
) -> int:
    """The same, where rows with equal bodies have one ID, wherever they are sent."""
    options = WriteOptions.parse({"namesrvAddr": namesrv_addr, "topic": topic, **PATIENT})
    columns = Columns(COLUMNS.parts, id_positions=(SCHEMA.get_field_index("body"),))
    return write_rows(batches, columns, task, options, BatchSender(options, pool))


def stored(cluster: EmbeddedCluster, topic: str, pool: ConnectionPool, *columns: str) -> list[dict[str, Any]]:
    """All that our source reads of a topic, each queue in its order; of all columns unless some are named."""
    return [row for batch in stored_batches(cluster, topic, pool, *columns) for row in batch.to_pylist()]


def stored_batches(
    cluster: EmbeddedCluster, topic: str, pool: ConnectionPool, *columns: str
) -> Iterator[pa.RecordBatch]:
    """The same as it comes."""
    ranges = [QueueRange(queue, 0, end) for queue, end in sorted(ends(cluster, topic, pool).items())]
    given = {"namesrvAddr": cluster.namesrv_addr, "subscribe": topic, **PATIENT}
    options = ReadOptions.parse({**given, "consumerGroup": "readers-of-what-was-written"})
    whole = default_schema(include_properties=True)
    schema = StructType([whole[name] for name in columns]) if columns else whole
    return iter(read_ranges(ranges, options, schema))


def ends(cluster: EmbeddedCluster, topic: str, pool: ConnectionPool) -> dict[MessageQueue, int]:
    """Where each queue ends, with all that its broker has confirmed."""
    route = NameServers((cluster.namesrv_addr,), pool, PATIENT_MS).query_topic_route(topic)
    found: dict[MessageQueue, int] = {}
    for name in {queue.broker_name for queue in route.read_queues()}:
        broker = AdminBroker(BrokerAddress(cluster.advertised_addr(name)), pool, PATIENT_MS)
        broker.await_dispatch()
        found |= {queue: held.max_offset for queue, held in broker.query_topic_stats(topic).items()}
    return found
