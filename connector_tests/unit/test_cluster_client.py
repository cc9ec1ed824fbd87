"""What one client of a cluster asks, and where: a scripted name server and scripted brokers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from connector_tests.support.scripted_broker import build_response
from connector_tests.support.scripted_cluster import ScriptedCluster
from rocketmq_spark.errors import BrokerError
from rocketmq_spark.model import BrokerAddress, Message, MessageQueue, StoredMessage
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.remoting.broker import Broker
from rocketmq_spark.remoting.cluster_client import ClusterClient
from rocketmq_spark.wire.remoting.codes import RequestCode, ResponseCode

QUEUE = MessageQueue("T", "a", 0)


@pytest.fixture
def cluster() -> Iterator[ScriptedCluster]:
    with ScriptedCluster("a", "b") as cluster:
        yield cluster


def send_back(broker: Broker) -> None:
    broker.send_back("G", StoredMessage("T", "a", 7, "ID"), delay_level=0, max_reconsume_times=None)


def send_dead_letter(broker: Broker) -> None:
    broker.send_dead_letter("G", Message("T", b"body"), "a")


CALLS: dict[RequestCode, Callable[[Broker], None]] = {
    RequestCode.CONSUMER_SEND_MSG_BACK: send_back,
    RequestCode.SEND_MESSAGE_V2: send_dead_letter,
}


@pytest.mark.parametrize("request_code", CALLS, ids=lambda one: one.name)
@pytest.mark.parametrize(("code", "call_count"), [(ResponseCode.SYSTEM_BUSY, 2), (ResponseCode.FLOW_CONTROL, 1)])
def test_after_a_refusal_the_next_call_finds_out_where_to_go_unless_it_was_the_right_broker(
    cluster: ScriptedCluster, request_code: RequestCode, code: ResponseCode, call_count: int
) -> None:
    client = cluster.client()
    cluster.brokers["a"].on(request_code, build_response(code))
    for _ in range(2):
        with suppress(BrokerError):
            client.call(QUEUE, CALLS[request_code])
    session = cluster.brokers["a"].next_session()
    assert [session.next_received().code for _ in range(2)] == [request_code] * 2
    assert cluster.route_request_count == call_count


def test_a_call_goes_to_the_master_and_returns_its_response(cluster: ScriptedCluster) -> None:
    client = cluster.client()
    assert [client.call(QUEUE._replace(broker_name=name), lambda broker: broker.address) for name in "ab"] == [
        BrokerAddress("a:10911"),
        BrokerAddress("b:10911"),
    ]
    assert cluster.route_request_count == 1


def test_a_process_keeps_one_client_for_the_same_connection_and_one_history_for_a_cluster() -> None:
    given = {"namesrvAddr": "n:1", "consumerGroup": "g", "subscribe": "T"}
    one, other_group, other_timeout = (
        ClusterClient.shared(ReadOptions.parse(given | more))
        for more in ({}, {"consumerGroup": "h"}, {"brokerTimeoutMs": "700"})
    )
    assert one is other_group
    assert one is not other_timeout
