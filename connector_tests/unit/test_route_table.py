"""What is known of topics and brokers from the routes that were told last."""

from __future__ import annotations

import time
from collections.abc import Mapping

from rocketmq_spark.consumer.route_table import UNKNOWN_ADDRESS, RouteTable
from rocketmq_spark.model import BrokerAddress, BrokerData, MessageQueue, QueueData, TopicRoute


def route(topic: str, brokers: Mapping[str, Mapping[int, str]], permission: int = 6) -> TopicRoute:
    """Each broker has one queue."""
    return TopicRoute(
        topic,
        tuple(BrokerData("c", name, addresses) for name, addresses in brokers.items()),
        tuple(QueueData(name, 1, 1, permission) for name in brokers),
    )


def table(*routes: TopicRoute) -> RouteTable:
    subject = RouteTable()
    for one in routes:
        subject.told(one)
        subject.remember_addresses()
    return subject


A = MessageQueue("orders", "a", 0)
BOTH = route("orders", {"b": {0: "b:1", 1: "b:2"}, "a": {0: "a:1"}})


def test_nothing_is_known_before_a_route_is_told() -> None:
    subject = RouteTable()
    assert "orders" not in subject
    assert (subject.routes, subject.queues, subject.masters(), subject.addresses()) == ({}, {}, {}, set())
    assert (subject.broker_names(), subject.left(), subject.without_master()) == ([], [], [])
    assert (subject.master("a"), subject.last_address("a")) == (None, UNKNOWN_ADDRESS)
    assert not subject.is_readable(A)


def test_a_route_tells_queues_brokers_and_addresses() -> None:
    subject = table(BOTH)
    assert "orders" in subject
    assert subject.routes == {"orders": BOTH}
    assert subject.queues == {"orders": (A, MessageQueue("orders", "b", 0))}
    assert list(subject.masters().items()) == [("a", BrokerAddress("a:1")), ("b", BrokerAddress("b:1"))]
    assert subject.addresses() == set(map(BrokerAddress, ("a:1", "b:1", "b:2")))
    assert [subject.is_readable(A._replace(queue_id=number)) for number in (0, 1)] == [True, False]


def test_queues_without_read_permission_are_not_readable() -> None:
    subject = table(BOTH, route("orders", {"a": {0: "a:1"}}, permission=2))
    assert subject.queues == {"orders": ()}
    assert not subject.is_readable(A)


def test_a_master_is_where_any_route_names_it_and_a_broker_without_one_is_said_to_be() -> None:
    subject = table(route("orders", {"a": {1: "a:2"}, "b": {1: "b:2"}}), route("bills", {"a": {0: "a:1"}}))
    assert (subject.master("a"), subject.master("b")) == (BrokerAddress("a:1"), None)
    assert subject.without_master() == ["b"]
    assert subject.broker_names() == ["a", "b"]


def test_a_broker_that_left_is_known_by_its_last_address_until_it_is_back() -> None:
    subject = table(BOTH, route("orders", {"a": {0: "a:9"}}))
    assert subject.left() == ["b"]
    assert [subject.last_address(name) for name in ("a", "b")] == ["a:9", "b:1"]
    subject.told(BOTH)
    assert subject.left() == []


def test_a_broker_that_lost_its_master_keeps_its_last_address() -> None:
    subject = table(BOTH, route("orders", {"a": {0: "a:1"}, "b": {1: "b:2"}}))
    assert subject.left() == []
    assert (subject.master("b"), subject.last_address("b")) == (None, "b:1")


def test_what_was_told_of_one_topic_says_nothing_of_another() -> None:
    subject = table(BOTH, route("bills", {"c": {0: "c:1"}}))
    assert list(subject.routes) == ["orders", "bills"]
    assert subject.broker_names() == ["a", "b", "c"]
    assert not subject.is_readable(A._replace(topic="bills"))


def test_whether_a_queue_is_readable_takes_no_longer_among_many() -> None:
    """Each plan asks that of each queue that it knows: with 5,000 it once took most of an idle query's time."""

    def seconds(count: int) -> float:
        subject = table(TopicRoute("orders", (), (QueueData("a", count, count, 6),)))
        known = [MessageQueue("orders", "a", queue_id) for queue_id in range(count)]
        began = time.process_time()
        assert all(map(subject.is_readable, known))
        return time.process_time() - began

    assert min(seconds(8_000) for _ in range(3)) < 24 * min(seconds(1_000) for _ in range(3))
