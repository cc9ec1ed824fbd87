from __future__ import annotations

from collections.abc import Callable

import pytest

from rocketmq_spark.conditions import CONDITIONS
from rocketmq_spark.errors import BrokerError, RocketMQError, TransportError
from rocketmq_spark.remoting import error_kinds
from rocketmq_spark.wire.remoting.codes import ResponseCode

CUT = TransportError("CONNECTION_LOST", address="a:1", reason="cut")


def broker_error(code: int, remark: str = "") -> BrokerError:
    name = ResponseCode(code).name
    return BrokerError("BROKER_ERROR", address="a", request="R", code=code, code_name=name, remark=remark)


def test_group_that_a_broker_cannot_reset_is_offline() -> None:
    assert error_kinds.is_group_offline(broker_error(ResponseCode.CONSUMER_NOT_ONLINE))
    assert error_kinds.is_group_offline(broker_error(ResponseCode.SYSTEM_ERROR, "THe consumer group <g> not exist"))
    assert not error_kinds.is_group_offline(broker_error(ResponseCode.SYSTEM_ERROR, "another problem"))
    assert not error_kinds.is_group_offline(CUT)


def test_topic_that_a_broker_does_not_have_is_missing_there() -> None:
    assert error_kinds.is_topic_missing_at_broker(broker_error(ResponseCode.TOPIC_NOT_EXIST))
    assert not error_kinds.is_topic_missing_at_broker(broker_error(ResponseCode.SYSTEM_ERROR))
    assert not error_kinds.is_topic_missing_at_broker(CUT)


def test_slave_that_may_not_be_read_rejects_each_pull() -> None:
    remark = "[REJECTREQUEST]system busy, start flow control for a while"
    assert error_kinds.is_slave_read_disabled(broker_error(ResponseCode.SYSTEM_BUSY, remark))
    assert not error_kinds.is_slave_read_disabled(broker_error(ResponseCode.SYSTEM_BUSY, "[OVERLOAD]system busy"))
    assert not error_kinds.is_slave_read_disabled(broker_error(ResponseCode.SYSTEM_ERROR, remark))
    assert not error_kinds.is_slave_read_disabled(CUT)


def test_pull_without_read_permission_is_forbidden() -> None:
    assert error_kinds.is_pull_forbidden(broker_error(ResponseCode.NO_PERMISSION, "the broker[a] pulling message is "))
    assert not error_kinds.is_pull_forbidden(broker_error(ResponseCode.SYSTEM_ERROR))
    assert not error_kinds.is_pull_forbidden(CUT)


def test_queue_that_the_topic_does_not_have_is_missing() -> None:
    assert error_kinds.is_queue_missing(broker_error(ResponseCode.INVALID_PARAMETER))
    assert not error_kinds.is_queue_missing(broker_error(ResponseCode.NO_PERMISSION))
    assert not error_kinds.is_queue_missing(CUT)


@pytest.mark.parametrize(
    ("condition", "code_name", "is_it"),
    [
        ("PROXY_UNAVAILABLE", "UNRECOGNIZED_CLIENT_TYPE", True),
        ("PROXY_UNAVAILABLE", "INTERNAL_ERROR", False),
        ("PROXY_ERROR", "UNRECOGNIZED_CLIENT_TYPE", False),
    ],
)
def test_client_whose_settings_a_proxy_lacks_is_unrecognized(condition: str, code_name: str, is_it: bool) -> None:
    error = BrokerError(condition, address="p:1", request="R", code=0, code_name=code_name, remark="")
    assert error_kinds.is_unrecognized_client(error) is is_it


@pytest.mark.parametrize(
    ("is_it", "conditions"),
    [
        (error_kinds.is_broker_error, {"BROKER_ERROR"}),
        (error_kinds.is_name_server_outage, {"NAME_SERVERS_UNAVAILABLE"}),
        (error_kinds.is_no_name_server, {"NOT_A_NAME_SERVER"}),
        (error_kinds.is_unknown_topic, {"TOPIC_NOT_FOUND"}),
        (
            error_kinds.is_topic_or_group_missing,
            {"TOPIC_NOT_FOUND", "GROUP_NOT_FOUND.PROXY", "STATIC_TOPIC_NOT_SUPPORTED"},
        ),
        (error_kinds.is_topic_route_lost, {"TOPIC_UNAVAILABLE.NO_ROUTE"}),
        (error_kinds.is_topic_without_route, {"TOPIC_NOT_FOUND", "TOPIC_UNAVAILABLE.NO_ROUTE"}),
        (error_kinds.is_unknown_broker, {"UNKNOWN_BROKER"}),
        (error_kinds.is_pull_rejected, {"PULL_REJECTED"}),
        (error_kinds.is_retry_expired, {"CLUSTER_TIMEOUT"}),
        (error_kinds.is_reset_pending, {"OFFSET_RESET_PENDING"}),
        (error_kinds.is_disconnected, {"CONNECT_FAILED", "CONNECTION_LOST"}),
        (error_kinds.is_timed_out, {"RESPONSE_TIMED_OUT"}),
        (error_kinds.is_response_lost, {"CONNECTION_LOST", "RESPONSE_TIMED_OUT"}),
        (error_kinds.is_response_too_large, {"RESPONSE_TOO_LARGE"}),
    ],
)
def test_failures_are_distinguished_by_their_conditions(
    is_it: Callable[[RocketMQError], bool], conditions: set[str]
) -> None:
    assert {condition for condition in CONDITIONS if is_it(RocketMQError(condition))} == conditions


FRAME = ". java.base/java.lang.NumberFormatException.forInputString(NumberFormatException.java:67)"
"""Proxies append the first frame of the stack to the message and the class."""

POLL_FRAME = (
    ". org.apache.rocketmq.proxy.grpc.v2.consumer.ReceiveMessageActivity.receiveMessage(ReceiveMessageActivity.java:69)"
)
"""Where a proxy needs settings of a client that it has forgotten. Java names a variable that is null since 14, and only
where the class has its variables' names."""


@pytest.mark.parametrize(
    ("code_name", "remark", "is_conversion"),
    [
        ("INTERNAL_SERVER_ERROR", f"Timestamp is not valid. IllegalArgumentException{FRAME}", True),
        ("INTERNAL_SERVER_ERROR", f'For input string: "x". NumberFormatException{FRAME}', True),
        ("INTERNAL_SERVER_ERROR", f'For input string: "MQBrokerException". NumberFormatException{FRAME}', True),
        (
            "INTERNAL_SERVER_ERROR",
            f'For input: ". MQBrokerException. a.b(c". NumberFormatException{FRAME}',
            True,
        ),
        ("INTERNAL_SERVER_ERROR", f'For input string: "x" is null". NumberFormatException{FRAME}', True),
        ("INTERNAL_SERVER_ERROR", f"connect to 10.0.0.1:10911 failed. RemotingConnectException{FRAME}", False),
        ("INTERNAL_SERVER_ERROR", f"CODE: 2  DESC: busy. MQBrokerException{FRAME}", False),
        ("INTERNAL_SERVER_ERROR", "CODE: 2  DESC: busy. MQBrokerException", False),
        ("INTERNAL_SERVER_ERROR", f"null. NullPointerException{POLL_FRAME}", False),
        ("INTERNAL_SERVER_ERROR", f'because "settings" is null. NullPointerException{POLL_FRAME}', False),
        ("INTERNAL_SERVER_ERROR", f'because "<local4>" is null. NullPointerException{POLL_FRAME}', False),
        ("INTERNAL_SERVER_ERROR", f'because "<local4>" is null. NullPointerException{FRAME}', True),
        ("INTERNAL_SERVER_ERROR", f"{POLL_FRAME} is no time. IllegalArgumentException{FRAME}", True),
        ("TOO_MANY_REQUESTS", f"polling full. IllegalArgumentException{FRAME}", False),
        ("INTERNAL_SERVER_ERROR", "subscription group no permission, g", False),
        ("INTERNAL_SERVER_ERROR", "the broker[10.0.0.1] pop message is forbidden", False),
        ("INTERNAL_SERVER_ERROR", "the topic[T] peeking message is forbidden", False),
        ("INTERNAL_SERVER_ERROR", "topic[T] not exist, apply first please!", False),
        ("INTERNAL_SERVER_ERROR", "", False),
    ],
)
def test_conversion_failure_is_internal_error_without_outage(code_name: str, remark: str, is_conversion: bool) -> None:
    """A target is polled for single messages after one: that is slow, and no help for an overload or an outage."""
    for condition, expected in (("PROXY_UNAVAILABLE", is_conversion), ("GROUP_NOT_FOUND.PROXY", False)):
        error = BrokerError(
            condition, address="p:8081", request="ReceiveMessage", code=50001, code_name=code_name, remark=remark
        )
        assert error_kinds.is_conversion_failure(error) is expected
