"""Limits of micro-batches, by a clock that the test moves."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from connector_tests.support.queues import queues
from rocketmq_spark.model import MessageQueue, QueueBounds
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.source.stream.admission import Admission, ProbeSizes, TriggerDelay
from rocketmq_spark.source.stream.offsets import QueueProgress, SourceOffset
from rocketmq_spark.source.stream.planning import Position
from rocketmq_spark.wire.body.task_report import ReadSize

A, B = queues(2)
NEW = SourceOffset()
MINUTES = 60_000


def admission(**given: str) -> Admission:
    required = {"namesrvAddr": "n:9876", "consumerGroup": "g", "subscribe": "orders"}
    return Admission(ReadOptions.parse(required | given))


def test_first_batch_is_not_delayed() -> None:
    delay = TriggerDelay(100, 1_000)
    assert not delay.decide(1, 5)
    assert (delay.is_active, delay.remaining_ms(5)) == (False, 0)


def test_few_offsets_are_delayed_until_there_are_enough_or_the_time_is_over() -> None:
    delay = TriggerDelay(100, 1_000)
    delay.record_planned(5_000)
    assert [delay.decide(count, 5_001) for count in (0, 1, 99, 100, 2**63)] == [False, True, True, False, False]
    assert [delay.decide(99, now_ms) for now_ms in (5_000, 5_999, 6_000)] == [True, True, False]
    assert [delay.remaining_ms(now_ms) for now_ms in (5_000, 5_999, 6_000, 9_000)] == [1_000, 1, 0, 0]
    assert not delay.is_active


def test_message_after_a_long_pause_is_not_delayed() -> None:
    delay = TriggerDelay(100, 1_000)
    delay.record_planned(0)
    assert not delay.decide(0, 500)
    assert not delay.decide(1, 7_000)


def test_without_a_minimum_nothing_is_delayed() -> None:
    delay = TriggerDelay(None, 1_000)
    delay.record_planned(0)
    assert not delay.decide(1, 1)


def test_minimum_and_maximum_are_composed() -> None:
    """Spark's own case: "compositeReadLimit"."""
    subject = admission(minOffsetsPerTrigger="8", maxOffsetsPerTrigger="20", maxTriggerDelay="15m")
    position, now_ms, planned = 0, 0, []

    def plan(max_offset: int) -> int:
        nonlocal position
        ranges = subject.plan(
            {A: Position(position)}, {A: QueueBounds(0, max_offset)}, NEW, limit=20, targets=None, now_ms=now_ms
        )
        subject.record_planned(ranges, now_ms)
        position += (count := sum(one.end_offset - one.begin_offset for one in ranges.values()))
        return count

    for max_offset in (5, 6, 12, 13, 60, 60, 60):
        now_ms += 1_000
        planned.append(plan(max_offset))
    assert planned == [5, 0, 0, 8, 20, 20, 0]
    now_ms += 15 * MINUTES
    assert plan(60) == 7


@pytest.mark.parametrize(
    ("limit", "targets", "is_delayed"), [(2**63 - 1, None, True), (None, None, False), (2**63 - 1, {A: 3}, False)]
)
def test_once_and_available_now_ignore_the_minimum(
    limit: int | None, targets: dict[MessageQueue, int] | None, is_delayed: bool
) -> None:
    subject = admission(minOffsetsPerTrigger="8")
    subject.record_planned({A: QueueProgress(0, 1, 0)}, 0)
    ranges = subject.plan({A: Position(1)}, {A: QueueBounds(0, 5)}, NEW, limit=limit, targets=targets, now_ms=1)
    assert (ranges == {}, subject.delay.is_active) == (is_delayed, is_delayed)


def test_queues_that_were_planned_longest_ago_come_first() -> None:
    subject = admission(maxOffsetsPerTrigger="1")
    positions, bounds = {A: Position(0), B: Position(0)}, {A: QueueBounds(0, 50), B: QueueBounds(0, 50)}
    planned = []
    for _ in range(4):
        ranges = subject.plan(positions, bounds, NEW, limit=1, targets=None, now_ms=0)
        subject.record_planned(ranges, 0)
        planned += list(ranges)
    assert planned == [A, B, A, B]
    subject.record_planned({}, 5)
    assert subject.delay.remaining_ms(0) == 15 * MINUTES


def probe_of(sizes: dict[MessageQueue, int]) -> ProbeSizes:
    return lambda offsets: {queue: sizes.get(queue) for queue in offsets}


NO_SIZES = probe_of({})


def probe_nothing(offsets: Mapping[MessageQueue, int]) -> dict[MessageQueue, int | None]:
    assert not offsets, "probed"
    return {}


def probe_never(_offsets: object) -> dict[MessageQueue, int | None]:
    raise AssertionError("called")


def planned_counts(
    subject: Admission,
    backlog: dict[MessageQueue, int],
    *,
    limit: int | None = 2**63 - 1,
    targets: dict[MessageQueue, int] | None = None,
    now_ms: int = 0,
    probe_sizes: ProbeSizes = NO_SIZES,
) -> dict[MessageQueue, int]:
    """Plan queues that begin at 0 and have ``backlog``, and return their offsets."""
    ranges = subject.plan(
        dict.fromkeys(backlog, Position(0)),
        {queue: QueueBounds(0, count) for queue, count in backlog.items()},
        NEW,
        limit=limit,
        targets=targets,
        now_ms=now_ms,
        probe_sizes=probe_sizes,
    )
    subject.record_planned(ranges, now_ms)
    return {queue: one.end_offset - one.begin_offset for queue, one in ranges.items()}


def test_the_first_batch_is_estimated_from_the_first_messages_and_later_ones_from_what_was_read() -> None:
    subject, backlog = admission(maxBytesPerTrigger="1000"), {A: 50, B: 50}
    probe = probe_of({A: 100, B: 10})
    assert planned_counts(subject, backlog, probe_sizes=probe) == {A: 9, B: 9}
    subject.sizes.add([ReadSize(A, 9, 90), ReadSize(B, 9, 90)])
    assert planned_counts(subject, backlog, probe_sizes=probe) == {A: 50, B: 50}
    subject.sizes.add([ReadSize(A, 50, 50_000)])
    assert planned_counts(subject, backlog) == {A: 1, B: 1}


def test_where_no_first_message_is_found_a_batch_is_small() -> None:
    assert planned_counts(admission(maxBytesPerTrigger=str(16 * 2**20)), {A: 50, B: 50}) == {A: 2, B: 2}


def test_the_smaller_one_of_both_limits_applies() -> None:
    probe = probe_of({A: 10, B: 10})
    limits = {"maxBytesPerTrigger": "200", "maxOffsetsPerTrigger": "8"}
    assert planned_counts(admission(**limits), {A: 50, B: 50}, limit=8, probe_sizes=probe) == {A: 4, B: 4}
    limits["maxBytesPerTrigger"] = "40"
    assert planned_counts(admission(**limits), {A: 50, B: 50}, limit=8, probe_sizes=probe) == {A: 2, B: 2}


def test_available_now_is_limited_in_bytes_and_once_is_not() -> None:
    given = {"maxBytesPerTrigger": "40", "minOffsetsPerTrigger": "9"}
    backlog, probe = {A: 50}, probe_of({A: 10})
    assert planned_counts(admission(**given), backlog, targets={A: 3}, probe_sizes=probe) == {A: 3}
    assert planned_counts(admission(**given), backlog, targets={A: 30}, probe_sizes=probe) == {A: 4}
    assert planned_counts(admission(**given), backlog, limit=None, probe_sizes=probe) == {A: 50}


def test_largest_limits_do_not_overflow() -> None:
    largest = 2**63 - 1
    subject, probe = admission(maxBytesPerTrigger=str(largest)), probe_of({A: 4_000_000, B: 1})
    assert planned_counts(subject, {A: 50, B: 50}, limit=largest, probe_sizes=probe) == {A: 50, B: 50}
    counts = planned_counts(subject, {A: largest, B: largest}, limit=largest, probe_sizes=probe)
    assert 0 < counts[A] * 4_000_000 + counts[B] <= largest


def test_few_offsets_with_enough_bytes_are_not_delayed() -> None:
    subject, probe = admission(maxBytesPerTrigger="40", minOffsetsPerTrigger="9"), probe_of({A: 10})
    subject.record_planned({A: QueueProgress(0, 1, 0)}, 0)
    assert planned_counts(subject, {A: 3}, probe_sizes=probe) == {}
    assert subject.delay.is_active
    assert planned_counts(subject, {A: 3}, probe_sizes=probe_nothing) == {}
    assert planned_counts(subject, {A: 5}, probe_sizes=probe) == {A: 4}
    assert not subject.delay.is_active


def test_queue_that_grows_during_a_delay_is_estimated_by_its_own_message() -> None:
    """It was planned by the mean over the other queues, and exceeded the maximum many times."""
    subject, probe = admission(maxBytesPerTrigger="5000", minOffsetsPerTrigger="30"), probe_of({B: 1_000})
    subject.sizes.add([ReadSize(A, 3, 30)])
    subject.record_planned({A: QueueProgress(0, 3, 0)}, 0)
    assert planned_counts(subject, {A: 3}, probe_sizes=probe_nothing) == {}
    assert planned_counts(subject, {A: 3, B: 4}, probe_sizes=probe) == {}
    assert planned_counts(subject, {A: 3, B: 4}, probe_sizes=probe_nothing) == {}
    assert planned_counts(subject, {A: 3, B: 60}, probe_sizes=probe_nothing) == {A: 1, B: 4}


@pytest.mark.parametrize(("given", "limit"), [({}, 5), ({"maxBytesPerTrigger": "9"}, None)])
def test_without_a_limit_of_bytes_nothing_is_probed(given: dict[str, str], limit: int | None) -> None:
    assert planned_counts(admission(**given), {A: 3}, limit=limit, probe_sizes=probe_never) == {A: 3}
