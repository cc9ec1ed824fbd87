"""A master that the route names and that does not respond: with ``readFrom=auto`` its slave is planned instead, until
it responds and still is the master."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from connector_tests.support.simulated_cluster import Reach, address_of
from connector_tests.support.steady_member import (
    TARGET_TIMEOUT_MS,
    A,
    SteadyMember,
    holding,
    planner,
    read,
)
from rocketmq_spark.errors import RocketMQError
from rocketmq_spark.model import BrokerAddress, MessageQueue, QueueRange
from rocketmq_spark.remoting.retry import REQUEST_PAUSES
from rocketmq_spark.source.stream.batch_planner import BatchPlanner
from rocketmq_spark.source.stream.offsets import SourceOffset

SLAVE = BrokerAddress("broker-a-slave-1:10911")
CALLS = 20


class Replicated(SteadyMember):
    """Its broker has a slave. Time passes while the query waits."""

    def __init__(self, max_offset: int) -> None:
        super().__init__({A: holding(max_offset)})
        self.slave = self.cluster.replicate("broker-a")

    def wait_for_change(self, positions: Mapping[MessageQueue, int], timeout_ms: int) -> bool:
        self.clock.advance(timeout_ms)
        return self.observed.log_and_snapshot().is_due(self.clock())

    def hang(self) -> None:
        self.cluster.brokers["broker-a"].reach = Reach.UNRESPONSIVE

    def thaw(self) -> None:
        self.cluster.brokers["broker-a"].reach = Reach.UP

    def store_at_slave(self, count: int) -> None:
        self.slave.stored_ms[A] = [1_000] * count


def planner_of(member: Replicated, read_from: str) -> BatchPlanner:
    return planner(member, readFrom=read_from, clusterTimeoutMs=str(TARGET_TIMEOUT_MS))


def read_next(subject: BatchPlanner, start: SourceOffset) -> tuple[SourceOffset, list[QueueRange]]:
    """The next batch that has rows, or none for a while."""
    for _ in range(CALLS):
        end, ranges = read(subject, start)
        if ranges:
            return end, ranges
    return start, []


@pytest.mark.parametrize("read_from", ["auto", "slave"])
def test_the_slave_is_planned_and_gets_no_commit(read_from: str) -> None:
    """Planning stopped until the name server removed the master, which takes up to two minutes."""
    member = Replicated(10)
    subject = planner_of(member, read_from)
    end, _ = read(subject, SourceOffset())
    member.hang()
    member.store_at_slave(15)
    end, ranges = read_next(subject, end)
    assert (ranges, subject.masters["broker-a"]) == ([QueueRange(A, 10, 15)], SLAVE)
    assert (member.slave.offsets, member.stored) == ({}, {A: 0})
    member.clock.advance(3 * TARGET_TIMEOUT_MS)
    assert read_next(subject, end) == (end, [])


def with_hanging_master() -> tuple[Replicated, BatchPlanner, SourceOffset]:
    """Of 10 messages all are read when it stops to respond."""
    member = Replicated(10)
    subject = planner_of(member, "auto")
    end, _ = read(subject, SourceOffset())
    member.hang()
    return member, subject, end


def test_only_the_master_is_planned_by_default() -> None:
    member = Replicated(10)
    subject = planner_of(member, "master")
    end, _ = read(subject, SourceOffset())
    member.hang()
    member.store_at_slave(15)
    assert read_next(subject, end) == (end, [])
    member.clock.advance(TARGET_TIMEOUT_MS)
    with pytest.raises(RocketMQError, match="CLUSTER_TIMEOUT"):
        read_next(subject, end)


def test_a_slave_that_lags_shows_no_loss_and_the_master_is_read_again() -> None:
    member, subject, end = with_hanging_master()
    member.store_at_slave(4)
    assert read_next(subject, end) == (end, [])
    member.thaw()
    member.hold(A, holding(12))
    end, ranges = read_next(subject, end)
    assert (ranges, subject.losses.offsets) == ([QueueRange(A, 10, 12)], 0)
    assert subject.masters["broker-a"] == address_of("broker-a")
    assert member.stored == {A: 10}


def test_a_master_that_responds_is_used_only_if_a_later_route_names_it() -> None:
    """Its successor was elected while it hung, and it does not know."""
    member, subject, end = with_hanging_master()
    read_next(subject, end)
    member.thaw()
    member.hold(A, holding(99))
    member.cluster.brokers["broker-a"].master_id = 2
    member.clock.advance(REQUEST_PAUSES.longest_ms)
    assert read_next(subject, end) == (end, [])
    assert subject.masters["broker-a"] == SLAVE


def test_the_query_fails_when_neither_master_nor_slave_responds() -> None:
    member, subject, end = with_hanging_master()
    member.slave.reach = Reach.UNRESPONSIVE
    read_next(subject, end)
    member.clock.advance(2 * TARGET_TIMEOUT_MS)
    with pytest.raises(RocketMQError, match="No successful response from broker broker-a "):
        read_next(subject, end)


def test_a_slave_without_the_topic_is_waited_for_within_the_limit() -> None:
    member, subject, end = with_hanging_master()
    member.slave.stored_ms.clear()
    assert read_next(subject, end) == (end, [])
    member.clock.advance(2 * TARGET_TIMEOUT_MS)
    with pytest.raises(
        RocketMQError, match=r"No successful response from broker broker-a .* 'one without orders' responds"
    ):
        read_next(subject, end)


def test_the_wait_for_the_end_of_a_run_has_a_limit() -> None:
    member = Replicated(10)
    subject = planner_of(member, "auto")
    subject.stop_at_current_end()
    end, _ = read(subject, SourceOffset())
    member.hang()
    with pytest.raises(RocketMQError, match="the master of broker broker-a, without which the query does not end"):
        subject.latest_offset(end, None)


def test_a_master_that_responds_is_read_while_its_slave_hangs() -> None:
    """The slave's outage counted as the master's, which was left again at once, each time with a new limit."""
    member, subject, end = with_hanging_master()
    member.slave.reach = Reach.UNRESPONSIVE
    assert read_next(subject, end) == (end, [])
    member.thaw()
    member.hold(A, holding(12))
    assert read_next(subject, end)[1] == [QueueRange(A, 10, 12)]


def test_a_master_that_a_route_names_again_is_read_while_its_slave_hangs() -> None:
    member = Replicated(10)
    subject = planner_of(member, "auto")
    end, _ = read(subject, SourceOffset())
    broker = member.cluster.brokers["broker-a"]
    broker.master_id, member.slave.reach = 2, Reach.UNRESPONSIVE
    member.cluster.replicas[address_of("broker-a").server] = member.slave
    assert read_next(subject, end) == (end, [])
    broker.master_id = 0
    del member.cluster.replicas[address_of("broker-a").server]
    member.hold(A, holding(12))
    assert read_next(subject, end)[1] == [QueueRange(A, 10, 12)]
