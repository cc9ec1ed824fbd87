"""Words of refusals, as brokers of 4.9.7, 5.1.4 and 5.5.0, and the proxy of 5.5.0, have said them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rocketmq_spark.condition import one_line
from rocketmq_spark.remoting.retry import (
    Retryability,
    retryability_of_pull,
    retryability_of_request,
    retryability_of_send,
)
from rocketmq_spark.wire.remoting.codes import RequestCode, ResponseCode
from rocketmq_spark.wire.remoting.command import FLAG_RESPONSE, RemotingCommand, decode
from rocketmq_spark.wire.remoting.refusal import REMARK_CHARACTERS, refusal_error, response_frame

ACL_1 = "org.apache.rocketmq.acl.common.AclException: "
AT = ", org.apache.rocketmq.acl.plain.PlainPermissionManager.validate(PlainPermissionManager.java:663)"
DENIED = "User:me has no permission to access"
WHY = "from 127.0.0.1, no matched policies."

REPORTED = [
    (16, "username cannot be null.", "CREDENTIALS_MISSING", ""),
    (16, "check signature failed.", "CREDENTIALS_REJECTED", ""),
    (16, "User:me is not found.", "CREDENTIALS_REJECTED", ""),
    (16, "User:me is disabled.", "CREDENTIALS_REJECTED", ""),
    (16, f"{DENIED} Topic:orders {WHY}", "TOPIC_DENIED", "orders"),
    (16, f"{DENIED} Group:g|1 {WHY}", "GROUP_DENIED", "g|1"),
    (16, f"{DENIED} Cluster:DefaultCluster {WHY}", "ACCESS_DENIED", ""),
    (1, "username cannot be null.", "CREDENTIALS_MISSING", ""),
    (1, "check signature failed.", "CREDENTIALS_REJECTED", ""),
    (1, "User:me is not found.", "CREDENTIALS_REJECTED", ""),
    (1, f"{DENIED} Topic:orders {WHY}", "TOPIC_DENIED", "orders"),
    (1, f"{DENIED} Group:g|1 {WHY}", "GROUP_DENIED", "g|1"),
    (1, f"{ACL_1}No accessKey is configured{AT}", "CREDENTIALS_MISSING", ""),
    (1, f"{ACL_1}Check signature failed for accessKey=me{AT}", "CREDENTIALS_REJECTED", ""),
    (1, f"{ACL_1}No acl config for me{AT}", "CREDENTIALS_REJECTED", ""),
    (1, f"{ACL_1}No default permission for topic:orders{AT}", "TOPIC_DENIED", "orders"),
    (1, f"{ACL_1}No permission for topic:orders{AT}", "TOPIC_DENIED", "orders"),
    (1, f"{ACL_1}No default permission for group:g{AT}", "GROUP_DENIED", "g"),
    (1, f"{ACL_1}Need admin permission for request code=17, but accessKey=me is not{AT}", "ACCESS_DENIED", ""),
    (26, "subscription group [g] does not exist, \nSee https://rocketmq.apache.org", "GROUP_NOT_FOUND.BROKER", ""),
    (26, "Group g not exist!", "GROUP_NOT_FOUND.BROKER", ""),
    (16, "Sending message to topic[SELF_TEST_TOPIC] is forbidden.", "TOPIC_RESERVED", "SELF_TEST_TOPIC"),
    (24, "the consumer's group info not exist, or the pull consumer is rejected by server.\nSee", "PULL_REJECTED", ""),
    (23, "parse the consumer's subscription failed", "FILTER_EXPRESSION_INVALID", ""),
    (1, "The broker does not support consumer to filter message by SQL92", "PROPERTY_FILTER_DISABLED", ""),
]
OTHERS = [
    (16, "the topic[noread] pulling message is forbidden"),
    (16, "subscription group no permission, disabled"),
    (1, "the broker is not ready"),
    (1, None),
    (17, f"{DENIED} Topic:orders {WHY}"),
]


@pytest.mark.parametrize(("code", "remark", "condition", "name"), REPORTED)
def test_what_is_refused_to_the_caller_names_what_is_required(
    code: int, remark: str, condition: str, name: str
) -> None:
    error = refusal_error("a:1", RequestCode.PULL_MESSAGE, RemotingCommand(code, remark=remark))
    assert (error.condition, error.code) == (condition, code)
    assert error.context.get("topic", error.context.get("group", "")) == name
    assert all(part in str(error) for part in ("a:1", "PULL_MESSAGE", one_line(remark)))


@pytest.mark.parametrize(("code", "remark"), OTHERS)
def test_what_is_refused_to_all_callers_is_reported_by_its_code(code: int, remark: str | None) -> None:
    error = refusal_error("a:1", RequestCode.PULL_MESSAGE, RemotingCommand(code, remark=remark))
    assert (error.condition, error.code) == ("BROKER_ERROR", code)


@pytest.mark.parametrize(("code", "remark", "condition", "_name"), REPORTED)
def test_waiting_does_not_change_a_refusal(code: int, remark: str, condition: str, _name: str) -> None:
    """Though its code may pass: ACL 1.0 refuses with SYSTEM_ERROR."""
    error = refusal_error("a:1", RequestCode.PULL_MESSAGE, RemotingCommand(code, remark=remark))
    assert {retryability_of_request(error), retryability_of_pull(error), retryability_of_send(error)} == {
        Retryability.PERMANENT
    }


def test_a_refusal_has_names_where_there_are_any_and_the_number_always() -> None:
    error = refusal_error(
        "a:1", RequestCode.PULL_MESSAGE, RemotingCommand(ResponseCode.NO_PERMISSION, remark="forbidden")
    )
    assert error.code == ResponseCode.NO_PERMISSION
    assert "a:1 returned NO_PERMISSION (16) for PULL_MESSAGE: forbidden" in str(error)


@pytest.mark.parametrize("remark", [None, ""])
def test_an_unknown_code_and_a_remark_that_is_not_there_are_reported(remark: str | None) -> None:
    error = refusal_error("a:1", 31_998, RemotingCommand(31_999, remark=remark))
    assert "returned 31999 (31999) for 31998: (no remark)" in str(error)


def test_a_server_that_requests_something_unknown_gets_an_error() -> None:
    response = decode(memoryview(response_frame(RemotingCommand(31_999, opaque=5)))[4:])
    assert (response.code, response.remark) == (
        ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
        "request type 31999 not supported",
    )
    assert (response.opaque, response.flag) == (5, FLAG_RESPONSE)


def test_a_response_has_the_opaque_of_its_request() -> None:
    given = RemotingCommand(ResponseCode.SUCCESS, 9, fields={"a": "b"}, body=b"body")
    response = decode(memoryview(response_frame(RemotingCommand(31_999, opaque=5), given))[4:])
    assert response == replace(given, opaque=5, flag=FLAG_RESPONSE)


def test_a_long_remark_is_shown_shortened() -> None:
    error = refusal_error("h:1", RequestCode.PULL_MESSAGE, RemotingCommand(1, remark="x" * 1_000_000))
    assert error.context["remark"] == "x" * REMARK_CHARACTERS
