"""What a Broker makes of answers that a real broker gives rarely; the usual ones are tested on the real one."""

from __future__ import annotations

import queue as thread_queue
from collections.abc import Iterator

import pytest

from connector_tests.support.admin_broker import AdminBroker
from connector_tests.support.scripted_broker import ScriptedBroker, build_response
from connector_tests.support.timeouts import WAIT_S
from rocketmq_spark.errors import BrokerError, RemoteProtocolError, RocketMQError, TransportError
from rocketmq_spark.model import BrokerAddress, Message, MessageQueue
from rocketmq_spark.remoting.pool import ConnectionPool
from rocketmq_spark.remoting.retry import Retryability, retryability_of_request
from rocketmq_spark.remoting.stream import Stream
from rocketmq_spark.wire.body.inspection import GroupSwitches
from rocketmq_spark.wire.remoting.codes import RequestCode, ResponseCode
from rocketmq_spark.wire.remoting.command import RemotingCommand
from rocketmq_spark.wire.remoting.pull import PullResult, PullStatus
from rocketmq_spark.wire.remoting.send import SendStatus

ADDRESS = "10.0.0.1:10911"
QUEUE = MessageQueue("T", "b", 0)
BOUNDS = {"nextBeginOffset": "7", "minOffset": "3", "maxOffset": "9", "suggestWhichBrokerId": "0"}
LONG_MS = 60_000


@pytest.fixture
def pool(server: ScriptedBroker) -> Iterator[ConnectionPool]:
    pool = ConnectionPool(1000, connect=server.connect)
    yield pool
    pool.close()


@pytest.fixture
def broker(pool: ConnectionPool) -> AdminBroker:
    return AdminBroker(BrokerAddress(ADDRESS), pool, LONG_MS)


@pytest.fixture
def impatient(pool: ConnectionPool) -> AdminBroker:
    return AdminBroker(BrokerAddress(ADDRESS), pool, 20)


# ---------------------------------------------------------------------------------------------------- refusals


def test_a_refusal_names_the_address_the_request_and_the_code(server: ScriptedBroker, broker: AdminBroker) -> None:
    server.on(RequestCode.GET_MAX_OFFSET, build_response(ResponseCode.NO_PERMISSION, remark="not for you"))
    with pytest.raises(BrokerError, match=rf"{ADDRESS} returned NO_PERMISSION \(16\) for GET_MAX_OFFSET: not for you"):
        broker.max_offset(QUEUE)


def test_a_code_that_is_unknown_here_is_a_refusal_too(server: ScriptedBroker, broker: AdminBroker) -> None:
    server.on(RequestCode.GET_MAX_OFFSET, build_response(31_999))
    with pytest.raises(BrokerError) as raised:
        broker.max_offset(QUEUE)
    assert raised.value.code == 31_999


def test_a_remark_alone_is_no_refusal(server: ScriptedBroker, broker: AdminBroker) -> None:
    server.on(RequestCode.GET_MAX_OFFSET, build_response(fields={"offset": "5"}, remark="not set any response code"))
    assert broker.max_offset(QUEUE) == 5


def test_a_response_without_its_header_is_a_protocol_error(server: ScriptedBroker, broker: AdminBroker) -> None:
    server.on(RequestCode.GET_MAX_OFFSET, build_response())
    with pytest.raises(RemoteProtocolError, match=r"MALFORMED_RESPONSE\.HEADER"):
        broker.max_offset(QUEUE)


def test_no_consumer_is_an_empty_list_but_any_other_error_is_none(server: ScriptedBroker, broker: AdminBroker) -> None:
    code = RequestCode.GET_CONSUMER_LIST_BY_GROUP
    server.on(code, build_response(ResponseCode.SYSTEM_ERROR, remark="no consumer for this group, G"))
    assert broker.submit_consumer_ids("G").result() == []
    of_a_proxy = 'Cannot invoke "org.apache.rocketmq.broker.client.ConsumerGroupInfo.getAllClientId()" because ...'
    server.on(code, build_response(ResponseCode.SYSTEM_ERROR, remark=of_a_proxy))
    assert broker.submit_consumer_ids("G").result() == []
    server.on(code, build_response(ResponseCode.SYSTEM_ERROR, remark="NullPointerException"))
    with pytest.raises(BrokerError, match="NullPointerException"):
        broker.submit_consumer_ids("G").result()


# ------------------------------------------------------------------------------------------------------- pulls


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (ResponseCode.SUCCESS, PullStatus.FOUND),
        (ResponseCode.PULL_NOT_FOUND, PullStatus.NO_NEW_MSG),
        (ResponseCode.PULL_RETRY_IMMEDIATELY, PullStatus.NO_MATCHED_MSG),
        (ResponseCode.PULL_OFFSET_MOVED, PullStatus.OFFSET_ILLEGAL),
    ],
)
def test_the_outcomes_of_a_pull_are_results_not_errors(
    server: ScriptedBroker, broker: AdminBroker, code: int, status: PullStatus
) -> None:
    server.on(RequestCode.PULL_MESSAGE, build_response(code, BOUNDS, b"messages", remark="WHY"))
    result = broker.pull("G", QUEUE, 7, 32)
    assert (result.status, result.reason, bytes(result.body)) == (status, "WHY", b"messages")
    assert (result.next_begin_offset, result.min_offset, result.max_offset) == (7, 3, 9)


def test_a_pull_brings_its_subscription_and_neither_waits_nor_commits(
    server: ScriptedBroker, broker: AdminBroker
) -> None:
    server.on(RequestCode.PULL_MESSAGE, build_response(ResponseCode.PULL_NOT_FOUND, BOUNDS))
    broker.pull("G", QUEUE, 0, 32, "TagA || TagB")
    fields = server.next_session().next_received().fields
    assert (fields["sysFlag"], fields["subscription"], fields["queueOffset"]) == ("4", "TagA || TagB", "0")


def test_a_long_poll_requests_that_the_broker_holds_it(server: ScriptedBroker, broker: AdminBroker) -> None:
    server.on(RequestCode.PULL_MESSAGE, build_response(ResponseCode.PULL_NOT_FOUND, BOUNDS))
    reported: thread_queue.Queue[PullResult | RocketMQError] = thread_queue.Queue()
    broker.long_poll("G", QUEUE, 9, 15_000, reported.put)
    assert isinstance(reported.get(timeout=WAIT_S), PullResult)
    fields = server.next_session().next_received().fields
    assert (fields["sysFlag"], fields["suspendTimeoutMillis"], fields["maxMsgNums"]) == ("6", "15000", "1")


def test_a_long_poll_outlives_the_timeout_of_requests(server: ScriptedBroker, impatient: AdminBroker) -> None:
    server.unresponsive_on(RequestCode.PULL_MESSAGE)
    reported: thread_queue.Queue[PullResult | RocketMQError] = thread_queue.Queue()
    impatient.long_poll("G", QUEUE, 0, 15_000, reported.put)
    with pytest.raises(TransportError, match="RESPONSE_TIMED_OUT"):
        impatient.pull("G", QUEUE, 0, 1)
    assert reported.empty()


def test_a_long_poll_without_a_connection_is_reported_and_not_raised() -> None:
    def refuse(address: str, _timeout_ms: int) -> Stream:
        raise TransportError("CONNECT_FAILED", address=address, reason="refused")

    reported: thread_queue.Queue[PullResult | RocketMQError] = thread_queue.Queue()
    AdminBroker(BrokerAddress(ADDRESS), ConnectionPool(1000, connect=refuse), LONG_MS).long_poll(
        "G", QUEUE, 0, 15_000, reported.put
    )
    assert isinstance(reported.get_nowait(), TransportError)


# ----------------------------------------------------------------------------------------------------- offsets


def test_an_offset_that_the_broker_does_not_have_is_none_and_zero_is_zero(
    server: ScriptedBroker, broker: AdminBroker
) -> None:
    server.on(RequestCode.QUERY_CONSUMER_OFFSET, build_response(ResponseCode.QUERY_NOT_FOUND))
    assert broker.query_offset("G", QUEUE) is None
    server.on(RequestCode.QUERY_CONSUMER_OFFSET, build_response(fields={"offset": "0"}))
    assert broker.query_offset("G", QUEUE) == 0
    assert server.next_session().next_received().fields["setZeroIfNotFound"] == "false"


def test_updates_go_out_together_before_the_first_response(server: ScriptedBroker, broker: AdminBroker) -> None:
    held: list[RemotingCommand] = []

    def hold(request: RemotingCommand) -> None:
        held.append(request)
        if len(held) == 3:
            for earlier in reversed(held):
                session.reply(earlier, build_response(ResponseCode.SYSTEM_BUSY if earlier is held[1] else 0))

    server.on(RequestCode.UPDATE_CONSUMER_OFFSET, hold)
    server.on(RequestCode.GET_MAX_OFFSET, build_response(fields={"offset": "0"}))
    broker.max_offset(QUEUE)
    session = server.next_session()
    queues = [MessageQueue("T", "b", queue_id) for queue_id in range(3)]
    failures = broker.submit_update_offsets("G", {queue: 10 + queue.queue_id for queue in queues}).result()
    assert list(failures) == [queues[1]]
    assert retryability_of_request(failures[queues[1]]) is Retryability.TRANSIENT


def test_an_update_that_a_reset_shadows_is_a_failure_although_the_code_is_success(
    server: ScriptedBroker, broker: AdminBroker
) -> None:
    server.on(RequestCode.UPDATE_CONSUMER_OFFSET, build_response(remark="Offset has been previously reset"))
    failures = broker.submit_update_offsets("G", {QUEUE: 5}).result()
    assert failures[QUEUE].condition == "OFFSET_RESET_PENDING"


def test_a_group_that_exists_keeps_its_settings(server: ScriptedBroker, broker: AdminBroker) -> None:
    server.on(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, build_response(body=b'{"groupName":"G","retryMaxTimes":3}'))
    broker.ensure_group("G")
    session = server.next_session()
    assert session.next_received().code == RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG
    assert session.received.empty()


def test_a_group_that_the_broker_may_not_create_by_itself_is_created(
    server: ScriptedBroker, broker: AdminBroker
) -> None:
    server.on(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, build_response(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST))
    server.on(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, build_response())
    broker.ensure_group("G")
    session = server.next_session()
    session.next_received()
    assert bytes(session.next_received().body) == b'{"groupName":"G"}'


# ------------------------------------------------------------------------------------------------------ sending


@pytest.mark.parametrize("status", SendStatus)
def test_a_message_is_stored_whatever_became_of_disk_and_slave(
    server: ScriptedBroker, broker: AdminBroker, status: SendStatus
) -> None:
    stored = {"msgId": "A,B", "queueId": "3", "queueOffset": "0"}
    server.on(RequestCode.SEND_BATCH_MESSAGE, build_response(status.value, stored))
    result = broker.send_batch([Message("T", b"a"), Message("T", b"b")], QUEUE, "P")
    assert (result.status, result.queue.queue_id, result.queue_offset) == (status, 3, 0)
    assert result.offset_msg_ids == ("A", "B")
    assert server.next_session().next_received().fields["m"] == "true"


def test_encoded_message_is_sent_without_waiting(server: ScriptedBroker, broker: AdminBroker) -> None:
    server.on(RequestCode.SEND_MESSAGE_V2, build_response(fields={"msgId": "A", "queueId": "3", "queueOffset": "5"}))
    result = broker.submit_send(b"body", QUEUE, "P", sys_flag=1, properties="KEYS\x01k").result()
    assert (result.queue.queue_id, result.queue_offset, result.offset_msg_ids) == (3, 5, ("A",))
    sent = server.next_session().next_received()
    assert (bytes(sent.body), sent.fields["a"], sent.fields["f"], sent.fields["i"]) == (b"body", "P", "1", "KEYS\x01k")


# ------------------------------------------------------------------------------------------------- operators


def test_group_switches_are_requested_by_group(server: ScriptedBroker, broker: AdminBroker) -> None:
    body = b'{"groupName":"g","consumeEnable":false,"consumeBroadcastEnable":true}'
    server.on(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, build_response(body=body))
    assert broker.query_group_switches("g") == GroupSwitches(is_consume_enabled=False, is_broadcast_enabled=True)
    assert server.next_session().next_received().fields == {"group": "g"}


def test_clock_is_in_the_runtime_info(server: ScriptedBroker, broker: AdminBroker) -> None:
    body = b'{"table":{"bootTimestamp":"17","runtime":"[ 0 days, 0 hours, 0 minutes, 2 seconds ]"}}'
    server.on(RequestCode.GET_BROKER_RUNTIME_INFO, build_response(body=body))
    assert broker.query_clock_ms() == 2_017


def test_report_names_the_member_and_carries_a_body(server: ScriptedBroker, broker: AdminBroker) -> None:
    server.on(RequestCode.GET_CONSUMER_RUNNING_INFO, build_response())
    broker.report_to_member("g", "me@1", b"report")
    sent = server.next_session().next_received()
    assert bytes(sent.body) == b"report"
    assert (sent.fields["consumerGroup"], sent.fields["clientId"]) == ("g", "me@1")


def test_operators_reset_names_queue_and_offset(server: ScriptedBroker, broker: AdminBroker) -> None:
    server.on(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, build_response())
    broker.restore_reset("g", QUEUE, 17)
    sent = server.next_session().next_received().fields
    assert (sent["group"], sent["topic"], sent["queueId"], sent["offset"]) == ("g", "T", "0", "17")


# ------------------------------------------------------------------------------------------------- going away


def test_a_broker_that_sends_goaway_is_called_once_more_over_a_new_connection(
    server: ScriptedBroker, broker: AdminBroker
) -> None:
    leaving = [build_response(ResponseCode.GO_AWAY)]
    server.on(
        RequestCode.GET_MAX_OFFSET,
        lambda _request: leaving.pop() if leaving else build_response(fields={"offset": "5"}),
    )
    assert broker.max_offset(QUEUE) == 5
    assert server.connect_count == 2


def test_a_broker_that_keeps_sending_goaway_is_a_refusal_that_may_be_retried(
    server: ScriptedBroker, broker: AdminBroker
) -> None:
    server.on(RequestCode.GET_MAX_OFFSET, build_response(ResponseCode.GO_AWAY))
    with pytest.raises(BrokerError) as raised:
        broker.max_offset(QUEUE)
    assert retryability_of_request(raised.value) is Retryability.TRANSIENT
    assert server.connect_count == 2


def test_on_the_reader_thread_goaway_is_reported_and_the_next_request_takes_a_new_connection(
    server: ScriptedBroker, broker: AdminBroker
) -> None:
    server.on(RequestCode.PULL_MESSAGE, build_response(ResponseCode.GO_AWAY))
    reported: thread_queue.Queue[PullResult | RocketMQError] = thread_queue.Queue()
    broker.long_poll("G", QUEUE, 0, 15_000, reported.put)
    error = reported.get(timeout=WAIT_S)
    assert isinstance(error, BrokerError)
    assert retryability_of_request(error) is Retryability.TRANSIENT
    server.on(RequestCode.GET_MAX_OFFSET, build_response(fields={"offset": "5"}))
    assert broker.max_offset(QUEUE) == 5
    assert server.connect_count == 2
