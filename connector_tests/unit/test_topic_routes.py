"""Topics of a pattern at the name servers: when they are listed, what is known while they cannot be, what is logged."""

from __future__ import annotations

import logging

import pytest

from connector_tests.support.manual_clock import ManualClock
from connector_tests.support.simulated_cluster import Reach, SimulatedCluster, SimulatedClusterClient
from rocketmq_spark.consumer.outage_tracker import OutageTracker
from rocketmq_spark.consumer.slave_reads import SlaveReads
from rocketmq_spark.consumer.subscribed_topics import SubscribedTopics
from rocketmq_spark.consumer.topic_routes import BROKER_REGISTRATION_MS, TopicRoutes
from rocketmq_spark.errors import OptionError, RocketMQError, RouteError, TransportError
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.remoting.outage_log import TOPIC_LIST, topic_subject
from rocketmq_spark.remoting.retry import REQUEST_PAUSES

LIMIT_MS, MISSING_MS = 60_000, 90_000
UNRESPONSIVE = TransportError("CONNECT_FAILED", address="n:9876", reason="refused")
NO_BROKER = RouteError("NO_MASTER_BROKER", name_servers="n:9876")
DENIED = TransportError("TLS_REQUIRED", address="n:9876", reason="it says no more")


ADDED = "TOPICS_ADDED: Reading topics that match 'subscribePattern': topics="
REMOVED = (
    "TOPICS_REMOVED: Topics that match 'subscribePattern' were deleted; their offsets are kept in the checkpoint"
    ": topics="
)


class Case:
    """Name servers that list topics of two brokers."""

    def __init__(self, *topics: str, pattern: str = "orders.*", **given: str) -> None:
        required = {"namesrvAddr": "n:9876", "consumerGroup": "g", "clusterTimeoutMs": str(LIMIT_MS)}
        selected = {"subscribePattern": pattern} if pattern else {"subscribe": "orders"}
        options = ReadOptions.parse(required | {"missingTopicTimeoutMs": str(MISSING_MS)} | selected | given)
        self.clock = ManualClock()
        self.cluster = SimulatedCluster("ab", self.clock)
        for topic in topics:
            self.cluster.create_topic(topic, {"a": 1})
        client = SimulatedClusterClient(self.cluster, "us")
        self.routes = client.routes
        self.topics = SubscribedTopics(options)
        self.tracker = OutageTracker(self.topics, self.routes, self.clock)
        slave_reads = SlaveReads(options, client.routes, self.tracker)
        self.subject = TopicRoutes(options, client, self.topics, slave_reads, self.tracker)

    @property
    def with_routes(self) -> set[str]:
        return set(self.routes.queues)

    def list_later(self) -> None:
        self.clock.advance(20_000)
        self.subject.list_topics()


def test_topics_are_listed_before_the_first_routes_and_then_by_their_timer() -> None:
    case = Case("orders-a", "returns")
    for _ in range(3):
        case.subject.refresh()
    assert (case.with_routes, case.cluster.topic_list_requests) == ({"orders-a"}, 1)
    case.cluster.create_topic("orders-b", {"b": 1})
    case.subject.refresh()
    assert "orders-b" not in case.topics
    case.list_later()
    case.subject.refresh()
    assert (case.with_routes, case.cluster.topic_list_requests) == ({"orders-a", "orders-b"}, 2)


def test_without_a_pattern_topics_are_not_listed() -> None:
    case = Case("orders", pattern="")
    case.subject.refresh()
    case.subject.list_topics()
    assert (case.with_routes, case.cluster.topic_list_requests) == ({"orders"}, 0)


def test_a_deleted_topic_loses_its_route_and_its_outage() -> None:
    case = Case("orders-a", "orders-b")
    case.subject.refresh()
    case.cluster.delete_topic("orders-b")
    case.subject.refresh()
    assert case.with_routes == {"orders-a", "orders-b"}, "not known to be deleted yet"
    assert [outage.resource for outage in case.tracker.outages] == [topic_subject("orders-b")]
    case.list_later()
    case.subject.refresh()
    assert case.with_routes == {"orders-a"}
    assert case.tracker.is_complete()


def test_a_topic_of_an_unavailable_broker_is_an_outage() -> None:
    case = Case("orders-a")
    case.subject.refresh()
    case.cluster.brokers["a"].reach = Reach.UNAVAILABLE
    case.list_later()
    case.subject.refresh()
    assert "orders-a" in case.topics
    assert case.with_routes == {"orders-a"}
    assert not case.tracker.may_try(topic_subject("orders-a"))


@pytest.mark.parametrize("error", [UNRESPONSIVE, NO_BROKER])
def test_topics_stay_while_they_cannot_be_listed_and_are_listed_again_after_pauses(error: RocketMQError) -> None:
    case = Case("orders-a")
    case.subject.refresh()
    case.cluster.name_server_error = error
    case.list_later()
    assert tuple(case.topics) == ("orders-a",)
    assert not case.tracker.is_complete()
    case.subject.refresh()
    case.cluster.name_server_error = None
    case.cluster.create_topic("orders-b", {"b": 1})
    case.subject.refresh()
    assert tuple(case.topics) == ("orders-a",), "the pause is not over"
    case.clock.advance(REQUEST_PAUSES.longest_ms)
    case.subject.refresh()
    assert tuple(case.topics) == ("orders-a", "orders-b")
    assert case.tracker.is_complete()


@pytest.mark.parametrize(
    ("error", "limit_ms", "condition"),
    [
        (UNRESPONSIVE, LIMIT_MS, "CLUSTER_TIMEOUT"),
        (NO_BROKER, MISSING_MS, "NO_MASTER_BROKER"),
        (DENIED, 0, "TLS_REQUIRED"),
    ],
)
def test_a_list_that_fails_for_its_limit_ends_the_query(error: RocketMQError, limit_ms: int, condition: str) -> None:
    case = Case("orders-a")
    case.cluster.name_server_error = error
    case.subject.refresh()
    if limit_ms:
        case.clock.advance(limit_ms - 1)
        case.tracker.raise_expired()
        case.clock.advance(1)
    with pytest.raises(RocketMQError, match=condition):
        case.tracker.raise_expired()


def test_another_kind_of_server_is_an_error_at_once() -> None:
    case = Case("orders-a")
    case.cluster.name_server_error = OptionError("NOT_A_NAME_SERVER", address="n:9876", request="TOPICS")
    with pytest.raises(OptionError, match="NOT_A_NAME_SERVER"):
        case.subject.refresh()


def test_an_outage_of_the_list_is_quiet_while_brokers_register() -> None:
    case = Case("orders-a")
    case.cluster.name_server_error = NO_BROKER
    case.subject.refresh()
    (outage,) = [one for one in case.tracker.outages if one.resource == TOPIC_LIST]
    assert outage.quiet_ms == BROKER_REGISTRATION_MS


def test_changes_of_the_topics_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    case = Case()
    with caplog.at_level(logging.INFO, "rocketmq_spark.consumer"):
        case.subject.refresh()
        case.list_later()
        for number in range(10):
            case.cluster.create_topic(f"orders-{number}", {"a": 1})
        case.list_later()
        case.cluster.delete_topic("orders-3")
        case.list_later()
    assert caplog.messages == [
        "NO_TOPIC_MATCHES: No topic of the cluster matches 'subscribePattern'; listing topics again in 20 s",
        ADDED + "orders-0,orders-1,orders-2,orders-3,orders-4,orders-5,orders-6,orders-7 and 2 more",
        REMOVED + "orders-3",
    ]
