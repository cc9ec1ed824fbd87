"""Alone in its group, a query's idempotent sink holds each message exactly once: tested by killing things."""

from __future__ import annotations

import random
from contextlib import closing
from pathlib import Path

import pytest

from connector_tests.support.crashing_job import POINTS
from connector_tests.support.killed_job import KilledJob
from connector_tests.support.streams import Topic, eventually, steady_messages
from rocketmq_spark.embedded import EmbeddedCluster

pytestmark = pytest.mark.full


def sweep(cluster: EmbeddedCluster, topic: str, group: str, folder: Path, crashes: list[tuple[str, int, bool]]) -> None:
    job = KilledJob(cluster, topic, group, folder)
    with closing(Topic(cluster, topic)) as messages:
        with steady_messages(messages) as sent:
            for point, passes, jvm_only in crashes:
                if point in POINTS:
                    job.crash_at(point, passes, jvm_only=jvm_only)
                else:
                    job.crash_after(8 + passes)
        job.run_to_end()
        lag = messages.lag(group)
    read = job.messages()
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
    cluster: EmbeddedCluster, topic: str, group: str, tmp_path: Path, crashes: list[tuple[str, int, bool]]
) -> None:
    sweep(cluster, topic, group, tmp_path, crashes)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_killed_sixty_times_every_message_is_in_the_sink_once(
    cluster: EmbeddedCluster, topic: str, group: str, tmp_path: Path
) -> None:
    chance = random.Random(1)
    places = [*POINTS, "anywhere"]
    crashes = [(places[n % len(places)], chance.randrange(3), chance.random() < 0.2) for n in range(60)]
    sweep(cluster, topic, group, tmp_path, crashes)


@pytest.mark.timeout(600)
def test_killed_between_log_and_commit_a_message_based_query_loses_nothing(
    cluster: EmbeddedCluster, topic: str, group: str, tmp_path: Path
) -> None:
    """With what was in no batch when it was killed, which is redelivered when it is not invisible any more."""
    job = KilledJob(cluster, topic, group, tmp_path, "loadBalance=message", "invisibleDurationMs=30000")
    with closing(Topic(cluster, topic)) as messages:
        sent = messages.send_batches(3_000)
        for point, passes in (("during the batch", 1), ("before commits/N", 1)):
            job.crash_at(point, passes, jvm_only=False)
    eventually(lambda: run_again(job) >= set(sent), "every message in the sink")
    assert set(job.messages()) == set(sent)


def run_again(job: KilledJob) -> set[str]:
    job.run_to_end()
    return set(job.messages())
