"""What is asked of brokers behind a scripted proxy, and how."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from connector_tests.support.message_bytes import Record, pull_body
from connector_tests.support.scripted_broker import ScriptedBroker, build_response
from rocketmq_spark.errors import BrokerError, RemoteProtocolError
from rocketmq_spark.model import TOOLS_GROUP, BrokerAddress, MessageQueue, QueueBounds
from rocketmq_spark.remoting.broker import Broker
from rocketmq_spark.remoting.cluster_client import ClusterClient
from rocketmq_spark.remoting.pool import ConnectionPool
from rocketmq_spark.remoting.prober import Prober
from rocketmq_spark.remoting.proxied_broker import ProxiedBroker
from rocketmq_spark.wire.remoting.codes import RequestCode, ResponseCode
from rocketmq_spark.wire.remoting.command import RemotingCommand

PROXY = "10.0.0.9:8080"
A0, A1, A2 = (MessageQueue("T", "a", number) for number in range(3))
B0 = MessageQueue("T", "b", 0)
ENDS = {("a", "0"): (3, 9), ("a", "1"): (0, 0), ("a", "2"): (5, 5), ("b", "0"): (0, 2)}
STORED_MS = 1_700_000_000_000
HELD = {"nextBeginOffset": "9", "minOffset": "3", "maxOffset": "9"}
NOTHING = build_response(ResponseCode.PULL_NOT_FOUND, HELD, remark="NO_MESSAGE_IN_QUEUE")
RESET = build_response(ResponseCode.PULL_OFFSET_MOVED, HELD | {"nextBeginOffset": "4"}, remark="OFFSET_RESET")
LONG_MS = 60_000


@pytest.fixture
def received_resets() -> list[tuple[MessageQueue, int]]:
    return []


@pytest.fixture
def cluster(server: ScriptedBroker, received_resets: list[tuple[MessageQueue, int]]) -> Iterator[ClusterClient]:
    """Of two brokers behind a proxy that holds ``ENDS``; who looks does it for a group of its own."""
    pool = ConnectionPool(1000, connect=server.connect)
    server.on(
        RequestCode.GET_ROUTEINFO_BY_TOPIC, build_response(fields={"MSG_REGION": "", "TRACE_ON": "false"}, body=ROUTE)
    )
    server.on(RequestCode.GET_MIN_OFFSET, lambda called: build_response(fields={"offset": str(ENDS[of(called)][0])}))
    server.on(RequestCode.GET_MAX_OFFSET, lambda called: build_response(fields={"offset": str(ENDS[of(called)][1])}))
    server.on(RequestCode.PULL_MESSAGE, last_message)
    reset_prober = Prober("g", lambda *reset: received_resets.append(reset))
    cluster = ClusterClient([PROXY], pool, LONG_MS, reset_prober)
    assert cluster.routes.refresh(["T"]) == {}
    yield cluster
    pool.close()


ROUTE = (
    b'{"brokerDatas":[{"brokerAddrs":{"0":"%(proxy)b"},"brokerName":"a","cluster":"c"},'
    b'{"brokerAddrs":{"0":"%(proxy)b"},"brokerName":"b","cluster":"c"}],'
    b'"queueDatas":[{"brokerName":"a","perm":6,"readQueueNums":3,"writeQueueNums":3},'
    b'{"brokerName":"b","perm":6,"readQueueNums":1,"writeQueueNums":1}]}'
) % {b"proxy": PROXY.encode()}


def of(called: RemotingCommand) -> tuple[str, str]:
    return called.fields["bname"], called.fields["queueId"]


def last_message(called: RemotingCommand) -> RemotingCommand:
    first, end = ENDS[of(called)]
    if not first <= int(called.fields["queueOffset"]) == end - 1:
        return NOTHING
    return build_response(ResponseCode.SUCCESS, HELD, pull_body(Record(store_timestamp_ms=STORED_MS + end)), "FOUND")


def bounds(cluster: ClusterClient, name: str) -> dict[MessageQueue, QueueBounds]:
    return cluster.broker(BrokerAddress(PROXY, name)).submit_topic_stats("T").result()


def test_bounds_and_times_are_put_together_from_what_a_proxy_passes_on(cluster: ClusterClient) -> None:
    assert bounds(cluster, "a") == {A0: QueueBounds(3, 9, STORED_MS + 9), A1: QueueBounds(0, 0), A2: QueueBounds(5, 5)}
    assert bounds(cluster, "b") == {B0: QueueBounds(0, 2, STORED_MS + 2)}
    assert cluster.broker(BrokerAddress(PROXY, "a")).submit_topic_stats("another").result() == {}


def test_all_brokers_behind_a_proxy_share_a_connection(cluster: ClusterClient, server: ScriptedBroker) -> None:
    """The proxy lists members by their connections."""
    bounds(cluster, "a"), bounds(cluster, "b")
    assert server.connect_count == 1
    assert cluster.connection_number(BrokerAddress(PROXY, "a")) == cluster.connection_number(BrokerAddress(PROXY)) == 1


def test_a_broker_without_a_proxy_is_called_for_its_statistics(cluster: ClusterClient) -> None:
    assert type(cluster.broker(BrokerAddress(PROXY))) is Broker
    assert isinstance(cluster.broker(BrokerAddress(PROXY, "a")), ProxiedBroker)
    assert cluster.version(BrokerAddress(PROXY)) > 0 == cluster.version(BrokerAddress(PROXY, "a"))


def test_a_topic_that_is_deleted_is_found_by_its_probe(cluster: ClusterClient, server: ScriptedBroker) -> None:
    """To a request for an offset of a topic that it has not, a broker states 0."""
    server.on(RequestCode.PULL_MESSAGE, build_response(ResponseCode.TOPIC_NOT_EXIST, remark="topic[T] not exist"))
    with pytest.raises(BrokerError) as raised:
        bounds(cluster, "a")
    assert raised.value.code == ResponseCode.TOPIC_NOT_EXIST


def test_a_queue_that_the_topic_has_no_more_has_no_bounds(cluster: ClusterClient, server: ScriptedBroker) -> None:
    missing = build_response(ResponseCode.INVALID_PARAMETER, remark="queueId[1] is illegal")
    server.on(
        RequestCode.PULL_MESSAGE, lambda called: missing if called.fields["queueId"] == "1" else last_message(called)
    )
    assert set(bounds(cluster, "a")) == {A0, A2}


def test_of_a_topic_that_is_not_readable_now_the_times_are_not_known(
    cluster: ClusterClient, server: ScriptedBroker
) -> None:
    server.on(
        RequestCode.PULL_MESSAGE, build_response(ResponseCode.NO_PERMISSION, remark="pulling message is forbidden")
    )
    assert bounds(cluster, "a") == {A0: QueueBounds(3, 9), A1: QueueBounds(0, 0), A2: QueueBounds(5, 5)}


@pytest.mark.parametrize("code", [ResponseCode.SYSTEM_BUSY, ResponseCode.INVALID_PARAMETER])
def test_any_other_refusal_of_a_probe_is_raised(
    cluster: ClusterClient, server: ScriptedBroker, code: ResponseCode
) -> None:
    refusals = [
        build_response(ResponseCode.SYSTEM_BUSY, remark="busy"),
        build_response(code, remark="no such queue, or busy"),
    ]
    server.on(RequestCode.PULL_MESSAGE, lambda _called: refusals[-1] if len(refusals) == 1 else refusals.pop())
    with pytest.raises(BrokerError, match="SYSTEM_BUSY"):
        bounds(cluster, "a")


def test_a_probe_is_made_for_the_group_that_receives_resets(
    cluster: ClusterClient, server: ScriptedBroker, received_resets: list[tuple[MessageQueue, int]]
) -> None:
    groups, responses = [], [NOTHING, RESET]

    def reset_once(called: RemotingCommand) -> RemotingCommand:
        groups.append(called.fields["consumerGroup"])
        return responses.pop()

    server.on(RequestCode.PULL_MESSAGE, reset_once)
    assert bounds(cluster, "b") == {B0: QueueBounds(0, 2)}
    assert (received_resets, groups) == ([(B0, 4)], ["g", "g"])
    assert TOOLS_GROUP not in groups


def test_an_offset_that_is_none_is_a_protocol_error(cluster: ClusterClient, server: ScriptedBroker) -> None:
    server.on(RequestCode.GET_MIN_OFFSET, build_response())
    with pytest.raises(RemoteProtocolError, match=r"MALFORMED_RESPONSE\.HEADER"):
        bounds(cluster, "a")


def test_an_address_called_through_a_proxy_is_named(cluster: ClusterClient, server: ScriptedBroker) -> None:
    called: list[tuple[int, str]] = []

    def note(command: RemotingCommand) -> RemotingCommand:
        called.append((command.code, command.fields["bname"]))
        return build_response(fields=HELD | {"offset": "1"})

    requests: dict[int, Callable[[Broker], object]] = {
        RequestCode.PULL_MESSAGE: lambda broker: broker.submit_group_check("g", "T").result(),
        RequestCode.QUERY_CONSUMER_OFFSET: lambda broker: broker.query_offsets("g", [A0]),
        RequestCode.UPDATE_CONSUMER_OFFSET: lambda broker: broker.submit_update_offsets("g", {A0: 1}).result(),
        RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: lambda broker: broker.submit_search_hints({A0: 1}).result(),
    }
    for code, call in requests.items():
        server.on(code, note)
        call(cluster.broker(BrokerAddress(PROXY, "a")))
    assert list(dict.fromkeys(called)) == [(code, "a") for code in requests]
