"""What a task has found to be lost arrives at the member that planned it, on whatever machine that is."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from connector_tests.support.streams import Topic, eventually
from connector_tests.support.timeouts import PATIENT
from rocketmq_spark.consumer.member import Member
from rocketmq_spark.embedded import EmbeddedCluster
from rocketmq_spark.model import MessageQueue, QueueRange
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.pull import absent_offsets
from rocketmq_spark.pull.executor_pull_client import shared_pull_client
from rocketmq_spark.source.partition_reader import read_ranges
from rocketmq_spark.source.schema import default_schema
from rocketmq_spark.wire.body.task_report import Recipient, ReportedLoss, TaskReport

pytestmark = pytest.mark.broker


@pytest.fixture
def options(cluster: EmbeddedCluster, topic: str, group: str) -> ReadOptions:
    given = {"namesrvAddr": cluster.namesrv_addr, "consumerGroup": group, "subscribe": topic, **PATIENT}
    return ReadOptions.parse(given | {"failOnDataLoss": "false"})


@pytest.fixture
def member(options: ReadOptions) -> Iterator[Member]:
    """One that the broker lists."""
    member = Member(options)
    member.start()

    def is_listed() -> bool:
        with member.group_lock() as membership:
            return membership.rebalance()

    eventually(is_listed, "a member that the broker lists")
    yield member
    member.stop()


@pytest.fixture
def messages(cluster: EmbeddedCluster, topic: str) -> Iterator[Topic]:
    handle = Topic(cluster, topic)
    yield handle
    handle.close()


def reported_losses(member: Member) -> set[ReportedLoss]:
    with member.group_lock() as membership:
        return membership.task_reports.take_losses()


def test_a_broker_passes_on_what_a_task_reports(options: ReadOptions, member: Member, topic: str) -> None:
    queue = MessageQueue(topic, "broker-a", 0)
    other = MessageQueue(topic, "broker-a", 1)
    lost = ReportedLoss(QueueRange(queue, 3, 9), "QUEUE_TRUNCATED"), ReportedLoss(QueueRange(other, 0, 1), "OMITTED")
    client = shared_pull_client(options)
    client.report(Recipient("nobody", member.report_to.token), queue, TaskReport(lost))
    assert reported_losses(member) == set()
    client.report(member.report_to, queue, TaskReport(lost))
    client.report(member.report_to, queue, TaskReport(lost[:1]))
    assert reported_losses(member) == set(lost)


def test_a_task_reports_how_much_it_has_read(options: ReadOptions, member: Member, messages: Topic) -> None:
    messages.send_batches(100, 500)
    ((queue, held),) = [(queue, held) for queue, held in messages.bounds().items() if held.max_offset]
    whole = [QueueRange(queue, 0, 60), QueueRange(queue, 60, held.max_offset)]
    for reports_sizes in (False, True):
        batches = read_ranges(
            whole, options, default_schema(), planned_by=member.report_to, reports_sizes=reports_sizes
        )
        assert sum(batch.num_rows for batch in batches) == 100
    with member.group_lock() as membership:
        (size,) = membership.task_reports.take_sizes()
    assert (size.queue, size.offsets) == (queue, 100)
    assert 100 * 500 < size.size_bytes < 100 * 800


def test_a_task_reports_what_it_finds_and_nothing_that_was_reported_before(
    options: ReadOptions, member: Member, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(absent_offsets, "ABSENT_LIMIT_MS", 0)
    never_there = QueueRange(MessageQueue(topic, "broker-a", 0), 0, 7)
    assert list(read_ranges([never_there], options, default_schema(), planned_by=member.report_to)) == []
    assert reported_losses(member) == {ReportedLoss(never_there, "QUEUE_TRUNCATED")}
