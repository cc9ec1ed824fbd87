"""NameServers against scripted ones."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace

import pytest

from connector_tests.support.scripted_broker import ScriptedBroker, build_response
from connector_tests.support.timeouts import PATIENT_MS
from rocketmq_spark.errors import BrokerError, OptionError, RocketMQError, RouteError, TransportError
from rocketmq_spark.model import BrokerAddress
from rocketmq_spark.remoting.namesrv import NameServers
from rocketmq_spark.remoting.pool import ConnectionPool
from rocketmq_spark.remoting.retry import Retryability, retryability_of_request
from rocketmq_spark.remoting.stream import Stream
from rocketmq_spark.wire.remoting.codes import RequestCode, ResponseCode
from rocketmq_spark.wire.remoting.command import RemotingCommand

ROUTE = RequestCode.GET_ROUTEINFO_BY_TOPIC
FIRST, SECOND = "ns1:9876", "ns2:9876"

A_ROUTE = build_response(
    body=json.dumps(
        {
            "brokerDatas": [{"brokerAddrs": {"0": "10.0.0.1:10911"}, "brokerName": "b", "cluster": "c"}],
            "queueDatas": [{"brokerName": "b", "perm": 6, "readQueueNums": 2, "writeQueueNums": 2}],
        }
    ).encode()
)
UNKNOWN_TOPIC = build_response(
    ResponseCode.TOPIC_NOT_EXIST, remark="No topic route info in name server for the topic: T"
)
NOT_READY = build_response(ResponseCode.SYSTEM_ERROR, remark="name server not ready")
DISABLED = build_response(ResponseCode.NO_PERMISSION, remark="no")


class TwoServers:
    """Two scripted name servers by address, and a pool that reaches those of them that are up."""

    def __init__(self) -> None:
        self.servers = {FIRST: ScriptedBroker(), SECOND: ScriptedBroker()}
        self.down: set[str] = set()
        self.refused: set[str] = set()
        self.pool = ConnectionPool(1000, connect=self._connect)
        self.name_servers = NameServers((FIRST, SECOND), self.pool, PATIENT_MS)

    def _connect(self, address: str, timeout_ms: int) -> Stream:
        if address in self.down:
            raise TransportError("CONNECT_FAILED", address=address, reason="refused")
        if address in self.refused:
            raise TransportError("TLS_CERTIFICATE_UNTRUSTED", address=address, reason="self-signed")
        return self.servers[address].connect(address, timeout_ms)

    def on_route(self, first: RemotingCommand, second: RemotingCommand) -> None:
        self.servers[FIRST].on(ROUTE, first)
        self.servers[SECOND].on(ROUTE, second)

    def call_counts(self) -> tuple[int, int]:
        return self.servers[FIRST].connect_count, self.servers[SECOND].connect_count


@pytest.fixture
def two() -> Iterator[TwoServers]:
    two = TwoServers()
    with ExitStack() as stack:
        for server in two.servers.values():
            stack.enter_context(server)
        stack.callback(two.pool.close)
        yield two


def failure(two: TwoServers) -> RocketMQError:
    with pytest.raises(RocketMQError) as raised:
        two.name_servers.query_topic_route("T")
    return raised.value


def test_a_route_comes_from_the_first_that_responds_and_no_other_is_called(two: TwoServers) -> None:
    two.on_route(A_ROUTE, A_ROUTE)
    assert two.name_servers.query_topic_route("T").master_address("b") == BrokerAddress("10.0.0.1:10911")
    assert two.call_counts() == (1, 0)


def test_a_server_that_is_down_is_passed_over_and_called_last_from_then_on(two: TwoServers) -> None:
    two.on_route(A_ROUTE, A_ROUTE)
    two.down.add(FIRST)
    assert two.name_servers.query_topic_route("T").queues
    two.down.clear()
    assert two.name_servers.query_topic_route("T").queues
    assert two.call_counts() == (0, 1)


def test_a_server_that_is_not_ready_is_passed_over(two: TwoServers) -> None:
    two.on_route(NOT_READY, A_ROUTE)
    assert two.name_servers.query_topic_route("T").queues


def test_a_server_that_is_no_name_server_is_passed_over(two: TwoServers) -> None:
    two.on_route(build_response(body=b"<html>"), A_ROUTE)
    assert two.name_servers.query_topic_route("T").queues


def test_a_topic_that_one_does_not_have_may_be_known_to_another(two: TwoServers) -> None:
    """A name server that has just started has no topics until the brokers' next registration."""
    two.on_route(UNKNOWN_TOPIC, A_ROUTE)
    assert two.name_servers.query_topic_route("T").queues


def test_an_unknown_topic_is_a_route_error_that_names_topic_and_server(two: TwoServers) -> None:
    two.on_route(UNKNOWN_TOPIC, UNKNOWN_TOPIC)
    error = failure(two)
    assert isinstance(error, RouteError)
    assert (error.condition, error.context["topic"], error.context["address"]) == ("TOPIC_NOT_FOUND", "T", FIRST)


def test_a_proxys_route_reports_which_broker_is_meant_and_a_name_servers_where_it_is(two: TwoServers) -> None:
    sent_by_proxies = {"MSG_REGION": "", "TRACE_ON": "false"}
    two.on_route(replace(A_ROUTE, fields=sent_by_proxies), A_ROUTE)
    assert two.name_servers.query_topic_route("T").master_address("b") == BrokerAddress("10.0.0.1:10911", "b")
    two.down.add(FIRST)
    two.pool.close()
    two.pool = ConnectionPool(1000, connect=two._connect)
    two.name_servers = NameServers((FIRST, SECOND), two.pool, PATIENT_MS)
    assert two.name_servers.query_topic_route("T").master_address("b") == BrokerAddress("10.0.0.1:10911")


def test_a_static_topic_is_a_route_error_that_names_it(two: TwoServers) -> None:
    mapped = json.loads(bytes(A_ROUTE.body)) | {"topicQueueMappingByBroker": {"b": {"currIdMap": {"0": 0, "2": 1}}}}
    two.on_route(build_response(body=json.dumps(mapped).encode()), A_ROUTE)
    two.down.add(SECOND)
    error = failure(two)
    assert (error.condition, error.context["topic"]) == ("STATIC_TOPIC_NOT_SUPPORTED", "T")


@pytest.mark.parametrize("unavailable", [FIRST, SECOND])
def test_a_server_that_is_not_trusted_is_passed_over_and_reported_where_no_other_may_come_back(
    two: TwoServers, unavailable: str
) -> None:
    two.on_route(A_ROUTE, A_ROUTE)
    two.refused = {FIRST}
    assert two.name_servers.query_topic_route("T").queues
    two.refused = {FIRST, SECOND}
    two.pool.close()
    two.pool = ConnectionPool(1000, connect=two._connect)
    two.name_servers = NameServers((FIRST, SECOND), two.pool, PATIENT_MS)
    assert failure(two).condition == "TLS_CERTIFICATE_UNTRUSTED"
    two.down.add(unavailable)
    assert failure(two).condition == "CONNECT_FAILED"


def test_a_missing_topic_is_reported_even_when_the_other_server_is_down(two: TwoServers) -> None:
    two.on_route(UNKNOWN_TOPIC, A_ROUTE)
    two.down.add(SECOND)
    assert failure(two).condition == "TOPIC_NOT_FOUND"


def test_when_none_is_up_the_failure_is_one_of_transport_never_a_missing_topic(two: TwoServers) -> None:
    two.down.update({FIRST, SECOND})
    error = failure(two)
    assert isinstance(error, TransportError)
    assert retryability_of_request(error) is Retryability.TRANSIENT


def test_a_refusal_that_no_other_server_would_change_is_raised_at_once(two: TwoServers) -> None:
    two.on_route(DISABLED, A_ROUTE)
    assert isinstance(failure(two), BrokerError)


def test_cluster_info_lists_the_brokers(two: TwoServers) -> None:
    body = b'{"brokerAddrTable":{"b":{"brokerAddrs":{0:"h:1",1:"h:2"},"brokerName":"b","cluster":"c"}},'
    body += b'"clusterAddrTable":{"c":["b"]}}'
    two.servers[FIRST].on(RequestCode.GET_BROKER_CLUSTER_INFO, build_response(body=body))
    assert dict(two.name_servers.cluster_info().brokers["b"].addresses) == {0: "h:1", 1: "h:2"}


CLUSTER = b'{"brokerAddrTable":{%s},"clusterAddrTable":{"c":["b"]}}'
BROKER = b'"b":{"brokerAddrs":{0:"h:1"},"brokerName":"b","cluster":"c"}'
TOPIC_LIST = RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER


def on_topics(two: TwoServers, address: str, brokers: bytes, *topics: str) -> None:
    two.servers[address].on(RequestCode.GET_BROKER_CLUSTER_INFO, build_response(body=CLUSTER % brokers))
    two.servers[address].on(TOPIC_LIST, build_response(body=json.dumps({"topicList": topics}).encode()))


def test_topics_of_users_are_those_of_all_servers(two: TwoServers) -> None:
    """A name server that has just started has no topics until the brokers' next registration."""
    on_topics(two, FIRST, b"", "TBW102")
    on_topics(two, SECOND, BROKER, "orders", "b", "c", "%RETRY%g", "%DLQ%g")
    assert two.name_servers.query_user_topics() == {"orders", "%RETRY%g", "%DLQ%g"}
    two.down.add(FIRST)
    two.pool.close()
    two.pool = ConnectionPool(1000, connect=two._connect)
    assert NameServers((FIRST, SECOND), two.pool, PATIENT_MS).query_user_topics() == {"orders", "%RETRY%g", "%DLQ%g"}


def test_topic_list_is_complete_if_all_servers_respond(two: TwoServers) -> None:
    on_topics(two, FIRST, b"", "TBW102")
    on_topics(two, SECOND, BROKER, "orders")
    assert two.name_servers.query_topic_list() == (frozenset({"orders"}), frozenset({"b"}), True)
    two.down.add(FIRST)
    two.pool.close()
    two.pool = ConnectionPool(1000, connect=two._connect)
    listed = NameServers((FIRST, SECOND), two.pool, PATIENT_MS).query_topic_list()
    assert listed == (frozenset({"orders"}), frozenset({"b"}), False)


def test_topics_are_unknown_while_no_server_has_a_broker(two: TwoServers) -> None:
    on_topics(two, FIRST, b"")
    two.down.add(SECOND)
    with pytest.raises(RouteError, match=rf"NO_MASTER_BROKER\] {FIRST};{SECOND} list no broker") as raised:
        two.name_servers.query_user_topics()
    assert retryability_of_request(raised.value) is Retryability.UNAVAILABLE


def test_topics_are_unknown_while_no_server_responds(two: TwoServers) -> None:
    two.down.update({FIRST, SECOND})
    with pytest.raises(TransportError, match="CONNECT_FAILED"):
        two.name_servers.query_user_topics()


def test_refused_topic_list_is_raised_at_once(two: TwoServers) -> None:
    on_topics(two, FIRST, BROKER)
    two.servers[FIRST].on(TOPIC_LIST, DISABLED)
    with pytest.raises(BrokerError, match="NO_PERMISSION"):
        two.name_servers.query_user_topics()


def test_a_topic_is_deleted_from_every_server(two: TwoServers) -> None:
    for server in two.servers.values():
        server.on(RequestCode.DELETE_TOPIC_IN_NAMESRV, build_response())
    two.name_servers.delete_topic("T")
    assert two.call_counts() == (1, 1)


NOT_SUPPORTED = build_response(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark="request type 105 not supported")


def test_a_server_that_supports_no_such_request_is_no_name_server(two: TwoServers) -> None:
    two.on_route(NOT_SUPPORTED, NOT_SUPPORTED)
    assert str(failure(two)) == (
        f"[ROCKETMQ_NOT_A_NAME_SERVER] {FIRST} is not a name server, but probably a broker: it does not support "
        "GET_ROUTEINFO_BY_TOPIC. Set 'namesrvAddr' to the name server's address. Its port is 9876 by default, a "
        "broker's is 10911."
    )


def test_one_that_is_no_name_server_is_passed_over(two: TwoServers) -> None:
    two.on_route(NOT_SUPPORTED, A_ROUTE)
    assert two.name_servers.query_topic_route("T").queues


@pytest.mark.parametrize("order", [(FIRST, SECOND), (SECOND, FIRST)])
def test_while_another_is_unresponsive_it_may_be_the_name_server(two: TwoServers, order: tuple[str, str]) -> None:
    two.down.add(SECOND)
    two.on_route(NOT_SUPPORTED, A_ROUTE)
    two.name_servers = NameServers(order, two.pool, PATIENT_MS)
    assert failure(two).condition == "CONNECT_FAILED"


def test_what_a_name_server_reports_counts_before_what_is_none(two: TwoServers) -> None:
    two.on_route(NOT_SUPPORTED, UNKNOWN_TOPIC)
    assert failure(two).condition == "TOPIC_NOT_FOUND"


def test_a_server_that_has_no_brokers_is_no_name_server(two: TwoServers) -> None:
    with pytest.raises(OptionError, match=f"NOT_A_NAME_SERVER.*{FIRST}"):
        two.name_servers.cluster_info()
