"""Heartbeats: one round of heartbeats. It needs no membership, so it is sent without the group lock."""

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
    """One round of heartbeats: the same heartbeat to each of ``addresses``."""

    heartbeat: Heartbeat
    addresses: tuple[BrokerAddress, ...]

    def send(self, cluster: ClusterApi) -> set[BrokerAddress]:
        """Send the heartbeat to all addresses concurrently, wait for all responses, and return the addresses that
        acknowledged. Failures are logged (``_logging_failures_of``), not raised; the caller repeats them on
        schedule."""
        sent: dict[BrokerAddress, Future[None]] = {}
        acknowledged: set[BrokerAddress] = set()
        for address in self.addresses:
            with _logging_failures_of(address):
                sent[address] = cluster.broker(address).submit_heartbeat(self.heartbeat)
        for address, future in sent.items():
            with _logging_failures_of(address):
                future.result()
                acknowledged.add(address)
        return acknowledged


@contextmanager
def _logging_failures_of(address: BrokerAddress) -> Iterator[None]:
    """Log a RocketMQError of the block, and do not raise it: a broker's refusal at WARNING, any other at DEBUG."""
    try:
        yield
    except RocketMQError as error:
        # An unresponsive broker is logged as an outage; a refused heartbeat is logged only here.
        level = logging.WARNING if isinstance(error, BrokerError) else logging.DEBUG
        log.log(level, "HEARTBEAT_FAILED: Heartbeat to address=%s failed; repeated on schedule: %s", address, error)
