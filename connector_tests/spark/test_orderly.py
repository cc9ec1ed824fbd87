"""Orderly queries: a queue changes hands only between micro-batches; nothing is read twice, and order is kept."""

from __future__ import annotations

from collections import defaultdict

import pytest

import rocketmq_spark
from connector_tests.spark.conftest import StreamOf
from connector_tests.support.streams import TIMEOUT_S, Stream, Topic, eventually
from connector_tests.support.visits import join_and_leave, read_by_all

pytestmark = pytest.mark.full

JOINS = 2
JOINS_LONG = 20


def order_violations(stream: Stream) -> int:
    """Rows that come before a row of an earlier batch in their queue."""
    last: dict[int, tuple[int, int]] = defaultdict(lambda: (-1, -1))
    violations = 0
    for batch_id, queue_id, offset in sorted(stream.batches_queues_and_offsets()):
        violations += offset <= last[queue_id][1]
        last[queue_id] = (batch_id, offset)
    return violations


def check_joins_and_leaves(messages: Topic, stream: StreamOf, group: str, times: int) -> None:
    staying = stream("staying", consumeOrderly="true", maxOffsetsPerTrigger="200")
    visitors = [stream(f"visitor-{n}", consumeOrderly="true", maxOffsetsPerTrigger="200") for n in range(times)]
    sent = join_and_leave(messages, group, staying, visitors)
    read = read_by_all(staying, visitors)
    assert sorted(set(read)) == sorted(sent), "lost"
    assert len(read) == len(sent), "read twice"
    assert sum(map(order_violations, (staying, *visitors))) == 0


def test_graceful_joins_and_leaves_lose_nothing_double_nothing_and_keep_order(
    messages: Topic, stream: StreamOf, group: str
) -> None:
    check_joins_and_leaves(messages, stream, group, JOINS)


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_many_graceful_joins_and_leaves(messages: Topic, stream: StreamOf, group: str) -> None:
    check_joins_and_leaves(messages, stream, group, JOINS_LONG)


def test_a_graceful_stop_leaves_no_lag_and_no_lock(messages: Topic, stream: StreamOf, group: str) -> None:
    first = stream("first", consumeOrderly="true")
    with first.running() as query:
        sent = messages.send(10)
        eventually(lambda: first.bodies() == sorted(sent), "all rows")
        rocketmq_spark.stop(query, timeout_s=TIMEOUT_S)
        assert not query.isActive
        assert messages.lag(group) == 0
        assert messages.lockable(group) == set(messages.queues)


def test_a_restart_with_the_same_instance_name_gets_its_locks_back_at_once(
    messages: Topic, stream: StreamOf, group: str
) -> None:
    named = stream("named", consumeOrderly="true", instanceName=f"worker-{group[-8:]}")
    with named.running() as query:
        sent = messages.send(10)
        eventually(lambda: named.bodies() == sorted(sent), "all rows")
        query.stop()
    sent += messages.send(10)
    with named.running():
        eventually(lambda: named.bodies() == sorted(sent), "rows after the restart")
