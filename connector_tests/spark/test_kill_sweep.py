"""Alone in its group, a query's idempotent sink holds each message exactly once: tested by killing things.

What is killed is a program of its own. A query of queues then continues in another application, the session's Spark.
"""

from __future__ import annotations

import random
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pytest
from pyspark.sql import SparkSession

from connector_tests.support.crashing_job import BATCH_SIZE, POINTS
from connector_tests.support.killed_job import KilledJob
from connector_tests.support.process_tree import written_bodies
from connector_tests.support.streams import Stream, Topic, eventually, steady_messages
from rocketmq_spark.embedded import EmbeddedCluster

pytestmark = pytest.mark.full


class Sweep(NamedTuple):
    """One query, whose program is killed again and again; ``folder`` has its checkpoint and its sink."""

    spark: SparkSession
    cluster: EmbeddedCluster
    topic: str
    group: str
    folder: Path

    def killed_job(self, *options: str) -> KilledJob:
        return KilledJob(self.cluster, self.topic, self.group, self.folder, *options)

    def run_to_end(self) -> None:
        """Continue the query in the session's Spark."""
        options = {"maxOffsetsPerTrigger": str(BATCH_SIZE)}
        Stream(self.spark, self.cluster, self.topic, self.group, self.folder, options).run_to_end()

    def bodies(self) -> list[str]:
        return written_bodies(self.folder)


@pytest.fixture(name="sweep")
def new_sweep(spark: SparkSession, cluster: EmbeddedCluster, topic: str, group: str, tmp_path: Path) -> Sweep:
    return Sweep(spark, cluster, topic, group, tmp_path)


def assert_each_message_once(sweep: Sweep, crashes: list[tuple[str, int, bool]]) -> None:
    job = sweep.killed_job()
    with closing(Topic(sweep.cluster, sweep.topic)) as messages:
        with steady_messages(messages) as sent:
            for point, passes, jvm_only in crashes:
                if point in POINTS:
                    job.crash_at(point, passes, jvm_only=jvm_only)
                else:
                    job.crash_after(8 + passes)
        sweep.run_to_end()
        lag = messages.lag(sweep.group)
    read = sweep.bodies()
    assert set(read) == set(sent), f"lost {len(set(sent) - set(read))} of {len(sent)}"
    assert len(read) == len(sent), f"{len(read) - len(set(read))} read twice"
    assert lag == 0


SHORT_FORM = [("during the batch", 1, True)]
EACH_POINT = [(point, number % 2, point == "during the batch") for number, point in enumerate(POINTS)]


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "crashes",
    [pytest.param(SHORT_FORM, id="short"), pytest.param(EACH_POINT, id="each-point", marks=pytest.mark.long)],
)
def test_killed_at_named_points_every_message_is_in_the_sink_once(
    sweep: Sweep, crashes: list[tuple[str, int, bool]]
) -> None:
    assert_each_message_once(sweep, crashes)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_killed_sixty_times_every_message_is_in_the_sink_once(sweep: Sweep) -> None:
    chance = random.Random(1)
    places = [*POINTS, "anywhere"]
    crashes = [(places[n % len(places)], chance.randrange(3), chance.random() < 0.2) for n in range(60)]
    assert_each_message_once(sweep, crashes)


@pytest.mark.timeout(600)
def test_killed_between_log_and_commit_a_message_based_query_loses_nothing(sweep: Sweep) -> None:
    """With what was in no batch when it was killed, which is redelivered when it is not invisible any more."""
    job = sweep.killed_job("loadBalance=message", "invisibleDurationMs=30000")
    with closing(Topic(sweep.cluster, sweep.topic)) as messages:
        sent = messages.send_batches(3_000)
        for point, passes in (("during the batch", 1), ("before commits/N", 1)):
            job.crash_at(point, passes, jvm_only=False)

    def has_all() -> bool:
        job.run_to_end()
        return set(sweep.bodies()) >= set(sent)

    eventually(has_all, "every message in the sink")
    assert set(sweep.bodies()) == set(sent)
