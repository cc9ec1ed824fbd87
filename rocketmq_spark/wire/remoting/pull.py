"""What a pull answered, as values: the status a client sees and why the broker gave it."""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple, TypeAlias

from rocketmq_spark.errors import RocketMQError
from rocketmq_spark.wire.remoting.codes import ResponseCode
from rocketmq_spark.wire.remoting.command import RemotingCommand
from rocketmq_spark.wire.remoting.headers import PullMessageResponse


class PullStatus(Enum):
    """The client's view of a pull. Source: ``client/consumer/PullStatus.java``."""

    FOUND = "FOUND"
    NO_NEW_MSG = "NO_NEW_MSG"
    NO_MATCHED_MSG = "NO_MATCHED_MSG"
    OFFSET_ILLEGAL = "OFFSET_ILLEGAL"

    __hash__ = object.__hash__  # Enum's own is a Python call, and every pull is looked up by its status


PULL_STATUS: Final[dict[int, PullStatus]] = {
    ResponseCode.SUCCESS: PullStatus.FOUND,
    ResponseCode.PULL_NOT_FOUND: PullStatus.NO_NEW_MSG,
    ResponseCode.PULL_RETRY_IMMEDIATELY: PullStatus.NO_MATCHED_MSG,
    ResponseCode.PULL_OFFSET_MOVED: PullStatus.OFFSET_ILLEGAL,
}
"""Response codes of a pull that are outcomes, not errors.
Source: ``client/impl/MQClientAPIImpl.java#processPullResponse``."""


OFFSET_RESET: Final = "OFFSET_RESET"
"""The reason of the one pull that is told of an operator's reset; ``next_begin_offset`` is where it was reset to."""


class PullResult(NamedTuple):
    """The answer to one pull.

    ``reason`` is the name of the broker's ``GetMessageStatus`` (it travels as the remark) and tells apart what one
    status stands for. ``[min_offset, max_offset)`` is what the queue holds. ``body``: encoded messages, one after
    another, empty unless FOUND.
    """

    status: PullStatus
    reason: str
    next_begin_offset: int
    min_offset: int
    max_offset: int
    body: memoryview


PullOutcome: TypeAlias = PullResult | RocketMQError
"""What became of a pull."""


def read_pull(response: RemotingCommand) -> PullResult:
    """The result in an answer whose code is one of ``PULL_STATUS``. Raises
    RemoteProtocolError[MALFORMED_RESPONSE.HEADER]."""
    header = PullMessageResponse.from_fields(response.fields)
    return PullResult(
        status=PULL_STATUS[response.code],
        reason=response.remark or "",
        next_begin_offset=header.next_begin_offset,
        min_offset=header.min_offset,
        max_offset=header.max_offset,
        body=memoryview(response.body),
    )
