"""Which failures may pass by themselves, so that the same reading call is worth another attempt."""

from __future__ import annotations

from typing import Final

from rocketmq_spark.errors import BrokerError, RocketMQError, RouteError
from rocketmq_spark.wire.remoting.codes import ResponseCode

RETRIABLE: Final = frozenset(
    {
        ResponseCode.SYSTEM_ERROR,  # also what a broker says while it starts and stops
        ResponseCode.SYSTEM_BUSY,
        ResponseCode.SERVICE_NOT_AVAILABLE,
        ResponseCode.FLOW_CONTROL,
        ResponseCode.NOT_LEADER_FOR_QUEUE,
        ResponseCode.GO_AWAY,
    }
)
"""Refusals of a broker that another attempt may improve."""

AWAY: Final = frozenset(
    {
        ResponseCode.TOPIC_NOT_EXIST,
        ResponseCode.NO_PERMISSION,
        ResponseCode.INVALID_PARAMETER,  # a queue id that the topic has no more
    }
)
"""Refusals of a pull by a broker that does not serve the queue."""


def is_away(error: RocketMQError) -> bool:
    """Whether the error of a pull says that nobody serves the queue now, which an operator may change."""
    return isinstance(error, RouteError) or (isinstance(error, BrokerError) and error.code in AWAY)


def is_retriable(error: RocketMQError) -> bool:
    """Whether the same call may succeed later."""
    return error.code in RETRIABLE if isinstance(error, BrokerError) else error.retriable
