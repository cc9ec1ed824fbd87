"""Queues that become others while they are read: a topic that is recreated, a queue that retention has emptied, a batch
that misses messages when it is replayed."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest
from pyspark.errors import PythonException, StreamingQueryException
from pyspark.sql import SparkSession

import rocketmq_spark
from connector_tests.spark.conftest import StreamOf
from connector_tests.support.cluster_pool import RestingCluster
from connector_tests.support.streams import TIMEOUT_MS, TIMEOUT_S, Stream, Topic, eventually
from connector_tests.support.written_rows import stored
from rocketmq_spark.embedded import EmbeddedCluster
from rocketmq_spark.embedded.pytest_plugin import unique_name
from rocketmq_spark.errors import MembershipError
from rocketmq_spark.model import Message, QueueRange
from rocketmq_spark.remoting.cluster_client import ClusterClient
from rocketmq_spark.remoting.pool import ConnectionPool
from rocketmq_spark.remoting.producer import Producer
from rocketmq_spark.source.skipped_ranges import as_skip_ranges

pytestmark = pytest.mark.full

RECREATED: Final = "TOPIC_RECREATED|QUEUE_TRUNCATED|OFFSETS_UNAVAILABLE"

FILE_BYTES: Final = 64 * 1024
FILLER_BYTES: Final = 8_000


def recreate(cluster: EmbeddedCluster, topic: Topic) -> None:
    cluster.delete_topic(topic.name)
    cluster.create_topic(topic.name, 4)


@pytest.mark.parametrize("count", [8, 40])
def test_a_recreated_topic_while_a_query_runs_is_read_from_its_first_message(
    cluster: EmbeddedCluster, messages: Topic, stream: StreamOf, group: str, count: int
) -> None:
    """Whether it has outgrown what the query has read (24) or not. A third of its messages used to be skipped."""
    before = messages.send(24)
    query = stream(failOnDataLoss="false")
    with query.running():
        eventually(lambda: query.bodies() == sorted(before), "all rows of the old topic")
        recreate(cluster, messages)
        after = messages.send(count)
        eventually(lambda: set(after) <= set(query.bodies()), "all rows of the new topic")
        eventually(lambda: messages.lag(group) == 0, "and committed")


def test_a_recreated_topic_while_a_query_runs_fails_it_by_default(
    cluster: EmbeddedCluster, messages: Topic, stream: StreamOf
) -> None:
    before = messages.send(24)
    query = stream()
    with query.running() as running:
        eventually(lambda: query.bodies() == sorted(before), "all rows of the old topic")
        recreate(cluster, messages)
        messages.send(40)
        # What the cause is called depends on whether the query looks before each new queue is as long as the old one.
        with pytest.raises(StreamingQueryException, match=rf"DATA_LOSS\.({RECREATED}).*\[0, 6\)"):
            running.awaitTermination(int(TIMEOUT_S))


def test_a_query_resumes_after_a_graceful_stop_that_had_no_time(messages: Topic, stream: StreamOf, group: str) -> None:
    """It used to plan nothing any more, for ever."""
    sent = messages.send(12)
    query = stream()
    with query.running(processingTime="2 seconds") as running:
        eventually(lambda: query.bodies() == sorted(sent), "all rows")
        eventually(lambda: running.lastProgress is not None, "a first progress")
        with pytest.raises(MembershipError, match="GRACEFUL_STOP_TIMEOUT"):
            rocketmq_spark.stop(running, timeout_s=0.0)
        assert running.isActive
        sent += messages.send(12)
        eventually(lambda: query.bodies() == sorted(sent), "what was sent after that")
        rocketmq_spark.stop(running, timeout_s=TIMEOUT_S)
    assert messages.lag(group) == 0


@pytest.fixture(scope="module")
def forgetful() -> Iterator[EmbeddedCluster]:
    """A cluster whose retention has small files to delete."""
    with RestingCluster(broker_config={"mappedFileSizeCommitLog": str(FILE_BYTES)}) as cluster:
        yield cluster


def fill(filler: Topic) -> None:
    """Store messages in three files after those of other topics."""
    for _ in range(3 * FILE_BYTES // FILLER_BYTES):
        filler.send_batches(1, FILLER_BYTES)


def empty(cluster: EmbeddedCluster, topic: Topic, filler: Topic) -> None:
    fill(filler)
    cluster.expire_messages()
    eventually(lambda: all(one.min_offset == one.max_offset for one in topic.bounds().values()), "retention")


def test_a_queue_that_was_emptied_after_it_had_been_read_begins_again(
    spark: SparkSession, forgetful: EmbeddedCluster, group: str, tmp_path: Path
) -> None:
    """By ``mqadmin cleanExpiredCQ``, which lets it begin at offset 0 again. It used to end the query."""
    topics = [Topic(forgetful, forgetful.create_topic(unique_name(name), 1)) for name in ("emptied", "filler")]
    emptied, filler = topics
    query = Stream(spark, forgetful, emptied.name, group, tmp_path, {})
    sent = emptied.send(10)
    with query.running():
        eventually(lambda: query.bodies() == sorted(sent), "all rows")
        empty(forgetful, emptied, filler)
        forgetful.mqadmin("cleanExpiredCQ", "-b", forgetful.broker_addr())
        eventually(lambda: {one.max_offset for one in emptied.bounds().values()} == {0}, "a queue without an end")
        sent += emptied.send(5)
        eventually(lambda: query.bodies() == sorted(sent), "what was sent after that")
        eventually(lambda: emptied.lag(group) == 0, "and committed")
    for topic in topics:
        topic.close()


def test_a_queue_that_was_empty_when_it_was_met_is_not_mistaken_for_another_of_its_name(
    spark: SparkSession, forgetful: EmbeddedCluster, group: str, tmp_path: Path
) -> None:
    """What a topic recreated holds below the place in the old one used to be skipped, silently."""
    topics = [Topic(forgetful, forgetful.create_topic(unique_name(name), 1)) for name in ("deleted", "filler")]
    deleted, filler = topics
    deleted.send(10)
    empty(forgetful, deleted, filler)
    query = Stream(spark, forgetful, deleted.name, group, tmp_path, {"failOnDataLoss": "false"})
    with query.running() as running:
        eventually(lambda: running.lastProgress is not None, "a first progress")
    forgetful.delete_topic(deleted.name)
    forgetful.create_topic(deleted.name, 1)
    sent = deleted.send(14)
    query.run_to_end()
    assert query.bodies() == sorted(sent)
    for topic in topics:
        topic.close()


@pytest.mark.parametrize("fails", [True, False])
def test_batch_read_names_ranges_that_retention_deleted_after_planning(
    spark: SparkSession, forgetful: EmbeddedCluster, fails: bool
) -> None:
    topics = [Topic(forgetful, forgetful.create_topic(unique_name(name), 1)) for name in ("expired", "filler")]
    expired, filler = topics
    expired.send(10)
    fill(filler)
    expired.send(6)
    reader = spark.read.format("rocketmq").option("namesrvAddr", forgetful.namesrv_addr)
    frame = reader.option("subscribe", expired.name).option("failOnDataLoss", fails).load()
    assert frame.rdd.getNumPartitions() == 1, "planned, and not read"
    forgetful.expire_messages()
    ((queue, held),) = expired.bounds().items()
    assert 0 < held.min_offset < held.max_offset == 16, "nothing was deleted, or everything"
    expired.send(3)
    if fails:
        lost = rf"DATA_LOSS\.OFFSETS_UNAVAILABLE.*\[0, {held.min_offset}\) of {queue}: the broker deleted them"
        with pytest.raises(PythonException, match=lost):
            frame.count()
    else:
        read = [row.queueOffset for row in frame.select("queueOffset").collect()]
        assert sorted(read) == list(range(held.min_offset, 16))
    assert reader.load().count() == 19 - held.min_offset, "a new read begins at the first message that is left"
    for topic in topics:
        topic.close()


def fill_and_leave_room(cluster: EmbeddedCluster, filler: Topic, pool: ConnectionPool) -> None:
    """``fill``, and what is stored next has nearly half of a file before another one begins."""
    fill(filler)
    producer = Producer(ClusterClient((cluster.namesrv_addr,), pool, TIMEOUT_MS), group="tests")
    log_offset = FILE_BYTES - 1
    while log_offset % FILE_BYTES > FILE_BYTES // 2:
        (place,) = producer.send(Message(filler.name, bytes(FILLER_BYTES))).offset_msg_ids
        log_offset = int(place[-16:], 16)


def send_rows(source: Topic, age: str) -> list[str]:
    """Send to each queue rows that nothing distinguishes, between others; returns the bodies."""
    sent: list[str] = []
    for queue in source.queues:
        bodies = [f"{age}-{queue.queue_id}-{number}" for number in range(4)]
        bodies[2:2] = ["click", "click"]
        source.send_to_queue(queue.queue_id, bodies)
        sent += bodies
    return sent


def copy_again(source: Stream, copies: Topic, *, is_replay: bool) -> None:
    """Write the rows of the only batch to another topic; a replay finds it as a crash leaves it, before its commit."""
    checkpoint = source.folder / "checkpoint"
    if is_replay:
        for name in ("0", ".0.crc"):
            (checkpoint / "commits" / name).unlink()
    writer = source.load().select("body").writeStream.format("rocketmq").option("topic", copies.name)
    writer = writer.option("namesrvAddr", source.cluster.namesrv_addr).option("checkpointLocation", str(checkpoint))
    assert (error := rocketmq_spark.run_available_now(writer).exception()) is None, error
    assert [file.name for file in (checkpoint / "commits").glob("[0-9]*")] == ["0"]


@pytest.fixture
def pool() -> Iterator[ConnectionPool]:
    with closing(ConnectionPool(TIMEOUT_MS)) as pool:
        yield pool


def test_replays_that_miss_messages_move_no_id_to_another_row(
    spark: SparkSession, forgetful: EmbeddedCluster, group: str, tmp_path: Path, pool: ConnectionPool
) -> None:
    """Of three attempts the second misses what retention has deleted, the third a range that is skipped too."""
    names = {"source": 3, "filler": 1, "copies": 2}
    source, filler, copies = (Topic(forgetful, forgetful.create_topic(unique_name(one), names[one])) for one in names)
    sent = send_rows(source, "old")
    fill_and_leave_room(forgetful, filler, pool)
    left = send_rows(source, "new")
    sent += left
    copy_again(Stream(spark, forgetful, source.name, group, tmp_path), copies, is_replay=False)
    forgetful.expire_messages()
    logged = [QueueRange(queue, 0, held.max_offset) for queue, held in sorted(source.bounds().items())]
    assert {held.min_offset for held in source.bounds().values()} == {6}, "the old ones were deleted, and no others"
    for skipped in ({}, {"skipRanges": as_skip_ranges([logged[1]])}):
        options = {"failOnDataLoss": "false", **skipped}
        copy_again(Stream(spark, forgetful, source.name, group, tmp_path, options), copies, is_replay=True)

    rows = [(row["msgId"], row["body"].decode()) for row in stored(forgetful, copies.name, pool, "msgId", "body")]
    assert len(rows) == len(sent) + len(left) + len(left) * 2 // 3
    assert len({message_id for message_id, _ in rows}) == len(set(rows)), "one ID, two rows"
    ids = defaultdict(set)
    for message_id, body in rows:
        ids[body].add(message_id)
    assert {body: len(ids[body]) for body in left if body != "click"} == {
        f"new-{queue_id}-{number}": count for queue_id, count in enumerate((2, 2, 3)) for number in range(4)
    }, "before the gap a row keeps its ID, behind it has another one"

    reader = spark.read.format("rocketmq").options(namesrvAddr=forgetful.namesrv_addr, subscribe=copies.name)
    once = Counter(row.body.decode() for row in reader.load().dropDuplicates(["msgId"]).select("body").collect())
    assert once >= Counter(sent)
    for topic in (source, filler, copies):
        topic.close()
