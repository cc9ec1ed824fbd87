"""Meaning of a response code for the request of the response. Codes that are not in the table are refusals.

``remoting.retry`` decides about refusals. Source: ``client/impl/MQClientAPIImpl.java``, where each method has its own
switch.
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
"""Matches any remark."""


class Meaning(Enum):
    """Meaning of a response that is not a refusal."""

    ACCEPTED = "success"
    EMPTY = "an empty result"
    OFFSET_RESET_PENDING = "an operator has reset this offset, so the sent one was not stored"
    DELETED = "the message is deleted"
    POLL_EXPIRED = "by the server's clock the polling time of the request was over when it arrived"
    WRONG_SERVER_KIND = "a server of this kind does not support the request"


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
            # from a proxy, in the same case
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
        RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: {
            (ResponseCode.SUCCESS, ANY): Meaning.ACCEPTED,
            (ResponseCode.REQUEST_CODE_NOT_SUPPORTED, ANY): Meaning.WRONG_SERVER_KIND,
        },
        RequestCode.GET_CONSUMER_CONNECTION_LIST: {
            (ResponseCode.SUCCESS, ANY): Meaning.ACCEPTED,
            (ResponseCode.CONSUMER_NOT_ONLINE, ANY): Meaning.EMPTY,
        },
        RequestCode.POP_MESSAGE: {
            (ResponseCode.SUCCESS, ANY): Meaning.ACCEPTED,
            (ResponseCode.PULL_NOT_FOUND, ANY): Meaning.EMPTY,
            (ResponseCode.POLLING_FULL, ANY): Meaning.EMPTY,
            (ResponseCode.POLLING_TIMEOUT, "the broker["): Meaning.POLL_EXPIRED,
            (ResponseCode.POLLING_TIMEOUT, ANY): Meaning.EMPTY,
            (ResponseCode.REQUEST_CODE_NOT_SUPPORTED, ANY): Meaning.WRONG_SERVER_KIND,  # before RocketMQ 5
        },
        RequestCode.CHANGE_MESSAGE_INVISIBLETIME: {
            (ResponseCode.SUCCESS, ANY): Meaning.ACCEPTED,
            (ResponseCode.NO_MESSAGE, ANY): Meaning.DELETED,
        },
        RequestCode.SEND_MESSAGE_V2: _STORED,
        RequestCode.SEND_BATCH_MESSAGE: _STORED,
    }
)
"""By request code: response code and, without a code of its own, beginning of the remark; the first match applies. For
other requests only SUCCESS is accepted."""


def meaning_of(request_code: int, response: RemotingCommand) -> Meaning | None:
    """Return the meaning of a response to ``request_code`` by its code and the beginning of its remark (MEANINGS; by
    default only SUCCESS is ACCEPTED). None: the response refuses the request."""
    for (code, remark), meaning in MEANINGS.get(request_code, ONLY_SUCCESS).items():
        if response.code == code and (response.remark or "").startswith(remark):
            return meaning
    return None


def is_go_away(response: RemotingCommand) -> bool:
    """Return whether the response is GO_AWAY, to a request of any kind. The server shuts down. The caller must send the
    request again over another connection."""
    return response.code == ResponseCode.GO_AWAY
