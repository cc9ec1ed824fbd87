"""Where a proxy says that a topic is. Source: ``proxy/grpc/v2/route/RouteActivity.java``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeAlias

from rocketmq_spark.model import MASTER_ID
from rocketmq_spark.wire.grpc.messaging_pb2 import Endpoints, MessageQueue, MessageType, Permission

Addresses: TypeAlias = tuple[str, ...]
"""Of one server, ``host:port`` each."""

_READABLE: Final = frozenset({Permission.READ, Permission.READ_WRITE})


def brokers_of(queues: Iterable[MessageQueue]) -> dict[str, Addresses]:
    """By the names of brokers that have readable queues: where they are asked, which is a proxy each."""
    readable = (queue for queue in queues if queue.permission in _READABLE and queue.broker.id == MASTER_ID)
    return {queue.broker.name: addresses_of(queue.broker.endpoints) for queue in readable}


def is_ordered(queues: Iterable[MessageQueue]) -> bool:
    """Whether the topic takes messages that are to be read in order, and no others."""
    return any(list(queue.accept_message_types) == [MessageType.FIFO] for queue in queues)


def addresses_of(endpoints: Endpoints) -> Addresses:
    """In the spelling of options."""
    return tuple(
        f"[{address.host}]:{address.port}" if ":" in address.host else f"{address.host}:{address.port}"
        for address in endpoints.addresses
    )
