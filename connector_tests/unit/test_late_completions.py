"""What is proven after a queue has become another of the same name: no place in that one."""

from __future__ import annotations

import pytest

from connector_tests.support.manual_clock import ManualClock
from connector_tests.support.simulated_cluster import Fate, SimulatedCluster, SimulatedClusterClient
from rocketmq_spark.consumer.membership import Membership
from rocketmq_spark.model import MessageQueue
from rocketmq_spark.options import ReadOptions

QUEUE = MessageQueue("orders", "broker-a", 0)


class ReadBatch:
    """A member that has read [0, 2) of its only queue, planned when ``stored_ms`` was all there was of it."""

    def __init__(self, *stored_ms: int) -> None:
        clock = ManualClock()
        self.cluster = SimulatedCluster(["broker-a"], clock)
        self.cluster.create_topic("orders", {"broker-a": 1})
        self.broker = self.cluster.brokers["broker-a"]
        self.broker.stored_ms[QUEUE] = list(stored_ms)
        self.broker.offsets[QUEUE] = 0
        self._planned_ms = stored_ms[-1]
        options = ReadOptions.parse({"namesrvAddr": "n:9876", "consumerGroup": "g", "subscribe": "orders"})
        self.client = SimulatedClusterClient(self.cluster, "our connection")
        self.member = Membership(options, "me", self.client, clock, clock, started_ms=1)
        self.member.refresh_metadata()
        self.member.mark_in_flight({QUEUE: (0, 2)})

    def becomes(self, *stored_ms: int) -> None:
        """All there is of the queue now. The group's offset is 0, as another member of the new topic has set it."""
        self.broker.stored_ms[QUEUE] = list(stored_ms)

    def proven(self) -> int:
        """What the broker has as the group's offset when it has been told."""
        self.member.mark_completed({QUEUE: 2}, {QUEUE: self._planned_ms})
        return self.broker.offsets[QUEUE]


@pytest.mark.parametrize(
    ("planned", "now"),
    [
        ([50, 60], [50, 60]),
        ([50, 60], [50, 60, 70, 80]),
        ([50, 60, 70], [50, 60, 70, 80]),
        pytest.param([50, 60], [50, 60, 10], id="a clock was put back"),
    ],
)
def test_a_queue_that_is_the_same_is_committed(planned: list[int], now: list[int]) -> None:
    batch = ReadBatch(*planned)
    batch.becomes(*now)
    assert batch.proven() == 2
    assert batch.member.offsets.suspect == set()


@pytest.mark.parametrize("now", [[], [70], [70, 80], [70, 80, 90, 99], [50, 80, 90]])
def test_a_queue_that_is_another_is_not_committed_and_probed(now: list[int]) -> None:
    batch = ReadBatch(50, 60)
    batch.becomes(*now)
    before = batch.member.log_and_snapshot().changes
    assert batch.proven() == 0
    assert batch.member.offsets.suspect == {QUEUE}
    assert batch.member.log_and_snapshot().changes == before + 1, "the planner is told"
    assert not batch.member.offsets.persist()
    assert batch.broker.offsets[QUEUE] == 0


def test_a_hint_that_is_too_small_is_inspected() -> None:
    """RocketMQ 4.9 answers max - 1 where nothing is so new."""
    batch = ReadBatch(50, 60)
    batch.broker.hint_deficit = 1
    assert batch.proven() == 2


def test_retention_may_have_deleted_what_was_completed() -> None:
    batch = ReadBatch(50, 60)
    batch.becomes(50, 60, 70)
    batch.broker.min_offsets[QUEUE] = 2
    assert batch.proven() == 2


def test_what_cannot_be_verified_now_is_committed_later() -> None:
    batch = ReadBatch(50, 60)
    batch.client.fates += [Fate.NO_RESPONSE]
    assert batch.proven() == 0
    assert batch.member.offsets.suspect == set()
    batch.client.fates.clear()
    batch.cluster.clock.advance(60_000)
    assert batch.member.offsets.persist()
    assert batch.broker.offsets[QUEUE] == 2


def test_a_queue_of_which_no_time_is_known_is_committed() -> None:
    batch = ReadBatch(50, 60)
    batch.becomes(70, 80)
    batch.member.mark_completed({QUEUE: 2}, {})
    assert batch.broker.offsets[QUEUE] == 2
