"""What ``rocketmq-spark topic create`` states where no broker can make the topic, or none reports the name server."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from connector_tests.support.scripted_broker import build_response
from connector_tests.support.scripted_cluster import ScriptedCluster
from rocketmq_spark.cli.topic import create, describe, table
from rocketmq_spark.errors import RouteError
from rocketmq_spark.model import MessageQueue, QueueBounds
from rocketmq_spark.wire.remoting.codes import RequestCode, ResponseCode

NOT_THERE = build_response(ResponseCode.TOPIC_NOT_EXIST)


@pytest.fixture
def scripted() -> Iterator[ScriptedCluster]:
    with ScriptedCluster("a") as cluster:
        yield cluster


def known_brokers(scripted: ScriptedCluster, **masters: str) -> None:
    table = {
        name: {"brokerAddrs": {"0": address} if address else {"1": "slave:1"}, "brokerName": name, "cluster": "c"}
        for name, address in masters.items()
    }
    body = json.dumps({"brokerAddrTable": table, "clusterAddrTable": {"c": list(masters)}}).encode()
    scripted.name_server.on(RequestCode.GET_BROKER_CLUSTER_INFO, build_response(body=body))


def test_without_a_master_nothing_is_created(scripted: ScriptedCluster) -> None:
    scripted.name_server.on(RequestCode.GET_ROUTEINFO_BY_TOPIC, NOT_THERE)
    known_brokers(scripted, a="")
    with pytest.raises(RouteError, match=r"NO_MASTER_BROKER.*ns:9876"):
        create(scripted.client(), "T", 4)


def test_a_topic_that_no_name_server_lists_is_no_success(scripted: ScriptedCluster) -> None:
    scripted.name_server.on(RequestCode.GET_ROUTEINFO_BY_TOPIC, NOT_THERE)
    scripted.brokers["a"].on(RequestCode.UPDATE_AND_CREATE_TOPIC, build_response())
    known_brokers(scripted, a="a:10911")
    with pytest.raises(RouteError, match=r"TOPIC_CREATION_TIMEOUT.*created on a,.*after 1 ms"):
        create(scripted.client(), "T", 4, ready_timeout_ms=1)


def test_a_topic_that_is_there_is_not_requested_again(scripted: ScriptedCluster) -> None:
    with pytest.raises(RouteError, match=r"TOPIC_EXISTS.*with 1 queue;"):
        create(scripted.client(), "T", 4)


def test_a_broker_without_a_master_is_named_where_a_topic_is_described(scripted: ScriptedCluster) -> None:
    route = {
        "brokerDatas": [{"brokerAddrs": {"1": "slave:1"}, "brokerName": "a", "cluster": "c"}],
        "queueDatas": [{"brokerName": "a", "perm": 6, "readQueueNums": 1, "writeQueueNums": 1}],
    }
    scripted.name_server.on(RequestCode.GET_ROUTEINFO_BY_TOPIC, build_response(body=json.dumps(route).encode()))
    assert "a has no master; its queues are not listed" in describe(scripted.client(), "T")


def test_a_broker_name_forges_no_line_of_a_description(scripted: ScriptedCluster) -> None:
    queue = MessageQueue("T", "a\n0 messages\x1b[2J", 0)
    lines = table({queue: QueueBounds(0, 7)}).splitlines()
    assert (len(lines), lines[-1]) == (3, "7 messages")
    assert lines[1].isprintable()
    route = {"brokerDatas": [{"brokerAddrs": {}, "brokerName": "a\nb", "cluster": "c"}], "queueDatas": []}
    scripted.name_server.on(RequestCode.GET_ROUTEINFO_BY_TOPIC, build_response(body=json.dumps(route).encode()))
    assert describe(scripted.client(), "T").splitlines()[-1].startswith("a\\nb has no master")
