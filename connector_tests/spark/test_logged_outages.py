"""What a user sees of an outage, a loss and an end, at Spark's own log level and in the query's progress."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from connector_tests.support.cluster_pool import RestingCluster
from connector_tests.support.log_shapes import shapes_of
from connector_tests.support.logged_job import LoggedJob, logged_job, logged_sink
from connector_tests.support.streams import Stream, Topic, eventually
from connector_tests.support.timeouts import PATIENT, PROCESS_S
from rocketmq_spark.embedded import EmbeddedCluster

pytestmark = pytest.mark.full

STARTED_S = PROCESS_S
POSITIONS = "queue=0 offset=2, queue=1 offset=2, queue=2 offset=2, queue=3 offset=2"


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    """Instead of the session's: these tests break it."""
    with RestingCluster(separate_jvms=True, broker_config={"mappedFileSizeCommitLog": str(64 * 1024)}) as own:
        yield own


def of_outages(lines: list[str]) -> list[str]:
    """Without those of a missing route: a name server that has just started has none until brokers register with it,
    and whether the query requests it before that is up to the machine."""
    return [line for line in lines if "TOPIC_UNAVAILABLE.NO_ROUTE" not in line]


def eventual_progress(job: LoggedJob, is_so: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """The first last progress that is so."""
    found: list[dict[str, Any]] = []

    def has_found() -> bool:
        found[:] = filter(is_so, job.progress()[-1:])
        return bool(found)

    eventually(has_found, "such a progress")
    return found[0]


def test_an_outage_is_reported_in_few_lines_and_in_the_progress_until_it_is_over(
    cluster: EmbeddedCluster, messages: Topic, group: str, tmp_path: Path
) -> None:
    sent = messages.send(8)
    given = {"namesrvAddr": cluster.namesrv_addr, "subscribe": messages.name, "consumerGroup": group, **PATIENT}
    with logged_job(tmp_path / "job", startingOffsets="earliest", logLevel="INFO", **given) as job:
        eventually(lambda: job.bodies() == sorted(sent), "the messages", STARTED_S)
        cluster.kill_broker()
        unavailable = f"4 queues of topic {messages.name} at broker-a ({cluster.broker_addr()})"
        reported = eventual_progress(job, lambda one: [wait["resource"] for wait in one["outages"]] == [unavailable])
        (waited,) = reported["outages"]
        assert waited["since"] < waited["until"]
        cluster.start_broker()
        eventually(lambda: bool(job.lines_with("Recovered after ")), "that it is over")
        eventually(lambda: not job.progress()[-1]["outages"], "a progress that waits for nothing")
        of_the_broker = len(of_outages(job.lines()))
        cluster.kill_name_server()
        without_names = eventual_progress(job, lambda one: bool(one["outages"]))
        cluster.start_name_server()
        eventually(lambda: len(of_outages(job.lines_with("Recovered after "))) == 2, "that it is over")
        lines = of_outages(job.lines())
    client_id = job.progress()[-1]["clientId"]
    assert all(f" rocketmq_spark [group={group} clientId={client_id}" in line for line in lines)
    assert lines[0].endswith(f": GROUP_JOIN_STARTED: Joining the group to read topics={messages.name}")
    shapes = [shape for shape in shapes_of(lines) if shape not in {"rebalanced", "still waiting", "replaced"}]
    assert [shape for shape, _ in groupby(shapes)] == ["joining", *["waiting", "over"] * 2]
    assert shapes_of(lines[of_the_broker:])[0] == "waiting"
    assert len(lines) <= 12, lines
    assert not [line for line in lines if "create" in line.lower()]
    assert (waited["reason"], reported["lag"]) == (
        f"not in the route or not readable; offsets are kept: {POSITIONS}",
        None,
    )
    assert ([wait["resource"] for wait in without_names["outages"]], without_names["lag"]) == (["the name servers"], 0)


def test_a_sink_whose_broker_is_unavailable_logs_it_and_continues(
    cluster: EmbeddedCluster, messages: Topic, tmp_path: Path
) -> None:
    """It advised to create a topic whose broker was down, and gave that a minute."""

    def stored() -> int:
        return sum(held.max_offset for held in messages.bounds().values())

    with logged_sink(tmp_path / "job", namesrvAddr=cluster.namesrv_addr, topic=messages.name) as job:
        eventually(lambda: stored() > 8 and len(job.progress()) > 3, "rows, of several batches", STARTED_S)
        cluster.kill_broker()
        eventually(lambda: bool(job.lines_with("Still waiting for ")), "that it waits still")
        cluster.start_broker()
        eventually(lambda: bool(job.lines_with("Recovered after ")), "that it is over")
        before = stored()
        eventually(lambda: stored() > before, "more rows")
        lines = job.lines()
    assert set(shapes_of(lines)) - {"replaced"} == {"waiting", "still waiting", "over"}
    context = f" rocketmq_spark [producerGroup=rocketmq-spark topic={messages.name} query="
    assert all(context in line for line in lines)
    unavailable = f"Last brokers: broker-a ({cluster.broker_addr()}). Start these brokers"
    assert [line for line in lines if ": Still waiting for " in line and unavailable not in line] == []


@pytest.mark.parametrize("ending", [signal.SIGTERM, pytest.param(signal.SIGHUP, marks=pytest.mark.long)])
def test_the_end_of_all_processes_together_is_no_failure_and_leaves_the_group(
    cluster: EmbeddedCluster, messages: Topic, group: str, tmp_path: Path, ending: signal.Signals
) -> None:
    """As a notebook ends its kernel, and a terminal its programs. Each stream used to show a failure with a stack."""
    sent = messages.send(8)
    given = {"namesrvAddr": cluster.namesrv_addr, "subscribe": messages.name, "consumerGroup": group, **PATIENT}
    with logged_job(tmp_path / "job", startingOffsets="earliest", **given) as job:
        eventually(lambda: job.bodies() == sorted(sent), "the messages", STARTED_S)
        eventually(lambda: messages.lag(group) == 0, "that the batch is over, and its callback into Python")
        job.signal_all(ending)
        eventually(lambda: messages.members(group) == [], "an empty group")
        eventually(lambda: bool(job.lines_with("Left the group")), "its last line")
        written = job.log
    assert shapes_of(job.lines())[0] == "joining"
    assert not [line for line in written.splitlines() if any(word in line for word in ("Traceback", "Exit", "ERROR"))]


def test_a_loss_is_reported_in_one_line_with_all_ranges_and_in_the_progress(
    spark: SparkSession, cluster: EmbeddedCluster, messages: Topic, group: str, tmp_path: Path
) -> None:
    sent = messages.send(8)
    stream = Stream(spark, cluster, messages.name, group, tmp_path / "job", PATIENT)
    stream.run_to_end()
    assert stream.bodies() == sorted(sent)
    assert messages.lag(group) == 0
    given = {"namesrvAddr": cluster.namesrv_addr, "subscribe": messages.name, "consumerGroup": group, **PATIENT}
    messages.send_batches(2_000, 200)
    cluster.expire_messages()
    missing = {queue: held.min_offset for queue, held in messages.bounds().items()}
    assert all(min_offset > 2 for min_offset in missing.values())
    with logged_job(tmp_path / "job", failOnDataLoss="false", logLevel="WARN", **given) as job:
        eventually(
            lambda: any(reported["lost"]["ranges"] for reported in job.progress()), "a progress with a loss", STARTED_S
        )
        eventually(lambda: messages.lag(group) == 0, "all that is left")
        lines = job.lines()
    count = sum(min_offset - 2 for min_offset in missing.values())
    lost = job.progress()[-1]["lost"]
    assert lost.pop("byCondition")["OFFSETS_UNAVAILABLE"] == {"offsets": count, "ranges": 4}
    assert lost == {"offsets": count, "ranges": 4}
    (line,) = lines
    assert shapes_of(lines) == ["lost"]
    ranges = ", ".join(f"[2, {missing[queue]}) of {queue}" for queue in messages.queues)
    assert line.endswith(
        f": DATA_LOSS.OFFSETS_UNAVAILABLE: Skipping {count} offsets that the query has not read; their messages are "
        f"in no output: {ranges}: the broker deleted them (retention)"
    )
