"""The join of checkpoint and broker: whatever happens to the members of a group, nothing is lost, and nothing is read
twice that no move explains."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, Final

import pytest
from hypothesis import settings

from connector_tests.support.delivery_checker import MessageDeliveryChecker
from connector_tests.support.join_machine import (
    ALL_POINTS,
    ChangingGroup,
    ChangingOldGroup,
    FailingGroup,
    HealthyGroup,
    interleave_until,
)
from connector_tests.support.killed_broker_group import KilledBrokerGroup
from connector_tests.support.misled_group import ChangingMisledGroup, MisledGroup
from connector_tests.support.pattern_group import ChangingPatternGroup, PatternGroup
from connector_tests.support.simulated_group import SimulatedGroup
from connector_tests.support.simulated_query import IDLE, READ, Parts, SourceRunner

SEEDED: Final = settings(stateful_step_count=80, database=None, deadline=None)
"""Their seeds are the same in every run."""

HAPPENS_IN_PEACE: Final = {
    "a new queue",
    "moved",
    "moved while its last owner had it",
    "moved with a batch in flight",
    "proven late",
    "read twice by a move",
    "stopped gracefully",
}
HAPPENS_TO_TOPICS: Final = {"a topic was made anew", "a tail was lost", "cut off from a broker"}
HAPPENS_IN_TROUBLE: Final = HAPPENS_IN_PEACE | {
    "a broker was restarted",
    "brokers exchanged addresses",
    "a broker is away",
    "a broker is silent",
    "a request is half",
    "cut off from a broker",
    "a request is lost",
    "a request is unanswered",
    "killed",
    "orphaned",
    "started beside its orphan",
    "started with a batch to replay",
    "stopped",
    "written again",
}


def forms(short: int, long: int) -> list[Any]:
    """How many interleavings a seed: in ``make test``, and in ``make test-long``. What each single rule prevents is in
    test_join_rules."""
    return [short, pytest.param(long, marks=pytest.mark.long)]


@pytest.mark.timeout(900)
@pytest.mark.parametrize("interleavings", forms(200, 2_000))
def test_no_loss_and_no_second_duplicate_whatever_breaks(interleavings: int) -> None:
    how = settings(SEEDED, max_examples=interleavings)
    assert interleave_until(HAPPENS_IN_TROUBLE, FailingGroup, how) == set()


@pytest.mark.timeout(900)
@pytest.mark.parametrize("interleavings", forms(40, 2_000))
def test_no_loss_though_topics_are_made_anew_and_brokers_lose_tails(interleavings: int) -> None:
    how = settings(SEEDED, max_examples=interleavings)
    assert interleave_until(HAPPENS_TO_TOPICS, ChangingGroup, how) == set()


@pytest.mark.timeout(900)
@pytest.mark.parametrize("interleavings", forms(20, 1_000))
def test_no_loss_though_old_brokers_keep_the_offsets_of_topics_that_are_made_anew(interleavings: int) -> None:
    how = settings(SEEDED, max_examples=interleavings)
    assert interleave_until({"a topic was made anew"}, ChangingOldGroup, how) == set()


@pytest.mark.timeout(900)
@pytest.mark.parametrize("interleavings", forms(20, 1_000))
@pytest.mark.parametrize("machine", [MisledGroup, ChangingMisledGroup])
def test_group_offsets_beyond_the_ends_neither_lose_nor_repeat(machine: type[MisledGroup], interleavings: int) -> None:
    how = settings(SEEDED, max_examples=interleavings)
    assert interleave_until({"a commit beyond the end"}, machine, how) == set()


@pytest.mark.timeout(900)
@pytest.mark.parametrize("interleavings", forms(20, 1_000))
def test_no_duplicate_though_brokers_lose_group_offsets(interleavings: int) -> None:
    how = settings(SEEDED, max_examples=interleavings)
    assert interleave_until({"group offsets were lost"}, KilledBrokerGroup, how) == set()


@pytest.mark.timeout(900)
@pytest.mark.parametrize("interleavings", forms(20, 1_000))
def test_no_loss_though_topics_of_a_pattern_appear(interleavings: int) -> None:
    how = settings(SEEDED, max_examples=interleavings)
    assert interleave_until({"a topic appeared"}, PatternGroup, how) == set()


@pytest.mark.timeout(900)
@pytest.mark.parametrize("interleavings", forms(20, 1_000))
def test_no_loss_though_topics_of_a_pattern_are_deleted(interleavings: int) -> None:
    how = settings(SEEDED, max_examples=interleavings)
    assert interleave_until({"a topic was deleted"}, ChangingPatternGroup, how) == set()


@pytest.mark.timeout(900)
@pytest.mark.parametrize("interleavings", forms(20, 1_000))
def test_members_that_come_and_go_in_peace_duplicate_nothing_in_order(interleavings: int) -> None:
    how = settings(SEEDED, max_examples=interleavings)
    assert interleave_until(HAPPENS_IN_PEACE, HealthyGroup, how) == set()


@pytest.mark.parametrize("end", [SourceRunner.kill, SourceRunner.terminate, SourceRunner.lose_jvm])
@pytest.mark.parametrize("point", ALL_POINTS)
def test_gone_at_any_point_a_query_reads_each_message_once(point: str, end: Callable[[SourceRunner], None]) -> None:
    with SimulatedGroup({"t": {"a": 2}}, options={"consumeOrderly": "true"}) as group:
        first, other = group.query("A", instanceName="A"), group.query("B", instanceName="B")
        _produce_everywhere(group)
        runner = group.start(first)
        runner.resume(stops=(point, IDLE))
        if not runner.spark.at.startswith(point):
            # It unlocks when another one joins.
            group.start(other).resume()
            _produce_everywhere(group)
            runner.resume(stops=(point, IDLE))
        assert runner.spark.at.startswith(point)
        end(runner)
        _produce_everywhere(group)
        group.run_until_idle(without=frozenset(query for query in group.queries if query.run is None))
        assert group.checker.duplicates() == 0


def _produce_everywhere(group: SimulatedGroup) -> None:
    for queue in group.cluster.queues():
        group.cluster.produce(queue, 3)


def test_tail_written_over_while_idle_loses_no_message() -> None:
    """The queue is as long as before, so nothing but the lost connection shows it."""
    group = ChangingGroup(Parts(), Counter())
    group.create_group(
        layout={"t": {"a": 1, "b": 0}},
        starting_offset=0,
        is_orderly=False,
        query_count=1,
        keep_their_names=False,
        limit="",
    )
    for _ in range(18):
        group.resume(number=0, steps=1)
    group.lose_tail(count=1, lost_count=1, number=0)
    group.teardown()


def test_graceful_stop_of_an_available_now_run_ends_though_its_topic_was_made_anew() -> None:
    """Its completed offsets can never be confirmed, and its targets not be reached: the stop may wait for neither."""
    with SimulatedGroup({"t": {"a": 1}}, options={"failOnDataLoss": "false"}, checker=MessageDeliveryChecker) as group:
        (queue,) = group.cluster.queues()
        group.cluster.produce(queue, 3)
        runner = group.start(group.query("A", maxOffsetsPerTrigger="2"), available_now=True)
        runner.resume(stops=(READ,))
        runner.drain.is_wanted = True
        group.cluster.recreate("t")
        group.cluster.produce(queue, 3)
        for _ in range(3):
            runner.resume(stops=(IDLE,))
            group.pass_time(11_000)
        assert runner.drain.is_answered
        assert not runner.is_alive
        group.run_until_idle()
