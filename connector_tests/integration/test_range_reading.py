"""Ranges of a real broker, read as an executor reads them: short answers, filters and hash collisions among them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, pairwise, zip_longest
from random import Random

import pyarrow as pa
import pytest

from connector_tests.support.timeouts import PATIENT_MS
from rocketmq_spark.embedded import EmbeddedCluster
from rocketmq_spark.embedded.pytest_plugin import unique_name
from rocketmq_spark.errors import DataLossError
from rocketmq_spark.model import BrokerAddress, Message, MessageQueue, QueueRange
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.remoting.cluster_client import ClusterClient
from rocketmq_spark.remoting.namesrv import NameServers
from rocketmq_spark.remoting.pool import ConnectionPool
from rocketmq_spark.remoting.producer import Producer
from rocketmq_spark.source.partition_reader import read_ranges
from rocketmq_spark.source.schema import default_schema
from rocketmq_spark.source.stream.offsets import QueueProgress, SourceOffset
from rocketmq_spark.source.stream.stream_reader import RocketMQInputPartition, RocketMQStreamReader

pytestmark = [pytest.mark.broker, pytest.mark.usefixtures("implementation")]

COUNT = 3_000
LARGE_BYTES = 60_000
"""Five of these fill an answer."""

SUBSCRIBED_TAG, COLLIDING_TAG = "AaAa", "BBBB"
"""Java's string hash is the same, so a broker takes one for the other."""


def tag_of(offset: int) -> str:
    """Dense stretches, sparse ones, and some with nothing at all."""
    part = offset * 10 // COUNT
    if part in (3, 7):
        return "Other"
    return Random(offset).choice([SUBSCRIBED_TAG, COLLIDING_TAG, *["Other"] * (part % 4)])


def body_of(offset: int) -> bytes:
    return b"%d" % offset + bytes(LARGE_BYTES if offset % 100 < 7 else 20)


@pytest.fixture(scope="module")
def filled(cluster: EmbeddedCluster) -> Iterator[MessageQueue]:
    """A queue with messages 0 to COUNT."""
    topic = cluster.create_topic(unique_name("ranges"), queues=1)
    pool = ConnectionPool(PATIENT_MS)
    name_servers = NameServers((cluster.namesrv_addr,), pool, PATIENT_MS)
    producer = Producer(
        ClusterClient((cluster.namesrv_addr,), pool, PATIENT_MS), group="tests", initial_queue_index=lambda: 0
    )
    for begin in range(0, COUNT, 20):
        offsets = range(begin, begin + 20)
        producer.send_batch([Message(topic, body_of(offset), tags=tag_of(offset)) for offset in offsets])
    (queue,) = name_servers.query_topic_route(topic).read_queues()
    yield queue
    pool.close()


def options_of(cluster: EmbeddedCluster, topic: str, **more: str) -> ReadOptions:
    given = {"namesrvAddr": cluster.namesrv_addr, "consumerGroup": "range-readers", "subscribe": topic}
    return ReadOptions.parse(given | more)


def read(cluster: EmbeddedCluster, queue_range: QueueRange, expression: str = "*", **more: str) -> list[int]:
    """Offsets of the rows of a range, each checked against the body that was sent."""
    options = options_of(cluster, queue_range.queue.topic, subExpression=expression, **more)
    return checked_offsets(read_ranges([queue_range], options, default_schema()))


def checked_offsets(batches: Iterable[pa.RecordBatch]) -> list[int]:
    rows = [row for batch in batches for row in batch.to_pylist()]
    offsets = [int(row["queueOffset"]) for row in rows]
    assert [row["body"] for row in rows] == [body_of(offset) for offset in offsets]
    return offsets


@pytest.mark.parametrize(("begin", "end"), [(0, COUNT), (0, 1), (5, 5), (17, 2_345), (COUNT - 1, COUNT)])
def test_a_range_has_each_of_its_messages_once_and_in_order(
    cluster: EmbeddedCluster, filled: MessageQueue, begin: int, end: int
) -> None:
    assert read(cluster, QueueRange(filled, begin, end)) == list(range(begin, end))


@pytest.mark.parametrize(("begin", "end"), [(0, COUNT), (17, 2_345), (900, 1_200), (911, 912)])
def test_a_filtered_range_has_each_matching_message_once_and_in_order(
    cluster: EmbeddedCluster, filled: MessageQueue, begin: int, end: int
) -> None:
    expected = [offset for offset in range(begin, end) if tag_of(offset) == SUBSCRIBED_TAG]
    assert read(cluster, QueueRange(filled, begin, end), SUBSCRIBED_TAG) == expected


def test_neighbouring_ranges_share_no_message(cluster: EmbeddedCluster, filled: MessageQueue) -> None:
    """Also where a filtered answer to the first reaches into the second."""
    ends = [0, 333, 1_000, 1_001, 2_222, COUNT]
    parts = [QueueRange(filled, begin, end) for begin, end in pairwise(ends)]
    rows = [offset for part in parts for offset in read(cluster, part, f"{SUBSCRIBED_TAG} || {COLLIDING_TAG}")]
    assert rows == [offset for offset in range(COUNT) if tag_of(offset) != "Other"]


def test_a_task_reads_its_ranges_one_after_another(cluster: EmbeddedCluster, filled: MessageQueue) -> None:
    ends = [0, 1, 700, 701, 702, 703, 704, 705, 706, 707, 708, 1_500, COUNT]
    ranges = [QueueRange(filled, begin, end) for begin, end in pairwise(ends)]
    options = options_of(cluster, filled.topic)
    assert checked_offsets(read_ranges(ranges, options, default_schema())) == list(range(COUNT))


@pytest.mark.parametrize(
    ("more", "sizes"),
    [({}, [COUNT]), ({"minPartitions": "6"}, [500] * 6), ({"maxRecordsPerPartition": "1000"}, [1_000] * 3)],
)
def test_the_tasks_of_a_batch_read_all_of_it(
    cluster: EmbeddedCluster, filled: MessageQueue, more: dict[str, str], sizes: list[int]
) -> None:
    reader = RocketMQStreamReader(options_of(cluster, filled.topic, **more), default_schema())
    tasks = reader.partitions({}, SourceOffset({filled: QueueProgress(0, COUNT)}).to_json())
    reader.stop()
    offsets = [checked_offsets(reader.read(task)) for task in tasks]
    assert [len(of_task) for of_task in offsets] == sizes
    assert [offset for of_task in offsets for offset in of_task] == list(range(COUNT))


def test_a_batch_is_read_where_the_refresh_found_it_and_attempts_side_by_side_read_the_same(
    cluster: EmbeddedCluster, filled: MessageQueue
) -> None:
    reader = RocketMQStreamReader(options_of(cluster, filled.topic), default_schema())
    end = SourceOffset({filled: QueueProgress(0, COUNT)}).to_json()
    (task,), (again,) = reader.partitions({}, end), reader.partitions({}, end)
    reader.stop()
    assert isinstance(task, RocketMQInputPartition)
    assert task.masters == {filled.broker_name: BrokerAddress(cluster.advertised_addr())}
    one, other = read_one_by_one(reader.read(task), reader.read(again))
    assert checked_offsets(one) == list(range(COUNT))
    assert pa.Table.from_batches(one).equals(pa.Table.from_batches(other)), "whatever the broker cut its answers to"


def read_one_by_one(*attempts: Iterator[pa.RecordBatch]) -> tuple[list[pa.RecordBatch], ...]:
    """A batch of each attempt, as long as any has one."""
    rounds = list(zip_longest(*attempts))
    return tuple([batch for batch in batches if batch is not None] for batches in zip(*rounds, strict=True))


def test_what_is_skipped_is_omitted_from_the_batch_that_is_read_again_and_of_no_other(
    cluster: EmbeddedCluster, filled: MessageQueue
) -> None:
    skipped = str(QueueRange(filled, 0, COUNT))
    reader = RocketMQStreamReader(options_of(cluster, filled.topic, skipRanges=skipped), default_schema())
    end = SourceOffset({filled: QueueProgress(0, COUNT)}).to_json()
    read_again = [list(chain.from_iterable(reader.read(one) for one in reader.partitions({}, end))) for _ in range(2)]
    task_count = len(reader.partitions({}, end))
    later = reader.partitions({}, SourceOffset({filled: QueueProgress(0, COUNT, 1)}).to_json())
    reader.stop()
    assert read_again == [[], []]
    assert task_count == 1, "a task keeps its number, which message IDs are made of"
    assert len(later) == 1


@pytest.mark.long
def test_messages_that_the_broker_never_had_are_lost_in_the_end(cluster: EmbeddedCluster, filled: MessageQueue) -> None:
    """As after a broker has lost the end of a queue: 30 s are given to it to come back."""
    beyond = QueueRange(filled, COUNT - 5, COUNT + 1_000_000)
    with pytest.raises(DataLossError, match=rf"\[{COUNT}, {COUNT + 1_000_000}\)"):
        read(cluster, beyond)
    assert read(cluster, beyond, failOnDataLoss="false") == list(range(COUNT - 5, COUNT))
