from __future__ import annotations

import pytest

from rocketmq_spark.wire.remoting.codes import RequestCode, ResponseCode
from rocketmq_spark.wire.remoting.command import RemotingCommand
from rocketmq_spark.wire.remoting.refusal import not_supported, refusal


def test_a_refusal_has_names_where_there_are_any_and_the_number_always() -> None:
    error = refusal("a:1", RequestCode.PULL_MESSAGE, RemotingCommand(ResponseCode.NO_PERMISSION, remark="forbidden"))
    assert error.code == ResponseCode.NO_PERMISSION
    assert "a:1 answered PULL_MESSAGE with NO_PERMISSION (16): forbidden" in str(error)


@pytest.mark.parametrize("remark", [None, ""])
def test_a_code_that_nobody_knows_and_a_remark_that_is_not_there_are_said_so(remark: str | None) -> None:
    error = refusal("a:1", 31_998, RemotingCommand(31_999, remark=remark))
    assert "31998 with 31999 (31999): (no remark)" in str(error)


def test_a_server_that_asks_for_what_nobody_knows_is_told_so() -> None:
    answer = not_supported(RemotingCommand(31_999))
    assert (answer.code, answer.remark) == (
        ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
        "request type 31999 not supported",
    )
