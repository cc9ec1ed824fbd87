from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from connector_tests.support.refusals import refused
from connector_tests.support.scripted_broker import ScriptedBroker, answer
from connector_tests.support.scripted_cluster import NAME_SERVER, ScriptedCluster
from rocketmq_spark.errors import RouteError, TransportError
from rocketmq_spark.model import BrokerAddress, MessageQueue, TopicRoute
from rocketmq_spark.remoting.namesrv import NameServers
from rocketmq_spark.remoting.pool import ConnectionPool
from rocketmq_spark.remoting.retry import Outlook, outlook_of_request
from rocketmq_spark.remoting.routes import KnownTopics, RouteCache
from rocketmq_spark.wire.remoting.codes import RequestCode, ResponseCode
from rocketmq_spark.wire.remoting.command import RemotingCommand

QUEUE = MessageQueue("T", "b", 0)


class Namesrv:
    """A scripted name server with one broker that may have no master."""

    def __init__(self, server: ScriptedBroker) -> None:
        self.addresses = {"0": "10.0.0.1:10911"}
        self.asked_count = 0
        server.on(RequestCode.GET_ROUTEINFO_BY_TOPIC, self._route)

    def _route(self, _request: RemotingCommand) -> RemotingCommand:
        self.asked_count += 1
        brokers = [{"brokerAddrs": self.addresses, "brokerName": "b", "cluster": "c"}]
        queues = [{"brokerName": "b", "perm": 6, "readQueueNums": 1, "writeQueueNums": 1}]
        return answer(body=json.dumps({"brokerDatas": brokers, "queueDatas": queues}).encode())


@pytest.fixture
def namesrv(server: ScriptedBroker) -> Namesrv:
    return Namesrv(server)


@pytest.fixture
def routes(server: ScriptedBroker, namesrv: Namesrv) -> Iterator[RouteCache]:
    pool = ConnectionPool(1000, connect=server.connect)
    yield RouteCache(NameServers(("ns:9876",), pool, 1000))
    pool.close()


def test_a_route_is_asked_for_once(routes: RouteCache, namesrv: Namesrv) -> None:
    assert routes.route("T") is routes.route("T")
    assert routes.master(QUEUE) == BrokerAddress("10.0.0.1:10911")
    assert namesrv.asked_count == 1


def test_refresh_and_forget_ask_again(routes: RouteCache, namesrv: Namesrv) -> None:
    routes.route("T")
    namesrv.addresses["0"] = "10.0.0.2:10911"
    assert routes.route("T", refresh=True).master_address("b") == BrokerAddress("10.0.0.2:10911")
    routes.forget("T")
    routes.forget("T")
    routes.route("T")
    assert namesrv.asked_count == 3


@pytest.mark.parametrize(("code", "asked_count"), [(ResponseCode.SYSTEM_BUSY, 2), (ResponseCode.FLOW_CONTROL, 1)])
def test_a_route_is_in_doubt_after_what_may_come_of_an_old_address(
    routes: RouteCache, namesrv: Namesrv, code: ResponseCode, asked_count: int
) -> None:
    routes.route("T")
    routes.doubt("T", refused(code))
    routes.route("T")
    assert namesrv.asked_count == asked_count


def test_silent_name_servers_are_no_trouble_of_a_topic() -> None:
    with ScriptedCluster("a") as cluster:
        cluster.down.add(NAME_SERVER)
        with pytest.raises(TransportError, match="NO_NAME_SERVER") as raised:
            RouteCache(cluster.name_servers).route("T")
        assert raised.value.context["topic"] == "T"
        assert isinstance(raised.value.__cause__, TransportError)


def test_a_master_that_came_back_is_found_though_the_cached_route_has_none(
    routes: RouteCache, namesrv: Namesrv
) -> None:
    master = namesrv.addresses.pop("0")
    routes.route("T")
    namesrv.addresses["0"] = master
    assert routes.master(QUEUE) == BrokerAddress(master)


def test_a_broker_without_a_master_is_a_route_error_that_another_attempt_may_cure(
    routes: RouteCache, namesrv: Namesrv
) -> None:
    namesrv.addresses = {"1": "10.0.0.9:10911"}
    with pytest.raises(RouteError, match=r"NO_MASTER.*'b'.*'T'") as raised:
        routes.master(QUEUE)
    assert outlook_of_request(raised.value) is Outlook.PASSES


def test_brokers_that_a_topic_was_on_are_known_and_their_queues_are_not_in_its_route() -> None:
    with ScriptedCluster("a", "b") as cluster:
        known: dict[str, TopicRoute] = {}
        routes = KnownTopics(cluster.name_servers, known)
        assert routes.brokers("T") == frozenset()
        both = routes.route("T")
        assert known["T"] == both
        del cluster.brokers["b"]
        for _ in range(2):
            assert [queue.broker_name for queue in routes.route("T", refresh=True).write_queues()] == ["a"]
            assert routes.brokers("T") == {"a", "b"}
        assert KnownTopics(cluster.name_servers, known).brokers("T") == {"a", "b"}
        assert KnownTopics(cluster.name_servers, {}).brokers("T") == frozenset()
