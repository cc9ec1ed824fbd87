"""What a proxy's refusals are."""

from __future__ import annotations

import pytest

from rocketmq_spark.errors import BrokerError, OptionError, RocketMQError, RouteError
from rocketmq_spark.remoting.retry import Outlook, outlook_of_pull
from rocketmq_spark.wire.grpc.messaging_pb2 import Code, Status
from rocketmq_spark.wire.grpc.refusal import MAY_PASS, is_unknown_handle, name_of, refusal


def refused(code: Code, remark: str = "why") -> RocketMQError:
    return refusal("p:8081", "ReceiveMessage", Status(code=code, message=remark), topic="T")


@pytest.mark.parametrize(
    ("code", "remark", "error_class", "condition"),
    [
        (Code.UNAUTHORIZED, "username cannot be null", BrokerError, "CREDENTIALS_MISSING"),
        (Code.UNAUTHORIZED, "User:me is not found", BrokerError, "CREDENTIALS_REFUSED"),
        (Code.UNAUTHORIZED, "check signature failed", BrokerError, "CREDENTIALS_REFUSED"),
        (Code.UNAUTHORIZED, "another gateway's words", BrokerError, "CREDENTIALS_REFUSED"),
        (Code.UNAUTHORIZED, "User:me has no permission to access Topic:T from 1.1.1.1", BrokerError, "TOPIC_FORBIDDEN"),
        (Code.UNAUTHORIZED, "User:me has no permission to access Group:g from 1.1.1.1", BrokerError, "GROUP_FORBIDDEN"),
        (Code.FORBIDDEN, "User:me has no permission to access Group:g from 1.1.1.1", BrokerError, "GROUP_FORBIDDEN"),
        (Code.FORBIDDEN, "no readable queue", RouteError, "NO_READABLE_QUEUE"),
        (Code.TOPIC_NOT_FOUND, "CODE: 17", RouteError, "TOPIC_NOT_SERVED"),
        (Code.CONSUMER_GROUP_NOT_FOUND, "", BrokerError, "GROUP_NOT_SERVED"),
        (Code.BAD_REQUEST, "process client telemetryCommand failed. group not found", BrokerError, "GROUP_NOT_SERVED"),
        (Code.INTERNAL_SERVER_ERROR, "subscription group [g] does not exist", BrokerError, "GROUP_NOT_SERVED"),
        (Code.ILLEGAL_INVISIBLE_TIME, "too small", OptionError, "INVISIBLE_DURATION_REFUSED"),
        (Code.TOO_MANY_REQUESTS, "polling full", BrokerError, "PROXY_FAILED"),
        (Code.ILLEGAL_TOPIC, "cannot access system topic", BrokerError, "PROXY_REFUSED"),
        (Code.VERSION_UNSUPPORTED, "", BrokerError, "PROXY_REFUSED"),
    ],
)
def test_a_refusal_says_whose_fault_it_is(
    code: Code, remark: str, error_class: type[RocketMQError], condition: str
) -> None:
    error = refused(code, remark)
    assert (type(error), error.condition) == (error_class, condition)
    assert str(error)


@pytest.mark.parametrize(
    ("code", "remark"),
    [(Code.UNAUTHORIZED, "another gateway's words"), (Code.CONSUMER_GROUP_NOT_FOUND, "CODE: 26")],
)
def test_it_says_who_answered_what_and_how(code: Code, remark: str) -> None:
    expected = {"address": "p:8081", "request": "ReceiveMessage", "code": code, "remark": remark}
    assert refused(code, remark).context == expected


def test_a_request_that_is_about_no_topic_names_none() -> None:
    error = refusal("p:8081", "QueryRoute", Status(code=Code.TOPIC_NOT_FOUND))
    assert error.context["topic"] == ""


def test_it_says_what_of_whom_is_missing() -> None:
    remark = "User:me has no permission to access Topic:orders from 127.0.0.1, no matched policies"
    error = refused(Code.UNAUTHORIZED, remark)
    assert error.context == {
        "address": "p:8081",
        "request": "ReceiveMessage",
        "code": Code.UNAUTHORIZED,
        "remark": remark,
        "topic": "orders",
    }
    assert refused(Code.FORBIDDEN, "no readable queue").context == {"topic": "T"}
    assert refused(Code.TOPIC_NOT_FOUND).context == {"address": "p:8081", "topic": "T"}
    assert refused(Code.ILLEGAL_INVISIBLE_TIME, "min is 1").context == {"address": "p:8081", "remark": "min is 1"}


@pytest.mark.parametrize("code", Code.values())
def test_only_what_may_pass_is_tried_again(code: Code) -> None:
    passes = outlook_of_pull(refused(code)) is Outlook.PASSES
    assert passes == (code in MAY_PASS)


def test_that_nothing_is_said_is_said() -> None:
    error = refused(Code.BAD_REQUEST, "")
    assert str(error) == (
        "[ROCKETMQ_PROXY_REFUSED] p:8081 answered ReceiveMessage with BAD_REQUEST (40000): (no remark) "
        "See Code BAD_REQUEST of RocketMQ's gRPC protocol, and the proxy's log."
    )


def test_a_code_of_a_later_version_has_no_name() -> None:
    assert (name_of(Code.PROXY_TIMEOUT), name_of(59_999)) == ("PROXY_TIMEOUT", "an unknown code")


@pytest.mark.parametrize(
    ("code", "remark", "is_unknown"),
    [
        (Code.INVALID_RECEIPT_HANDLE, "receipt handle is expired", True),
        (Code.INTERNAL_SERVER_ERROR, "ack failed: status is abnormal", True),
        (Code.INTERNAL_SERVER_ERROR, "changeInvisibleDuration failed: status is abnormal", True),
        (Code.INTERNAL_SERVER_ERROR, "NullPointerException", False),
        (Code.OK, "OK", False),
    ],
)
def test_a_message_that_is_not_ours_any_more_is_told_from_a_failure(code: Code, remark: str, is_unknown: bool) -> None:
    assert is_unknown_handle(Status(code=code, message=remark)) is is_unknown
