"""Brokers behind a proxy. All of them are at one address, the proxy's, so theirs also say who is meant:
``broker-a@host:port``.

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

_AT: Final = "@"
"""In the name of a broker there may be one, in that of a host never."""

BROKER_NAME: Final = "bname"
BROKER_NAME_OF_SENDS: Final = "n"
_SENDS: Final = frozenset({RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE})

_SAID_BY_PROXIES: Final = frozenset({"MSG_REGION", "TRACE_ON"})


def is_from_proxy(route_fields: Mapping[str, str]) -> bool:
    """By the fields of an answer with a route: a proxy puts these two into all its answers, a name server none.

    Source: ``proxy/remoting/activity/AbstractRemotingActivity.java#writeResponse``.
    """
    return route_fields.keys() >= _SAID_BY_PROXIES


def behind_proxy(route: TopicRoute) -> TopicRoute:
    """A proxy's route, in which each broker has the proxy's address: with addresses that say which broker is meant."""
    brokers = tuple(
        replace(
            broker,
            addresses={number: f"{broker.broker_name}{_AT}{proxy}" for number, proxy in broker.addresses.items()},
        )
        for broker in route.brokers
    )
    return replace(route, brokers=brokers)


def is_proxied(address: str) -> bool:
    """Whether it is a broker's behind a proxy."""
    return _AT in address


def door(address: str) -> str:
    """``host:port``, which is connected to."""
    return address.rpartition(_AT)[2]


def broker_named_in(address: str) -> str:
    """Of a broker behind a proxy."""
    return address.rpartition(_AT)[0]


def addressed(command: RemotingCommand, address: str) -> RemotingCommand:
    """The request as it is sent to a broker behind a proxy: it says for whom it is."""
    field = BROKER_NAME_OF_SENDS if command.code in _SENDS else BROKER_NAME
    return replace(command, fields={**command.fields, field: broker_named_in(address)})
