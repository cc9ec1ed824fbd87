"""Results of pulls: the status as a Java client reports it, and the broker's reason."""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple, TypeAlias

from rocketmq_spark.errors import RocketMQError
from rocketmq_spark.model import MASTER_ID
from rocketmq_spark.wire.remoting.codes import ResponseCode
from rocketmq_spark.wire.remoting.command import RemotingCommand
from rocketmq_spark.wire.remoting.headers import PullMessageResponse


class PullStatus(Enum):
    """Status of a pull. Source: ``client/consumer/PullStatus.java``."""

    FOUND = "FOUND"
    NO_NEW_MSG = "NO_NEW_MSG"
    NO_MATCHED_MSG = "NO_MATCHED_MSG"
    OFFSET_ILLEGAL = "OFFSET_ILLEGAL"

    __hash__ = object.__hash__  # Enum's is a Python call, and each pull's status is looked up


PULL_STATUS: Final[dict[int, PullStatus]] = {
    ResponseCode.SUCCESS: PullStatus.FOUND,
    ResponseCode.PULL_NOT_FOUND: PullStatus.NO_NEW_MSG,
    ResponseCode.PULL_RETRY_IMMEDIATELY: PullStatus.NO_MATCHED_MSG,
    ResponseCode.PULL_OFFSET_MOVED: PullStatus.OFFSET_ILLEGAL,
}
"""Response codes of a pull that are outcomes, not errors. Source:
``client/impl/MQClientAPIImpl.java#processPullResponse``."""


MAX_ID_DIGITS: Final = 18

OFFSET_RESET: Final = "OFFSET_RESET"
"""Reason of the one pull result that reports an operator's offset reset; its ``next_begin_offset`` is the new
offset."""


class PullResult(NamedTuple):
    """Response to one pull.

    ``reason`` is the name of the broker's ``GetMessageStatus`` (sent as the remark), which distinguishes the causes of
    one status. The queue holds offsets ``[min_offset, max_offset)``. ``body``: encoded messages, one after another,
    empty unless FOUND.
    """

    status: PullStatus
    reason: str
    next_begin_offset: int
    min_offset: int
    max_offset: int
    body: memoryview


PullOutcome: TypeAlias = PullResult | RocketMQError
"""Result of a pull, or the error that it failed with."""


def suggested_broker_id(response: RemotingCommand) -> int:
    """Return the ID of the broker's server (0 is the master) that the response suggests for the next pull, or the
    master's without a valid suggestion. Source: ``remoting/protocol/header/PullMessageResponseHeader.java``."""
    text = response.fields.get("suggestWhichBrokerId", "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= MAX_ID_DIGITS else MASTER_ID


def read_pull(response: RemotingCommand) -> PullResult:
    """Decode the result of a pull from a response whose code is in ``PULL_STATUS``; another code raises KeyError.
    Raises RemoteProtocolError[MALFORMED_RESPONSE.HEADER]."""
    header = PullMessageResponse.from_fields(response.fields)
    return PullResult(
        status=PULL_STATUS[response.code],
        reason=response.remark or "",
        next_begin_offset=header.next_begin_offset,
        min_offset=header.min_offset,
        max_offset=header.max_offset,
        body=memoryview(response.body),
    )
