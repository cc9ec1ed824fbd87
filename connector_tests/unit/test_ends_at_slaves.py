"""An ``availableNow`` run and a graceful stop while a broker is read at its slave: both need the master, within
``clusterTimeoutMs``."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from connector_tests.support.steady_member import (
    ELSEWHERE,
    TARGET_TIMEOUT_MS,
    A,
    DrainRequest,
    SteadyMember,
    holding,
    planner,
    reached,
    read,
)
from rocketmq_spark.errors import TransportError
from rocketmq_spark.model import MessageQueue, QueueRange
from rocketmq_spark.source.stream.batch_planner import BatchPlanner
from rocketmq_spark.source.stream.offsets import SourceOffset

SLACK_MS = 10_000


class AtSlave(SteadyMember):
    """Its broker may lose the master, and the only server that is left is the slave 1, at the same address. Time passes
    while the query waits."""

    def wait_for_change(self, positions: Mapping[MessageQueue, int], timeout_ms: int) -> bool:
        super().wait_for_change(positions, timeout_ms)
        self.clock.advance(timeout_ms)
        return self.observed.log_and_snapshot().is_due(self.clock())

    def lose_master(self) -> None:
        self._have_master(1)

    def find_master(self) -> None:
        self._have_master(0)

    def _have_master(self, master_id: int) -> None:
        self.cluster.brokers["broker-a"].master_id = master_id
        self.observed.rebalance()


def at_slave(member: AtSlave, drain: DrainRequest | None = None) -> BatchPlanner:
    return planner(member, drain=drain, readFrom="auto", clusterTimeoutMs=str(TARGET_TIMEOUT_MS))


def wait_for_failure(member: AtSlave, subject: BatchPlanner, start: SourceOffset) -> str:
    """The error with which the query ends, one limit after it has begun to wait."""
    began_ms = member.clock()
    with pytest.raises(TransportError) as raised:
        while member.clock() - began_ms <= 2 * TARGET_TIMEOUT_MS:
            assert subject.latest_offset(start, None) is start
    assert TARGET_TIMEOUT_MS <= member.clock() - began_ms <= TARGET_TIMEOUT_MS + SLACK_MS
    return str(raised.value)


def test_available_now_waits_for_the_master_within_the_limit() -> None:
    """It waited without one."""
    member = AtSlave({A: holding(10)})
    subject = at_slave(member)
    subject.stop_at_current_end()
    end, _ = read(subject, SourceOffset())
    member.lose_master()
    assert wait_for_failure(member, subject, end).startswith(
        "[ROCKETMQ_CLUSTER_TIMEOUT] No successful response from the master of broker broker-a, without which the query "
        f"does not end, for {TARGET_TIMEOUT_MS} ms (limit {TARGET_TIMEOUT_MS} ms). Last error: "
        "[ROCKETMQ_READING_FROM_SLAVE] The master of broker 'broker-a' is not in the route or does not respond; "
        "reading what its slave broker-a:10911 has. Offsets are committed when the master responds again. Check that "
        "the servers are running and reachable"
    )


def test_available_now_does_not_end_without_messages_that_the_slave_lacks(caplog: pytest.LogCaptureFixture) -> None:
    """It ended after the time for other members, though there were none."""
    member = AtSlave({A: holding(10)})
    subject = at_slave(member)
    subject.stop_at_current_end()
    end, _ = read(subject, SourceOffset(), limit=4)
    member.observed.mark_completed({A: 4}, {})
    assert member.stored == {A: 4}
    member.lose_master()
    member.hold(A, holding(4))
    wait_for_failure(member, subject, end)
    assert "TARGET_OFFSETS_NOT_REACHED" not in caplog.text


def test_available_now_that_begins_without_a_master_waits_within_the_limit() -> None:
    member = AtSlave({A: holding(10)}, stored={A: 4})
    subject = at_slave(member)
    subject.stop_at_current_end()
    member.lose_master()
    assert "[ROCKETMQ_CLUSTER_TIMEOUT]" in wait_for_failure(member, subject, reached((A, 4)))


def test_available_now_has_no_limit_while_the_slave_has_messages() -> None:
    member = AtSlave({A: holding(10)})
    subject = at_slave(member)
    subject.stop_at_current_end()
    end, _ = read(subject, SourceOffset(), limit=2)
    member.lose_master()
    for begin in (2, 4, 6, 8):
        member.clock.advance(TARGET_TIMEOUT_MS)
        end, ranges = read(subject, end, limit=2)
        assert ranges == [QueueRange(A, begin, begin + 2)]
    wait_for_failure(member, subject, end)


def test_available_now_ends_when_the_master_is_back_in_time() -> None:
    class Back(AtSlave):
        def wait_for_change(self, positions: Mapping[MessageQueue, int], timeout_ms: int) -> bool:
            if self.clock() > TARGET_TIMEOUT_MS / 2 and self.cluster.brokers["broker-a"].master_id:
                self.find_master()
            return super().wait_for_change(positions, timeout_ms)

    member = Back({A: holding(10)})
    subject = at_slave(member)
    subject.stop_at_current_end()
    end, _ = read(subject, SourceOffset())
    member.lose_master()
    assert subject.latest_offset(end, None) is end
    assert member.stored == {A: 10}


class BesideOther(AtSlave):
    """Another member owns the queue at the other broker, and reads it."""

    def __init__(self) -> None:
        super().__init__({A: holding(10), ELSEWHERE: holding(50)}, not_owned={ELSEWHERE})

    def wait_for_change(self, positions: Mapping[MessageQueue, int], timeout_ms: int) -> bool:
        self.outages = 0
        self.store(ELSEWHERE, min(50, self.clock() * 50 // (3 * TARGET_TIMEOUT_MS)))
        return super().wait_for_change(positions, timeout_ms)


def test_available_now_needs_no_master_for_queues_of_other_brokers() -> None:
    """It failed, though all that was read of the broker was committed."""
    member = BesideOther()
    subject = at_slave(member)
    subject.stop_at_current_end()
    end, _ = read(subject, SourceOffset())
    member.observed.mark_completed({A: 10}, {})
    member.lose_master()
    while (new := subject.latest_offset(end, None)) is not end:
        end = new
    assert member.stored == {A: 10, ELSEWHERE: 50}


def test_graceful_stop_waits_for_the_master_within_the_limit() -> None:
    """It waited without one."""
    member, drain = AtSlave({A: holding(10)}), DrainRequest()
    subject = at_slave(member, drain)
    end, _ = read(subject, SourceOffset())
    member.lose_master()
    drain.is_wanted = True
    assert "the master of broker broker-a, without which the query does not end" in wait_for_failure(
        member, subject, end
    )
    assert not member.has_left


def test_a_withdrawn_stop_leaves_no_limit() -> None:
    class Withdrawn(DrainRequest):
        def check_request(self) -> bool:
            self.is_wanted = self.is_wanted and member.clock() < TARGET_TIMEOUT_MS / 2
            return self.is_wanted

    member, drain = AtSlave({A: holding(10)}), Withdrawn()
    subject = at_slave(member, drain)
    end, _ = read(subject, SourceOffset())
    member.lose_master()
    drain.is_wanted = True
    while member.clock() < 3 * TARGET_TIMEOUT_MS:
        assert subject.latest_offset(end, None) is end
        member.clock.advance(TARGET_TIMEOUT_MS // 10)
