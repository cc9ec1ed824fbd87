"""Copies of rows are dropped on reading. What a watermark on the time of storing costs where a queue lags behind.

In one queue there are old rows; in another new ones, and copies of some of the old. The queues are read in several
micro-batches, so rows that are old come after rows that are new, as they do where a broker was away, or where a queue
has more to be read than others.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from connector_tests.spark.conftest import StreamOf
from connector_tests.support.read_once import by_all_ids, by_store_time, by_time_of_reading, write_to_end, written
from connector_tests.support.streams import Topic, eventually
from connector_tests.support.timeouts import PATIENT_MS
from connector_tests.support.written_rows import arrow, write_by_body
from rocketmq_spark.embedded import EmbeddedCluster
from rocketmq_spark.remoting.pool import ConnectionPool
from rocketmq_spark.sink.write_task import WriteTask

pytestmark = pytest.mark.full

Recipe = Callable[[DataFrame], DataFrame]

OLD_COUNT, NEW_COUNT, COPY_COUNT = 400, 40, 40
SHORTER_THAN_THE_LAG = "1 second"
LAG_S = 3
EACH = [*(f"old-{number}" for number in range(OLD_COUNT)), *(f"new-{number}" for number in range(NEW_COUNT))]


@pytest.fixture
def lagging(cluster: EmbeddedCluster, messages: Topic, stream: StreamOf) -> DataFrame:
    """All rows, a quarter in each micro-batch."""
    pool = ConnectionPool(PATIENT_MS)

    def store(queue_id: int, age: str, count: int) -> None:
        place = {"brokerName": "broker-a", "queueId": queue_id}
        rows = [place | {"body": f"{age}-{number}".encode()} for number in range(count)]
        write_by_body(cluster.namesrv_addr, messages.name, [arrow(rows)], WriteTask(f"{messages.name} {age}", 0), pool)

    store(0, "old", OLD_COUNT)
    time.sleep(LAG_S)
    store(1, "new", NEW_COUNT)
    store(1, "old", COPY_COUNT)
    pool.close()
    count = OLD_COUNT + NEW_COUNT + COPY_COUNT
    eventually(lambda: sum(held.max_offset for held in messages.bounds().values()) == count, f"{count} messages")
    return stream(maxOffsetsPerTrigger=str(count // 4)).load()


def bodies(rows: DataFrame, folder: Path) -> Counter[str]:
    return Counter(bytes(row.body).decode() for row in written(rows, folder))


def dropped_as_late(query: StreamingQuery) -> int:
    return sum(
        operator["numRowsDroppedByWatermark"]
        for progress in query.recentProgress
        for operator in json.loads(progress.json)["stateOperators"]
    )


def test_a_watermark_on_the_time_of_storing_drops_rows_of_a_queue_that_lags_by_more(
    lagging: DataFrame, tmp_path: Path
) -> None:
    """Rows, not copies: Spark takes them for late. It reports of that in the query's progress, and nowhere else."""
    query = write_to_end(by_store_time(lagging, SHORTER_THAN_THE_LAG), tmp_path)
    found = bodies(lagging, tmp_path)
    lost = set(EACH) - set(found)
    assert lost
    assert all(body.startswith("old-") for body in lost)
    assert len(lost) == dropped_as_late(query)


def by_store_time_of_longer(rows: DataFrame) -> DataFrame:
    return by_store_time(rows)


@pytest.mark.parametrize("recipe", [by_store_time_of_longer, by_time_of_reading, by_all_ids])
def test_each_row_is_read_once_where_no_queue_lags_by_more_than_the_watermark(
    lagging: DataFrame, tmp_path: Path, recipe: Recipe
) -> None:
    query = write_to_end(recipe(lagging), tmp_path)
    assert bodies(lagging, tmp_path) == Counter(EACH)
    assert dropped_as_late(query) == 0


def test_a_watermark_on_the_time_of_reading_drops_no_row_however_far_a_queue_lags(
    lagging: DataFrame, tmp_path: Path
) -> None:
    """Copies that are read further apart than that are not dropped either."""
    query = write_to_end(by_time_of_reading(lagging, SHORTER_THAN_THE_LAG), tmp_path)
    assert set(bodies(lagging, tmp_path)) == set(EACH)
    assert dropped_as_late(query) == 0
