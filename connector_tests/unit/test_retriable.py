from __future__ import annotations

import pytest

from rocketmq_spark.errors import BrokerError, RemoteProtocolError, RocketMQError, TransportError
from rocketmq_spark.remoting.retriable import is_retriable
from rocketmq_spark.wire.remoting.codes import ResponseCode


def refused(code: int) -> BrokerError:
    return BrokerError("BROKER_REFUSED", address="a:1", request="PULL", code=code, code_name=str(code), remark="")


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (TransportError("CONNECTION_LOST", address="a:1", reason="cut"), True),
        (TransportError("CONNECT_FAILED", address="a:1", reason="refused"), True),
        (TransportError("RESPONSE_TIMED_OUT", address="a:1", request="X", timeout_ms=1), True),
        (refused(ResponseCode.SYSTEM_BUSY), True),
        (refused(ResponseCode.SYSTEM_ERROR), True),
        (refused(ResponseCode.NO_PERMISSION), False),
        (refused(ResponseCode.TOPIC_NOT_EXIST), False),
        (refused(99_999), False),
        (RemoteProtocolError("BAD_FRAME", peer="a:1", problem="garbage"), False),
    ],
)
def test_what_another_attempt_can_help_is_decided_by_condition_and_code(error: RocketMQError, expected: bool) -> None:
    assert is_retriable(error) is expected
