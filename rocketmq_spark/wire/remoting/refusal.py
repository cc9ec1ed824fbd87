"""What an answer means whose code is none that was asked for."""

from __future__ import annotations

from rocketmq_spark.errors import BrokerError
from rocketmq_spark.wire.remoting.codes import RequestCode, ResponseCode, code_name
from rocketmq_spark.wire.remoting.command import RemotingCommand


def refusal(address: str, request_code: int, answer: RemotingCommand) -> BrokerError:
    """BrokerError[BROKER_REFUSED] by the server at ``address``."""
    return BrokerError(
        "BROKER_REFUSED",
        address=address,
        request=code_name(RequestCode, request_code),
        code=answer.code,
        code_name=code_name(ResponseCode, answer.code),
        remark=answer.remark or "(no remark)",
    )


def not_supported(request: RemotingCommand) -> RemotingCommand:
    """What a server is answered that asks for what nobody here knows."""
    remark = f"request type {request.code} not supported"
    return RemotingCommand(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark=remark)
