from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from connector_tests.support.log_lines import outage_text, text_of
from connector_tests.support.manual_clock import ManualClock
from connector_tests.support.scripted_broker import ScriptedBroker, build_response
from connector_tests.support.scripted_cluster import NAME_SERVER, ScriptedCluster
from rocketmq_spark.errors import TransportError
from rocketmq_spark.failed_rows.send_back_client import SendBackClient
from rocketmq_spark.model import StoredMessage
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.wire.remoting.codes import RequestCode, ResponseCode
from rocketmq_spark.wire.remoting.command import RemotingCommand

MESSAGE = StoredMessage("T", "a", 77, "ID")
BROKER_TIMEOUT_MS = 3_000
LONGEST_PAUSE_MS = 5_000


@pytest.fixture
def cluster() -> Iterator[ScriptedCluster]:
    with ScriptedCluster("a") as cluster:
        yield cluster


class Responses:
    """What the broker answers to one request after another; the last answer stays."""

    def __init__(self, cluster: ScriptedCluster, *responses: RemotingCommand) -> None:
        self._responses = list(responses)
        self.calls: list[dict[str, str]] = []
        cluster.brokers["a"].on(RequestCode.CONSUMER_SEND_MSG_BACK, self._response)

    def _response(self, request: RemotingCommand) -> RemotingCommand:
        self.calls.append(dict(request.fields))
        return self._responses.pop(0) if len(self._responses) > 1 else self._responses[0]


class Time(ManualClock):
    """A clock that only pauses move."""

    def sleep(self, seconds: float) -> None:
        self.advance(round(seconds * 1000))


class Unresponsive:
    """A server that receives requests and responds to none; each ends after BROKER_TIMEOUT_MS."""

    def __init__(self, server: ScriptedBroker, code: RequestCode, clock: Time) -> None:
        self.calls_ms: list[int] = []
        self._clock = clock
        server.on(code, self._response)

    def _response(self, request: RemotingCommand) -> RemotingCommand:
        self.calls_ms.append(self._clock.now_ms)
        self._clock.advance(BROKER_TIMEOUT_MS)
        raise TransportError("CONNECTION_LOST", address="the client", reason="the script cuts it")


def sender(cluster: ScriptedCluster, limit_ms: int = 10_000, clock: Time | None = None, **given: str) -> SendBackClient:
    required = {"namesrvAddr": NAME_SERVER, "consumerGroup": "G", "subscribe": "T"}
    options = ReadOptions.parse({**required, "clusterTimeoutMs": str(limit_ms), **given})
    client = cluster.client()
    clock = clock or Time()
    return SendBackClient(options, 2, 5, lambda _: client, clock, clock.sleep)


def test_a_message_is_sent_back_by_its_place_in_the_commit_log(cluster: ScriptedCluster) -> None:
    responses = Responses(cluster, build_response())
    assert sender(cluster).try_send_back(MESSAGE) is None
    (fields,) = responses.calls
    assert (fields["offset"], fields["group"], fields["originTopic"], fields["originMsgId"]) == ("77", "G", "T", "ID")
    assert (fields["delayLevel"], fields["maxReconsumeTimes"]) == ("2", "5")


def test_a_broker_that_is_busy_is_called_again(cluster: ScriptedCluster) -> None:
    responses = Responses(cluster, build_response(ResponseCode.SYSTEM_BUSY), build_response())
    assert sender(cluster).try_send_back(MESSAGE) is None
    assert len(responses.calls) == 2


def test_a_broker_that_is_waited_for_is_logged_and_that_it_is_back(
    cluster: ScriptedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    Responses(cluster, *[build_response(ResponseCode.SYSTEM_BUSY)] * 6, build_response())
    assert sender(cluster).try_send_back(MESSAGE) is None
    begun, over = caplog.messages
    assert outage_text(begun).startswith("Waiting for broker a (fails in 9 s): [ROCKETMQ_BROKER_ERROR] ")
    assert text_of(over).startswith("Recovered after 1.")


def test_a_broker_that_stays_busy_is_a_problem_once_its_limit_is_over(cluster: ScriptedCluster) -> None:
    responses = Responses(cluster, build_response(ResponseCode.SYSTEM_BUSY))
    busy = sender(cluster, limit_ms=0)
    assert "SYSTEM_BUSY" in (busy.try_send_back(MESSAGE) or "")
    assert "SYSTEM_BUSY" in (busy.try_send_back(MESSAGE) or "")
    assert len(responses.calls) == 2


def test_a_broker_that_cannot_be_reached_is_named(cluster: ScriptedCluster) -> None:
    cluster.down.add("a:10911")
    assert "CLUSTER_TIMEOUT] No successful response from broker a" in (
        sender(cluster, limit_ms=0).try_send_back(MESSAGE) or ""
    )


def test_a_refusal_that_will_not_pass_is_a_problem_at_once(cluster: ScriptedCluster) -> None:
    responses = Responses(cluster, build_response(ResponseCode.NO_PERMISSION))
    assert "NO_PERMISSION" in (sender(cluster).try_send_back(MESSAGE) or "")
    assert len(responses.calls) == 1


def test_a_broker_is_given_its_time_from_when_a_name_server_is_back(
    cluster: ScriptedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """The outage was charged to the broker: a name server that was back before it ended the waiting at once."""
    clock = Time()
    responses = Responses(cluster, build_response())

    def route(request: RemotingCommand) -> RemotingCommand:
        if clock.now_ms < 20_000:
            raise TransportError("CONNECTION_LOST", address="the client", reason="the script cuts it")
        return cluster.route(request) if clock.now_ms >= 26_000 else build_response(ResponseCode.TOPIC_NOT_EXIST)

    cluster.name_server.on(RequestCode.GET_ROUTEINFO_BY_TOPIC, route)
    assert sender(cluster, 60_000, clock, missingTopicTimeoutMs="10000").try_send_back(MESSAGE) is None
    assert len(responses.calls) == 1
    assert outage_text(caplog.messages[0]).startswith("Waiting for the name servers (fails in 59 s): ")


def test_a_topic_that_had_a_route_is_waited_for_as_its_brokers_are(
    cluster: ScriptedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """The name servers forget a killed broker's topics: its messages were given up as those of a wrong name."""
    clock = Time()
    responses = Responses(cluster, build_response(), build_response(ResponseCode.SYSTEM_BUSY), build_response())

    def route(request: RemotingCommand) -> RemotingCommand:
        return build_response(ResponseCode.TOPIC_NOT_EXIST) if clock.now_ms < 30_000 else cluster.route(request)

    subject = sender(cluster, 60_000, clock, missingTopicTimeoutMs="1000")
    assert subject.try_send_back(MESSAGE) is None
    cluster.name_server.on(RequestCode.GET_ROUTEINFO_BY_TOPIC, route)
    assert subject.try_send_back(MESSAGE) is None
    assert len(responses.calls) == 3
    assert clock.now_ms >= 30_000
    assert "[ROCKETMQ_TOPIC_UNAVAILABLE.NO_ROUTE] Topic 'T' is unavailable: name server" in caplog.text


def test_name_servers_that_stay_unresponsive_are_named_and_not_waited_for_again_by_each_message(
    cluster: ScriptedCluster,
) -> None:
    """Another topic's message, whose route is known, is taken meanwhile: that states nothing of the name servers."""
    clock = Time()
    unresponsive = sender(cluster, 5_000, clock)
    Responses(cluster, build_response())
    known = replace(MESSAGE, topic="KNOWN")
    assert unresponsive.try_send_back(known) is None

    def cut(request: RemotingCommand) -> RemotingCommand:
        raise TransportError("CONNECTION_LOST", address="the client", reason="the script cuts it")

    cluster.name_server.on(RequestCode.GET_ROUTEINFO_BY_TOPIC, cut)
    assert "CLUSTER_TIMEOUT] No successful response from the name servers for" in (
        unresponsive.try_send_back(MESSAGE) or ""
    )
    assert 5_000 <= clock.now_ms < 6_000
    assert unresponsive.try_send_back(known) is None
    assert "No successful response from the name servers" in (unresponsive.try_send_back(MESSAGE) or "")
    assert clock.now_ms < 6_000
    cluster.name_server.on(RequestCode.GET_ROUTEINFO_BY_TOPIC, cluster.route)
    clock.advance(LONGEST_PAUSE_MS)
    assert unresponsive.try_send_back(MESSAGE) is None
    cluster.name_server.on(RequestCode.GET_ROUTEINFO_BY_TOPIC, cut)
    began_ms = clock.now_ms
    assert unresponsive.try_send_back(replace(MESSAGE, topic="OTHER")) is not None
    assert clock.now_ms - began_ms >= 5_000


def test_all_messages_of_unresponsive_broker_share_one_limit(cluster: ScriptedCluster) -> None:
    """Each further message waited for ``brokerTimeoutMs``: 10,000 rows of one host took hours."""
    clock = Time()
    broker = Unresponsive(cluster.brokers["a"], RequestCode.CONSUMER_SEND_MSG_BACK, clock)
    subject = sender(cluster, 20_000, clock)
    problems = {subject.try_send_back(MESSAGE) for _ in range(1_000)}
    assert {"CLUSTER_TIMEOUT] No successful response from broker a" in (one or "") for one in problems} == {True}
    assert 20_000 <= clock.now_ms - broker.calls_ms[0] - BROKER_TIMEOUT_MS <= 20_000 + BROKER_TIMEOUT_MS
    assert cluster.route_request_count == len(broker.calls_ms)


def test_unresponsive_broker_is_called_once_a_pause_and_found(cluster: ScriptedCluster) -> None:
    clock = Time()
    broker = Unresponsive(cluster.brokers["a"], RequestCode.CONSUMER_SEND_MSG_BACK, clock)
    subject = sender(cluster, 60_000, clock)
    assert subject.try_send_back(MESSAGE) is not None
    count = len(broker.calls_ms)
    for _ in range(2):
        clock.advance(LONGEST_PAUSE_MS - 1)
        assert subject.try_send_back(MESSAGE) is not None
        assert len(broker.calls_ms) == count
        clock.advance(1)
        count += 1
        assert subject.try_send_back(MESSAGE) is not None
        assert len(broker.calls_ms) == count
    Responses(cluster, build_response())
    assert subject.try_send_back(MESSAGE) is not None
    clock.advance(LONGEST_PAUSE_MS)
    assert subject.try_send_back(MESSAGE) is None
    assert subject.try_send_back(MESSAGE) is None


def test_unresponsive_broker_delays_no_message_of_another() -> None:
    with ScriptedCluster("a", "b") as cluster:
        clock = Time()
        Unresponsive(cluster.brokers["a"], RequestCode.CONSUMER_SEND_MSG_BACK, clock)
        cluster.brokers["b"].on(RequestCode.CONSUMER_SEND_MSG_BACK, build_response())
        subject = sender(cluster, 0, clock)
        assert subject.try_send_back(MESSAGE) is not None
        assert subject.try_send_back(replace(MESSAGE, broker_name="b")) is None


def test_missing_topic_rejects_no_message_of_other_topics(cluster: ScriptedCluster) -> None:
    """Its failures have the broker's name."""

    def route(request: RemotingCommand) -> RemotingCommand:
        is_missing = request.fields["topic"] == "missing"
        return build_response(ResponseCode.TOPIC_NOT_EXIST) if is_missing else cluster.route(request)

    cluster.name_server.on(RequestCode.GET_ROUTEINFO_BY_TOPIC, route)
    Responses(cluster, build_response())
    subject = sender(cluster, 0, missingTopicTimeoutMs="0")
    assert "TOPIC_NOT_FOUND" in (subject.try_send_back(replace(MESSAGE, topic="missing")) or "")
    assert subject.try_send_back(MESSAGE) is None


def test_all_messages_without_route_share_one_limit(cluster: ScriptedCluster) -> None:
    clock = Time()
    name_server = Unresponsive(cluster.name_server, RequestCode.GET_ROUTEINFO_BY_TOPIC, clock)
    subject = sender(cluster, 20_000, clock)
    problems = {subject.try_send_back(MESSAGE) for _ in range(1_000)}
    assert {"No successful response from the name servers" in (one or "") for one in problems} == {True}
    assert 20_000 <= clock.now_ms - name_server.calls_ms[0] - BROKER_TIMEOUT_MS <= 20_000 + BROKER_TIMEOUT_MS


@pytest.mark.parametrize("topic", ["invented", "elsewhere"])
@pytest.mark.parametrize(
    ("read", "is_accepted"), [({"retryTopic": "true"}, True), ({"subscribe": "%RETRY%G"}, True), ({}, False)]
)
def test_redelivered_message_of_invented_topic_is_sent_back(
    cluster: ScriptedCluster, topic: str, read: dict[str, str], is_accepted: bool
) -> None:
    """A broker keeps a ``RETRY_TOPIC`` of a producer's, and rows of the retry topic show it: one such row ended the
    query, which sent it back for the second time, and each restart."""

    def route(request: RemotingCommand) -> RemotingCommand:
        if request.fields["topic"] == "invented":
            return build_response(ResponseCode.TOPIC_NOT_EXIST)
        response = cluster.route(request)
        is_elsewhere = request.fields["topic"] == "elsewhere"
        return replace(response, body=bytes(response.body).replace(b'"a"', b'"b"')) if is_elsewhere else response

    cluster.name_server.on(RequestCode.GET_ROUTEINFO_BY_TOPIC, route)
    responses = Responses(cluster, build_response())
    problem = sender(cluster, 0, Time(), missingTopicTimeoutMs="0", **read).try_send_back(replace(MESSAGE, topic=topic))
    if is_accepted:
        assert problem is None
        (fields,) = responses.calls
        assert (fields["offset"], fields["originTopic"]) == ("77", topic)
    else:
        assert problem is not None
        assert (f"'{topic}'" in problem or f"topic {topic}" in problem) and not responses.calls


@pytest.mark.parametrize("status", ["PROPERTIES_SIZE_EXCEEDED", "MESSAGE_ILLEGAL"])
def test_message_that_cannot_be_stored_again_fails_at_once(cluster: ScriptedCluster, status: str) -> None:
    """The query waited ``clusterTimeoutMs`` for a broker that is up."""
    responses = Responses(cluster, build_response(ResponseCode.SYSTEM_ERROR, remark=status))
    clock = Time()
    assert status in (sender(cluster, 60_000, clock).try_send_back(MESSAGE) or "")
    assert (len(responses.calls), clock.now_ms) == (1, Time().now_ms)
