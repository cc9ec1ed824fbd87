from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Iterator

import pytest

from connector_tests.support.scripted_broker import build_response
from connector_tests.support.scripted_cluster import NAME_SERVER, ScriptedCluster
from connector_tests.support.timeouts import PATIENT, WAIT_S
from rocketmq_spark.errors import BrokerError, RocketMQError, RouteError, TransportError
from rocketmq_spark.model import TOOLS_GROUP, BrokerAddress, MessageQueue, QueueBounds, QueueRange
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.pull.executor_pull_client import ExecutorPullClient, shared_pull_client
from rocketmq_spark.pull.pull_request import PullRequest
from rocketmq_spark.pull.range_puller import new_range_puller
from rocketmq_spark.remoting.clock import monotonic_ms
from rocketmq_spark.remoting.error_kinds import is_busy
from rocketmq_spark.remoting.replicas import MASTER
from rocketmq_spark.wire.remoting.codes import RequestCode, ResponseCode
from rocketmq_spark.wire.remoting.command import RemotingCommand
from rocketmq_spark.wire.remoting.pull import PullOutcome, PullResult

AT_A, AT_B = BrokerAddress("a:10911"), BrokerAddress("b:10911")
QUEUE = MessageQueue("T", "a", 0)
FOUND = build_response(fields={"nextBeginOffset": "10", "minOffset": "0", "maxOffset": "10"}, body=b"messages")


def options(**given: str) -> ReadOptions:
    return ReadOptions.parse({"namesrvAddr": NAME_SERVER, "consumerGroup": "G", "subscribe": "T", **PATIENT, **given})


@pytest.fixture
def cluster() -> Iterator[ScriptedCluster]:
    with ScriptedCluster("a") as cluster:
        cluster.brokers["a"].on(RequestCode.PULL_MESSAGE, FOUND)
        yield cluster


@pytest.fixture
def client(cluster: ScriptedCluster) -> ExecutorPullClient:
    return ExecutorPullClient(options(subExpression="TagA"), cluster.pool, cluster.pulling)


def reported(client: ExecutorPullClient, address: BrokerAddress | None = None) -> PullOutcome:
    deadline = time.monotonic() + WAIT_S
    completions = client.pull(QUEUE, [PullRequest(5, 8, 3, deque())], address, MASTER, is_filtered=True)
    while not completions:
        assert time.monotonic() < deadline, "not told"
        completions = client.receive(100)
    ((_, build_response, _),) = completions
    return build_response


def test_a_pull_goes_to_the_queues_master_with_the_subscription(
    cluster: ScriptedCluster, client: ExecutorPullClient
) -> None:
    result = reported(client)
    assert isinstance(result, PullResult)
    assert bytes(result.body) == b"messages"
    fields = cluster.brokers["a"].next_session().next_received().fields
    assert (fields["consumerGroup"], fields["topic"], fields["subscription"]) == ("G", "T", "TagA")
    assert (fields["queueOffset"], fields["maxMsgNums"]) == ("5", "3")


def filtering(cluster: ScriptedCluster) -> ExecutorPullClient:
    sql = {"subExpression": "price > 5", "expressionType": "SQL92"}
    return ExecutorPullClient(options(**sql), cluster.pool, cluster.pulling)


def test_sql92_is_checked_once_before_the_first_pull(cluster: ScriptedCluster) -> None:
    checks: list[RemotingCommand] = []

    def check(request: RemotingCommand) -> RemotingCommand:
        checks.append(request)
        return build_response()

    cluster.brokers["a"].on(RequestCode.CHECK_CLIENT_CONFIG, check)
    client = filtering(cluster)
    assert isinstance(reported(client), PullResult)
    assert isinstance(reported(client), PullResult)
    (request,) = checks
    assert json.loads(bytes(request.body))["subscriptionData"]["subString"] == "price > 5"


def test_rejected_sql92_expression_is_never_pulled(cluster: ScriptedCluster) -> None:
    """A broker sends all messages for an expression that it cannot parse."""
    refusal = build_response(ResponseCode.SUBSCRIPTION_PARSE_FAILED, remark="Encountered 5")
    cluster.brokers["a"].on(RequestCode.CHECK_CLIENT_CONFIG, refusal)
    client = filtering(cluster)
    for _ in range(2):
        error = reported(client)
        assert isinstance(error, BrokerError)
        assert (error.condition, error.context["remark"]) == ("FILTER_EXPRESSION_INVALID", "Encountered 5")


def test_sql92_is_refused_behind_a_proxy(cluster: ScriptedCluster) -> None:
    error = reported(filtering(cluster), BrokerAddress("a:10911", "broker-a"))
    assert isinstance(error, TransportError)
    assert error.condition == "FILTER_NOT_VERIFIABLE"


def test_the_route_is_requested_once_while_all_goes_well(cluster: ScriptedCluster, client: ExecutorPullClient) -> None:
    reported(client)
    reported(client)
    assert cluster.route_request_count == 1


def test_a_route_that_is_forgotten_is_requested_again(cluster: ScriptedCluster, client: ExecutorPullClient) -> None:
    cluster.down.add("a:10911")
    assert isinstance(reported(client), TransportError)
    cluster.down.clear()
    client.forget_route(QUEUE)
    assert isinstance(reported(client), PullResult)
    assert cluster.route_request_count == 2


def test_a_range_whose_pull_failed_finds_out_where_its_queue_is_and_resumes(
    cluster: ScriptedCluster, client: ExecutorPullClient
) -> None:
    cluster.brokers["a"].unresponsive_on(RequestCode.PULL_MESSAGE)
    puller = new_range_puller(QueueRange(QUEUE, 5, 10), client, options(), monotonic_ms, is_filtered=True)
    puller.start()
    session = cluster.brokers["a"].next_session()
    session.next_received()
    cluster.brokers["a"].on(RequestCode.PULL_MESSAGE, FOUND)
    session.hang_up()
    assert [bytes(pulled.body) for pulled in puller.pull()] == [b"messages"]
    assert cluster.route_request_count == 2


# --------------------------------------------------------------------------------------- where the queue was surveyed


def reported_by(name: str) -> RemotingCommand:
    return build_response(fields={"nextBeginOffset": "10", "minOffset": "0", "maxOffset": "10"}, body=name.encode())


def stats_of(name: str) -> RemotingCommand:
    bounds = '{"lastUpdateTimestamp":1,"maxOffset":10,"minOffset":0}'
    queue = f'{{"brokerName":"{name}","queueId":0,"topic":"T"}}'
    return build_response(body=f'{{"offsetTable":{{{queue}:{bounds}}}}}'.encode())


@pytest.fixture
def two() -> Iterator[ScriptedCluster]:
    """Two brokers, each of which answers with its name."""
    with ScriptedCluster("a", "b") as cluster:
        for name, broker in cluster.brokers.items():
            broker.on(RequestCode.PULL_MESSAGE, reported_by(name))
            broker.on(RequestCode.GET_TOPIC_STATS_INFO, stats_of(name))
        yield cluster


def client_of(cluster: ScriptedCluster) -> ExecutorPullClient:
    return ExecutorPullClient(options(), cluster.pool, cluster.pulling)


def body_of(build_response: PullOutcome) -> bytes:
    assert isinstance(build_response, PullResult), build_response
    return bytes(build_response.body)


def read(client: ExecutorPullClient, address: BrokerAddress | None, *, is_filtered: bool = True) -> list[bytes]:
    puller = new_range_puller(
        QueueRange(QUEUE, 5, 10), client, options(), monotonic_ms, address, is_filtered=is_filtered
    )
    return [bytes(pulled.body) for pulled in puller.pull()]


def test_a_pull_goes_where_the_refresh_found_the_queue_and_requests_no_route(two: ScriptedCluster) -> None:
    two.exchange("a", "b")
    assert body_of(reported(client_of(two), AT_B)) == b"a"
    assert two.route_request_count == 0


def test_each_client_finds_out_that_a_connection_which_they_share_was_lost(two: ScriptedCluster) -> None:
    """Only the first to look did: the other one read the wrong broker, if brokers do not report their names."""
    for broker in two.brokers.values():
        broker.on(RequestCode.GET_TOPIC_STATS_INFO, build_response(ResponseCode.NO_PERMISSION))
    clients = [client_of(two), client_of(two)]
    assert [read(client, AT_A) for client in clients] == [[b"a"], [b"a"]]
    two.exchange("a", "b")
    for session in (two.brokers["a"].next_session(), two.brokers["a"].next_session()):
        session.hang_up()
    assert [read(client, AT_A) for client in clients] == [[b"a"], [b"a"]]
    assert two.route_request_count == 2


def test_a_connection_that_replaces_a_verified_one_is_verified(two: ScriptedCluster) -> None:
    """The route may lead to an address where the client has had a connection to another broker."""
    client = client_of(two)
    assert body_of(reported(client, AT_A)) == b"a"
    assert isinstance(reported(client, AT_B), RouteError)
    for broker in two.brokers.values():
        for _ in range(2):
            broker.next_session().hang_up()
    two.exchange("a", "b")
    assert body_of(reported(client, AT_A)) == b"a"


def test_the_name_is_that_of_the_broker_which_the_pulls_reach(two: ScriptedCluster) -> None:
    """It was requested over an older connection, which still led to the broker that had the address before."""
    client = client_of(two)
    two.exchange("a", "b")
    assert client.cluster.broker(AT_A).query_topic_stats("T")
    old = two.brokers["b"].next_session()
    two.exchange("a", "b")
    assert body_of(reported(client, AT_A)) == b"a"
    assert old.next_received().code == RequestCode.GET_TOPIC_STATS_INFO


def test_a_pull_without_the_filter_gets_all_messages(cluster: ScriptedCluster, client: ExecutorPullClient) -> None:
    assert read(client, None, is_filtered=False) == [b"messages"]
    fields = cluster.brokers["a"].next_session().next_received().fields
    assert fields["subscription"] == "*"


def test_behind_a_proxy_each_broker_is_pulled_from_by_its_name(two: ScriptedCluster) -> None:
    two.route_fields = {"MSG_REGION": "", "TRACE_ON": "false"}
    client = client_of(two)
    assert body_of(reported(client)) == b"a"
    pulled = two.brokers["a"].next_session().next_received()
    assert (pulled.code, pulled.fields["bname"]) == (RequestCode.PULL_MESSAGE, "a"), "and nobody is asked who is there"
    assert body_of(reported(client, BrokerAddress("b:10911", "a"))) == b"b", "who is meant is the proxy's to find"
    error = reported(client, BrokerAddress("b:10911", "b"))
    assert isinstance(error, RouteError)
    assert error.condition == "BROKER_ADDRESS_MISMATCH"


def test_bounds_behind_a_proxy_are_requested_one_by_one(two: ScriptedCluster) -> None:
    two.route_fields = {"MSG_REGION": "", "TRACE_ON": "false"}
    two.brokers["a"].on(RequestCode.GET_MIN_OFFSET, build_response(fields={"offset": "3"}))
    two.brokers["a"].on(RequestCode.GET_MAX_OFFSET, build_response(fields={"offset": "7"}))
    two.brokers["a"].on(RequestCode.PULL_MESSAGE, build_response(ResponseCode.PULL_NOT_FOUND, reported_by("a").fields))
    assert client_of(two).query_bounds([QUEUE]) == {QUEUE: QueueBounds(3, 7)}


@pytest.mark.parametrize(
    ("credentials", "group"), [({}, TOOLS_GROUP), ({"accessKey": "key", "secretKey": "secret"}, "G")]
)
def test_bounds_behind_a_proxy_use_a_permitted_group(
    two: ScriptedCluster, credentials: dict[str, str], group: str
) -> None:
    """A user who signs requests seldom has the right to the group of tools."""
    two.route_fields = {"MSG_REGION": "", "TRACE_ON": "false"}
    groups: list[str] = []

    def pull(request: RemotingCommand) -> RemotingCommand:
        groups.append(request.fields["consumerGroup"])
        return build_response(ResponseCode.PULL_NOT_FOUND, reported_by("a").fields)

    for code in (RequestCode.GET_MIN_OFFSET, RequestCode.GET_MAX_OFFSET):
        two.brokers["a"].on(code, build_response(fields={"offset": "3"}))
    two.brokers["a"].on(RequestCode.PULL_MESSAGE, pull)
    ExecutorPullClient(options(**credentials), two.pool, two.pulling).query_bounds([QUEUE])
    assert groups == [group]


def test_another_broker_at_the_address_is_noticed_and_named(two: ScriptedCluster) -> None:
    """It would answer politely, and its messages would be mistaken for the other's."""
    two.exchange("a", "b")
    error = reported(client_of(two), AT_A)
    assert isinstance(error, RouteError)
    assert error.condition == "BROKER_ADDRESS_MISMATCH"
    assert (error.context["broker"], error.context["address"], error.context["other"]) == ("a", "a:10911", "b")


def test_a_range_whose_brokers_address_is_another_brokers_now_is_read_from_its_own(two: ScriptedCluster) -> None:
    two.exchange("a", "b")
    assert read(client_of(two), AT_A) == [b"a"]


def test_a_route_that_an_earlier_batch_left_is_not_trusted(two: ScriptedCluster) -> None:
    client = client_of(two)
    assert read(client, None) == [b"a"]
    two.exchange("a", "b")
    assert read(client, None) == [b"a"]
    assert two.route_request_count == 2


def test_after_a_connection_was_lost_the_route_is_requested_again(two: ScriptedCluster) -> None:
    client = client_of(two)
    assert body_of(reported(client, AT_A)) == b"a"
    two.exchange("a", "b")
    two.brokers["a"].next_session().hang_up()
    assert body_of(reported(client, AT_A)) == b"a"
    assert two.route_request_count == 1


def test_a_broker_is_called_for_its_name_once_a_connection(two: ScriptedCluster) -> None:
    client = client_of(two)
    for _ in range(3):
        reported(client, AT_A)
    pulls, requests = (two.brokers["a"].next_session() for _ in range(2))
    assert [pulls.next_received().code for _ in range(3)] == 3 * [RequestCode.PULL_MESSAGE]
    assert requests.next_received().code == RequestCode.GET_TOPIC_STATS_INFO
    assert requests.received.empty()


def test_a_broker_that_refuses_to_report_its_name_is_trusted(two: ScriptedCluster) -> None:
    two.brokers["a"].on(RequestCode.GET_TOPIC_STATS_INFO, build_response(ResponseCode.NO_PERMISSION))
    assert body_of(reported(client_of(two), AT_A)) == b"a"


def test_name_of_a_busy_broker_is_requested_again(two: ScriptedCluster) -> None:
    """It was taken for a broker that refuses to report its name, and trusted from then on."""
    two.exchange("a", "b")
    responses = iter([build_response(ResponseCode.SYSTEM_BUSY, remark="queue is full"), stats_of("b")])
    two.brokers["b"].on(RequestCode.GET_TOPIC_STATS_INFO, lambda _: next(responses))
    client = client_of(two)
    error = reported(client, AT_A)
    assert isinstance(error, BrokerError)
    assert is_busy(error)
    error = reported(client, AT_A)
    assert isinstance(error, RouteError)
    assert error.condition == "BROKER_ADDRESS_MISMATCH"


def test_a_refusal_is_reported(cluster: ScriptedCluster, client: ExecutorPullClient) -> None:
    cluster.brokers["a"].on(RequestCode.PULL_MESSAGE, build_response(ResponseCode.NO_PERMISSION))
    error = reported(client)
    assert isinstance(error, BrokerError)
    assert error.code == ResponseCode.NO_PERMISSION


def test_name_servers_that_are_down_are_reported_by_name_and_not_raised(cluster: ScriptedCluster) -> None:
    cluster.down |= {NAME_SERVER, "other:9876"}
    client = ExecutorPullClient(options(namesrvAddr=f"{NAME_SERVER};other:9876"), cluster.pool, cluster.pulling)
    error = reported(client)
    assert isinstance(error, TransportError)
    assert str(error).startswith(
        "[ROCKETMQ_NAME_SERVERS_UNAVAILABLE] Cannot get the route of topic 'T': no name server of ns:9876;other:9876 "
        "responds. Last error: [ROCKETMQ_CONNECT_FAILED] Cannot connect to ns:9876: refused. Start a name server"
    )


def test_what_a_name_server_refuses_for_good_is_reported_as_it_is(
    cluster: ScriptedCluster, client: ExecutorPullClient
) -> None:
    cluster.name_server.on(RequestCode.GET_ROUTEINFO_BY_TOPIC, build_response(ResponseCode.REQUEST_CODE_NOT_SUPPORTED))
    error = reported(client)
    assert isinstance(error, RocketMQError)
    assert error.condition == "NOT_A_NAME_SERVER"


def test_a_range_whose_name_servers_are_down_is_read_on_where_the_refresh_found_it(two: ScriptedCluster) -> None:
    """A lost connection used to be waited for by asking name servers alone, though the broker was back."""
    client = client_of(two)
    assert body_of(reported(client, AT_A)) == b"a"
    two.down.add(NAME_SERVER)
    two.brokers["a"].next_session().hang_up()
    assert read(client, AT_A) == [b"a"]


def test_a_process_keeps_one_client_for_the_same_options() -> None:
    assert shared_pull_client(options()) is shared_pull_client(options())
    assert shared_pull_client(options()) is not shared_pull_client(options(subExpression="TagB"))


def test_new_pull_client_uses_no_route_of_another_client(two: ScriptedCluster) -> None:
    """The other one's route may be older than an exchange of addresses, which only lost connections of the client that
    has verified them reveal."""
    for broker in two.brokers.values():
        broker.on(RequestCode.GET_TOPIC_STATS_INFO, build_response(ResponseCode.NO_PERMISSION))
    assert body_of(reported(client_of(two))) == b"a"
    two.exchange("a", "b")
    for session in (two.brokers["a"].next_session(), two.brokers["a"].next_session()):
        session.hang_up()
    two.pulling.close()
    assert body_of(reported(client_of(two))) == b"a"
    assert shared_pull_client(options()).cluster is not shared_pull_client(options(subExpression="TagB")).cluster
