"""The doors of this room: what a member needs of a cluster, and what a planner gets of a member.

``remoting.cluster`` and ``Member`` are behind them; in the model of the tests a simulated cluster is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol

from rocketmq_spark.errors import RocketMQError
from rocketmq_spark.model import MessageQueue, QueueBounds, TopicRoute
from rocketmq_spark.wire.body.heartbeat import Heartbeat
from rocketmq_spark.wire.body.running_info import ConsumerRunningInfo


class BrokerPort(Protocol):
    """One broker. What each method means and raises stands in ``remoting.broker``."""

    def heartbeat(self, heartbeat: Heartbeat) -> None: ...

    def unregister(self, client_id: str, group: str) -> None: ...

    def consumer_ids(self, group: str) -> list[str]: ...

    def running_infos(self, group: str, client_ids: Iterable[str]) -> dict[str, ConsumerRunningInfo]: ...

    def topic_stats(self, topic: str) -> dict[MessageQueue, QueueBounds]: ...

    def search_offset(self, queue: MessageQueue, timestamp_ms: int) -> int: ...

    def query_offsets(self, group: str, queues: Iterable[MessageQueue]) -> dict[MessageQueue, int | None]: ...

    def update_offsets(self, group: str, offsets: Mapping[MessageQueue, int]) -> dict[MessageQueue, RocketMQError]: ...

    def take_reset(self, group: str, queue: MessageQueue) -> int | None: ...

    def reset_offset(self, group: str, queue: MessageQueue, offset: int) -> object: ...

    def lock_batch(self, group: str, client_id: str, queues: Collection[MessageQueue]) -> set[MessageQueue]: ...

    def unlock_batch(self, group: str, client_id: str, queues: Collection[MessageQueue]) -> None: ...


class OffsetKeeper(Protocol):
    """Where offsets are kept: at the brokers (``Inquiry``), or in a file of the query's own
    (``LocalFileOffsetStore``)."""

    def stored_offsets(self, queues: Iterable[MessageQueue]) -> dict[MessageQueue, int | None]: ...

    def write_offsets(self, offsets: Mapping[MessageQueue, int]) -> set[MessageQueue]: ...


class Cluster(Protocol):
    """The name servers, and the brokers by address."""

    def topic_route(self, topic: str) -> TopicRoute: ...

    def broker(self, address: str) -> BrokerPort: ...


@dataclass(frozen=True, slots=True)
class Survey:
    """What a member knows after asking: its queues, and the bounds of every readable queue whose broker answered.

    ``is_complete``: every name server, topic and broker answered, and the group's members are known. ``away``: queues
    that were asked for and that nobody serves, with the last address of their broker; see ``Inquiry.away``.
    """

    owned: frozenset[MessageQueue]
    bounds: Mapping[MessageQueue, QueueBounds]
    is_complete: bool
    away: Mapping[MessageQueue, str] = field(default_factory=dict)


class GroupMember(Protocol):
    """What a batch planner works with. What each method means stands in ``Membership`` and ``Member``."""

    def turn(self) -> AbstractContextManager[object]: ...

    def survey(self, known: Collection[MessageQueue] = ()) -> Survey: ...

    def ask_bounds(self) -> dict[MessageQueue, QueueBounds]: ...

    def search_offsets(self, timestamps_ms: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]: ...

    def stored_offsets(self, queues: Iterable[MessageQueue]) -> dict[MessageQueue, int | None]: ...

    def raise_offsets(self, wanted: Mapping[MessageQueue, int]) -> set[MessageQueue]: ...

    def lower_offsets(self, wanted: Mapping[MessageQueue, int]) -> set[MessageQueue]: ...

    def look_for_resets(self, queues: Iterable[MessageQueue]) -> None: ...

    def take_resets(self) -> dict[MessageQueue, int]: ...

    def keep_resets(self, resets: Mapping[MessageQueue, int]) -> None: ...

    def take(self, ranges: Mapping[MessageQueue, tuple[int, int]]) -> None: ...

    def prove(self, end_offsets: Mapping[MessageQueue, int]) -> None: ...

    def persist(self) -> bool: ...

    def wait_for_news(self, positions: Mapping[MessageQueue, int], timeout_ms: int) -> bool: ...

    def hand_over(self) -> None: ...
