"""Interfaces to name servers and brokers that a member uses, and the metadata that a planner gets from them.

Implemented by ``remoting``, and in tests by a cluster in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from rocketmq_spark.errors import RocketMQError
from rocketmq_spark.model import BrokerAddress, MessageFilter, MessageQueue, QueueBounds, TopicList
from rocketmq_spark.remoting.future import Future as Future
from rocketmq_spark.remoting.prober import Prober
from rocketmq_spark.remoting.route_table import RouteTable
from rocketmq_spark.wire.body.groups import Heartbeat
from rocketmq_spark.wire.body.running_info import ConsumerRunningInfo
from rocketmq_spark.wire.body.topics import TopicSettings


class BrokerApi(Protocol):
    """One broker. ``remoting.broker`` documents each method and its errors. A ``submit_…`` method sends its request and
    does not wait, so several requests take the time of one. Offsets are next offsets, bounds half-open, times epoch
    milliseconds."""

    def submit_heartbeat(self, heartbeat: Heartbeat) -> Future[None]: ...

    def unregister(self, client_id: str, group: str) -> None: ...

    def submit_consumer_ids(self, group: str) -> Future[list[str]]: ...

    def submit_group_check(self, group: str, topic: str) -> Future[None]: ...

    def submit_filter_check(self, group: str, topic: str, message_filter: MessageFilter) -> Future[None]: ...

    def query_topic_settings(self, topic: str) -> TopicSettings: ...

    def query_running_infos(self, group: str, client_ids: Iterable[str]) -> dict[str, ConsumerRunningInfo]: ...

    def submit_topic_stats(self, topic: str) -> Future[dict[MessageQueue, QueueBounds]]: ...

    def search_offsets(self, timestamps_ms: Mapping[MessageQueue, int], prober: Prober) -> dict[MessageQueue, int]: ...

    def submit_search_hints(self, timestamps_ms: Mapping[MessageQueue, int]) -> Future[dict[MessageQueue, int]]: ...

    def probe_store_times(
        self, offsets: Mapping[MessageQueue, int], prober: Prober
    ) -> dict[MessageQueue, int | None]: ...

    def probe_sizes(self, offsets: Mapping[MessageQueue, int], prober: Prober) -> dict[MessageQueue, int | None]: ...

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


class TopicSource(Protocol):
    """Name servers, which list topics. Implemented by ``NameServers``, and by a cluster in memory in tests."""

    def query_topic_list(self) -> TopicList: ...


class ClusterApi(Protocol):
    """Routes, and brokers by address. Implemented by ``ClusterClient``, and by a cluster in memory in tests."""

    @property
    def name_servers(self) -> TopicSource: ...

    @property
    def routes(self) -> RouteTable: ...

    def broker(self, address: BrokerAddress) -> BrokerApi: ...

    def connection_number(self, address: BrokerAddress) -> int: ...

    def version(self, address: BrokerAddress) -> int: ...


Link = tuple[BrokerAddress, int]
"""Address of a master and number of connections made to it so far: equal links mean the same connection."""


def links_to(queues: Iterable[MessageQueue], link_to: Callable[[str], Link | None]) -> dict[str, Link | None]:
    """Return the current links to the queues' brokers, by name. Call it before requests whose responses are to be
    attributed to a link: a broker may be killed after its response, while those of other brokers are awaited."""
    return {broker_name: link_to(broker_name) for broker_name in {queue.broker_name for queue in queues}}


class QueueQueries(Protocol):
    """Requests of a planner that change nothing at a broker. ``consumer.outage_aware_client`` implements and documents
    each method and its errors. Each waits; results of unresponsive brokers are missing. ``link`` sends nothing."""

    def query_bounds(self) -> dict[MessageQueue, QueueBounds]: ...

    def search_offsets(self, timestamps_ms: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]: ...

    def probe_store_times(self, offsets: Mapping[MessageQueue, int]) -> dict[MessageQueue, int | None]: ...

    def probe_sizes(self, offsets: Mapping[MessageQueue, int]) -> dict[MessageQueue, int | None]: ...

    def link(self, broker_name: str) -> Link | None: ...


@dataclass(frozen=True, slots=True)
class MetadataSnapshot:
    """Result of a metadata refresh: the member's queues, and the bounds of all readable queues of responsive brokers.

    ``is_complete``: every name server, topic and broker responded, and the group's members are known. ``unavailable``:
    expected queues that are not in the route, with the last address of their broker; see ``OutageTracker.unavailable``.
    ``links``: the link over which each broker of ``bounds`` was reached; if it was lost before all bounds were
    received, with connection number 0, which is never a current one. ``releasing``: queues that are being released, and
    that no other member owns yet. ``brokers_deleting_offsets``: brokers where a deleted topic is detectable, because
    they delete the group's offsets with it. ``brokers_at_slaves``: brokers without a master, whose bounds are those of
    a slave. ``topics``: those that the member reads.
    """

    owned: frozenset[MessageQueue]
    bounds: Mapping[MessageQueue, QueueBounds]
    is_complete: bool
    unavailable: Mapping[MessageQueue, str] = field(default_factory=dict)
    links: Mapping[str, Link | None] = field(default_factory=dict)
    releasing: frozenset[MessageQueue] = frozenset()
    brokers_deleting_offsets: frozenset[str] = frozenset()
    brokers_at_slaves: frozenset[str] = frozenset()
    topics: frozenset[str] = frozenset()
