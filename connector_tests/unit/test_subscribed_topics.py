"""Which topics a member with a pattern reads: those that are listed, and those that are away but not deleted."""

from __future__ import annotations

from typing import Final

import pytest

from connector_tests.support.queues import queue
from rocketmq_spark.consumer.subscribed_topics import SubscribedTopics
from rocketmq_spark.model import BrokerData, QueueData, TopicList, TopicRoute
from rocketmq_spark.options import ReadOptions

PATTERN: Final = {"subscribePattern": "orders-.*"}
A, B = "orders-a", "orders-b"


def subscribed(**given: str) -> SubscribedTopics:
    return SubscribedTopics(ReadOptions.parse({"namesrvAddr": "n:9876", "consumerGroup": "g", **given}))


def selected(topics: SubscribedTopics) -> list[str]:
    return list(topics.selected)


def listed(*topics: str, brokers: str = "xy", is_complete: bool = True) -> TopicList:
    return TopicList(frozenset(topics), frozenset(brokers), is_complete)


def routes(**broker_names: str) -> dict[str, TopicRoute]:
    return {
        (topic := f"orders-{name}"): TopicRoute(
            topic,
            tuple(BrokerData("c", one, {0: f"{one}:10911"}) for one in brokers),
            tuple(QueueData(one, 1, 1, 6) for one in brokers),
        )
        for name, brokers in broker_names.items()
    }


def test_listed_topics_are_known_and_never_change() -> None:
    topics = subscribed(subscribe="orders,returns", retryTopic="true")
    assert topics.is_known
    topics.expect([queue(0, topic=A)])
    assert (tuple(topics), topics.selected, topics.version) == (
        ("orders", "returns", "%RETRY%g"),
        ("orders", "returns"),
        0,
    )


def test_topics_of_a_pattern_are_unknown_until_they_are_listed() -> None:
    topics = subscribed(**PATTERN, retryTopic="true")
    assert (topics.is_known, tuple(topics), topics.selected) == (False, ("%RETRY%g",), ())
    topics.update(listed("orders", B, A, "my-orders-a", "%DLQ%orders-a", "%RETRY%orders-a"), {})
    assert (topics.is_known, tuple(topics), topics.selected) == (True, (A, B, "%RETRY%g"), (A, B))
    assert A in topics
    assert len(topics) == 3


def test_retry_and_dead_letter_topics_match_no_pattern() -> None:
    topics = subscribed(subscribePattern=".*")
    topics.update(listed("orders", "%DLQ%g", "%RETRY%g"), {})
    assert selected(topics) == ["orders"]


def test_the_version_grows_with_each_change_and_only_then() -> None:
    topics = subscribed(**PATTERN)
    versions = []
    for names in ((), (A,), (A,), (A, B), (B,)):
        topics.update(listed(*names), {})
        versions.append(topics.version)
    assert versions == [0, 1, 1, 2, 3]


def test_a_topic_whose_brokers_are_registered_without_it_is_deleted() -> None:
    topics = subscribed(**PATTERN)
    topics.update(listed(A, B), {})
    topics.update(listed(B), routes(a="x", b="y"))
    assert selected(topics) == [B]
    topics.update(listed(A, B), routes(b="y"))
    assert selected(topics) == [A, B], "created again"


@pytest.mark.parametrize("change", [listed(B, brokers="y"), listed(B, is_complete=False)])
def test_a_topic_that_may_be_unavailable_stays_subscribed(change: TopicList) -> None:
    """Its broker is not registered, or the name server that lists it does not respond."""
    topics = subscribed(**PATTERN)
    topics.update(listed(A, B), {})
    topics.update(change, routes(a="x", b="y"))
    assert selected(topics) == [A, B]
    topics.update(listed(B), routes(a="x", b="y"))
    assert selected(topics) == [B]


def test_a_topic_is_deleted_only_where_all_its_brokers_are_registered() -> None:
    topics = subscribed(**PATTERN)
    topics.update(listed(A), {})
    topics.update(listed(brokers="x"), routes(a="xy"))
    assert selected(topics) == [A]
    topics.update(listed(), {})
    assert selected(topics) == []


def test_a_deleted_topic_stays_deleted_while_a_name_server_is_unresponsive() -> None:
    topics = subscribed(**PATTERN)
    topics.update(listed(A), {})
    topics.update(listed(), routes(a="x"))
    topics.update(listed(is_complete=False), {})
    assert selected(topics) == []
    topics.expect([queue(0, topic=A, broker_name="x")])
    assert selected(topics) == []


def test_a_topic_of_the_checkpoint_is_unavailable_while_its_broker_is_not_registered() -> None:
    topics = subscribed(**PATTERN)
    topics.update(listed(B, brokers="y"), {})
    topics.expect([queue(0, topic=A, broker_name="x"), queue(0, topic="other", broker_name="x")])
    assert selected(topics) == [A, B]
    topics.update(listed(B), {})
    assert selected(topics) == [B]


def test_a_topic_of_the_checkpoint_is_expected_before_topics_are_listed() -> None:
    topics = subscribed(**PATTERN)
    topics.expect([queue(0, topic=A, broker_name="x")])
    assert (topics.selected, topics.is_known) == ((), False)
    topics.update(listed(brokers="y"), {})
    assert selected(topics) == [A]
