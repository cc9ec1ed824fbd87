"""The queue of a message that may go to any queue: with a route source in memory, and a clock that a test moves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest

from connector_tests.support.manual_clock import ManualClock
from rocketmq_spark.errors import RocketMQError, RouteError, TransportError
from rocketmq_spark.model import BrokerData, QueueData, TopicRoute
from rocketmq_spark.remoting.route_table import RouteTable
from rocketmq_spark.remoting.write_queues import ROUTE_LIFETIME_MS, WriteQueues, no_writable_queue


def route(topic: str, *brokers: str, permission: int = 6, missing: frozenset[str] = frozenset()) -> TopicRoute:
    """Each broker has two queues; those in ``missing`` have only a slave."""
    return TopicRoute(
        topic,
        tuple(BrokerData("c", name, {int(name in missing): f"{name}:1"}) for name in brokers),
        tuple(QueueData(name, 2, 2, permission) for name in brokers),
    )


class Subject:
    """``WriteQueues`` whose first topic begins with queue 0, the next one with queue 1, and the requests it causes."""

    addresses = "n:9876"

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.brokers: tuple[str, ...] = ("a", "b")
        self.permission = 6
        self.is_unresponsive = False
        self.requests: list[list[str]] = []
        indexes: Iterator[int] = iter(range(2))
        self.queues = WriteQueues(RouteTable(self), self.clock, lambda: next(indexes))

    def query_topic_routes(self, topics: Iterable[str]) -> dict[str, TopicRoute | RocketMQError]:
        self.requests.append(list(topics))
        if self.is_unresponsive:
            error = TransportError("CONNECT_FAILED", address=self.addresses, reason="refused")
            return dict.fromkeys(self.requests[-1], error)
        return {topic: route(topic, *self.brokers, permission=self.permission) for topic in self.requests[-1]}

    def select(self, topic: str, count: int = 1, failed: str = "") -> list[str]:
        return [str(self.queues.select_queue(topic, lambda name: name not in failed)) for _ in range(count)]


@pytest.fixture
def subject() -> Subject:
    return Subject()


def test_each_topic_has_its_own_round_robin(subject: Subject) -> None:
    assert subject.select("T", 3) == ["T@a:0", "T@a:1", "T@b:0"]
    assert subject.select("U", 4) == ["U@a:1", "U@b:0", "U@b:1", "U@a:0"]
    assert subject.select("T", 2) == ["T@b:1", "T@a:0"]
    assert subject.requests == [["T"], ["U"]]


def test_rejected_brokers_are_skipped_unless_all_are(subject: Subject) -> None:
    assert subject.select("T", 3, failed="a") == ["T@b:0", "T@b:1", "T@b:0"]
    assert subject.select("T", 2, failed="ab") == ["T@b:1", "T@a:0"]


def test_old_routes_of_all_topics_are_refreshed_together(subject: Subject) -> None:
    subject.select("T")
    subject.select("U")
    subject.brokers = ("a", "b", "c")
    subject.clock.advance(ROUTE_LIFETIME_MS - 1)
    assert subject.select("T", 4) == ["T@a:1", "T@b:0", "T@b:1", "T@a:0"]
    subject.clock.advance(1)
    assert subject.select("T", 2) == ["T@c:1", "T@a:0"]
    assert subject.requests == [["T"], ["U"], ["T", "U"]]


def test_cached_routes_stay_after_a_failed_refresh(subject: Subject) -> None:
    subject.select("T")
    subject.is_unresponsive = True
    subject.clock.advance(ROUTE_LIFETIME_MS)
    assert subject.select("T", 3) == ["T@a:1", "T@b:0", "T@b:1"]
    assert subject.requests == [["T"]] * 2


def test_route_without_writable_queue_is_requested_again(subject: Subject) -> None:
    subject.permission = 4
    with pytest.raises(RouteError, match=r"TOPIC_UNAVAILABLE\.NO_WRITABLE_QUEUE"):
        subject.select("T")
    subject.permission = 6
    assert [str(queue) for queue in subject.queues.writable_queues("T")] == ["T@a:0", "T@a:1", "T@b:0", "T@b:1"]
    assert subject.requests == [["T"]] * 2


@pytest.mark.parametrize(
    ("given", "condition"),
    [
        (route("T", "a", permission=4), "TOPIC_UNAVAILABLE.NO_WRITABLE_QUEUE"),
        (route("T", "a", "b", permission=4, missing=frozenset("ab")), "TOPIC_UNAVAILABLE.NO_WRITABLE_QUEUE"),
        (route("T"), "TOPIC_UNAVAILABLE.NO_WRITABLE_QUEUE"),
        (route("T", "a", missing=frozenset("a")), "MASTER_UNAVAILABLE"),
    ],
)
def test_missing_master_is_the_reason_for_no_writable_queue(given: TopicRoute, condition: str) -> None:
    assert no_writable_queue(given).condition == condition
