"""Meanings: what the code of an answer says to the request that it answers. All that is not in the table refuses.

What becomes of a refusal is decided elsewhere: ``remoting.retry``. Source: ``client/impl/MQClientAPIImpl.java``, where
each method has a switch of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final

from rocketmq_spark.wire.remoting.codes import RequestCode, ResponseCode
from rocketmq_spark.wire.remoting.command import RemotingCommand
from rocketmq_spark.wire.remoting.pull import PULL_STATUS

ANY: Final = ""
"""Whatever the remark."""


class Meaning(Enum):
    """Of an answer that is no refusal."""

    ACCEPTED = "success"
    EMPTY = "there is nothing of the kind"
    OFFSET_RESET_PENDING = "an operator has reset this offset, so what we sent was not stored"
    DELETED = "the message is deleted"
    POLL_EXPIRED = "by the server's clock the request came after the time for which it was to be held"
    WRONG_SERVER_KIND = "a server of this kind is not asked for that"


Meanings = Mapping[tuple[int, str], Meaning]

ONLY_SUCCESS: Final[Meanings] = MappingProxyType({(ResponseCode.SUCCESS, ANY): Meaning.ACCEPTED})

_STORED: Final[Meanings] = MappingProxyType(
    {
        (ResponseCode.SUCCESS, ANY): Meaning.ACCEPTED,
        (ResponseCode.FLUSH_DISK_TIMEOUT, ANY): Meaning.ACCEPTED,
        (ResponseCode.SLAVE_NOT_AVAILABLE, ANY): Meaning.ACCEPTED,
        (ResponseCode.FLUSH_SLAVE_TIMEOUT, ANY): Meaning.ACCEPTED,
    }
)

MEANINGS: Final[Mapping[int, Meanings]] = MappingProxyType(
    {
        RequestCode.PULL_MESSAGE: {(code, ANY): Meaning.ACCEPTED for code in PULL_STATUS},
        RequestCode.QUERY_CONSUMER_OFFSET: {
            (ResponseCode.SUCCESS, ANY): Meaning.ACCEPTED,
            (ResponseCode.QUERY_NOT_FOUND, ANY): Meaning.EMPTY,
        },
        RequestCode.UPDATE_CONSUMER_OFFSET: {
            (ResponseCode.SUCCESS, "Offset has been previously reset"): Meaning.OFFSET_RESET_PENDING,
            (ResponseCode.SUCCESS, ANY): Meaning.ACCEPTED,
        },
        RequestCode.CONSUMER_SEND_MSG_BACK: {
            (ResponseCode.SUCCESS, ANY): Meaning.ACCEPTED,
            (ResponseCode.SYSTEM_ERROR, "look message by offset failed"): Meaning.DELETED,
        },
        RequestCode.GET_CONSUMER_LIST_BY_GROUP: {
            (ResponseCode.SUCCESS, ANY): Meaning.ACCEPTED,
            (ResponseCode.SYSTEM_ERROR, "no consumer for this group"): Meaning.EMPTY,
            # by a proxy, which means to ask the same
            (ResponseCode.SYSTEM_ERROR, 'Cannot invoke "org.apache.rocketmq.broker.client.ConsumerGroupInfo.'): (
                Meaning.EMPTY
            ),
        },
        RequestCode.GET_ROUTEINFO_BY_TOPIC: {
            (ResponseCode.SUCCESS, ANY): Meaning.ACCEPTED,
            (ResponseCode.TOPIC_NOT_EXIST, ANY): Meaning.EMPTY,
            (ResponseCode.REQUEST_CODE_NOT_SUPPORTED, ANY): Meaning.WRONG_SERVER_KIND,
        },
        RequestCode.GET_BROKER_CLUSTER_INFO: {
            (ResponseCode.SUCCESS, ANY): Meaning.ACCEPTED,
            (ResponseCode.REQUEST_CODE_NOT_SUPPORTED, ANY): Meaning.WRONG_SERVER_KIND,
        },
        RequestCode.POP_MESSAGE: {
            (ResponseCode.SUCCESS, ANY): Meaning.ACCEPTED,
            (ResponseCode.PULL_NOT_FOUND, ANY): Meaning.EMPTY,
            (ResponseCode.POLLING_FULL, ANY): Meaning.EMPTY,
            (ResponseCode.POLLING_TIMEOUT, "the broker["): Meaning.POLL_EXPIRED,
            (ResponseCode.POLLING_TIMEOUT, ANY): Meaning.EMPTY,
        },
        RequestCode.CHANGE_MESSAGE_INVISIBLETIME: {
            (ResponseCode.SUCCESS, ANY): Meaning.ACCEPTED,
            (ResponseCode.NO_MESSAGE, ANY): Meaning.DELETED,
        },
        RequestCode.SEND_MESSAGE_V2: _STORED,
        RequestCode.SEND_BATCH_MESSAGE: _STORED,
    }
)
"""By request: code and beginning of the remark, for what has no code of its own, to what it means; the first line that
fits counts. A request that is not in here takes SUCCESS only."""


def meaning_of(request_code: int, response: RemotingCommand) -> Meaning | None:
    """None: the server refuses."""
    for (code, remark), meaning in MEANINGS.get(request_code, ONLY_SUCCESS).items():
        if response.code == code and (response.remark or "").startswith(remark):
            return meaning
    return None


def is_go_away(response: RemotingCommand) -> bool:
    """Whether a server that stops wants the same request over another connection, whatever it was."""
    return response.code == ResponseCode.GO_AWAY
