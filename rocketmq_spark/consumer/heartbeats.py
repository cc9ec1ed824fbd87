"""Heartbeats: one round of them. It knows no membership, so it can be sent while somebody else has the turn."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocketmq_spark.errors import BrokerError, RocketMQError
from rocketmq_spark.wire.body.groups import Heartbeat

if TYPE_CHECKING:
    from rocketmq_spark.consumer.cluster_api import ClusterApi, Future
    from rocketmq_spark.model import BrokerAddress

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Heartbeats:
    """The same to each address."""

    heartbeat: Heartbeat
    addresses: tuple[BrokerAddress, ...]

    def send(self, cluster: ClusterApi) -> set[BrokerAddress]:
        """All at once; who has answered. Who has not is told again by the timer."""
        sent: dict[BrokerAddress, Future[None]] = {}
        acknowledged: set[BrokerAddress] = set()
        for address in self.addresses:
            with _warning_of(address):
                sent[address] = cluster.broker(address).submit_heartbeat(self.heartbeat)
        for address, future in sent.items():
            with _warning_of(address):
                future.result()
                acknowledged.add(address)
        return acknowledged


@contextmanager
def _warning_of(address: BrokerAddress) -> Iterator[None]:
    try:
        yield
    except RocketMQError as error:
        # Of a silent broker tells who waits for it; a refused heartbeat has no other witness.
        level = logging.WARNING if isinstance(error, BrokerError) else logging.DEBUG
        log.log(level, "HEARTBEAT_FAILED: Heartbeat to address=%s failed; repeated on schedule: %s", address, error)
