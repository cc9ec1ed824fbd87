"""What ``UndecodableMessages`` does with a batch, against a scripted broker."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pyarrow as pa
import pytest

from connector_tests.support.log_lines import outage_text, text_of
from connector_tests.support.message_bytes import COMPRESSED, INNER_BATCH, Record
from connector_tests.support.scripted_broker import build_response
from connector_tests.support.scripted_cluster import NAME_SERVER, ScriptedCluster
from rocketmq_spark.errors import BrokerError, RemoteProtocolError, RouteError, TransportError
from rocketmq_spark.model import MessageQueue
from rocketmq_spark.options import BatchReadOptions, ReadOptions
from rocketmq_spark.source.undecodable_messages import UndecodableMessages
from rocketmq_spark.wire.arrow.undecodable import UndecodableMessage
from rocketmq_spark.wire.message.stored_message import as_stored
from rocketmq_spark.wire.remoting.codes import RequestCode, ResponseCode
from rocketmq_spark.wire.remoting.command import RemotingCommand

QUEUE = MessageQueue("T", "a", 0)


@pytest.fixture
def cluster() -> Iterator[ScriptedCluster]:
    with ScriptedCluster("a") as cluster:
        yield cluster


class DeadLetters:
    """What the broker answers to one send after another; the last answer stays."""

    def __init__(self, cluster: ScriptedCluster, *codes: int) -> None:
        self._codes = list(codes)
        self.calls: list[RemotingCommand] = []
        cluster.brokers["a"].on(RequestCode.SEND_MESSAGE_V2, self._response)

    def _response(self, request: RemotingCommand) -> RemotingCommand:
        self.calls.append(request)
        code = self._codes.pop(0) if len(self._codes) > 1 else self._codes[0]
        return build_response(code, fields={"msgId": "0", "queueId": "0", "queueOffset": "0"})


def settler(cluster: ScriptedCluster, mode: str, limit_ms: int = 10_000, **more: str) -> UndecodableMessages:
    given = {"namesrvAddr": NAME_SERVER, "consumerGroup": "G", "subscribe": "T", "badMessages": mode}
    options = ReadOptions.parse({**given, "clusterTimeoutMs": str(limit_ms), **more})
    return UndecodableMessages(QUEUE, options, cluster.client())


def undecodable(offset: int, *, count: int = 1, commit_log_offset: int = 0) -> UndecodableMessage:
    flags = COMPRESSED if count == 1 else INNER_BATCH
    record = Record(topic="T", body=b"no", queue_offset=offset, sys_flag=flags, commit_log_offset=commit_log_offset)
    return UndecodableMessage(as_stored(memoryview(record.encode()), "a"), f"problem {offset}", count)


def batch(*offsets: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"queueOffset": pa.array(offsets, pa.int64())})


def offsets(found: pa.RecordBatch) -> list[object]:
    return list(found.column("queueOffset").to_pylist())


def test_nothing_undecodable_is_nothing_done(cluster: ScriptedCluster) -> None:
    whole = batch(1, 2)
    assert all(settler(cluster, mode).apply_mode(whole, []) is whole for mode in ("fail", "null", "deadLetter"))


def test_fail_names_the_first(cluster: ScriptedCluster) -> None:
    with pytest.raises(RemoteProtocolError) as raised:
        settler(cluster, "fail").apply_mode(batch(1, 2, 3), [undecodable(2), undecodable(3)])
    assert raised.value.context == {"queue": "T@a:0", "offset": 2, "problem": "problem 2"}


def test_batch_read_gets_advice_that_it_can_follow(cluster: ScriptedCluster) -> None:
    options = BatchReadOptions.parse({"namesrvAddr": NAME_SERVER, "subscribe": "T"})
    with pytest.raises(RemoteProtocolError) as raised:
        UndecodableMessages(QUEUE, options, cluster.client()).apply_mode(batch(2), [undecodable(2)])
    assert (
        "Set 'badMessages' to 'null' to read the message as a row without a body. Or, in a stream without "
        "'endpoints', set it to 'deadLetter' to move the message to the group's dead-letter topic. The checkpoint "
        "remains valid with either value."
    ) in str(raised.value)


def test_a_dead_letter_goes_through_the_retry_topic_with_more_attempts_than_allowed(cluster: ScriptedCluster) -> None:
    letters = DeadLetters(cluster, ResponseCode.SUCCESS)
    assert offsets(settler(cluster, "deadLetter").apply_mode(batch(1, 2, 3), [undecodable(2)])) == [1, 3]
    (request,) = letters.calls
    assert (request.fields["b"], request.fields["a"], request.body) == ("%RETRY%G", "G", b"no")
    assert int(request.fields["j"]) > int(request.fields["l"])


def test_what_neighbouring_pulls_share_is_resolved_once(
    cluster: ScriptedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    letters = DeadLetters(cluster, ResponseCode.SUCCESS)
    subject = settler(cluster, "deadLetter")
    assert offsets(subject.apply_mode(batch(1, 2, 3), [undecodable(1), undecodable(2)])) == [3]
    assert offsets(subject.apply_mode(batch(2, 4, 5, 6), [undecodable(2), undecodable(4, count=2)])) == [6]
    assert len(letters.calls) == 3
    assert [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING] == [
        f"UNDECODABLE_MESSAGE_BODY: Messages of queue=T@a:0 offsets={offsets} sent to the group's dead-letter topic "
        f"(badMessages=deadLetter); first problem: {problem}"
        for offsets, problem in (("[1, 2) [2, 3)", "problem 1"), ("[4, 6)", "problem 4"))
    ]


def test_a_batch_that_several_pulls_returned_is_resolved_once(
    cluster: ScriptedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """A pull of any of its offsets returns it whole, and several are in flight."""
    letters = DeadLetters(cluster, ResponseCode.SUCCESS)
    found = [undecodable(1), *[undecodable(2, count=3)] * 3, undecodable(5)]
    assert offsets(settler(cluster, "deadLetter").apply_mode(batch(1, 2, 3, 4, 5, 6), found)) == [6]
    assert len(letters.calls) == 3
    assert "offsets=[1, 2) [2, 5) [5, 6) sent" in caplog.text


def test_messages_with_one_stored_offset_are_each_sent_once(cluster: ScriptedCluster) -> None:
    """Behind a made-up IPv6 flag stored offsets are larger than those of the queue, until the broker restarts."""
    letters = DeadLetters(cluster, ResponseCode.SUCCESS)
    subject, found = settler(cluster, "deadLetter"), [undecodable(7, commit_log_offset=place) for place in (300, 400)]
    for _ in range(2):
        assert offsets(subject.apply_mode(batch(7, 8), found)) == [8]
    assert len(letters.calls) == 2


def test_a_broker_that_is_busy_is_called_again_and_logged_as_waited_for(
    cluster: ScriptedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    letters = DeadLetters(cluster, *[ResponseCode.SYSTEM_BUSY] * 6, ResponseCode.SUCCESS)
    assert offsets(settler(cluster, "deadLetter").apply_mode(batch(1, 2), [undecodable(1)])) == [2]
    assert len(letters.calls) == 7
    begun, over, _ = caplog.messages
    assert outage_text(begun).startswith("Waiting for broker a (fails in 9 s): [ROCKETMQ_BROKER_ERROR]")
    assert text_of(over).startswith("Recovered after ")
    assert over.endswith(" s: broker a")


def test_a_refusal_that_will_not_pass_is_raised_at_once(cluster: ScriptedCluster) -> None:
    DeadLetters(cluster, ResponseCode.NO_PERMISSION)
    with pytest.raises(BrokerError, match="NO_PERMISSION"):
        settler(cluster, "deadLetter").apply_mode(batch(1, 2), [undecodable(1)])


def test_a_broker_that_cannot_be_reached_is_named_once_its_limit_is_over(cluster: ScriptedCluster) -> None:
    cluster.down.add("a:10911")
    with pytest.raises(TransportError, match=r"CLUSTER_TIMEOUT\] No successful response from broker a"):
        settler(cluster, "deadLetter", limit_ms=0).apply_mode(batch(1, 2), [undecodable(1)])


def test_name_servers_that_are_unresponsive_are_named_and_not_the_broker(cluster: ScriptedCluster) -> None:
    cluster.down.add(NAME_SERVER)
    with pytest.raises(TransportError, match=r"CLUSTER_TIMEOUT\] No successful response from the name servers"):
        settler(cluster, "deadLetter", limit_ms=0).apply_mode(batch(1, 2), [undecodable(1)])


def test_a_topic_without_a_route_is_waited_for_as_any_missing_topic(cluster: ScriptedCluster) -> None:
    calls: list[RemotingCommand] = []

    def unknown(request: RemotingCommand) -> RemotingCommand:
        calls.append(request)
        return build_response(ResponseCode.TOPIC_NOT_EXIST)

    cluster.name_server.on(RequestCode.GET_ROUTEINFO_BY_TOPIC, unknown)
    with pytest.raises(RouteError, match="TOPIC_NOT_FOUND"):
        settler(cluster, "deadLetter", limit_ms=1_000, missingTopicTimeoutMs="0").apply_mode(
            batch(1, 2), [undecodable(1)]
        )
    assert len(calls) == 1
