"""Sizes of messages that were read or probed, and the limit in bytes that rests on them."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connector_tests.support.queues import queues
from connector_tests.support.timeouts import TIMEOUT_FACTOR
from rocketmq_spark.model import MessageQueue
from rocketmq_spark.source.stream.message_sizes import (
    LARGEST_MESSAGE_BYTES,
    MAX_PROBED_QUEUES,
    MessageSizes,
    shares_within,
)
from rocketmq_spark.wire.body.task_report import ReadSize

A, B, C = queues(3)
LARGEST = 2**63 - 1


def test_before_any_size_is_known_messages_may_be_as_large_as_brokers_allow() -> None:
    assert MessageSizes().of(A) == LARGEST_MESSAGE_BYTES


def test_a_queue_has_its_own_size_and_another_the_mean_of_all() -> None:
    sizes = MessageSizes()
    sizes.add([ReadSize(A, 10, 1_000), ReadSize(B, 30, 300)])
    assert [sizes.of(queue) for queue in (A, B, C)] == [100, 10, 33]
    sizes.add_probed({A: 500})
    assert sizes.of(C) == (16 * 500 + 500 + 300) // (16 + 5 + 30) + 1


def test_sizes_of_thousands_of_queues_take_no_noticeable_time() -> None:
    """The mean over all was computed again for each queue without a size."""
    sizes, many = MessageSizes(), queues(10_000)
    sizes.add([ReadSize(queue, 10, 1_000) for queue in many[::2]])
    begin_s = time.process_time()
    assert sum(map(sizes.of, many)) == 1_000_000
    assert time.process_time() - begin_s < 0.5 * TIMEOUT_FACTOR


def test_tasks_of_one_batch_weigh_alike_and_older_batches_half() -> None:
    sizes = MessageSizes()
    sizes.add([ReadSize(A, 8, 8 * 100), ReadSize(A, 8, 8 * 300)])
    assert sizes.of(A) == 200
    sizes.add([ReadSize(A, 8, 8 * 20)])
    assert sizes.of(A) == (16 * 200 // 2 + 160) // 16


def test_offsets_without_messages_of_the_filter_count_at_least_a_byte() -> None:
    sizes = MessageSizes()
    for _ in range(3):
        sizes.add([ReadSize(A, 1, 0)])
    assert sizes.of(A) == 1


def test_what_is_read_replaces_what_was_probed() -> None:
    sizes = MessageSizes()
    sizes.add_probed({A: 500, B: None})
    assert (sizes.of(A), sizes.of(B)) == (500, 500)
    assert sizes.to_probe([A, B, C]) == [B, C, A]
    sizes.add([ReadSize(A, 1, 30)])
    assert (sizes.of(A), sizes.to_probe([A, B, C])) == (30, [B, C])


def test_probes_follow_messages_that_grow_while_no_task_reports() -> None:
    sizes = MessageSizes()
    for _ in range(20):
        sizes.add_probed({A: 100})
    for _ in range(20):
        sizes.add_probed({A: 900})
    assert 880 <= sizes.of(A) <= 900


def test_of_many_queues_some_are_probed_at_a_time() -> None:
    sizes, many = MessageSizes(), list(queues(3 * MAX_PROBED_QUEUES))
    probed: list[MessageQueue] = []
    for _ in range(3):
        some = sizes.to_probe(many)
        sizes.add_probed(dict.fromkeys(some, 1))
        probed += some
    assert probed == many


def size_by(sizes: dict[MessageQueue, int]) -> MessageSizes:
    found = MessageSizes()
    found.add([ReadSize(queue, 1, size) for queue, size in sizes.items()])
    return found


def within(
    shares: dict[MessageQueue, int], max_bytes: int, sizes: dict[MessageQueue, int], last: tuple[MessageQueue, ...] = ()
) -> dict[MessageQueue, int]:
    return shares_within(shares, max_bytes, size_by(sizes).of, last)


@pytest.mark.parametrize(
    ("max_bytes", "shares"),
    [
        (1_000, {A: 5, B: 50}),
        (999, {A: 4, B: 49}),
        (200, {A: 1, B: 5}),
        (110, {A: 1, B: 1}),
        (109, {A: 1}),
        (1, {A: 1}),
    ],
)
def test_all_queues_are_reduced_by_the_same_factor(max_bytes: int, shares: dict[MessageQueue, int]) -> None:
    assert within({A: 5, B: 50}, max_bytes, {A: 100, B: 10}) == shares


def test_where_not_every_queue_gets_a_message_those_planned_longest_ago_do() -> None:
    sizes = {A: 10, B: 10, C: 90}
    assert within({A: 7, B: 7, C: 7}, 100, sizes, (A, B)) == {C: 1, A: 1}
    assert within({A: 7, B: 7, C: 7}, 100, sizes, (C, A)) == {B: 1, C: 1}
    assert within({A: 7, B: 7, C: 7}, 20, sizes, (A, C, B)) == {A: 1}


@settings(deadline=None)
@given(
    st.dictionaries(st.sampled_from(list(queues(8))), st.integers(1, LARGEST), min_size=1),
    st.integers(1, LARGEST),
    st.data(),
)
def test_no_limit_is_exceeded_and_little_is_unused(
    shares: dict[MessageQueue, int], max_bytes: int, data: st.DataObject
) -> None:
    sizes = {queue: data.draw(st.integers(1, 5_000_000)) for queue in shares}
    planned = within(shares, max_bytes, sizes)
    planned_bytes = sum(offsets * sizes[queue] for queue, offsets in planned.items())
    assert all(1 <= offsets <= shares[queue] for queue, offsets in planned.items())
    assert planned_bytes <= max_bytes or list(planned.values()) == [1]
    if sum(sizes.values()) <= max_bytes:
        assert planned.keys() == shares.keys()
    if planned != shares:
        assert planned_bytes > max_bytes - sum(sizes.values()), "more would be within the limit"


@settings(deadline=None)
@given(st.lists(st.integers(1, 100), min_size=1, max_size=6), st.integers(1, 120))
def test_no_queue_starves(message_bytes: list[int], max_bytes: int) -> None:
    all_queues = list(queues(len(message_bytes)))
    sizes = dict(zip(all_queues, message_bytes, strict=True))
    last: list[MessageQueue] = []
    served: set[MessageQueue] = set()
    for _ in all_queues:
        planned = within(dict.fromkeys(all_queues, 1_000), max_bytes, sizes, tuple(last))
        served |= planned.keys()
        last = [queue for queue in last if queue not in planned] + list(planned)
    assert served == set(all_queues)
