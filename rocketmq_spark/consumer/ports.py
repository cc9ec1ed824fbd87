"""Ports: what a member asks of name servers and brokers, and what it has learnt by that, for whoever plans.

``remoting`` answers it, and in tests a cluster in memory.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from rocketmq_spark.errors import RocketMQError
from rocketmq_spark.model import BrokerAddress, MessageQueue, QueueBounds
from rocketmq_spark.remoting.answer import Answer as Answer
from rocketmq_spark.remoting.looker import Looker
from rocketmq_spark.remoting.route_table import RouteTable
from rocketmq_spark.wire.body.groups import Heartbeat
from rocketmq_spark.wire.body.running_info import ConsumerRunningInfo


class BrokerPort(Protocol):
    """One broker. What each method means and raises stands in ``remoting.broker``. ``submit_…`` sends its question, and
    does not wait: so many can be asked in the time of one. Offsets are those of the next message, bounds half-open,
    times epoch milliseconds."""

    def submit_heartbeat(self, heartbeat: Heartbeat) -> Answer[None]: ...

    def unregister(self, client_id: str, group: str) -> None: ...

    def submit_consumer_ids(self, group: str) -> Answer[list[str]]: ...

    def submit_group_check(self, group: str, topic: str) -> Answer[None]: ...

    def running_infos(self, group: str, client_ids: Iterable[str]) -> dict[str, ConsumerRunningInfo]: ...

    def submit_topic_stats(self, topic: str) -> Answer[dict[MessageQueue, QueueBounds]]: ...

    def search_offsets(self, timestamps_ms: Mapping[MessageQueue, int], looker: Looker) -> dict[MessageQueue, int]: ...

    def submit_search_hints(self, timestamps_ms: Mapping[MessageQueue, int]) -> Answer[dict[MessageQueue, int]]: ...

    def stored_at(self, offsets: Mapping[MessageQueue, int], looker: Looker) -> dict[MessageQueue, int | None]: ...

    def submit_query_offsets(
        self, group: str, queues: Iterable[MessageQueue]
    ) -> Answer[dict[MessageQueue, int | None]]: ...

    def submit_update_offsets(
        self, group: str, offsets: Mapping[MessageQueue, int]
    ) -> Answer[dict[MessageQueue, RocketMQError]]: ...

    def take_reset(self, group: str, queue: MessageQueue) -> int | None: ...

    def put_reset(self, group: str, queue: MessageQueue, offset: int) -> None: ...

    def submit_lock_batch(
        self, group: str, client_id: str, queues: Collection[MessageQueue]
    ) -> Answer[set[MessageQueue]]: ...

    def submit_unlock_batch(self, group: str, client_id: str, queues: Collection[MessageQueue]) -> Answer[None]: ...


class Cluster(Protocol):
    """The routes, and the brokers by address. ``ClusterClient`` is one; that of the tests is in memory."""

    @property
    def routes(self) -> RouteTable: ...

    def broker(self, address: BrokerAddress) -> BrokerPort: ...

    def connects(self, address: BrokerAddress) -> int: ...

    def version(self, address: BrokerAddress) -> int: ...


Link = tuple[BrokerAddress, int]
"""A master's address and how often it has been connected to: who has the same still has the same connection."""


@dataclass(frozen=True, slots=True)
class Survey:
    """What a member knows after asking: its queues, and the bounds of every readable queue whose broker answered.

    ``is_complete``: every name server, topic and broker answered, and the group's members are known. ``away``: queues
    that were asked for and that nobody serves, with the last address of their broker; see ``Outages.away``. ``links``:
    by which each broker of ``bounds`` was reached, or has been since. ``leaving``: queues that are being given up, and
    that nobody else has yet. ``telling``: brokers that tell of a deleted topic, because they delete the group's offsets
    with it.
    """

    owned: frozenset[MessageQueue]
    bounds: Mapping[MessageQueue, QueueBounds]
    is_complete: bool
    away: Mapping[MessageQueue, str] = field(default_factory=dict)
    links: Mapping[str, Link | None] = field(default_factory=dict)
    leaving: frozenset[MessageQueue] = frozenset()
    telling: frozenset[str] = frozenset()
