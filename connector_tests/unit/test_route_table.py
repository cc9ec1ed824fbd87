"""What is known of topics and brokers from the routes that were told last, and when name servers are asked again."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping

import pytest

from connector_tests.support.refusals import refused
from connector_tests.support.scripted_broker import ScriptedBroker, build_response
from connector_tests.support.scripted_cluster import NAME_SERVER, ScriptedCluster
from connector_tests.support.timeouts import PATIENT_MS
from rocketmq_spark.errors import RocketMQError, RouteError, TransportError
from rocketmq_spark.model import BrokerAddress, BrokerData, MessageQueue, QueueData, TopicRoute
from rocketmq_spark.remoting.namesrv import NameServers
from rocketmq_spark.remoting.pool import ConnectionPool
from rocketmq_spark.remoting.retry import Retryability, retryability_of_request
from rocketmq_spark.remoting.route_table import UNKNOWN_ADDRESS, RouteHistory, RouteTable, history_of
from rocketmq_spark.wire.remoting.codes import RequestCode, ResponseCode
from rocketmq_spark.wire.remoting.command import RemotingCommand


def route(topic: str, brokers: Mapping[str, Mapping[int, str]], permission: int = 6) -> TopicRoute:
    """Each broker has one queue."""
    return TopicRoute(
        topic,
        tuple(BrokerData("c", name, addresses) for name, addresses in brokers.items()),
        tuple(QueueData(name, 1, 1, permission) for name in brokers),
    )


class Source:
    """Tells one route after another, of whatever topic is requested."""

    addresses = "n:9876"

    def __init__(self, *routes: TopicRoute) -> None:
        self._routes = iter(routes)

    def query_topic_routes(self, topics: Iterable[str]) -> dict[str, TopicRoute | RocketMQError]:
        return {topic: next(self._routes) for topic in topics}


class Results:
    """Returns these results by topic."""

    addresses = "n:9876"

    def __init__(self, results: Mapping[str, TopicRoute | RocketMQError]) -> None:
        self._results = results

    def query_topic_routes(self, topics: Iterable[str]) -> dict[str, TopicRoute | RocketMQError]:
        return {topic: self._results[topic] for topic in topics}


def table(*routes: TopicRoute, reported: int | None = None) -> RouteTable:
    """``told``: how many of ``routes`` were told, without it all; the others are at the next refreshs."""
    subject = RouteTable(Source(*routes))
    for one in routes[:reported]:
        assert subject.refresh([one.topic]) == {}
    return subject


A = MessageQueue("orders", "a", 0)
BOTH = route("orders", {"b": {0: "b:1", 1: "b:2"}, "a": {0: "a:1"}})


def test_nothing_is_known_before_a_route_is_received() -> None:
    subject = table()
    assert "orders" not in subject
    assert (subject.routes, subject.queues, subject.masters(), subject.addresses()) == ({}, {}, {}, set())
    assert (subject.broker_names(), subject.removed_brokers(), subject.brokers_without_master()) == ([], [], [])
    assert (subject.master("a"), subject.last_address("a")) == (None, UNKNOWN_ADDRESS)
    assert not subject.is_readable(A)


def test_a_route_contains_queues_brokers_and_addresses() -> None:
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


def test_a_master_is_where_any_route_names_it_and_a_broker_without_one_is_reported_as_such() -> None:
    subject = table(route("orders", {"a": {1: "a:2"}, "b": {1: "b:2"}}), route("bills", {"a": {0: "a:1"}}))
    assert (subject.master("a"), subject.master("b")) == (BrokerAddress("a:1"), None)
    assert subject.brokers_without_master() == ["b"]
    assert subject.broker_names() == ["a", "b"]


def test_a_broker_that_left_is_known_by_its_last_address_until_it_is_back() -> None:
    subject = table(BOTH, route("orders", {"a": {0: "a:9"}}), BOTH, reported=2)
    assert subject.removed_brokers() == ["b"]
    assert [subject.last_address(name) for name in ("a", "b")] == ["a:9", "b:1"]
    subject.refresh(["orders"])
    assert subject.removed_brokers() == []


def test_a_broker_that_lost_its_master_keeps_its_last_address() -> None:
    subject = table(BOTH, route("orders", {"a": {0: "a:1"}, "b": {1: "b:2"}}))
    assert subject.removed_brokers() == []
    assert (subject.master("b"), subject.last_address("b")) == (None, "b:1")


def test_what_was_received_of_one_topic_means_nothing_of_another() -> None:
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


# ------------------------------------------------------------------------------------------ asking

QUEUE = MessageQueue("T", "b", 0)


class Namesrv:
    """A scripted name server with one broker that may have no master."""

    def __init__(self, server: ScriptedBroker) -> None:
        self.addresses = {"0": "10.0.0.1:10911"}
        self.call_count = 0
        server.on(RequestCode.GET_ROUTEINFO_BY_TOPIC, self._route)

    def _route(self, _request: RemotingCommand) -> RemotingCommand:
        self.call_count += 1
        brokers = [{"brokerAddrs": self.addresses, "brokerName": "b", "cluster": "c"}]
        queues = [{"brokerName": "b", "perm": 6, "readQueueNums": 1, "writeQueueNums": 1}]
        return build_response(body=json.dumps({"brokerDatas": brokers, "queueDatas": queues}).encode())


@pytest.fixture
def namesrv(server: ScriptedBroker) -> Namesrv:
    return Namesrv(server)


@pytest.fixture
def routes(server: ScriptedBroker, namesrv: Namesrv) -> Iterator[RouteTable]:
    pool = ConnectionPool(1000, connect=server.connect)
    yield RouteTable(NameServers(("ns:9876",), pool, PATIENT_MS))
    pool.close()


def test_a_route_is_requested_once(routes: RouteTable, namesrv: Namesrv) -> None:
    assert routes.route("T") is routes.route("T")
    assert routes.find_master(QUEUE) == BrokerAddress("10.0.0.1:10911")
    assert namesrv.call_count == 1


def test_refresh_and_forget_request_again(routes: RouteTable, namesrv: Namesrv) -> None:
    routes.route("T")
    namesrv.addresses["0"] = "10.0.0.2:10911"
    assert routes.route("T", refresh=True).master_address("b") == BrokerAddress("10.0.0.2:10911")
    routes.invalidate("T")
    routes.invalidate("T")
    routes.route("T")
    assert namesrv.call_count == 3


@pytest.mark.parametrize(("code", "call_count"), [(ResponseCode.SYSTEM_BUSY, 2), (ResponseCode.FLOW_CONTROL, 1)])
def test_a_route_is_in_doubt_after_what_may_come_of_an_old_address(
    routes: RouteTable, namesrv: Namesrv, code: ResponseCode, call_count: int
) -> None:
    routes.route("T")
    routes.invalidate_on_error("T", refused(code))
    routes.route("T")
    assert namesrv.call_count == call_count


def test_unresponsive_name_servers_are_no_failure_of_a_topic() -> None:
    with ScriptedCluster("a") as cluster:
        cluster.down.add(NAME_SERVER)
        with pytest.raises(TransportError, match="NAME_SERVERS_UNAVAILABLE") as raised:
            RouteTable(cluster.name_servers).route("T")
        assert raised.value.context["topic"] == "T"
        assert isinstance(raised.value.__cause__, TransportError)


def test_a_master_that_came_back_is_found_though_the_cached_route_has_none(
    routes: RouteTable, namesrv: Namesrv
) -> None:
    master = namesrv.addresses.pop("0")
    routes.route("T")
    namesrv.addresses["0"] = master
    assert routes.find_master(QUEUE) == BrokerAddress(master)


def test_a_broker_without_a_master_is_a_route_error_that_another_attempt_may_cure(
    routes: RouteTable, namesrv: Namesrv
) -> None:
    namesrv.addresses = {"1": "10.0.0.9:10911"}
    with pytest.raises(RouteError, match=r"MASTER_UNAVAILABLE.*'b'.*'T'") as raised:
        routes.find_master(QUEUE)
    assert retryability_of_request(raised.value) is Retryability.TRANSIENT


def test_brokers_that_a_topic_was_on_are_known_and_their_queues_are_not_in_its_route() -> None:
    with ScriptedCluster("a", "b") as cluster:
        history = RouteHistory()
        routes = RouteTable(cluster.name_servers, history)
        assert routes.recorded_brokers("T") == frozenset()
        routes.route("T")
        del cluster.brokers["b"]
        for _ in range(2):
            assert [queue.broker_name for queue in routes.route("T", refresh=True).write_queues()] == ["a"]
            assert routes.recorded_brokers("T") == {"a", "b"}
        assert RouteTable(cluster.name_servers, history).recorded_brokers("T") == {"a", "b"}
        assert RouteTable(cluster.name_servers).recorded_brokers("T") == frozenset()


def test_a_topic_that_had_a_route_is_distinguished_from_one_that_never_had_though_another_table_received_it() -> None:
    with ScriptedCluster("a", "b") as cluster:
        history = RouteHistory()
        RouteTable(cluster.name_servers, history).route("T")
        cluster.name_server.on(RequestCode.GET_ROUTEINFO_BY_TOPIC, build_response(ResponseCode.TOPIC_NOT_EXIST))
        failures = RouteTable(cluster.name_servers, history).refresh(["T", "U"])
        assert {topic: error.condition for topic, error in failures.items()} == {
            "T": "TOPIC_UNAVAILABLE.NO_ROUTE",
            "U": "TOPIC_NOT_FOUND",
        }
        assert failures["T"].context["brokers"] == "a (a:10911), b (b:10911)"
        assert failures["T"].__cause__ is not None


def test_a_route_that_is_not_received_again_stays_as_it_was() -> None:
    with ScriptedCluster("a") as cluster:
        routes = RouteTable(cluster.name_servers)
        before = routes.route("T")
        cluster.name_server.on(RequestCode.GET_ROUTEINFO_BY_TOPIC, build_response(ResponseCode.TOPIC_NOT_EXIST))
        assert routes.refresh(["T"]).keys() == {"T"}
        assert routes.routes == {"T": before}
        routes.invalidate("T")
        for _ in range(2):
            with pytest.raises(RouteError, match=r"TOPIC_UNAVAILABLE\.NO_ROUTE"):
                routes.route("T")
        assert routes.routes == {"T": before}


def test_a_process_keeps_the_history_of_each_cluster() -> None:
    assert history_of(("one:1",)) is history_of(("one:1",))
    assert history_of(("one:1",)) is not history_of(("other:1",))


def test_a_broker_in_a_newer_route_has_its_servers_only() -> None:
    """After an election, members called the old master as long as a deleted topic was subscribed to."""
    before, elected = {"a": {0: "a:1", 1: "a:2"}}, {"a": {0: "a:2"}}
    other = [route("other", brokers) for brokers in (before, elected, {"a": {1: "a:3"}})]
    subject = table(route("orders", before), other[0], reported=2)
    missing = RouteError("TOPIC_NOT_FOUND", topic="orders", address="n:1")

    def refresh_with(current: TopicRoute) -> None:
        subject._source = Results({"orders": missing, "other": current})
        assert subject.refresh(["orders", "other"]).keys() == {"orders"}

    refresh_with(other[1])
    assert (subject.master("a"), subject.slave("a")) == (BrokerAddress("a:2"), None)
    assert subject.pull_addresses("auto") == {"a": BrokerAddress("a:2")}
    refresh_with(other[2])
    assert (subject.brokers_without_master(), subject.slave("a")) == (["a"], BrokerAddress("a:3"))
    subject._source = Results({"orders": route("orders", elected), "other": other[2]})
    assert subject.refresh(["orders", "other"]) == {}
    assert subject.master("a") == BrokerAddress("a:2")


def test_a_forgotten_topic_has_no_route_and_its_history_stays() -> None:
    subject = table(route("orders", {"a": {0: "a:1"}}), route("returns", {"b": {0: "b:1"}}))
    assert subject.masters().keys() == {"a", "b"}
    subject.forget("orders")
    subject.forget("unknown")
    assert subject.queues.keys() == {"returns"}
    assert subject.masters().keys() == {"b"}
    assert subject.removed_brokers() == ["a"]
    assert subject.recorded_brokers("orders") == {"a"}
