"""What a broker answers that refuses."""

from __future__ import annotations

from rocketmq_spark.errors import BrokerError
from rocketmq_spark.wire.remoting.codes import ResponseCode, code_name


def refused(code: int, address: str = "a:1") -> BrokerError:
    """A refusal with that code and no words, of a request that does not matter."""
    name = code_name(ResponseCode, code)
    return BrokerError(
        "BROKER_ERROR", address=address, request="PULL_MESSAGE", code=int(code), code_name=name, remark=""
    )
