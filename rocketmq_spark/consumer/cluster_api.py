"""Ports: what a member asks of name servers and brokers, and what it has learnt by that, for whoever plans.

``remoting`` answers it, and in tests a cluster in memory.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from rocketmq_spark.errors import RocketMQError
from rocketmq_spark.model import BrokerAddress, MessageQueue, QueueBounds
from rocketmq_spark.remoting.future import Future as Future
from rocketmq_spark.remoting.prober import Prober
from rocketmq_spark.remoting.route_table import RouteTable
from rocketmq_spark.wire.body.groups import Heartbeat
from rocketmq_spark.wire.body.running_info import ConsumerRunningInfo


class BrokerApi(Protocol):
    """One broker. What each method means and raises stands in ``remoting.broker``. ``submit_…`` sends its question, and
    does not wait: so many can be asked in the time of one. Offsets are those of the next message, bounds half-open,
    times epoch milliseconds."""

    def submit_heartbeat(self, heartbeat: Heartbeat) -> Future[None]: ...

    def unregister(self, client_id: str, group: str) -> None: ...

    def submit_consumer_ids(self, group: str) -> Future[list[str]]: ...

    def submit_group_check(self, group: str, topic: str) -> Future[None]: ...

    def running_infos(self, group: str, client_ids: Iterable[str]) -> dict[str, ConsumerRunningInfo]: ...

    def submit_topic_stats(self, topic: str) -> Future[dict[MessageQueue, QueueBounds]]: ...

    def search_offsets(self, timestamps_ms: Mapping[MessageQueue, int], prober: Prober) -> dict[MessageQueue, int]: ...

    def submit_search_hints(self, timestamps_ms: Mapping[MessageQueue, int]) -> Future[dict[MessageQueue, int]]: ...

    def store_times(self, offsets: Mapping[MessageQueue, int], prober: Prober) -> dict[MessageQueue, int | None]: ...

    def submit_query_offsets(
        self, group: str, queues: Iterable[MessageQueue]
    ) -> Future[dict[MessageQueue, int | None]]: ...

    def submit_update_offsets(
        self, group: str, offsets: Mapping[MessageQueue, int]
    ) -> Future[dict[MessageQueue, RocketMQError]]: ...

    def consume_reset(self, group: str, queue: MessageQueue) -> int | None: ...

    def restore_reset(self, group: str, queue: MessageQueue, offset: int) -> None: ...

    def submit_lock_batch(
        self, group: str, client_id: str, queues: Collection[MessageQueue]
    ) -> Future[set[MessageQueue]]: ...

    def submit_unlock_batch(self, group: str, client_id: str, queues: Collection[MessageQueue]) -> Future[None]: ...


class ClusterApi(Protocol):
    """The routes, and the brokers by address. ``ClusterClient`` is one; that of the tests is in memory."""

    @property
    def routes(self) -> RouteTable: ...

    def broker(self, address: BrokerAddress) -> BrokerApi: ...

    def connection_number(self, address: BrokerAddress) -> int: ...

    def version(self, address: BrokerAddress) -> int: ...


Link = tuple[BrokerAddress, int]
"""A master's address and how often it has been connected to: who has the same still has the same connection."""


@dataclass(frozen=True, slots=True)
class MetadataSnapshot:
    """What a member knows after asking: its queues, and the bounds of every readable queue whose broker answered.

    ``is_complete``: every name server, topic and broker answered, and the group's members are known. ``unavailable``:
    queues that were asked for and that nobody serves, with the last address of their broker; see
    ``OutageTracker.unavailable``. ``links``: by which each broker of ``bounds`` was reached, or has been since.
    ``releasing``: queues that are being given up, and that nobody else has yet. ``brokers_deleting_offsets``: brokers
    that tell of a deleted topic, because they delete the group's offsets with it.
    """

    owned: frozenset[MessageQueue]
    bounds: Mapping[MessageQueue, QueueBounds]
    is_complete: bool
    unavailable: Mapping[MessageQueue, str] = field(default_factory=dict)
    links: Mapping[str, Link | None] = field(default_factory=dict)
    releasing: frozenset[MessageQueue] = frozenset()
    brokers_deleting_offsets: frozenset[str] = frozenset()
