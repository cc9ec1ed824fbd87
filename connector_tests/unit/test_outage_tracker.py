from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from connector_tests.support.log_lines import outage_text, text_of
from connector_tests.support.manual_clock import ManualClock
from connector_tests.support.refusals import refused
from connector_tests.support.simulated_cluster import (
    Reach,
    SimulatedBroker,
    SimulatedCluster,
    SimulatedClusterClient,
    address_of,
)
from rocketmq_spark.consumer.outage_aware_client import OutageAwareClient
from rocketmq_spark.consumer.outage_tracker import OutageTracker
from rocketmq_spark.consumer.subscribed_topics import SubscribedTopics
from rocketmq_spark.consumer.topic_routes import BROKER_REGISTRATION_MS
from rocketmq_spark.errors import BrokerError, RouteError, TransportError
from rocketmq_spark.model import MessageQueue
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.remoting.outage_log import Outage
from rocketmq_spark.remoting.retry import REQUEST_PAUSES
from rocketmq_spark.remoting.route_table import UNKNOWN_ADDRESS
from rocketmq_spark.wire.remoting.codes import ResponseCode

LIMIT_MS = 60_000
AT_B = str(address_of("b"))
A0, A1 = (MessageQueue("orders", "a", queue_id) for queue_id in range(2))
B0, B1 = (MessageQueue("orders", "b", queue_id) for queue_id in range(2))
ALL = (A0, A1, B0, B1)
CUT = TransportError("CONNECTION_LOST", address="n:9876", reason="cut")
NO_TOPIC = RouteError("TOPIC_NOT_FOUND", topic="orders", address="n:9876")


class Case:
    """Somebody who has seen two brokers with two queues each in their best state, and what it finds after a change."""

    def __init__(
        self,
        *,
        topics: str = "orders",
        has_seen_all: bool = True,
        queues_limit_ms: int = LIMIT_MS,
        more: dict[str, str] | None = None,
    ) -> None:
        given = {"namesrvAddr": "n:9876", "consumerGroup": "g", "subscribe": topics, "clusterTimeoutMs": str(LIMIT_MS)}
        self.clock = ManualClock()
        self.cluster = SimulatedCluster("ab", self.clock)
        limits = {"missingTopicTimeoutMs": str(LIMIT_MS), "missingQueuesTimeoutMs": str(queues_limit_ms)}
        options = ReadOptions.parse(given | limits | (more or {}))
        for topic in options.topics:
            self.cluster.create_topic(topic, {"a": 2, "b": 2})
        client = SimulatedClusterClient(self.cluster, "us")
        self.routes = client.routes
        self.tracker = OutageTracker(SubscribedTopics(options), self.routes, self.clock)
        self.servers = OutageAwareClient(options, client, SubscribedTopics(options), self.tracker)
        if has_seen_all:
            self.probe()

    @property
    def broker(self) -> SimulatedBroker:
        return self.cluster.brokers["b"]

    def probe(self, known: Iterable[MessageQueue] = ALL) -> dict[MessageQueue, str]:
        self.servers.topic_routes.refresh()
        return self.tracker.unavailable(known, self.servers.query_bounds())

    def take_out_of_the_route(self) -> None:
        self.broker.reach = Reach.UNAVAILABLE

    def withdraw_permission(self) -> None:
        self.broker.permission = 2

    def lose_the_master(self) -> None:
        self.broker.master_id = 1

    def delete_the_topic_there(self) -> None:
        self.broker.refusal = refused(ResponseCode.TOPIC_NOT_EXIST)

    def become_unresponsive(self) -> None:
        self.broker.reach = Reach.UNRESPONSIVE


@pytest.mark.parametrize(
    "change", [Case.take_out_of_the_route, Case.withdraw_permission, Case.lose_the_master, Case.delete_the_topic_there]
)
def test_queues_without_a_broker_are_unavailable_and_hold_up_nothing_else(change: Callable[[Case], None]) -> None:
    case = Case()
    change(case)
    unavailable = case.probe()
    assert unavailable == {B0: AT_B, B1: AT_B}
    assert case.tracker.is_complete(unavailable)


def test_queues_above_a_lowered_count_are_unavailable() -> None:
    case = Case()
    for broker_name in "ab":
        case.cluster.show("orders", broker_name, 1)
    assert case.probe() == {A1: str(address_of("a")), B1: AT_B}


def test_a_topic_that_is_deleted_takes_its_queues_with_it_once_their_brokers_do_not_respond_either() -> None:
    """A name server that has just been restarted knows no topic, and the brokers go on serving it."""
    case = Case()
    case.cluster.name_server_error = NO_TOPIC
    assert case.probe() == {}
    case.become_unresponsive()
    unavailable = case.probe()
    assert unavailable == {B0: AT_B, B1: AT_B}
    case.clock.advance(10 * LIMIT_MS)
    with pytest.raises(TransportError, match=r"CLUSTER_TIMEOUT.*topic orders.*TOPIC_UNAVAILABLE\.NO_ROUTE"):
        case.tracker.raise_expired()
    case.tracker.raise_expired(unavailable)


def test_a_broker_that_is_back_after_a_long_outage_has_time_to_register() -> None:
    """It answers before the name server knows its topics again. The whole outage used to count then, and ended a query
    that had been told to wait for longer."""
    case = Case()
    case.cluster.name_server_error = NO_TOPIC
    case.become_unresponsive()
    for _ in range(3):
        case.clock.advance(LIMIT_MS)
        case.tracker.raise_expired(case.probe())
    case.broker.reach = Reach.UP
    case.clock.advance(REQUEST_PAUSES.longest_ms)
    unavailable = case.probe()
    assert unavailable == {}
    case.tracker.raise_expired(unavailable)
    (wait,) = case.tracker.outages
    assert (wait.resource, wait.until_ms) == ("topic orders", case.clock() - REQUEST_PAUSES.longest_ms + LIMIT_MS)
    case.clock.advance(LIMIT_MS)
    with pytest.raises(TransportError, match=r"CLUSTER_TIMEOUT.*topic orders.*TOPIC_UNAVAILABLE\.NO_ROUTE"):
        case.tracker.raise_expired(case.probe())


def test_offsets_of_queues_that_are_back_have_time_to_be_stored() -> None:
    case = Case()
    case.tracker.commit_failed(B0, refused(ResponseCode.SYSTEM_ERROR), LIMIT_MS)
    case.take_out_of_the_route()
    case.tracker.raise_expired(case.probe())
    case.clock.advance(2 * LIMIT_MS)
    case.tracker.raise_expired(case.probe())
    case.broker.reach = Reach.UP
    case.tracker.raise_expired(case.probe())
    case.clock.advance(LIMIT_MS)
    with pytest.raises(TransportError, match=f"No successful response from the offset store of {B0} for "):
        case.tracker.raise_expired(case.probe())


def test_a_topic_that_has_been_there_is_not_reported_as_one_that_does_not_exist() -> None:
    case = Case()
    case.cluster.name_server_error = NO_TOPIC
    case.probe()
    (wait,) = case.tracker.outages
    assert (wait.resource, wait.until_ms) == ("topic orders", wait.since_ms + LIMIT_MS)
    assert wait.reason == (
        "[ROCKETMQ_TOPIC_UNAVAILABLE.NO_ROUTE] Topic 'orders' is unavailable: name server n:9876 no longer "
        f"returns a route. Last brokers: a ({address_of('a')}), b ({AT_B}). Start these brokers, and check that "
        "they register. If the topic was deleted, create it again."
    )


def test_an_unseen_topic_may_not_exist() -> None:
    case = Case(has_seen_all=False)
    case.cluster.name_server_error = NO_TOPIC
    case.probe()
    (wait,) = case.tracker.outages
    assert "TOPIC_NOT_FOUND" in wait.reason


# ------------------------------------------------------------------------------------------------------ what is said


def test_an_outage_is_logged_in_few_lines_however_often_it_is_met(caplog: pytest.LogCaptureFixture) -> None:
    """In a minute, asked five times a second, with every request that fails."""
    case = Case()
    case.become_unresponsive()
    for _ in range(300):
        case.probe()
        case.tracker.log_outages()
        case.clock.advance(200)
    begun, *again = caplog.messages
    assert outage_text(begun).startswith("Waiting for broker b (fails in 60 s): [ROCKETMQ_RESPONSE_TIMED_OUT] ")
    assert len(again) == 2
    assert text_of(again[0]).startswith("Still waiting for broker b (for 15 s, fails in 45 s): ")


def test_the_end_of_an_outage_is_logged_with_its_length(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    case = Case()
    case.become_unresponsive()
    case.probe()
    case.tracker.log_outages()
    case.clock.advance(40_000)
    case.broker.reach = Reach.UP
    case.probe()
    case.tracker.log_outages()
    assert caplog.messages[1:] == ["RESPONSE_TIMED_OUT: Recovered after 40 s: broker b"]
    assert case.tracker.outages == ()


def test_what_is_behind_queues_that_are_unavailable_is_reported_by_their_owner_only(
    caplog: pytest.LogCaptureFixture,
) -> None:
    case = Case()
    case.take_out_of_the_route()
    case.become_unresponsive()
    case.cluster.name_server_error = NO_TOPIC
    case.tracker.raise_expired(case.probe())
    case.tracker.set_queue_outages([Outage("2 queues", case.clock(), None, "they are away.", "AWAY")])
    case.tracker.log_outages()
    assert caplog.messages == ["AWAY: Waiting for 2 queues (no time limit): they are away."]


def with_queues_unavailable() -> Case:
    """Topic and broker are gone, the two queues are away, and that has been said."""
    case = Case()
    case.cluster.name_server_error = NO_TOPIC
    case.become_unresponsive()
    case.tracker.raise_expired(case.probe())
    case.tracker.set_queue_outages([Outage("2 queues", case.clock(), None, "they are away.", "AWAY")])
    case.tracker.log_outages()
    return case


def test_queues_that_are_back_before_their_broker_has_registered_are_one_event(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Its topic used to be told too, in a line of its own and with another limit, a moment before all was over."""
    caplog.set_level("INFO")
    case = with_queues_unavailable()
    case.clock.advance(40_000)
    case.tracker.raise_expired(case.probe())
    case.broker.reach = Reach.UP
    case.clock.advance(REQUEST_PAUSES.longest_ms)
    case.tracker.raise_expired(case.probe())
    case.tracker.set_queue_outages([])
    case.tracker.log_outages()
    case.clock.advance(BROKER_REGISTRATION_MS - REQUEST_PAUSES.longest_ms - 1)
    case.probe()
    case.tracker.log_outages()
    case.cluster.name_server_error = None
    case.probe()
    case.tracker.log_outages()
    assert caplog.messages == [
        "AWAY: Waiting for 2 queues (no time limit): they are away.",
        "AWAY: Recovered after 45 s: 2 queues",
    ]


def test_a_broker_that_is_listed_again_before_it_responds_is_no_event_of_its_own(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It used to be told in one line, and that it answers in the next."""
    caplog.set_level("INFO")
    case = with_queues_unavailable()
    case.clock.advance(40_000)
    case.tracker.raise_expired(case.probe())
    case.cluster.name_server_error = None
    case.clock.advance(REQUEST_PAUSES.longest_ms)
    unavailable = case.probe()
    assert unavailable == {}
    case.tracker.raise_expired(unavailable)
    case.tracker.set_queue_outages([])
    case.tracker.log_outages()
    case.broker.reach = Reach.UP
    case.clock.advance(REQUEST_PAUSES.longest_ms)
    case.probe()
    case.tracker.log_outages()
    assert case.tracker.outages == ()
    assert caplog.messages == [
        "AWAY: Waiting for 2 queues (no time limit): they are away.",
        "AWAY: Recovered after 45 s: 2 queues",
    ]


def test_a_topic_all_of_whose_brokers_are_waited_for_is_not_reported_beside_them_nor_a_moment_later(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    case = Case()
    case.cluster.name_server_error = NO_TOPIC
    case.become_unresponsive()
    case.probe()
    assert [wait.resource for wait in case.tracker.outages] == ["topic orders", "broker b"]
    case.cluster.brokers["a"].reach = Reach.UNRESPONSIVE
    case.clock.advance(REQUEST_PAUSES.longest_ms)
    case.probe()
    assert [wait.resource for wait in case.tracker.outages] == ["broker b", "broker a"]
    case.tracker.log_outages()
    for _ in range(6):
        case.clock.advance(REQUEST_PAUSES.longest_ms)
        case.probe()
    for broker in case.cluster.brokers.values():
        broker.reach = Reach.UP
    case.clock.advance(REQUEST_PAUSES.longest_ms)
    case.probe()
    case.tracker.log_outages()
    assert caplog.messages[-1] == "RESPONSE_TIMED_OUT: Recovered after 40 s: broker b; broker a"
    assert len(caplog.messages) == 2


def test_a_topic_that_had_a_route_is_missed_as_its_brokers_are_and_not_beside_its_queues() -> None:
    """It had a limit of its own, which was told beside theirs for one event."""
    case = Case(queues_limit_ms=5 * LIMIT_MS, more={"missingTopicTimeoutMs": str(3 * LIMIT_MS)})
    case.cluster.name_server_error = NO_TOPIC
    case.probe()
    (wait,) = case.tracker.outages
    assert wait.until_ms == wait.since_ms + LIMIT_MS
    for broker in case.cluster.brokers.values():
        broker.reach = Reach.UNRESPONSIVE
    case.clock.advance(REQUEST_PAUSES.longest_ms)
    unavailable = case.probe()
    case.tracker.raise_expired(unavailable)
    assert unavailable.keys() == set(ALL)
    assert case.tracker.outages == ()


def test_a_topic_whose_brokers_do_not_register_is_reported_after_a_while(caplog: pytest.LogCaptureFixture) -> None:
    case = Case()
    case.cluster.name_server_error = NO_TOPIC
    case.probe()
    case.tracker.log_outages()
    assert caplog.messages == []
    case.clock.advance(BROKER_REGISTRATION_MS)
    case.tracker.log_outages()
    assert outage_text(caplog.messages[0]).startswith(
        "Waiting for topic orders (fails in 45 s): [ROCKETMQ_TOPIC_UNAVAILABLE.NO_ROUTE]"
    )


def test_an_offset_that_a_broker_refuses_to_store_is_waited_for() -> None:
    case = Case()
    case.tracker.commit_failed(B0, refused(ResponseCode.SYSTEM_ERROR), LIMIT_MS)
    (wait,) = case.tracker.outages
    assert wait.resource == f"the offset store of {B0}"
    case.tracker.raise_expired([B0])
    assert case.tracker.outages == ()


def test_of_a_retry_topic_that_the_members_own_heartbeat_makes_nothing_is_logged_at_first(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Each first start was told to create it, and a moment later that it is there. Other topics nobody makes."""
    case = Case(has_seen_all=False, more={"retryTopic": "true"})
    case.cluster.name_server_error = NO_TOPIC
    case.probe()
    for pause_ms in (BROKER_REGISTRATION_MS - 1, 1):
        case.tracker.log_outages()
        case.clock.advance(pause_ms)
    case.tracker.log_outages()
    at_once, later = (text_of(line).partition(": [")[0] for line in caplog.messages if ": Waiting" in line)
    assert at_once == "Waiting for topic orders (fails in 60 s)"
    assert later == "Waiting for topic %RETRY%g (fails in 45 s)"


def test_a_topic_without_any_read_permission_is_unavailable_and_not_read() -> None:
    case = Case()
    for broker in case.cluster.brokers.values():
        broker.permission = 2
    assert case.probe() == {queue: str(address_of(queue.broker_name)) for queue in ALL}
    assert case.routes.queues == {"orders": ()}


def test_a_topic_that_is_deleted_at_the_start_is_unavailable_at_an_unknown_address() -> None:
    case = Case(has_seen_all=False)
    case.cluster.name_server_error = NO_TOPIC
    unavailable = case.probe([B0])
    assert unavailable == {B0: UNKNOWN_ADDRESS}
    assert case.tracker.is_complete(unavailable)
    assert not case.tracker.is_complete()


def test_a_broker_that_the_route_names_is_unresponsive_and_not_unavailable() -> None:
    case = Case()
    case.become_unresponsive()
    assert case.probe() == {}
    case.clock.advance(LIMIT_MS)
    with pytest.raises(TransportError, match=r"CLUSTER_TIMEOUT.*broker b"):
        case.tracker.raise_expired()


def test_a_broker_that_was_unresponsive_and_left_the_route_is_unavailable_and_no_longer_tried() -> None:
    """It used to end the query by ``clusterTimeoutMs``, and to be due for ever without being asked."""
    case = Case()
    case.become_unresponsive()
    case.probe()
    case.take_out_of_the_route()
    unavailable = case.probe()
    assert unavailable == {B0: AT_B, B1: AT_B}
    case.clock.advance(LIMIT_MS)
    case.tracker.raise_expired(unavailable)
    assert case.tracker.next_try_ms is None


def test_a_broker_that_is_unresponsive_for_another_topic_still_has_its_limit() -> None:
    case = Case(topics="orders,payments")
    case.become_unresponsive()
    case.probe()
    case.clock.advance(LIMIT_MS)
    with pytest.raises(TransportError, match="broker b"):
        case.tracker.raise_expired({B0: AT_B})


def test_nothing_is_unavailable_while_no_name_server_has_responded() -> None:
    case = Case(has_seen_all=False)
    case.cluster.name_server_error = CUT
    assert case.probe() == {}
    assert not case.tracker.is_complete()


def test_queues_of_topics_that_are_not_subscribed_are_nobodys_business() -> None:
    assert Case().probe([MessageQueue("payments", "z", 0)]) == {}


def test_another_refusal_of_a_broker_is_raised() -> None:
    case = Case()
    case.broker.refusal = refused(ResponseCode.NO_PERMISSION)
    with pytest.raises(BrokerError, match="NO_PERMISSION"):
        case.probe()
