"""Views of scripted clusters, of which parts are missing."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest

from connector_tests.support.group_bodies import cluster_info, connections, consume_stats, groups, topic_stats
from connector_tests.support.scripted_broker import build_response
from connector_tests.support.scripted_cluster import ScriptedCluster
from rocketmq_spark.errors import OptionError, RocketMQError, RouteError, TransportError
from rocketmq_spark.inspection.inspector import Inspector
from rocketmq_spark.model import MessageQueue, QueueBounds
from rocketmq_spark.wire.remoting.codes import RequestCode, ResponseCode

HELD = QueueBounds(2, 9, 77)
OFFLINE = build_response(ResponseCode.CONSUMER_NOT_ONLINE)


@pytest.fixture
def scripted() -> Iterator[ScriptedCluster]:
    """Brokers a and b, each with one queue of orders, at which group g is behind by 2."""
    with ScriptedCluster("a", "b") as cluster:
        cluster.name_server.on(RequestCode.GET_BROKER_CLUSTER_INFO, cluster_info({"a": "a:10911", "b": "b:10911"}))
        topics = json.dumps({"topicList": ["orders", "TBW102", "a", "c"]}).encode()
        cluster.name_server.on(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, build_response(body=topics))
        for name, broker in cluster.brokers.items():
            queue = MessageQueue("orders", name, 0)
            broker.on(RequestCode.GET_TOPIC_STATS_INFO, topic_stats({queue: HELD}))
            broker.on(RequestCode.GET_CONSUME_STATS, consume_stats({queue: 7}))
            broker.on(RequestCode.GET_CONSUMER_CONNECTION_LIST, OFFLINE)
            broker.on(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, groups("g", "TOOLS_CONSUMER"))
            broker.on(RequestCode.PULL_MESSAGE, no_message)
        yield cluster


no_message = build_response(ResponseCode.PULL_NOT_FOUND, {"nextBeginOffset": "7", "minOffset": "2", "maxOffset": "9"})


class Failures(dict[str, RocketMQError]):
    """Errors by broker, as an inspector reports them."""

    def inspector(self, scripted: ScriptedCluster) -> Inspector:
        return Inspector(scripted.client(), self.__setitem__)


@pytest.fixture
def failures() -> Failures:
    return Failures()


def test_topics_of_users_have_a_row_for_each_broker(scripted: ScriptedCluster, failures: Failures) -> None:
    rows = failures.inspector(scripted).topic_rows()
    assert [tuple(row) for row in rows] == [("orders", "c", "a", 1, 1, "RW"), ("orders", "c", "b", 1, 1, "RW")]


def test_missing_topic_is_an_error_by_name_and_omitted_from_all(scripted: ScriptedCluster, failures: Failures) -> None:
    scripted.name_server.on(RequestCode.GET_ROUTEINFO_BY_TOPIC, build_response(ResponseCode.TOPIC_NOT_EXIST))
    inspector = failures.inspector(scripted)
    assert inspector.topic_rows() == []
    with pytest.raises(RouteError, match=r"TOPIC_NOT_FOUND.*nowhere"):
        inspector.topic_rows(["nowhere"])


def test_unresponsive_name_server_is_no_cluster_without_topics(scripted: ScriptedCluster, failures: Failures) -> None:
    inspector = failures.inspector(scripted)
    scripted.down.add("ns:9876")
    for query in (inspector.topic_rows, inspector.queue_rows, inspector.group_rows, inspector.member_rows):
        with pytest.raises(TransportError, match=r"CONNECT_FAILED.*ns:9876"):
            query()


def test_route_that_is_refused_is_no_missing_topic(scripted: ScriptedCluster, failures: Failures) -> None:
    refused = build_response(ResponseCode.SYSTEM_ERROR, remark="broken")
    scripted.name_server.on(RequestCode.GET_ROUTEINFO_BY_TOPIC, refused)
    with pytest.raises(RocketMQError, match="broken"):
        failures.inspector(scripted).topic_rows()


def test_queues_are_those_of_all_brokers(scripted: ScriptedCluster, failures: Failures) -> None:
    rows = failures.inspector(scripted).queue_rows()
    assert [tuple(row) for row in rows] == [("orders", "a", 0, 2, 9, 7, 77), ("orders", "b", 0, 2, 9, 7, 77)]
    assert failures.inspector(scripted).queue_rows(["orders"]) == rows
    assert failures == {}


def test_queues_of_another_broker_in_a_response_do_not_replace_its_own(
    scripted: ScriptedCluster, failures: Failures
) -> None:
    false = {MessageQueue("orders", name, 0): QueueBounds(8, 8) for name in "ab"}
    scripted.brokers["b"].on(RequestCode.GET_TOPIC_STATS_INFO, topic_stats(false))
    assert failures.inspector(scripted).queue_bounds() == {MessageQueue("orders", "a", 0): HELD}
    assert {name: error.condition for name, error in failures.items()} == {"b": "BROKER_ADDRESS_MISMATCH"}


def test_offsets_of_another_broker_in_a_response_do_not_replace_its_own(
    scripted: ScriptedCluster, failures: Failures
) -> None:
    """An export of offsets contained them, and an import committed them."""
    false = {MessageQueue("orders", name, 0): QueueBounds(8, 8) for name in "ab"}
    scripted.brokers["b"].on(RequestCode.GET_TOPIC_STATS_INFO, topic_stats(false))
    scripted.brokers["b"].on(RequestCode.GET_CONSUME_STATS, consume_stats(dict.fromkeys(false, 8)))
    assert [row.queue.broker_name for row in failures.inspector(scripted).group_rows(["g"])] == ["a"]
    assert {name: error.condition for name, error in failures.items()} == {"b": "BROKER_ADDRESS_MISMATCH"}


def test_groups_are_all_but_the_systems(scripted: ScriptedCluster, failures: Failures) -> None:
    rows = failures.inspector(scripted).group_rows()
    assert [(row.consumer_group, *row.queue, row.lag, row.lag_ms) for row in rows] == [
        ("g", "orders", "a", 0, 2, None),
        ("g", "orders", "b", 0, 2, None),
    ]
    assert failures.inspector(scripted).group_rows(["g"], ["payments"]) == []


def test_repeated_names_have_their_rows_once(scripted: ScriptedCluster, failures: Failures) -> None:
    """The lag of a group was twice as large if it was given twice."""
    for broker in scripted.brokers.values():
        broker.on(RequestCode.GET_CONSUMER_CONNECTION_LIST, connections(("m",), {"orders": "*"}))
    inspector = failures.inspector(scripted)
    assert inspector.group_rows(["g", "g"]) == inspector.group_rows(["g"])
    assert [row.client_id for row in inspector.member_rows(["g", "g"])] == ["m"]
    assert inspector.topic_rows(["orders", "orders"]) == inspector.topic_rows(["orders"])


@pytest.mark.parametrize(
    "query", [Inspector.queue_rows, Inspector.group_rows, lambda inspector: inspector.member_rows(["g"])]
)
def test_broker_that_fails_is_reported_beside_the_others(
    scripted: ScriptedCluster, failures: Failures, query: Callable[[Inspector], object]
) -> None:
    scripted.down.add("b:10911")
    query(failures.inspector(scripted))
    assert {name: error.condition for name, error in failures.items()} == {"b": "CONNECT_FAILED"}


def test_broker_without_a_master_is_reported(scripted: ScriptedCluster, failures: Failures) -> None:
    scripted.name_server.on(RequestCode.GET_BROKER_CLUSTER_INFO, cluster_info({"a": "a:10911", "b": ""}))
    assert [row.broker_name for row in failures.inspector(scripted).group_rows(["g"])] == ["a"]
    assert str(failures["b"]).startswith("[ROCKETMQ_MASTER_NOT_REGISTERED] Broker 'b' has no master")


def test_members_are_those_of_all_brokers(scripted: ScriptedCluster, failures: Failures) -> None:
    scripted.brokers["a"].on(RequestCode.GET_CONSUMER_CONNECTION_LIST, connections(("me", "you"), {"orders": "x"}))
    scripted.brokers["b"].on(RequestCode.GET_CONSUMER_CONNECTION_LIST, connections(("me",), {"orders": "x"}))
    for rows in (failures.inspector(scripted).member_rows(), failures.inspector(scripted).member_rows(["g"])):
        assert [(row.client_id, row.broker_names, row.subscriptions) for row in rows] == [
            ("me", "a,b", {"orders": "x"}),
            ("you", "a", {"orders": "x"}),
        ]


def test_group_that_no_broker_has_is_an_error_and_one_without_members_is_none(
    scripted: ScriptedCluster, failures: Failures
) -> None:
    for broker in scripted.brokers.values():
        broker.on(RequestCode.GET_CONSUME_STATS, consume_stats({}))
    inspector = failures.inspector(scripted)
    assert inspector.group_rows(["g"]) == []
    assert inspector.member_rows(["g"]) == []
    for query in (inspector.group_rows, inspector.member_rows):
        with pytest.raises(OptionError, match=r"GROUP_NOT_FOUND\.CLUSTER.*ns:9876 has the consumer group 'other'"):
            query(["g", "other"])


def test_group_that_may_be_at_an_unresponsive_broker_is_not_missing(
    scripted: ScriptedCluster, failures: Failures
) -> None:
    scripted.brokers["a"].on(RequestCode.GET_CONSUME_STATS, consume_stats({}))
    scripted.down.add("b:10911")
    assert failures.inspector(scripted).group_rows(["other"]) == []
    assert failures.keys() == {"b"}


def test_proxy_is_no_name_server(scripted: ScriptedCluster, failures: Failures) -> None:
    unsupported = build_response(ResponseCode.REQUEST_CODE_NOT_SUPPORTED)
    scripted.name_server.on(RequestCode.GET_BROKER_CLUSTER_INFO, unsupported)
    for query in (failures.inspector(scripted).topic_rows, failures.inspector(scripted).group_rows):
        with pytest.raises(OptionError, match="NOT_A_NAME_SERVER"):
            query()
