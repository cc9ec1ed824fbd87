"""What a proxy's refusals are."""

from __future__ import annotations

import pytest

from rocketmq_spark.errors import BrokerError, OptionError, RocketMQError, RouteError
from rocketmq_spark.remoting.error_kinds import is_conversion_failure
from rocketmq_spark.remoting.retry import Retryability, retryability_of_pull
from rocketmq_spark.wire.grpc.messaging_pb2 import Code, Status
from rocketmq_spark.wire.grpc.responses import is_unknown_handle, name_of, refusal_error


def refused(code: Code, remark: str = "why") -> RocketMQError:
    return refusal_error("p:8081", "ReceiveMessage", Status(code=code, message=remark), topic="T")


@pytest.mark.parametrize(
    ("code", "remark", "error_class", "condition"),
    [
        (Code.UNAUTHORIZED, "username cannot be null", BrokerError, "CREDENTIALS_MISSING"),
        (Code.UNAUTHORIZED, "User:me is not found", BrokerError, "CREDENTIALS_REJECTED"),
        (Code.UNAUTHORIZED, "check signature failed", BrokerError, "CREDENTIALS_REJECTED"),
        (Code.UNAUTHORIZED, "another gateway's words", BrokerError, "CREDENTIALS_REJECTED"),
        (Code.UNAUTHORIZED, "User:me has no permission to access Topic:T from 1.1.1.1", BrokerError, "TOPIC_DENIED"),
        (Code.UNAUTHORIZED, "User:me has no permission to access Group:g from 1.1.1.1", BrokerError, "GROUP_DENIED"),
        (Code.FORBIDDEN, "User:me has no permission to access Group:g from 1.1.1.1", BrokerError, "GROUP_DENIED"),
        (Code.FORBIDDEN, "another gateway's words", BrokerError, "ACCESS_DENIED"),
        (Code.FORBIDDEN, "no readable queue", RouteError, "TOPIC_UNAVAILABLE.NO_READABLE_QUEUE"),
        (Code.TOPIC_NOT_FOUND, "CODE: 17", RouteError, "TOPIC_NOT_FOUND"),
        (Code.CONSUMER_GROUP_NOT_FOUND, "", BrokerError, "GROUP_NOT_FOUND.PROXY"),
        (
            Code.BAD_REQUEST,
            "process client telemetryCommand failed. group not found",
            BrokerError,
            "GROUP_NOT_FOUND.PROXY",
        ),
        (Code.INTERNAL_SERVER_ERROR, "subscription group [g] does not exist", BrokerError, "GROUP_NOT_FOUND.PROXY"),
        (Code.ILLEGAL_INVISIBLE_TIME, "too small", OptionError, "INVALID_INVISIBLE_DURATION"),
        (Code.TOO_MANY_REQUESTS, "polling full", BrokerError, "PROXY_UNAVAILABLE"),
        (Code.ILLEGAL_TOPIC, "cannot access system topic", BrokerError, "PROXY_ERROR"),
        (Code.VERSION_UNSUPPORTED, "", BrokerError, "PROXY_ERROR"),
    ],
)
def test_a_refusal_names_the_party_at_fault(
    code: Code, remark: str, error_class: type[RocketMQError], condition: str
) -> None:
    error = refused(code, remark)
    assert (type(error), error.condition) == (error_class, condition)
    assert str(error)


@pytest.mark.parametrize(
    ("code", "remark"),
    [(Code.UNAUTHORIZED, "another gateway's words"), (Code.CONSUMER_GROUP_NOT_FOUND, "CODE: 26")],
)
def test_it_names_server_request_and_response(code: Code, remark: str) -> None:
    expected = {"address": "p:8081", "request": "ReceiveMessage", "code": code, "remark": remark}
    assert refused(code, remark).context == expected


def test_a_request_that_is_about_no_topic_names_none() -> None:
    error = refusal_error("p:8081", "QueryRoute", Status(code=Code.TOPIC_NOT_FOUND))
    assert error.context["topic"] == ""


def test_it_reports_what_is_missing_where() -> None:
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


FRAME = ". java.base/java.lang.NumberFormatException.forInputString(NumberFormatException.java:67)"


@pytest.mark.parametrize(
    "written",
    [
        "parse the consumer's subscription failed",
        "group not found",
        "subscription group [g] does not exist",
        "x" * 1_962 + ". MQBrokerException",
        "x" * 1_000_000,
    ],
)
def test_refusal_is_no_matter_of_what_a_producer_wrote(written: str) -> None:
    """The proxy's error for a message that it cannot convert quotes the producer: one such message ended the query, or
    was an outage of its broker."""
    error = refused(Code.INTERNAL_SERVER_ERROR, f'For input string: "{written}". NumberFormatException{FRAME}')
    assert (error.condition, is_conversion_failure(error)) == ("PROXY_UNAVAILABLE", True)


def test_cause_of_an_outage_is_found_behind_a_long_text() -> None:
    error = refused(Code.INTERNAL_SERVER_ERROR, f"{'x' * 1_000_000}. RemotingConnectException. a.B.c(B.java:1)")
    assert not is_conversion_failure(error)


RETRYABILITIES = {
    Code.CODE_UNSPECIFIED: Retryability.PERMANENT,
    Code.MULTIPLE_RESULTS: Retryability.TRANSIENT,
    # what we have asked, and in what way
    Code.BAD_REQUEST: Retryability.PERMANENT,
    Code.ILLEGAL_ACCESS_POINT: Retryability.PERMANENT,
    Code.ILLEGAL_TOPIC: Retryability.PERMANENT,
    Code.ILLEGAL_CONSUMER_GROUP: Retryability.PERMANENT,
    Code.ILLEGAL_MESSAGE_TAG: Retryability.PERMANENT,
    Code.ILLEGAL_MESSAGE_KEY: Retryability.PERMANENT,
    Code.ILLEGAL_MESSAGE_GROUP: Retryability.PERMANENT,
    Code.ILLEGAL_MESSAGE_PROPERTY_KEY: Retryability.PERMANENT,
    Code.INVALID_TRANSACTION_ID: Retryability.PERMANENT,
    Code.ILLEGAL_MESSAGE_ID: Retryability.PERMANENT,
    Code.ILLEGAL_FILTER_EXPRESSION: Retryability.PERMANENT,
    Code.ILLEGAL_INVISIBLE_TIME: Retryability.PERMANENT,
    Code.ILLEGAL_DELIVERY_TIME: Retryability.PERMANENT,
    Code.INVALID_RECEIPT_HANDLE: Retryability.PERMANENT,
    Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE: Retryability.PERMANENT,
    Code.MESSAGE_CORRUPTED: Retryability.PERMANENT,
    Code.CLIENT_ID_REQUIRED: Retryability.PERMANENT,
    Code.ILLEGAL_OFFSET: Retryability.PERMANENT,
    Code.PAYLOAD_TOO_LARGE: Retryability.PERMANENT,
    Code.MESSAGE_BODY_TOO_LARGE: Retryability.PERMANENT,
    Code.PRECONDITION_FAILED: Retryability.PERMANENT,
    Code.REQUEST_HEADER_FIELDS_TOO_LARGE: Retryability.PERMANENT,
    Code.MESSAGE_PROPERTIES_TOO_LARGE: Retryability.PERMANENT,
    # who we are, and what we may
    Code.UNAUTHORIZED: Retryability.PERMANENT,
    Code.PAYMENT_REQUIRED: Retryability.PERMANENT,
    Code.FORBIDDEN: Retryability.PERMANENT,
    # what is there
    Code.NOT_FOUND: Retryability.PERMANENT,
    Code.MESSAGE_NOT_FOUND: Retryability.PERMANENT,
    Code.OFFSET_NOT_FOUND: Retryability.PERMANENT,
    Code.TOPIC_NOT_FOUND: Retryability.UNAVAILABLE,
    Code.CONSUMER_GROUP_NOT_FOUND: Retryability.UNAVAILABLE,
    # what it can do at all
    Code.NOT_IMPLEMENTED: Retryability.PERMANENT,
    Code.UNSUPPORTED: Retryability.PERMANENT,
    Code.VERSION_UNSUPPORTED: Retryability.PERMANENT,
    # what it can do now
    Code.UNRECOGNIZED_CLIENT_TYPE: Retryability.TRANSIENT,
    Code.ILLEGAL_POLLING_TIME: Retryability.TRANSIENT,
    Code.REQUEST_TIMEOUT: Retryability.TRANSIENT,
    Code.TOO_MANY_REQUESTS: Retryability.TRANSIENT,
    Code.INTERNAL_ERROR: Retryability.TRANSIENT,
    Code.INTERNAL_SERVER_ERROR: Retryability.TRANSIENT,
    Code.HA_NOT_AVAILABLE: Retryability.TRANSIENT,
    Code.PROXY_TIMEOUT: Retryability.TRANSIENT,
    Code.MASTER_PERSISTENCE_TIMEOUT: Retryability.TRANSIENT,
    Code.SLAVE_PERSISTENCE_TIMEOUT: Retryability.TRANSIENT,
}


@pytest.mark.parametrize("code", sorted(set(Code.values()) - {Code.OK}))
def test_whether_a_code_may_pass_is_written_down_for_each(code: Code) -> None:
    assert retryability_of_pull(refused(code)) is RETRYABILITIES[code]


def test_a_request_that_it_came_to_too_late_may_pass_whatever_its_code() -> None:
    """So it answers clients of a version below 5.0.3, as it takes ours to be; a busy proxy used to end the query."""
    late = refused(
        Code.BAD_REQUEST, "The deadline time remaining is not enough for polling, please check network condition"
    )
    assert (late.condition, retryability_of_pull(late)) == ("PROXY_UNAVAILABLE", Retryability.TRANSIENT)


def test_a_handle_of_a_broker_that_is_unavailable_is_no_invalid_one() -> None:
    """What it has delivered is ours still, and can be acknowledged when it is back."""
    unavailable = Status(code=Code.INVALID_RECEIPT_HANDLE, message="cannot find broker broker-a")
    error = refusal_error("p:8081", "AckMessage", unavailable)
    assert (is_unknown_handle(unavailable), error.condition, retryability_of_pull(error)) == (
        False,
        "PROXY_UNAVAILABLE",
        Retryability.TRANSIENT,
    )


def test_that_nothing_is_logged_is_logged() -> None:
    error = refused(Code.BAD_REQUEST, "")
    assert str(error) == (
        "[ROCKETMQ_PROXY_ERROR] Proxy p:8081 returned BAD_REQUEST (40000) for ReceiveMessage: (no remark). Check "
        "the proxy's log for BAD_REQUEST."
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
def test_a_message_that_is_not_ours_any_more_is_distinguished_from_a_failure(
    code: Code, remark: str, is_unknown: bool
) -> None:
    assert is_unknown_handle(Status(code=code, message=remark)) is is_unknown


@pytest.mark.parametrize("code", list(Code.values()))
def test_error_of_a_long_remark_is_short(code: Code) -> None:
    """A response may have 128 MiB, which would all be in an error, a log line and a Spark event."""
    assert len(str(refused(code, "x" * 1_000_000))) < 5_000
