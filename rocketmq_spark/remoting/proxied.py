"""Brokers behind a proxy. All of them are at one address, the proxy's, so each request says which broker is meant.

A proxy's remoting port answers in place of name servers and of brokers. What is for a broker it passes on, to the one
that the request names. Source: ``proxy/remoting/activity/AbstractRemotingActivity.java#request``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from rocketmq_spark.model import TopicRoute
from rocketmq_spark.wire.remoting.codes import RequestCode
from rocketmq_spark.wire.remoting.command import RemotingCommand

BROKER_NAME: Final = "bname"
BROKER_NAME_OF_SENDS: Final = "n"
_SENDS: Final = frozenset({RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE})

_PROXY_RESPONSE_FIELDS: Final = frozenset({"MSG_REGION", "TRACE_ON"})


def is_from_proxy(route_fields: Mapping[str, str]) -> bool:
    """By the fields of an answer with a route: a proxy puts these two into all its answers, a name server none.

    Source: ``proxy/remoting/activity/AbstractRemotingActivity.java#writeResponse``.
    """
    return route_fields.keys() >= _PROXY_RESPONSE_FIELDS


def behind_proxy(route: TopicRoute) -> TopicRoute:
    """A proxy's route, in which each broker has the proxy's address."""
    return replace(route, brokers=tuple(replace(broker, is_proxied=True) for broker in route.brokers))


def with_broker_name(command: RemotingCommand, broker_name: str) -> RemotingCommand:
    """The request as it is sent to a broker behind a proxy: it says for whom it is."""
    field = BROKER_NAME_OF_SENDS if command.code in _SENDS else BROKER_NAME
    return replace(command, fields={**command.fields, field: broker_name})
