"""Brokers that exchange addresses under a running member: whoever answers politely is asked who it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from connector_tests.support.manual_clock import ManualClock
from connector_tests.support.refusals import refused
from connector_tests.support.simulated_cluster import SimulatedCluster, SimulatedClusterClient, address_of
from rocketmq_spark.consumer.broker_identities import BrokerIdentities, find_broker_name, find_invalid_bounds
from rocketmq_spark.consumer.membership import Membership
from rocketmq_spark.errors import BrokerError, RouteError, TransportError
from rocketmq_spark.model import MessageQueue, QueueBounds
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.remoting.retry import REQUEST_PAUSES
from rocketmq_spark.remoting.route_table import UNKNOWN_ADDRESS, RouteTable
from rocketmq_spark.wire.remoting.codes import ResponseCode

AT_A, AT_B = (MessageQueue("orders", broker_name, 0) for broker_name in "ab")


@pytest.mark.parametrize(
    ("queues", "name"), [([], None), ([AT_A], "a"), ([AT_B], "b"), ([AT_A, AT_B], "b"), ([AT_B, AT_A], "b")]
)
def test_bounds_name_the_responding_broker_and_one_queue_of_another_is_enough(
    queues: list[MessageQueue], name: str | None
) -> None:
    assert find_broker_name(dict.fromkeys(queues, QueueBounds(0, 5)), "a") == name


@pytest.mark.parametrize(
    ("bounds", "queue"),
    [
        ({}, None),
        ({AT_A: QueueBounds(5, 5), AT_B: QueueBounds(4, 5)}, None),
        ({AT_A: QueueBounds(5, 5), AT_B: QueueBounds(6, 5)}, AT_B),
        ({AT_A: QueueBounds(0, 0), AT_B: QueueBounds(-1, 5)}, AT_B),
    ],
)
def test_no_queue_ends_before_it_begins(bounds: dict[MessageQueue, QueueBounds], queue: MessageQueue | None) -> None:
    assert find_invalid_bounds(bounds) == queue


class CountingHandler(SimulatedClusterClient):
    """Counts what is asked of whom, by "request broker"."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        super().__init__(cluster, "our connection")
        self.calls: Counter[str] = Counter()
        self.on_arrival: Callable[[str], None] = lambda name: None

    def arrive(self, name: str) -> None:
        self.calls[name] += 1
        self.on_arrival(name)
        super().arrive(name)


class Pair:
    """Two brokers, each with a queue, and a member that has read five messages of ``a``'s."""

    def __init__(self, **queues: int) -> None:
        self.clock = ManualClock()
        self.cluster = SimulatedCluster(["a", "b"], self.clock)
        self.cluster.create_topic("orders", queues or {"a": 1, "b": 1})
        self.cluster.produce(AT_A, 5)
        self.client = CountingHandler(self.cluster)
        self.options = ReadOptions.parse(
            {"namesrvAddr": "n:9876", "consumerGroup": "g", "subscribe": "orders", "clusterTimeoutMs": "60000"}
        )
        self.member = self.joins("me")
        self.member.refresh_metadata()
        self.member.mark_in_flight({AT_A: (0, 5)})

    def joins(self, client_id: str) -> Membership:
        return Membership(self.options, client_id, self.client, self.clock, self.clock, started_ms=1)

    def offsets(self) -> dict[MessageQueue, int]:
        return self.cluster.brokers["a"].offsets | self.cluster.brokers["b"].offsets


@pytest.mark.parametrize("queues", [{"a": 1, "b": 1}, {"a": 1, "b": 0}])
def test_another_broker_receives_nothing_of_a_queue(queues: dict[str, int]) -> None:
    pair = Pair(**queues)
    pair.cluster.exchange_addresses("a", "b", is_published=False)
    pair.member.mark_completed({AT_A: 5}, {})
    assert pair.offsets() == {}
    assert AT_A not in pair.member.refresh_metadata().bounds
    assert pair.member.offsets.unconfirmed == {AT_A: 5}


def test_a_server_that_meets_another_broker_first_notices_that_it_has_too_little_and_calls_again() -> None:
    pair = Pair(a=1, b=0)
    pair.member.leave()
    pair.cluster.exchange_addresses("a", "b", is_published=False)
    joining = pair.joins("another")
    snapshot = joining.refresh_metadata()
    assert not snapshot.is_complete
    assert snapshot.bounds == {}
    pair.cluster.publish_addresses()
    pair.clock.advance(10_000)
    assert joining.refresh_metadata().bounds.keys() == {AT_A}


def test_it_resumes_when_the_name_server_has_it() -> None:
    pair = Pair()
    pair.cluster.exchange_addresses("a", "b", is_published=False)
    pair.member.mark_completed({AT_A: 5}, {})
    pair.cluster.publish_addresses()
    pair.clock.advance(10_000)
    assert pair.member.refresh_metadata().bounds.keys() == {AT_A, AT_B}
    assert pair.member.offsets.persist()
    assert pair.offsets() == {AT_A: 5}


def test_what_stays_wrong_ends_the_query_with_both_names() -> None:
    pair = Pair()
    pair.cluster.exchange_addresses("a", "b", is_published=False)
    with pytest.raises(
        TransportError, match=r"CLUSTER_TIMEOUT.*Broker 'b' responds at a:10911, where the route lists broker 'a'"
    ):
        for _ in range(20):
            pair.clock.advance(6_000)
            pair.member.refresh_metadata()
    assert pair.clock() >= 60_000


def test_a_connection_is_probed_once() -> None:
    pair = Pair()
    pair.member.offsets.raise_to({AT_A: 1, AT_B: 0})
    assert (pair.client.calls["bounds a"], pair.client.calls["bounds b"]) == (1, 1), "by the survey"
    pair.cluster.brokers["a"].restart()
    for offset in (2, 3):
        pair.member.offsets.raise_to({AT_A: offset})
    assert (pair.client.calls["bounds a"], pair.client.calls["bounds b"]) == (2, 1)


def test_a_server_that_is_known_by_one_connection() -> None:
    pair = Pair()
    names = BrokerIdentities(pair.client, pair.client.routes.master)
    address = address_of("a")
    assert not names.is_verified("a")
    names.submit_check(pair.client.broker(address), "a").result()
    assert names.is_verified("a")
    assert not names.is_verified("b")
    pair.cluster.brokers["a"].restart()
    assert not names.is_verified("a")
    pair.cluster.exchange_addresses("a", "b", is_published=False)
    with pytest.raises(RouteError, match="BROKER_ADDRESS_MISMATCH"):
        names.submit_check(pair.client.broker(address), "a").result()
    assert not names.is_verified("a")


def test_a_server_that_has_none_of_a_brokers_topics_is_not_that_one_until_that_has_responded() -> None:
    pair = Pair(a=1, b=0)
    names, address = BrokerIdentities(pair.client, pair.client.routes.master), address_of("a")
    pair.cluster.exchange_addresses("a", "b", is_published=False)
    with pytest.raises(RouteError) as raised:
        names.submit_check(pair.client.broker(address), "a").result()
    assert raised.value.condition == "BROKER_ADDRESS_MISMATCH"
    assert raised.value.context == {"address": str(address), "broker": "a", "other": "one without orders"}
    assert names.is_mismatched("a")
    pair.cluster.exchange_addresses("a", "b", is_published=True)
    names.submit_check(pair.client.broker(address), "a").result()
    assert not names.is_mismatched("a")
    names.record_verified("a", None)
    names.record_verified("a", (address, 99))
    assert names.is_verified("a"), "by the connection that there is, whatever others have brought"


def test_a_broker_is_known_by_any_of_its_topics_and_only_where_it_has_none_it_is_another_one() -> None:
    """It may have lost the first since the route was told."""
    pair, topics = Pair(), ("gone", "orders", "gone too")
    pair.client.routes = RouteTable(pair.client)
    for topic in topics:
        pair.cluster.create_topic(topic, {"a": 1, "b": 1})
    pair.client.routes.refresh(topics)
    a = pair.cluster.brokers["a"]
    held = {one.topic: one for one in a.stored_ms}
    names = BrokerIdentities(pair.client, pair.client.routes.master)
    del a.stored_ms[held["gone"]], a.stored_ms[held["gone too"]]
    names.submit_check(pair.client.broker(address_of("a")), "a").result()
    assert names.is_verified("a")
    a.restart()
    del a.stored_ms[held["orders"]]
    with pytest.raises(RouteError) as raised:
        names.submit_check(pair.client.broker(address_of("a")), "a").result()
    assert raised.value.context["other"] == "one without gone, orders, gone too"


def test_a_server_that_reports_that_it_has_none_of_a_brokers_topics_is_another_one() -> None:
    pair = Pair()
    names, a = BrokerIdentities(pair.client, pair.client.routes.master), pair.cluster.brokers["a"]
    a.refusal = refused(ResponseCode.TOPIC_NOT_EXIST)
    with pytest.raises(RouteError, match="BROKER_ADDRESS_MISMATCH"):
        names.submit_check(pair.client.broker(address_of("a")), "a").result()


def test_a_server_that_has_queues_of_another_broker_too_is_that_one() -> None:
    pair = Pair()
    names, a = BrokerIdentities(pair.client, pair.client.routes.master), pair.cluster.brokers["a"]
    a.stored_ms[AT_B] = []
    with pytest.raises(RouteError) as raised:
        names.submit_bounds(pair.client.broker(address_of("a")), "orders", "a").result()
    assert raised.value.context == {"address": a.address, "broker": "a", "other": "b"}


def test_a_server_that_is_not_known_by_its_connection_is_not_called_and_reported_by_its_address() -> None:
    pair = Pair()
    names = BrokerIdentities(pair.client, pair.client.routes.master)
    for broker_name, address in (("a", pair.cluster.brokers["a"].address), ("z", UNKNOWN_ADDRESS)):
        with pytest.raises(TransportError) as raised:
            names.ensure_verified(broker_name)
        assert raised.value.condition == "CONNECTION_LOST"
        assert raised.value.context == {
            "address": address,
            "reason": "it closed before the broker's response was received",
        }


def test_a_response_reports_nothing_of_a_connection_that_was_lost_after_the_request() -> None:
    pair = Pair()
    names, broker = BrokerIdentities(pair.client, pair.client.routes.master), pair.cluster.brokers["a"]
    response = names.submit_bounds(pair.client.broker(address_of("a")), "orders", "a")
    broker.restart()
    assert AT_A in response.result()
    assert not names.is_verified("a")


def test_a_broker_whose_connection_is_lost_while_others_are_called_is_not_called_again_over_the_next_one() -> None:
    """Another may be there by then."""
    pair = Pair()

    def lose_b(name: str) -> None:
        if name == "read offsets a":
            pair.cluster.brokers["b"].restart()

    pair.client.on_arrival = lose_b
    assert pair.member.offsets.store.stored_offsets([AT_A, AT_B]).keys() == {AT_A}
    assert pair.client.calls["read offsets b"] == 0
    pair.client.on_arrival = lambda name: None
    pair.clock.advance(REQUEST_PAUSES.longest_ms)
    assert pair.member.offsets.store.stored_offsets([AT_A, AT_B]).keys() == {AT_A, AT_B}


def test_a_response_is_not_used_if_the_connection_of_its_request_was_lost() -> None:
    """A broker that shuts down sends GO_AWAY: the request goes over the next connection, maybe to another broker."""
    pair = Pair()
    pair.member.offsets.raise_to({AT_A: 1, AT_B: 1})

    def lose_a(name: str) -> None:
        if name == "read offsets a":
            pair.cluster.brokers["a"].restart()

    pair.client.on_arrival = lose_a
    assert pair.member.offsets.store.stored_offsets([AT_A, AT_B]) == {AT_B: 1}
    pair.client.on_arrival = lambda name: None
    pair.clock.advance(REQUEST_PAUSES.longest_ms)
    assert pair.member.offsets.store.stored_offsets([AT_A, AT_B]) == {AT_A: 1, AT_B: 1}


def test_many_new_connections_are_opened_in_the_time_of_one() -> None:
    pair = Pair()
    for name in "ab":
        pair.cluster.brokers[name].restart()
    pair.client.round_trip_ms = 20
    began_ms = pair.clock()
    pair.member.offsets.raise_to({AT_A: 1, AT_B: 1})
    assert (pair.client.calls["bounds a"], pair.client.calls["bounds b"]) == (2, 2)
    assert pair.clock() - began_ms == 20 * len(("who is there", "what is stored", "write", "a first one, again"))


def test_a_refusal_to_identify_itself_is_raised_as_it_is() -> None:
    pair = Pair()
    pair.cluster.brokers["a"].restart()
    pair.cluster.brokers["a"].refusal = BrokerError(
        "BROKER_ERROR", address="a", request="?", code=16, code_name="NO_PERMISSION", remark=""
    )
    with pytest.raises(BrokerError, match="NO_PERMISSION"):
        pair.member.offsets.raise_to({AT_A: 1})


def test_bounds_over_a_lost_connection_are_of_no_current_link() -> None:
    """The broker is killed after its response, while the other broker's bounds are awaited."""
    pair = Pair()
    link = pair.member.queries.link("a")

    def kill_a(name: str) -> None:
        if name == "bounds b":
            pair.cluster.brokers["a"].restart()
            pair.client.on_arrival = lambda name: None

    pair.client.on_arrival = kill_a
    snapshot = pair.member.refresh_metadata()
    assert snapshot.bounds.keys() == {AT_A, AT_B}
    assert snapshot.links["b"] == pair.member.queries.link("b")
    assert snapshot.links["a"] not in {None, link, pair.member.queries.link("a")}
    assert pair.member.refresh_metadata().links["a"] == pair.member.queries.link("a")
