"""What an idle query does not do: whatever it does is done some five times a second."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from connector_tests.support.simulated_group import SimulatedGroup
from connector_tests.support.simulated_query import SourceRunner
from rocketmq_spark.consumer.membership import Membership
from rocketmq_spark.source.stream.batch_planner import idle_wait_ms
from rocketmq_spark.source.stream.offsets import OffsetReader, SourceOffset


def idle(group: SimulatedGroup) -> SourceRunner:
    for queue in group.cluster.queues():
        group.cluster.produce(queue, 3)
    runner = group.start(group.query("A"))
    for _ in range(3):
        runner.resume()
    return runner


def counted(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> list[str]:
    """Grows with each call of a method."""
    calls: list[str] = []
    method: Callable[..., Any] = getattr(owner, name)

    def counting(*given: Any, **named: Any) -> Any:
        calls.append(name)
        return method(*given, **named)

    monkeypatch.setattr(owner, name, counting)
    return calls


def test_an_idle_query_reads_its_offset_proves_and_publishes_nothing_again(monkeypatch: pytest.MonkeyPatch) -> None:
    with SimulatedGroup({"t": {"a": 4}}) as group:
        runner = idle(group)
        read = counted(monkeypatch, SourceOffset, "from_json")
        proven = counted(monkeypatch, Membership, "mark_completed")
        viewed = counted(monkeypatch, Membership, "_view")
        for _ in range(10):
            runner.resume()
        assert (read, proven, viewed) == ([], [], [])


def test_what_the_brokers_have_not_confirmed_is_completed_again() -> None:
    with SimulatedGroup({"t": {"a": 1}}) as group:
        (queue,) = group.cluster.queues()
        runner = idle(group)
        group.cluster.produce(queue, 3)
        runner.resume(stops=("commits/N",))
        group.cluster.brokers["a"].unacknowledged_writes = {queue}
        runner.resume()
        group.cluster.brokers["a"].unacknowledged_writes = set()
        group.clock.advance(1_000)
        runner.resume()
        assert group.cluster.group_offset(queue) == 6


def test_a_view_that_has_changed_is_published() -> None:
    with SimulatedGroup({"t": {"a": 1}}) as group:
        (queue,) = group.cluster.queues()
        runner = idle(group)
        assert runner.membership.log_and_snapshot().view.positions == {queue: 3}
        group.cluster.produce(queue, 3)
        runner.resume()
        view = runner.membership.log_and_snapshot().view
        assert view.positions == {queue: 6}
        assert view.process_queues[queue].cached_count == 0


def test_an_offset_that_was_read_or_written_last_is_the_same_object() -> None:
    reader = OffsetReader()
    text = '{"v": 1, "queues": {"t": {"b": {"0": [1, 2, 3]}}}}'
    first = reader.read(json.loads(text))
    assert reader.read(json.loads(text)) is first
    other = reader.read(json.loads(text.replace("[1, 2, 3]", "[2, 2, 3]")))
    assert (other is first, other == first) == (False, False)
    assert reader.read(json.loads(json.dumps(reader.write(first)))) is first


def test_the_more_queues_the_longer_an_idle_call_waits() -> None:
    assert [idle_wait_ms(count) for count in (0, 800, 10_000, 10_003)] == [200, 200, 2_500, 2_500]
    assert isinstance(idle_wait_ms(10_003), int)
