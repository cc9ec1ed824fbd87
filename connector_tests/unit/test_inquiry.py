from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import cast

import pytest

from connector_tests.support.manual_clock import ManualClock
from rocketmq_spark.consumer.inquiry import Inquiry
from rocketmq_spark.consumer.ports import BrokerPort
from rocketmq_spark.errors import BrokerError, RocketMQError, RouteError, TransportError
from rocketmq_spark.model import BrokerData, MessageQueue, QueueBounds, QueueData, TopicRoute
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.wire.remoting.codes import ResponseCode

LIMIT_MS = 60_000
NOBODY = "an address that is not known"
A0, A1 = (MessageQueue("orders", "a", queue_id) for queue_id in range(2))
B0, B1 = (MessageQueue("orders", "b", queue_id) for queue_id in range(2))
ALL = (A0, A1, B0, B1)
CUT = TransportError("CONNECTION_LOST", address="n:9876", reason="cut")
NO_TOPIC = RouteError("TOPIC_NOT_FOUND", topic="orders", address="n:9876")


@dataclass
class ScriptedBroker:
    """One master: ``error`` is what it answers, if it is not None; other requests than for bounds are not asked."""

    name: str
    error: RocketMQError | None = None
    asked: int = 0

    def topic_stats(self, topic: str) -> dict[MessageQueue, QueueBounds]:
        self.asked += 1
        if self.error is not None:
            raise self.error
        return {MessageQueue(topic, self.name, queue_id): QueueBounds(0, 10, 1) for queue_id in range(2)}


@dataclass
class TwoBrokers:
    """A name server and two brokers with two queues each. What is changed here is changed for the next request."""

    brokers: dict[str, ScriptedBroker] = field(default_factory=lambda: {name: ScriptedBroker(name) for name in "ab"})
    routed: set[str] = field(default_factory=lambda: set("ab"))
    permission: dict[str, int] = field(default_factory=lambda: {"a": 6, "b": 6})
    queue_count: int = 2
    master_id: int = 0
    error: RocketMQError | None = None

    def topic_route(self, topic: str) -> TopicRoute:
        if self.error is not None:
            raise self.error
        names = sorted(self.routed)
        return TopicRoute(
            topic,
            tuple(BrokerData("cluster", name, {self.master_id if name == "b" else 0: f"{name}:1"}) for name in names),
            tuple(QueueData(name, self.queue_count, self.queue_count, self.permission[name]) for name in names),
        )

    def broker(self, address: str) -> BrokerPort:
        return cast(BrokerPort, self.brokers[address.partition(":")[0]])


class Case:
    """An inquiry that has seen everything in its best state, and what it finds after a change."""

    def __init__(self, *, topics: str = "orders", has_seen_all: bool = True) -> None:
        given = {"namesrvAddr": "n:9876", "consumerGroup": "g", "subscribe": topics, "clusterTimeoutMs": str(LIMIT_MS)}
        self.cluster, self.clock = TwoBrokers(), ManualClock()
        options = ReadOptions.parse(given | {"missingTopicTimeoutMs": str(LIMIT_MS)})
        self.inquiry = Inquiry(options, self.cluster, self.clock)
        if has_seen_all:
            self.look()

    def look(self, known: Iterable[MessageQueue] = ALL) -> dict[MessageQueue, str]:
        self.inquiry.refresh_routes()
        return self.inquiry.away(known, self.inquiry.bounds())

    def take_out_of_the_route(self) -> None:
        self.cluster.routed = {"a"}

    def withdraw_permission(self) -> None:
        self.cluster.permission["b"] = 2

    def lose_the_master(self) -> None:
        self.cluster.master_id = 1

    def delete_the_topic_there(self) -> None:
        self.cluster.brokers["b"].error = refused(ResponseCode.TOPIC_NOT_EXIST)


def refused(code: ResponseCode) -> BrokerError:
    return BrokerError("BROKER_REFUSED", address="b:1", request="?", code=code.value, code_name=code.name, remark="")


@pytest.mark.parametrize(
    "change", [Case.take_out_of_the_route, Case.withdraw_permission, Case.lose_the_master, Case.delete_the_topic_there]
)
def test_queues_that_nobody_serves_are_away_and_hold_up_nothing_else(change: Callable[[Case], None]) -> None:
    case = Case()
    change(case)
    away = case.look()
    assert away == {B0: "b:1", B1: "b:1"}
    assert case.inquiry.is_complete(away)


def test_queues_above_a_lowered_count_are_away() -> None:
    case = Case()
    case.cluster.queue_count = 1
    assert case.look() == {A1: "a:1", B1: "b:1"}


def test_a_topic_that_is_gone_takes_its_queues_with_it_once_their_brokers_do_not_answer_either() -> None:
    """A name server that has just been restarted knows no topic, and the brokers go on serving it."""
    case = Case()
    case.cluster.error = NO_TOPIC
    assert case.look() == {}
    case.cluster.brokers["b"].error = CUT
    away = case.look()
    assert away == {B0: "b:1", B1: "b:1"}
    case.clock.advance(10 * LIMIT_MS)
    case.inquiry.check(away)
    with pytest.raises(RouteError, match="TOPIC_NOT_FOUND"):
        case.inquiry.check()


def test_a_topic_without_any_read_permission_is_away_and_not_read() -> None:
    case = Case()
    case.cluster.permission = {"a": 2, "b": 2}
    assert case.look() == {queue: f"{queue.broker_name}:1" for queue in ALL}
    assert case.inquiry.queues == {"orders": ()}


def test_a_topic_that_is_gone_at_the_start_is_away_at_an_address_that_nobody_knows() -> None:
    case = Case(has_seen_all=False)
    case.cluster.error = NO_TOPIC
    away = case.look([B0])
    assert away == {B0: NOBODY}
    assert case.inquiry.is_complete(away)
    assert not case.inquiry.is_complete()


def test_a_broker_that_the_route_names_is_silent_and_not_away() -> None:
    case = Case()
    case.cluster.brokers["b"].error = CUT
    assert case.look() == {}
    case.clock.advance(LIMIT_MS)
    with pytest.raises(TransportError, match=r"CLUSTER_UNREACHABLE.*broker b"):
        case.inquiry.check()


def test_a_broker_that_was_silent_and_left_the_route_is_away_and_no_longer_tried() -> None:
    """It used to end the query by ``clusterTimeoutMs``, and to be due for ever without being asked."""
    case = Case()
    case.cluster.brokers["b"].error = CUT
    case.look()
    case.take_out_of_the_route()
    away = case.look()
    assert away == {B0: "b:1", B1: "b:1"}
    case.clock.advance(LIMIT_MS)
    case.inquiry.check(away)
    assert not case.inquiry.may_try_again()


def test_a_broker_that_is_silent_for_another_topic_still_has_its_limit() -> None:
    case = Case(topics="orders,payments")
    case.cluster.brokers["b"].error = CUT
    case.look()
    case.clock.advance(LIMIT_MS)
    with pytest.raises(TransportError, match="broker b"):
        case.inquiry.check({B0: "b:1"})


def test_nothing_is_away_while_no_name_server_has_said_anything() -> None:
    case = Case(has_seen_all=False)
    case.cluster.error = CUT
    assert case.look() == {}
    assert not case.inquiry.is_complete()


def test_queues_of_topics_that_are_not_subscribed_are_nobodys_business() -> None:
    assert Case().look([MessageQueue("payments", "z", 0)]) == {}


def test_another_refusal_of_a_broker_is_raised() -> None:
    case = Case()
    case.cluster.brokers["b"].error = refused(ResponseCode.NO_PERMISSION)
    with pytest.raises(BrokerError, match="NO_PERMISSION"):
        case.look()
