from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator

import pytest

from connector_tests.support.scripted_broker import answer
from connector_tests.support.scripted_cluster import NAME_SERVER, ScriptedCluster
from rocketmq_spark.errors import BrokerError, TransportError
from rocketmq_spark.model import MessageQueue, QueueRange
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.pull.executor_client import ExecutorClient
from rocketmq_spark.pull.pull_request import PullRequest
from rocketmq_spark.pull.range_puller import puller_of
from rocketmq_spark.wire.remoting.codes import RequestCode, ResponseCode
from rocketmq_spark.wire.remoting.pull import PullAnswer, PullResult

QUEUE = MessageQueue("T", "a", 0)
FOUND = answer(fields={"nextBeginOffset": "10", "minOffset": "0", "maxOffset": "10"}, body=b"messages")
WAIT_S = 10.0


def options(**given: str) -> ReadOptions:
    return ReadOptions.parse({"namesrvAddr": NAME_SERVER, "consumerGroup": "G", "subscribe": "T", **given})


@pytest.fixture
def cluster() -> Iterator[ScriptedCluster]:
    with ScriptedCluster("a") as cluster:
        cluster.brokers["a"].on(RequestCode.PULL_MESSAGE, FOUND)
        yield cluster


@pytest.fixture
def client(cluster: ScriptedCluster) -> ExecutorClient:
    return ExecutorClient(options(subExpression="TagA"), cluster.pool, cluster.pulling)


def told(client: ExecutorClient) -> PullAnswer:
    deadline = time.monotonic() + WAIT_S
    completions = client.pull(QUEUE, [PullRequest(5, 8, 3, deque())])
    while not completions:
        assert time.monotonic() < deadline, "not told"
        completions = client.receive(100)
    ((_, answer),) = completions
    return answer


def test_a_pull_goes_to_the_queues_master_with_the_subscription(
    cluster: ScriptedCluster, client: ExecutorClient
) -> None:
    result = told(client)
    assert isinstance(result, PullResult)
    assert bytes(result.body) == b"messages"
    fields = cluster.brokers["a"].next_session().next_received().fields
    assert (fields["consumerGroup"], fields["topic"], fields["subscription"]) == ("G", "T", "TagA")
    assert (fields["queueOffset"], fields["maxMsgNums"]) == ("5", "3")


def test_the_route_is_asked_for_once_while_all_goes_well(cluster: ScriptedCluster, client: ExecutorClient) -> None:
    told(client)
    told(client)
    assert cluster.routes_asked_count == 1


def test_a_route_that_is_forgotten_is_asked_for_again(cluster: ScriptedCluster, client: ExecutorClient) -> None:
    cluster.down.add("a:10911")
    assert isinstance(told(client), TransportError)
    cluster.down.clear()
    client.forget_route(QUEUE)
    assert isinstance(told(client), PullResult)
    assert cluster.routes_asked_count == 2


def test_a_range_whose_pull_failed_finds_out_where_its_queue_is_and_goes_on(
    cluster: ScriptedCluster, client: ExecutorClient
) -> None:
    cluster.brokers["a"].silent_on(RequestCode.PULL_MESSAGE)
    puller = puller_of(QueueRange(QUEUE, 5, 10), client, options())
    puller.start()
    session = cluster.brokers["a"].next_session()
    session.next_received()
    cluster.brokers["a"].on(RequestCode.PULL_MESSAGE, FOUND)
    session.hang_up()
    assert [bytes(pulled.body) for pulled in puller.pulled()] == [b"messages"]
    assert cluster.routes_asked_count == 2


def test_a_refusal_is_told(cluster: ScriptedCluster, client: ExecutorClient) -> None:
    cluster.brokers["a"].on(RequestCode.PULL_MESSAGE, answer(ResponseCode.NO_PERMISSION))
    error = told(client)
    assert isinstance(error, BrokerError)
    assert error.code == ResponseCode.NO_PERMISSION


def test_a_name_server_that_is_down_is_told_and_not_raised(cluster: ScriptedCluster, client: ExecutorClient) -> None:
    cluster.down.add(NAME_SERVER)
    assert isinstance(told(client), TransportError)


def test_a_reset_is_put_back_at_the_queues_master(cluster: ScriptedCluster, client: ExecutorClient) -> None:
    cluster.brokers["a"].on(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, answer(body=b'{"offsetTable":{}}'))
    client.put_back_reset(QUEUE, 7)
    fields = cluster.brokers["a"].next_session().next_received().fields
    assert (fields["group"], fields["topic"], fields["queueId"], fields["offset"]) == ("G", "T", "0", "7")


def test_a_reset_that_cannot_be_put_back_is_named_and_fails_nothing(
    cluster: ScriptedCluster, client: ExecutorClient, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.brokers["a"].on(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, answer(ResponseCode.SYSTEM_ERROR))
    client.put_back_reset(QUEUE, 7)
    cluster.down.add(NAME_SERVER)
    client.put_back_reset(QUEUE, 8)
    first, second = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert f"queue={QUEUE} offset=7" in first
    assert f"queue={QUEUE} offset=8" in second


def test_a_process_keeps_one_client_for_the_same_options() -> None:
    assert ExecutorClient.shared(options()) is ExecutorClient.shared(options())
    assert ExecutorClient.shared(options()) is not ExecutorClient.shared(options(subExpression="TagB"))
