from __future__ import annotations

import pytest

from connector_tests.support.queues import queue, queues
from rocketmq_spark.errors import RouteError
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.remoting.outage_log import Outage
from rocketmq_spark.remoting.retry import REQUEST_PAUSES
from rocketmq_spark.source.stream.missing_queues import MissingQueues
from rocketmq_spark.source.stream.offsets import QueueProgress, SourceOffset

A, B = queues(2)
UNAVAILABLE = {B: "10.0.0.1:10911"}
LIMIT_MS = 60_000
START = SourceOffset({A: QueueProgress(0, 7), B: QueueProgress(2, 41)})


def missing(policy: str) -> MissingQueues:
    required = {"namesrvAddr": "n:9876", "consumerGroup": "g", "subscribe": "orders"}
    return MissingQueues(
        ReadOptions.parse({**required, "missingQueues": policy, "missingQueuesTimeoutMs": str(LIMIT_MS)})
    )


def test_wait_is_the_default() -> None:
    options = ReadOptions.parse({"namesrvAddr": "n:9876", "consumerGroup": "g", "subscribe": "orders"})
    assert (options.missing_queues, options.missing_queues_timeout_ms) == ("wait", options.cluster_timeout_ms)


def test_waiting_ends_with_an_error_that_names_queue_position_and_last_address() -> None:
    subject = missing("wait")
    subject.update(UNAVAILABLE, START, now_ms=1_000)
    assert not subject.is_due(1_000 + 1)
    subject.update(UNAVAILABLE, START, now_ms=1_000 + LIMIT_MS - 1)
    assert subject.is_due(1_000 + LIMIT_MS)
    with pytest.raises(RouteError) as raised:
        subject.update(UNAVAILABLE, START, now_ms=1_000 + LIMIT_MS)
    assert raised.value.context == {
        "count": 1,
        "queues": "orders@broker-a:1 at offset 41, last broker address 10.0.0.1:10911",
        "waited_ms": LIMIT_MS,
        "limit_ms": LIMIT_MS,
    }
    assert f"] 1 queue unavailable for {LIMIT_MS} ms (limit {LIMIT_MS} ms): orders@broker-a:1 at" in str(raised.value)
    assert "To wait longer, raise 'missingQueuesTimeoutMs'. To continue without them, set" in str(raised.value)


@pytest.mark.parametrize("policy", ["wait", "drop"])
def test_while_a_queue_is_unavailable_it_is_searched_for_again_after_each_pause(policy: str) -> None:
    subject = missing(policy)
    assert not subject.is_due(10**9)
    for seen_ms in (1_000, 1_000 + REQUEST_PAUSES.longest_ms):
        subject.update(UNAVAILABLE, START, now_ms=seen_ms)
        assert not subject.is_due(seen_ms + REQUEST_PAUSES.longest_ms - 1)
        assert subject.is_due(seen_ms + REQUEST_PAUSES.longest_ms)
    subject.update({}, START, now_ms=90_000)
    assert not subject.is_due(10**9)


def test_at_the_limit_it_is_searched_for_at_once() -> None:
    subject = missing("wait")
    for seen_ms in (1_000, 1_000 + LIMIT_MS - 1):
        subject.update(UNAVAILABLE, START, now_ms=seen_ms)
    assert subject.is_due(1_000 + LIMIT_MS)


def test_each_queue_has_its_own_limit_which_begins_again_when_it_was_back() -> None:
    subject = missing("wait")
    subject.update(UNAVAILABLE, START, now_ms=0)
    subject.update({}, START, now_ms=LIMIT_MS)
    assert subject.awaited == set()
    subject.update(UNAVAILABLE, START, now_ms=LIMIT_MS)
    subject.update(UNAVAILABLE | {A: "10.0.0.1:10911"}, START, now_ms=2 * LIMIT_MS - 1)
    with pytest.raises(RouteError) as raised:
        subject.update(UNAVAILABLE | {A: "10.0.0.1:10911"}, START, now_ms=2 * LIMIT_MS)
    assert str(A) not in str(raised.value.context["queues"])


def test_the_error_reports_the_longest_wait_of_all_that_are_overdue() -> None:
    subject = missing("wait")
    subject.update(UNAVAILABLE, START, now_ms=0)
    both = UNAVAILABLE | {A: "10.0.0.1:10911"}
    subject.update(both, START, now_ms=7)
    with pytest.raises(RouteError) as raised:
        subject.update(both, START, now_ms=LIMIT_MS + 7)
    assert raised.value.context["waited_ms"] == LIMIT_MS + 7


def test_fail_is_an_error_at_once_that_names_all_of_them() -> None:
    both = {B: "10.0.0.1:10911", A: "10.0.0.2:10911"}
    with pytest.raises(RouteError, match=r"orders@broker-a:0 at offset 7, .*2:10911; orders@broker-a:1 at offset 41"):
        missing("fail").update(both, START, now_ms=0)


def test_fail_advises_to_wait_and_not_a_limit_that_it_has_not() -> None:
    """It said that they were away for 0 ms, and to raise 'missingQueuesTimeoutMs', which does nothing with it."""
    with pytest.raises(RouteError) as raised:
        missing("fail").update(UNAVAILABLE, START, now_ms=7)
    reported = str(raised.value)
    assert "] 1 queue unavailable, with missingQueues=fail: orders@broker-a:1 at" in reported
    assert (
        "To wait for them, set 'missingQueues' to 'wait'. To continue without them, set 'missingQueues' to" in reported
    )
    assert " ms" not in reported
    assert "missingQueuesTimeoutMs" not in reported


def test_drop_continues_for_ever_and_reports_the_position() -> None:
    subject = missing("drop")
    for now_ms in (0, LIMIT_MS, 100 * LIMIT_MS):
        subject.update(UNAVAILABLE, START, now_ms)
        assert not subject.is_due(now_ms + 1)
    assert subject.dropped == {B}
    assert subject.awaited == set()
    assert subject.outages == (
        Outage(
            "1 queue of topic orders at broker-a (10.0.0.1:10911)",
            since_ms=0,
            until_ms=None,
            reason="not in the route or not readable; the query reads the other queues (missingQueues=drop); offsets "
            "are kept: queue=1 offset=41",
            key="QUEUES_UNAVAILABLE",
        ),
    )
    subject.update({}, START, now_ms=101 * LIMIT_MS)
    assert len(subject.dropped) == len(subject.outages) == 0


def test_what_is_waited_for_is_reported_by_topic_and_broker_with_its_end() -> None:
    subject = missing("wait")
    subject.update(UNAVAILABLE, START, now_ms=1_000)
    assert [(wait.since_ms, wait.until_ms) for wait in subject.outages] == [(1_000, 1_000 + LIMIT_MS)]
    subject.update(UNAVAILABLE | {A: "10.0.0.1:10911"}, START, now_ms=2_000)
    (both,) = subject.outages
    assert both.resource == "2 queues of topic orders at broker-a (10.0.0.1:10911)"
    assert both.reason == "not in the route or not readable; offsets are kept: queue=0 offset=7, queue=1 offset=41"
    assert (both.since_ms, both.until_ms) == (1_000, 1_000 + LIMIT_MS)


def test_queues_of_another_topic_or_broker_are_reported_by_themselves() -> None:
    many = {
        queue(0): "a:1",
        queue(1): "a:1",
        queue(0, broker_name="broker-b"): "b:1",
        queue(0, topic="payments"): "a:1",
    }
    subject = missing("wait")
    subject.update(many, SourceOffset(dict.fromkeys(many, QueueProgress(0, 5))), now_ms=0)
    assert [wait.resource for wait in subject.outages] == [
        "2 queues of topic orders at broker-a (a:1)",
        "1 queue of topic orders at broker-b (b:1)",
        "1 queue of topic payments at broker-a (a:1)",
    ]


@pytest.mark.parametrize(
    ("count", "reported"),
    [(12, "queue=8 offset=5, queue=9 offset=5 and 2 more"), (10, "queue=8 offset=5, queue=9 offset=5")],
)
def test_of_many_queues_some_positions_are_reported(count: int, reported: str) -> None:
    many = queues(count)
    subject = missing("wait")
    start = SourceOffset({queue: QueueProgress(0, 5) for queue in many})
    subject.update(dict.fromkeys(many, "10.0.0.1:10911"), start, now_ms=0)
    assert subject.outages[0].resource.startswith(f"{count} queues of topic orders")
    assert subject.outages[0].reason.endswith(reported)


def test_nothing_is_missing_while_everything_is_there() -> None:
    subject = missing("fail")
    subject.update({}, START, now_ms=0)
    assert subject.awaited == subject.dropped == set()
    assert not subject.is_due(10**9)
