"""One write, in the midst of which everything is killed once: the program, a worker, the broker. No row is lost.

Rows are kept back while a task has sent some of its rows and not the others. So each fault comes in mid-write, whatever
the machine's speed.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from pyspark.sql import SparkSession

from connector_tests.support.cluster_pool import ClusterPool
from connector_tests.support.process_tree import kill_tree
from connector_tests.support.read_once import by_time_of_reading, write_to_end, written
from connector_tests.support.streams import TIMEOUT_S, Stream, eventually
from connector_tests.support.timeouts import PATIENT_MS
from connector_tests.support.writing_job import FILE_COUNT, FILES_A_BATCH, FiledRows, WritingJob
from connector_tests.support.written_rows import stored_batches
from rocketmq_spark.embedded import EmbeddedCluster
from rocketmq_spark.embedded.pytest_plugin import unique_name
from rocketmq_spark.remoting.pool import ConnectionPool

pytestmark = pytest.mark.full

ALL_KILLED, WORKER_KILLED, BROKER_KILLED = 1, 2, 3
"""The micro-batches in which it happens, the last of them the last one."""
BATCH_COUNT = FILE_COUNT // FILES_A_BATCH
COMES_BACK = "Waiting for queue "


class Stored(NamedTuple):
    """One message that the broker has."""

    queue_id: int
    offset: int
    id: str
    number: int


@pytest.fixture(scope="module")
def cluster(clusters: ClusterPool) -> EmbeddedCluster:
    """Instead of the session's: this test breaks it."""
    return clusters.get(separate_jvms=True)


@pytest.fixture
def pool() -> Iterator[ConnectionPool]:
    pool = ConnectionPool(PATIENT_MS)
    yield pool
    pool.close()


class Written:
    """What is there of the rows that a job writes to its topic."""

    def __init__(self, cluster: EmbeddedCluster, topic: str, rows: FiledRows, pool: ConnectionPool) -> None:
        self.topic = topic
        self._cluster = cluster
        self._rows = rows
        self._pool = pool

    def read(self) -> list[Stored]:
        """Each queue in its order."""
        columns = ["queueId", "queueOffset", "msgId", "body"]
        batches = stored_batches(self._cluster, self.topic, self._pool)
        values = (zip(*(batch[name].to_pylist() for name in columns), strict=True) for batch in batches)
        return [Stored(queue, offset, id_, int(body)) for rows in values for queue, offset, id_, body in rows]

    def numbers(self) -> set[int]:
        return {stored.number for stored in self.read()}

    def in_the_midst_of(self, batch: int) -> list[Stored]:
        """Once all is stored that was sent before the stop; returns what is, which is not the whole batch."""
        begun = batch * self._rows.a_batch
        eventually(lambda: len(self.numbers()) >= begun + self._rows.before_a_stop, f"the first rows of batch {batch}")
        read = self.read()
        numbers = {stored.number for stored in read}
        assert numbers > set(range(begun))
        assert len(numbers) < begun + self._rows.a_batch
        assert max(numbers) < begun + self._rows.a_batch
        return read


def faulty_write(cluster: EmbeddedCluster, job: WritingJob, there: Written) -> list[Stored]:
    """The write, to its end; returns what was stored when each fault came."""
    stored = []
    for batch in (ALL_KILLED, WORKER_KILLED, BROKER_KILLED):
        job.request_stop_in(batch)
    with job.started() as program:
        job.await_stopped_worker(ALL_KILLED)
        stored += there.in_the_midst_of(ALL_KILLED)
        assert kill_tree(program) == []
    assert job.batches_done() == ALL_KILLED
    with job.started() as program:
        worker = job.await_stopped_worker(WORKER_KILLED)
        stored += there.in_the_midst_of(WORKER_KILLED)
        os.kill(worker, signal.SIGKILL)
        assert job.await_stopped_worker(BROKER_KILLED) != worker
        stored += there.in_the_midst_of(BROKER_KILLED)
        cluster.kill_broker()
        job.resume(BROKER_KILLED)
        eventually(lambda: COMES_BACK in job.log, "that rows wait for the broker")
        cluster.start_broker()
        assert program.wait(TIMEOUT_S) == 0, job.log[-3000:]
    assert job.batches_done() == BATCH_COUNT
    return stored


def assert_in_order_per_key(rows: FiledRows, read: list[Stored]) -> None:
    """Of the first copies; each key in one queue."""
    numbers: dict[str, list[int]] = {}
    queues: dict[str, set[int]] = {}
    for stored in sorted({stored.id: stored for stored in reversed(read)}.values()):
        numbers.setdefault(rows.key_of(stored.number), []).append(stored.number)
        queues.setdefault(rows.key_of(stored.number), set()).add(stored.queue_id)
    assert sum(map(len, numbers.values())) == rows.count
    assert all(of_key == sorted(of_key) for of_key in numbers.values())
    assert all(len(of_key) == 1 for of_key in queues.values())


@pytest.mark.timeout(900)
@pytest.mark.parametrize("row_count", [20_000, pytest.param(200_000, marks=pytest.mark.long)])
def test_a_write_in_which_everything_is_killed_loses_no_row_and_is_read_once(
    spark: SparkSession, cluster: EmbeddedCluster, pool: ConnectionPool, group: str, tmp_path: Path, row_count: int
) -> None:
    """There are copies of what was sent before program and worker were killed. There need be none where the broker
    was: it had answered for all that it had stored."""
    rows = FiledRows(row_count)
    there = Written(cluster, cluster.create_topic(unique_name("faults")), rows, pool)
    stored_before = faulty_write(cluster, WritingJob(cluster.namesrv_addr, there.topic, rows, tmp_path / "job"), there)

    eventually(lambda: len(there.numbers()) >= row_count, f"{row_count} rows, each in its queue")
    read = there.read()
    assert {stored.number for stored in read} == set(range(row_count))
    assert set(stored_before) <= set(read)
    assert len({stored.id for stored in read}) == len({(stored.id, stored.number) for stored in read}) == row_count
    copies = Counter(rows.batch_of(stored.number) for stored in read)
    assert copies[0] == rows.a_batch
    assert copies[ALL_KILLED] >= rows.a_batch + rows.before_a_stop
    assert copies[WORKER_KILLED] >= rows.a_batch + rows.before_a_stop
    assert_in_order_per_key(rows, read)

    options = {"maxOffsetsPerTrigger": str(row_count // 3)}
    stream = Stream(spark, cluster, there.topic, group, tmp_path / "once", options).load()
    write_to_end(by_time_of_reading(stream), tmp_path / "once")
    assert sorted(int(row.body) for row in written(stream, tmp_path / "once")) == list(range(row_count))
