"""Reachable addresses of brokers whose advertised ones cannot be reached from here, such as those of containers. Pure.

``address_map``: pairs of an advertised address and the reachable one, of ``brokerAddressMap``. Other addresses stay.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeAlias

from rocketmq_spark.model import BrokerData, TopicRoute

AddressMap: TypeAlias = tuple[tuple[str, str], ...]


def reachable_broker(broker: BrokerData, address_map: AddressMap) -> BrokerData:
    """Return ``broker`` with reachable addresses, of its master and its slaves."""
    reachable = dict(address_map)
    return replace(broker, addresses={number: reachable.get(at, at) for number, at in broker.addresses.items()})


def reachable_route(route: TopicRoute, address_map: AddressMap) -> TopicRoute:
    """Return ``route`` with reachable addresses of all its brokers."""
    if not address_map:
        return route
    return replace(route, brokers=tuple(reachable_broker(broker, address_map) for broker in route.brokers))
