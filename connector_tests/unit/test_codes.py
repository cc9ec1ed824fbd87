from __future__ import annotations

import pytest

from rocketmq_spark.wire.message.sys_flag import MessageSysFlag
from rocketmq_spark.wire.remoting.codes import PullSysFlag, RequestCode, ResponseCode, code_name


@pytest.mark.parametrize(
    ("kind", "code", "name"),
    [
        (ResponseCode, 17, "TOPIC_NOT_EXIST"),
        (ResponseCode, -1006, "RPC_TIME_OUT"),
        (RequestCode, 11, "PULL_MESSAGE"),
    ],
)
def test_a_known_code_has_rocketmqs_name(kind: type[RequestCode] | type[ResponseCode], code: int, name: str) -> None:
    assert code_name(kind, code) == name


@pytest.mark.parametrize("kind", [RequestCode, ResponseCode])
def test_an_unknown_code_is_named_by_its_number(kind: type[RequestCode] | type[ResponseCode]) -> None:
    assert code_name(kind, 4711) == "4711"


def test_the_flags_of_a_lite_pull_are_those_of_the_java_client() -> None:
    assert PullSysFlag.SUSPEND | PullSysFlag.SUBSCRIPTION | PullSysFlag.LITE_PULL_MESSAGE == 22


def test_a_rolled_back_message_differs_from_a_committed_one_within_the_mask() -> None:
    kinds = {
        MessageSysFlag.TRANSACTION_PREPARED,
        MessageSysFlag.TRANSACTION_COMMIT,
        MessageSysFlag.TRANSACTION_ROLLBACK,
    }
    assert {kind & MessageSysFlag.TRANSACTION_MASK for kind in kinds} == kinds
