"""What brokers answer to who moves messages to the dead-letter topic; ``integration`` has what becomes of these."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from connector_tests.support.message_bytes import Record
from connector_tests.support.scripted_broker import build_response
from connector_tests.support.scripted_cluster import ScriptedCluster
from connector_tests.support.timeouts import REQUEST_TIMEOUT_MS
from rocketmq_spark.model import BrokerAddress
from rocketmq_spark.pop.dead_letter_mover import DeadLetterMover
from rocketmq_spark.pop.delivery_attempts import MoveOutcome
from rocketmq_spark.pop.receipt_handles import BrokerHandle, PopCheckPoint, ReceivedMessage
from rocketmq_spark.pop.receive_scheduler import Target
from rocketmq_spark.remoting.broker import Broker
from rocketmq_spark.remoting.pop_broker import PopBroker
from rocketmq_spark.wire.remoting.codes import RequestCode, ResponseCode
from rocketmq_spark.wire.remoting.command import RemotingCommand

TARGET = Target("T", "a")
SETTINGS, SEND_BACK = RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, RequestCode.CONSUMER_SEND_MSG_BACK


@pytest.fixture
def cluster() -> Iterator[ScriptedCluster]:
    with ScriptedCluster("a", "b") as cluster:
        yield cluster


class Time:
    now_ms = 0


def mover(cluster: ScriptedCluster, time: Time | None = None) -> DeadLetterMover:
    clock = time or Time()
    return DeadLetterMover(
        "G",
        lambda _topic, broker_name: PopBroker(BrokerAddress(f"{broker_name}:10911"), cluster.pool, REQUEST_TIMEOUT_MS),
        lambda address: Broker(address, cluster.pool, REQUEST_TIMEOUT_MS),
        lambda: clock.now_ms,
    )


def settings(max_times: int, queues: int = 1) -> RemotingCommand:
    return build_response(body=b'{"groupName":"G","retryMaxTimes":%d,"retryQueueNums":%d}' % (max_times, queues))


def test_how_often_a_message_may_be_redelivered_is_requested_once_a_minute(cluster: ScriptedCluster) -> None:
    time = Time()
    one = mover(cluster, time)
    cluster.brokers["a"].on(SETTINGS, settings(5))
    assert one.retry_max_times(TARGET) == 5
    cluster.brokers["a"].on(SETTINGS, settings(6))
    time.now_ms = 59_999
    assert one.retry_max_times(TARGET) == 5
    time.now_ms = 60_000
    assert one.retry_max_times(TARGET) == 6


def test_each_broker_has_settings_of_its_own(cluster: ScriptedCluster) -> None:
    one = mover(cluster)
    for number, broker in enumerate(cluster.brokers.values()):
        broker.on(SETTINGS, settings(number))
    assert [one.retry_max_times(Target("T", name)) for name in ("a", "b")] == [0, 1]


def test_nothing_is_moved_where_brokers_keep_nothing_that_is_sent_back(cluster: ScriptedCluster) -> None:
    cluster.brokers["a"].on(SETTINGS, settings(5, queues=0))
    assert mover(cluster).retry_max_times(TARGET) is None


def test_a_caller_that_may_not_call_takes_what_groups_have_by_default(
    cluster: ScriptedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    cluster.brokers["a"].on(SETTINGS, build_response(ResponseCode.NO_PERMISSION, remark="no right"))
    one = mover(cluster)
    assert [one.retry_max_times(TARGET) for _ in range(3)] == [16] * 3
    (line,) = caplog.messages
    assert line.startswith("RETRY_LIMIT_UNKNOWN: Cannot read retryMaxTimes of group=G at broker=a, using 16: ")


def test_without_a_response_nothing_is_moved_and_the_call_is_repeated(cluster: ScriptedCluster) -> None:
    one = mover(cluster)
    cluster.brokers["a"].on(SETTINGS, build_response(ResponseCode.SYSTEM_BUSY))
    assert one.retry_max_times(TARGET) is None
    cluster.brokers["a"].on(SETTINGS, settings(5))
    assert one.retry_max_times(TARGET) == 5


def exhausted(broker_name: str, place: int) -> ReceivedMessage:
    pop_check_point = PopCheckPoint("T", place, 0, 60_000, 0, "1", broker_name, 0)
    record = Record(commit_log_offset=place, reconsume_times=9, properties={"UNIQ_KEY": f"ID{place}"})
    return ReceivedMessage(BrokerHandle(pop_check_point, place), memoryview(record.encode()))


def test_a_message_is_sent_straight_to_the_dead_letter_topic(
    cluster: ScriptedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    calls: list[dict[str, str]] = []

    def take(request: RemotingCommand) -> RemotingCommand:
        calls.append(dict(request.fields))
        return build_response()

    cluster.brokers["a"].on(SEND_BACK, take)
    assert mover(cluster).move([exhausted("a", 77)]) == [MoveOutcome.MOVED]
    (fields,) = calls
    names = ("offset", "group", "delayLevel", "originMsgId", "originTopic", "maxReconsumeTimes")
    assert [fields[name] for name in names] == ["77", "G", "-1", "ID77", "T", "0"]
    assert caplog.messages == [
        "DEAD_LETTERS_STORED: Moved 1 messages that exceeded retryMaxTimes to dead-letter topic=%DLQ%G, msgId: ID77"
    ]


def test_a_broker_that_fails_is_called_once_and_others_all_the_same(
    cluster: ScriptedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    calls: list[str] = []

    def fail(_request: RemotingCommand) -> RemotingCommand:
        calls.append("a")
        return build_response(ResponseCode.SYSTEM_BUSY)

    cluster.brokers["a"].on(SEND_BACK, fail)
    cluster.brokers["b"].on(SEND_BACK, build_response())
    one = mover(cluster)
    assert one.move([exhausted("a", 1), exhausted("b", 2), exhausted("a", 3)]) == [
        MoveOutcome.RETRY,
        MoveOutcome.MOVED,
        MoveOutcome.RETRY,
    ]
    assert calls == ["a"]
    one.move([exhausted("a", 1)])
    assert len([line for line in caplog.messages if "DEAD_LETTER_NOT_STORED" in line]) == 1, "said once"


def test_a_broker_that_fails_again_is_logged_again(cluster: ScriptedCluster, caplog: pytest.LogCaptureFixture) -> None:
    responses = [build_response(ResponseCode.SYSTEM_BUSY), build_response(), build_response(ResponseCode.SYSTEM_BUSY)]
    cluster.brokers["a"].on(SEND_BACK, lambda _request: responses.pop(0))
    one = mover(cluster)
    assert [one.move([exhausted("a", 1)]) for _ in range(3)] == [
        [MoveOutcome.RETRY],
        [MoveOutcome.MOVED],
        [MoveOutcome.RETRY],
    ]
    assert len([line for line in caplog.messages if "DEAD_LETTER_NOT_STORED" in line]) == 2


@pytest.mark.parametrize(
    "final",
    [
        build_response(ResponseCode.NO_PERMISSION),
        build_response(ResponseCode.SYSTEM_ERROR, remark="PROPERTIES_SIZE_EXCEEDED"),
        build_response(ResponseCode.SYSTEM_ERROR, remark="MESSAGE_ILLEGAL"),
    ],
)
def test_of_a_refusal_that_is_final_other_messages_are_not_affected(
    cluster: ScriptedCluster, final: RemotingCommand
) -> None:
    """A message whose properties leave no room for the broker's kept others of its broker from being moved."""
    responses = [final, build_response()]
    cluster.brokers["a"].on(SEND_BACK, lambda _request: responses.pop(0))
    assert mover(cluster).move([exhausted("a", 1), exhausted("a", 2)]) == [MoveOutcome.REJECTED, MoveOutcome.MOVED]


def test_only_what_was_redelivered_is_worth_a_request(cluster: ScriptedCluster) -> None:
    one, first = (
        mover(cluster),
        ReceivedMessage(BrokerHandle(PopCheckPoint("T", 0, 0, 60_000, 0, "0", "a", 0), 0), memoryview(b"")),
    )
    assert one.split_exhausted(TARGET, [first]) == ([first], []), "a broker without an answer would not have been one"
    cluster.brokers["a"].on(SETTINGS, settings(8))
    assert one.split_exhausted(TARGET, [first, exhausted("a", 1)]) == ([first], [exhausted("a", 1)])
