"""Concurrent queries, the default: a queue changes hands at once, and at most its one unproven batch is read twice."""

from __future__ import annotations

from collections import defaultdict
from functools import partial

import pytest

import rocketmq_spark
from connector_tests.spark.conftest import StreamOf
from connector_tests.support.streams import Stream, Topic, eventually
from connector_tests.support.visits import join_and_leave, read_by_all

pytestmark = pytest.mark.full

JOINS = 2
JOINS_LONG = 20
BATCH = 100
LIMIT = {"maxOffsetsPerTrigger": str(BATCH)}


def read_by_both(staying: Stream, visitor: Stream) -> dict[int, dict[int, int]]:
    """By queue that the visitor got, by batch of the staying query: how many of its rows the visitor has read too."""
    of_visitor = set(visitor.places())
    doubled: dict[int, dict[int, int]] = {queue_id: defaultdict(int) for queue_id, _ in of_visitor}
    for batch_id, queue_id, offset in staying.batches_queues_and_offsets():
        if (queue_id, offset) in of_visitor:
            doubled[queue_id][batch_id] += 1
    return doubled


def check_joins_and_leaves(messages: Topic, stream: StreamOf, group: str, times: int) -> None:
    """A visitor moves each queue that it has rows of twice. It leaves nothing unproven, so only its join may double
    anything: of each such queue what it shares with one batch of the query that lost it. Nothing is read three times,
    or twice by visitors."""
    staying = stream("staying", **LIMIT)
    visitors = [stream(f"visitor-{n}", **LIMIT) for n in range(times)]
    sent = join_and_leave(messages, group, staying, visitors)
    read = read_by_all(staying, visitors)
    moves = [batches for visitor in visitors for batches in read_by_both(staying, visitor).values()]
    assert sorted(set(read)) == sorted(sent), "lost"
    assert max(map(len, moves)) <= 1, "more than one batch of a moved queue was read twice"
    doubled = sum(sum(batches.values()) for batches in moves)
    assert len(read) - len(sent) == doubled <= BATCH * len(moves), "read twice"


def test_a_graceful_join_and_leave_loses_nothing_and_doubles_at_most_one_batch_of_a_moved_queue(
    messages: Topic, stream: StreamOf, group: str
) -> None:
    check_joins_and_leaves(messages, stream, group, JOINS)


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_many_graceful_joins_and_leaves(messages: Topic, stream: StreamOf, group: str) -> None:
    check_joins_and_leaves(messages, stream, group, JOINS_LONG)


def send_and_wait_for_the_completion(messages: Topic, group: str, members: int) -> list[str]:
    """Once so many members have shared the queues; returns the bodies."""
    eventually(partial(messages.is_shared, group, members), f"{members} members own each queue once")
    sent = messages.send(20)
    eventually(lambda: messages.lag(group) == 0, "everything is proven")
    return sent


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("times", [JOINS, pytest.param(JOINS_LONG, marks=pytest.mark.long)])
def test_queues_that_move_with_nothing_in_flight_are_read_once(
    messages: Topic, stream: StreamOf, group: str, times: int
) -> None:
    staying = stream("staying")
    visitors = [stream(f"visitor-{n}") for n in range(times)]
    with staying.running():
        sent = send_and_wait_for_the_completion(messages, group, 1)
        for visitor in visitors:
            with visitor.running() as visiting:
                sent += send_and_wait_for_the_completion(messages, group, 2)
                rocketmq_spark.stop(visiting)
            sent += send_and_wait_for_the_completion(messages, group, 1)
    assert all(visitor.bodies() for visitor in visitors)
    read = read_by_all(staying, visitors)
    assert sorted(read) == sorted(sent)
