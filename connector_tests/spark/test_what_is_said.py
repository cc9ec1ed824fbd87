"""What a user sees of an outage, a loss and an end, at Spark's own log level and in the query's progress."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from connector_tests.support.streams import Topic, eventually
from connector_tests.support.told_job import told_job
from rocketmq_spark.embedded import EmbeddedCluster

pytestmark = pytest.mark.story

STARTED_S = 200


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    """Instead of the session's: these tests break it."""
    with EmbeddedCluster(separate_jvms=True, broker_config={"mappedFileSizeCommitLog": str(64 * 1024)}) as own:
        yield own


def test_an_outage_is_told_in_few_lines_and_in_the_progress_until_it_is_over(
    cluster: EmbeddedCluster, messages: Topic, group: str, tmp_path: Path
) -> None:
    sent = messages.send(8)
    given = {"namesrvAddr": cluster.namesrv_addr, "subscribe": messages.name, "consumerGroup": group}
    with told_job(tmp_path / "job", startingOffsets="earliest", logLevel="INFO", **given) as job:
        eventually(lambda: job.bodies() == sorted(sent), "the messages", STARTED_S)
        cluster.kill_broker()
        eventually(
            lambda: bool(job.progress() and job.progress()[-1]["waitingFor"]),
            "a progress that tells what is waited for",
        )
        (waited,) = job.progress()[-1]["waitingFor"]
        assert waited["what"] == f"4 queues of topic {messages.name} at broker-a ({cluster.broker_addr()})"
        assert waited["since"] < waited["until"]
        cluster.start_broker()
        eventually(lambda: bool(job.said("no longer waiting, after ")), "that it is over")
        eventually(lambda: not job.progress()[-1]["waitingFor"], "a progress that waits for nothing")
        lines = job.lines()
    client_id = job.progress()[-1]["clientId"]
    assert all(f" rocketmq_spark [group={group} clientId={client_id}" in line for line in lines)
    assert lines[0].endswith(f": joining the group, to read {messages.name}")
    told = [line for line in lines if "waiting" in line]
    assert len(told) <= 6, told
    assert not [line for line in lines if "does not exist" in line or "create" in line.lower()]


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGHUP])
def test_the_end_of_all_processes_together_is_no_failure_and_leaves_the_group(
    cluster: EmbeddedCluster, messages: Topic, group: str, tmp_path: Path, ending: signal.Signals
) -> None:
    """As a notebook ends its kernel, and a terminal its programs. Each stream used to show a failure with a stack."""
    sent = messages.send(8)
    given = {"namesrvAddr": cluster.namesrv_addr, "subscribe": messages.name, "consumerGroup": group}
    with told_job(tmp_path / "job", startingOffsets="earliest", **given) as job:
        eventually(lambda: job.bodies() == sorted(sent), "the messages", STARTED_S)
        job.signal_all(ending)
        eventually(lambda: messages.members(group) == [], "an empty group", timeout_s=30)
        written = job.log
    assert job.said("joining the group")
    assert not [line for line in written.splitlines() if any(word in line for word in ("Traceback", "Exit", "ERROR"))]


def test_a_loss_is_told_in_one_line_with_all_ranges_and_in_the_progress(
    cluster: EmbeddedCluster, messages: Topic, group: str, tmp_path: Path
) -> None:
    sent = messages.send(8)
    given = {"namesrvAddr": cluster.namesrv_addr, "subscribe": messages.name, "consumerGroup": group}
    with told_job(tmp_path / "job", startingOffsets="earliest", **given) as job:
        eventually(lambda: job.bodies() == sorted(sent), "the messages", STARTED_S)
        eventually(lambda: messages.lag(group) == 0, "that they are committed")
    messages.send_batches(2_000, 200)
    cluster.expire_messages()
    gone = {queue: held.min_offset for queue, held in messages.bounds().items()}
    assert all(min_offset > 2 for min_offset in gone.values())
    with told_job(tmp_path / "job", failOnDataLoss="false", logLevel="WARN", **given) as job:
        eventually(lambda: any(told["lost"]["ranges"] for told in job.progress()), "a progress with a loss", STARTED_S)
        eventually(lambda: messages.lag(group) == 0, "all that is left")
        lines = job.lines()
    count = sum(min_offset - 2 for min_offset in gone.values())
    assert job.progress()[-1]["lost"] == {"offsets": count, "ranges": 4}
    (line,) = lines
    ranges = ", ".join(f"[2, {gone[queue]}) of {queue}" for queue in messages.queues)
    assert line.endswith(
        f": {count} offsets are lost, what they held is in no output: {ranges}: the broker deleted them (retention)"
    )
