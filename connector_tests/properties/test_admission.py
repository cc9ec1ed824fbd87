"""Admission: the limit is used up, nobody gets what does not wait, nobody starves."""

from __future__ import annotations

import math
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from connector_tests.support.queues import QUEUES
from rocketmq_spark.model import MessageQueue
from rocketmq_spark.source.stream.admission import TriggerDelay
from rocketmq_spark.source.stream.planning import fair_shares

WAITING = st.dictionaries(QUEUES, st.integers(1, 2**62) | st.integers(1, 50), max_size=12)
LIMITS = st.integers(1, 2**63 - 1) | st.integers(1, 100)


@given(WAITING, LIMITS)
def test_the_limit_is_used_up_and_not_exceeded(waiting: dict[MessageQueue, int], limit: int) -> None:
    assert sum(fair_shares(waiting, limit).values()) == min(limit, sum(waiting.values()))


@given(WAITING, LIMITS)
def test_a_share_is_at_least_one_and_at_most_what_waits(waiting: dict[MessageQueue, int], limit: int) -> None:
    shares = fair_shares(waiting, limit)
    assert all(1 <= share <= waiting[queue] for queue, share in shares.items())


@given(WAITING, LIMITS)
def test_every_queue_has_a_share_while_the_limit_allows_it(waiting: dict[MessageQueue, int], limit: int) -> None:
    assert len(fair_shares(waiting, limit)) == min(limit, len(waiting))


@given(WAITING, LIMITS)
def test_a_caller_that_waits_with_more_gets_no_less(waiting: dict[MessageQueue, int], limit: int) -> None:
    shares = fair_shares(waiting, limit)
    by_waiting = sorted(waiting, key=lambda queue: waiting[queue])
    assert all(shares.get(less, 0) <= shares.get(more, 0) + 1 for less, more in pairwise(by_waiting))


@given(WAITING, LIMITS)
def test_the_order_in_which_queues_are_given_does_not_matter(waiting: dict[MessageQueue, int], limit: int) -> None:
    turned_round = dict(reversed(waiting.items()))
    assert fair_shares(turned_round, limit) == fair_shares(waiting, limit)


@given(st.sets(QUEUES, min_size=1, max_size=12), st.integers(1, 12), st.data())
def test_no_queue_starves_however_fast_the_others_fill(
    queues: set[MessageQueue], limit: int, data: st.DataObject
) -> None:
    """Whatever comes in, after as many batches as it takes to give everybody a turn everybody has had one."""
    served: list[MessageQueue] = []
    had_its_share: set[MessageQueue] = set()
    for _ in range(math.ceil(len(queues) / limit)):
        waiting = {queue: data.draw(st.integers(1, 1_000)) for queue in sorted(queues, key=MessageQueue.sort_key)}
        shares = fair_shares(waiting, limit, served)
        served = [queue for queue in served if queue not in shares] + list(shares)
        had_its_share |= shares.keys()
    assert had_its_share == queues


@given(
    st.integers(1, 100) | st.integers(1, 2**63 - 1),
    st.integers(0, 2**63 - 1) | st.integers(0, 50),
    st.lists(st.tuples(st.integers(0, 100) | st.integers(0, 2**63 - 1), st.integers(0, 60)), max_size=30),
)
def test_a_batch_is_delayed_only_for_less_than_the_minimum_and_the_time(
    min_offsets: int, max_delay_ms: int, calls: list[tuple[int, int]]
) -> None:
    """By virtual time: what is available at each call, and the time since the call before."""
    delay, last_batch_ms, now_ms = TriggerDelay(min_offsets, max_delay_ms), None, 0
    for available, passed_ms in calls:
        now_ms += passed_ms
        is_delayed = delay.decide(available, now_ms)
        is_due = last_batch_ms is None or now_ms - last_batch_ms >= max_delay_ms
        assert is_delayed == (0 < available < min_offsets and not is_due)
        if is_delayed:
            assert not delay.decide(available, now_ms + delay.remaining_ms(now_ms))
        elif available:
            delay.record_planned(now_ms)
            last_batch_ms = now_ms
