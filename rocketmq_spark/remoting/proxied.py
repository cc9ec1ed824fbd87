"""Brokers behind a proxy's remoting port. All have the proxy's address, so each request names its broker.

A proxy's remoting port stands in for name servers and brokers, and forwards a request to the broker in the request.
Source: ``proxy/remoting/activity/AbstractRemotingActivity.java#request``.
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
    """Return whether a route response with these fields is from a proxy. A proxy's responses have MSG_REGION and
    TRACE_ON, a name server's have neither.

    Source: ``proxy/remoting/activity/AbstractRemotingActivity.java#writeResponse``.
    """
    return route_fields.keys() >= _PROXY_RESPONSE_FIELDS


def behind_proxy(route: TopicRoute) -> TopicRoute:
    """Return a proxy's route with all its brokers marked as proxied: their address is the proxy's."""
    return replace(route, brokers=tuple(replace(broker, is_proxied=True) for broker in route.brokers))


def with_broker_name(command: RemotingCommand, broker_name: str) -> RemotingCommand:
    """Return a copy of the request with the broker's name, by which a proxy forwards it. The field is "n" for V2 and
    batch sends, otherwise "bname"."""
    field = BROKER_NAME_OF_SENDS if command.code in _SENDS else BROKER_NAME
    return replace(command, fields={**command.fields, field: broker_name})
