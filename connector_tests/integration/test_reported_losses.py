"""What a task has found to be lost arrives at the member that planned it, on whatever machine that is."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from connector_tests.support.streams import eventually
from rocketmq_spark.consumer.member import Member
from rocketmq_spark.embedded import EmbeddedCluster
from rocketmq_spark.model import MessageQueue, QueueRange
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.pull import range_puller
from rocketmq_spark.pull.executor_pull_client import ExecutorPullClient
from rocketmq_spark.source.partition_reader import read_ranges
from rocketmq_spark.source.schema import default_schema

pytestmark = pytest.mark.broker


@pytest.fixture
def options(cluster: EmbeddedCluster, topic: str, group: str) -> ReadOptions:
    given = {"namesrvAddr": cluster.namesrv_addr, "consumerGroup": group, "subscribe": topic}
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


def reported_losses(member: Member) -> set[QueueRange]:
    with member.group_lock() as membership:
        return set(membership.reported_losses)


def test_a_broker_passes_on_what_a_task_reports(options: ReadOptions, member: Member, topic: str) -> None:
    lost = [QueueRange(MessageQueue(topic, "broker-a", 0), 3, 9), QueueRange(MessageQueue(topic, "broker-a", 1), 0, 1)]
    client = ExecutorPullClient.shared(options)
    client.report_losses("nobody", lost)
    assert reported_losses(member) == set()
    client.report_losses(member.client_id, lost)
    client.report_losses(member.client_id, lost[:1])
    assert reported_losses(member) == set(lost)


def test_a_task_reports_what_it_finds_and_nothing_that_was_reported_before(
    options: ReadOptions, member: Member, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(range_puller, "ABSENT_LIMIT_MS", 0)
    never_there = QueueRange(MessageQueue(topic, "broker-a", 0), 0, 7)
    assert list(read_ranges([never_there], options, default_schema(), planned_by=member.client_id)) == []
    assert reported_losses(member) == {never_there}
