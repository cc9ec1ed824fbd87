"""Rows of files, whose tasks are cut in another way at each restart: their positional IDs move, and no row is lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest
from pyspark.sql import SparkSession

from connector_tests.support.files_job import CLICKS, FilesJob
from connector_tests.support.read_once import by_time_of_reading, write_to_end, written
from connector_tests.support.streams import Stream, Topic
from connector_tests.support.timeouts import TIMEOUT_FACTOR
from connector_tests.support.written_rows import stored
from rocketmq_spark.embedded import EmbeddedCluster
from rocketmq_spark.remoting.pool import ConnectionPool

pytestmark = pytest.mark.full

FILES: Final = 3
ROWS_A_FILE: Final = 40_000


class Layout(NamedTuple):
    """How a start cuts rows into tasks."""

    master: str
    split: str
    shuffle: int = 0
    adaptive: str = "false"

    def settings(self) -> dict[str, str]:
        return {
            "spark.master": self.master,
            "spark.sql.files.maxPartitionBytes": self.split,
            "spark.sql.files.openCostInBytes": "1k",
            "spark.sql.adaptive.enabled": self.adaptive,
        }


TWO: Final = (Layout("local[1]", "128m"), Layout("local[3]", "128m", shuffle=5, adaptive="true"))
"""Tasks of whole files, and tasks of rows of all files."""
FOUR: Final = (TWO[0], Layout("local[3]", "40k"), Layout("local[2]", "64k", shuffle=4), TWO[1])
LAST: Final = Layout("local[2]", "30k")
"""Of the session's Spark."""


@pytest.fixture
def pool() -> Iterator[ConnectionPool]:
    pool = ConnectionPool(int(15_000 * TIMEOUT_FACTOR))
    yield pool
    pool.close()


def session_with(spark: SparkSession, layout: Layout) -> SparkSession:
    """A session of the same Spark, whose master is that of ``layout``."""
    assert spark.sparkContext.master == layout.master
    session = spark.newSession()
    for name, value in layout.settings().items():
        if name != "spark.master":
            session.conf.set(name, value)
    return session


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "killed", [pytest.param(TWO, id="two-layouts"), pytest.param(FOUR, id="four-layouts", marks=pytest.mark.long)]
)
def test_rows_cut_into_other_tasks_at_each_restart_lose_none(
    spark: SparkSession,
    cluster: EmbeddedCluster,
    messages: Topic,
    group: str,
    tmp_path: Path,
    pool: ConnectionPool,
    killed: tuple[Layout, ...],
) -> None:
    job = FilesJob(cluster.namesrv_addr, messages.name, tmp_path / "job")
    rows = job.write_files(FILES, ROWS_A_FILE)
    for layout in killed:
        before = offsets_of(messages)

        def has_sent_some(before: int = before) -> bool:
            return job.is_in_a_batch() and offsets_of(messages) > before

        job.kill_when(has_sent_some, str(layout.shuffle), **layout.settings())
    job.run_to_end(session_with(spark, LAST), LAST.shuffle)

    copies = [(row["msgId"], row["body"].decode()) for row in stored(cluster, messages.name, pool, "msgId", "body")]
    assert len(copies) > rows.total()
    bodies_of_ids = set(copies)
    assert len({message_id for message_id, _ in bodies_of_ids}) == len(bodies_of_ids), "one ID, two rows"
    assert rows <= Counter(body for _, body in bodies_of_ids)

    stream = Stream(spark, cluster, messages.name, group, tmp_path / "read")
    read = by_time_of_reading(stream.load()).selectExpr("CAST(body AS STRING) AS body")
    write_to_end(read, tmp_path / "once")
    once = Counter(row.body for row in written(read, tmp_path / "once"))
    assert once == Counter(body for _, body in bodies_of_ids)
    assert all(once[click] >= rows[click] for click in CLICKS)


def offsets_of(messages: Topic) -> int:
    return sum(held.max_offset for held in messages.bounds().values())
