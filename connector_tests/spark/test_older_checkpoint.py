"""A checkpoint that version 0.1 wrote before its modules were moved: queries continue from it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from pyspark.sql import SparkSession

from connector_tests.support.streams import Stream, Topic
from rocketmq_spark.embedded import EmbeddedCluster
from rocketmq_spark.embedded.pytest_plugin import unique_name

pytestmark = pytest.mark.full

RECORDED: Final = Path(__file__).parents[1] / "vectors" / "checkpoint_0_1"
"""Of a run over topic ``golden`` with 10 messages in each of 2 queues, 8 a batch, killed before ``commits/2``."""
STORE_TIMES_MS: Final = {0: "1795361130006", 1: "1795361130010"}
"""Of the last message in each queue."""


@pytest.fixture
def golden(cluster: EmbeddedCluster) -> Iterator[Topic]:
    topic = Topic(cluster, cluster.create_topic(unique_name("golden"), 2))
    yield topic
    topic.close()


def lay_checkpoint(folder: Path, topic: Topic) -> None:
    """The recorded files to the letter, but for the topic's name and its messages' store times."""
    changes = {'"golden"': f'"{topic.name}"'}
    for queue, held in topic.bounds().items():
        changes[STORE_TIMES_MS[queue.queue_id]] = str(held.last_store_timestamp_ms)
    for file in RECORDED.rglob("*"):
        if file.is_file():
            text = file.read_text(encoding="utf-8")
            for old, new in changes.items():
                text = text.replace(old, new)
            to = folder / file.relative_to(RECORDED)
            to.parent.mkdir(parents=True, exist_ok=True)
            to.write_text(text, encoding="utf-8")


def test_a_batch_that_an_older_version_planned_is_read_again_and_the_query_resumes(
    spark: SparkSession, cluster: EmbeddedCluster, golden: Topic, group: str, tmp_path: Path
) -> None:
    golden.send(20)
    assert {held.max_offset for held in golden.bounds().values()} == {10}
    stream = Stream(spark, cluster, golden.name, group, tmp_path)
    lay_checkpoint(tmp_path / "checkpoint", golden)
    stream.run_to_end()
    assert sorted(stream.batches_queues_and_offsets()) == [(2, 0, 8), (2, 0, 9), (2, 1, 8), (2, 1, 9)]
    later = golden.send(4)
    stream.run_to_end()
    assert set(stream.bodies()) >= set(later)
    assert len(stream.rows()) == 8
    assert golden.lag(group) == 0
