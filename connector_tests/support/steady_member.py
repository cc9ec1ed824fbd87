"""A member of a group in a simulated cluster, and planners of it: what the tests of ``BatchPlanner`` share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from connector_tests.support.manual_clock import ManualClock
from connector_tests.support.queues import queue, queues
from connector_tests.support.simulated_cluster import (
    Reach,
    SimulatedBroker,
    SimulatedCluster,
    SimulatedClusterClient,
    address_of,
)
from rocketmq_spark.consumer.cluster_api import Link, MetadataSnapshot
from rocketmq_spark.consumer.group_lock import GroupLock
from rocketmq_spark.consumer.membership import Membership
from rocketmq_spark.consumer.offset_store import LocalFileOffsetStore, decode_offsets, encode_offsets
from rocketmq_spark.model import MessageQueue, QueueBounds, QueueRange
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.remoting.retry import REQUEST_PAUSES
from rocketmq_spark.source.stream.batch_planner import BatchPlanner
from rocketmq_spark.source.stream.offsets import QueueProgress, SourceOffset

A, B = queues(2)
ELSEWHERE = queue(0, broker_name="broker-b")
TARGET_TIMEOUT_MS = 60_000
ADDRESS = address_of("broker-a")
UNRESPONSIVE_BROKER = "broker-z"
EMPTY: Final[Mapping[MessageQueue, int]] = MappingProxyType({})


class Observed(Membership):
    """The real one, of which a test sees what a planner does with it."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.refresh_count = 0
        self.planned: list[dict[MessageQueue, tuple[int, int]]] = []
        self.proven: dict[MessageQueue, int] = {}
        self.after_refresh: Callable[[], None] = lambda: None

    def refresh_metadata(self, known: Collection[MessageQueue] = ()) -> MetadataSnapshot:
        self.refresh_count += 1
        snapshot = super().refresh_metadata(known)
        self.after_refresh()
        return snapshot

    def mark_in_flight(self, ranges: Mapping[MessageQueue, tuple[int, int]]) -> None:
        self.planned.append(dict(ranges))
        super().mark_in_flight(ranges)

    def mark_completed(self, end_offsets: Mapping[MessageQueue, int], stored_to_ms: Mapping[MessageQueue, int]) -> None:
        self.proven = dict(end_offsets)
        super().mark_completed(end_offsets, stored_to_ms)


class FileInMemory:
    """For a query that keeps its own offsets."""

    def __init__(self, offsets: Mapping[MessageQueue, int]) -> None:
        self.content = encode_offsets(offsets)

    def read(self) -> tuple[bytes, None]:
        return self.content, None

    def write(self, content: bytes, *, keep_backup: bool) -> None:
        self.content = content


class SteadyMember:
    """A member of a group in a simulated cluster, where everything is as a test says and nothing comes in between.

    What may come in between is tried out by the model of the join. ``resets``: what an operator has done and the member
    was told; ``marks``: what it was not told. ``not_owned``: queues that go to another member.
    """

    def __init__(
        self,
        bounds: Mapping[MessageQueue, QueueBounds],
        *,
        stored: Mapping[MessageQueue, int] = EMPTY,
        resets: Mapping[MessageQueue, int] = EMPTY,
        marks: Mapping[MessageQueue, int] = EMPTY,
        stored_after: Mapping[MessageQueue, int] = EMPTY,
        has_news: bool = False,
        **state: Any,
    ) -> None:
        self.clock = ManualClock()
        self.cluster = SimulatedCluster(sorted({UNRESPONSIVE_BROKER, *(one.broker_name for one in bounds)}), self.clock)
        self.cluster.create_topic(
            "orders", Counter(one.broker_name for one in bounds) | Counter({UNRESPONSIVE_BROKER: 1})
        )
        self.has_news = has_news
        self.has_left = False
        self.outages = 0
        self.is_complete = True
        self._told = resets
        for one, of_queue in bounds.items():
            self.hold(one, of_queue, stored_after.get(one))
        for one, offset in stored.items():
            self._broker(one).offsets[one] = offset
        for one, offset in marks.items():
            self._broker(one).reset(one, offset)
        for name, value in state.items():
            setattr(self, name, value)

    def join(self, options: ReadOptions) -> None:
        self._file = FileInMemory(self.stored)
        is_broadcasting = options.message_model == "BROADCASTING"
        client, clock = SimulatedClusterClient(self.cluster, "our connection"), self.clock
        keeper = LocalFileOffsetStore(self._file) if is_broadcasting else None
        self.observed = Observed(options, "me", client, clock, clock, started_ms=1, local_offsets=keeper)
        self._turn = GroupLock(self.observed, nullcontext())
        for one, offset in self._told.items():
            self.observed.resets.record(one, offset)

    # ---- for the planner

    def group_lock(self) -> AbstractContextManager[Membership]:
        return self._turn()

    def wait_for_change(self, positions: Mapping[MessageQueue, int], timeout_ms: int) -> bool:
        self.outages += 1
        assert self.outages < 1_000, "nothing will ever come of this"
        assert timeout_ms > 0
        assert isinstance(positions, Mapping)
        return self.has_news

    def has_lost_connection(self, links: Iterable[Link | None]) -> bool:
        return any(link is not None and self.cluster.broker_at(link[0]).connection_number != link[1] for link in links)

    def leave_group(self) -> None:
        self.has_left = True

    # ---- what is so

    def hold(self, one: MessageQueue, bounds: QueueBounds, stored_after: int | None = None) -> None:
        """A queue has grown, or is another one. From ``stored_after`` on its messages are newer than all others."""
        at_ms, broker = bounds.last_store_timestamp_ms, self._broker(one)
        older = broker.stored_ms.get(one, [])[: bounds.max_offset]
        if stored_after is not None:
            older, at_ms = [min(at_ms, 1_000)] * stored_after, max(at_ms, 6_000)
        broker.stored_ms[one] = older + [at_ms] * (bounds.max_offset - len(older))
        broker.min_offsets[one] = bounds.min_offset
        self.cluster.show("orders", one.broker_name, max(held.queue_id for held in broker.stored_ms) + 1)

    def recreate(self, one: MessageQueue, count: int, at_ms: int = 9_000) -> None:
        """Its topic is deleted, created again and filled."""
        self._broker(one).recreate(one)
        self._broker(one).stored_ms[one] = [at_ms] * count

    def store_times(self, one: MessageQueue, *stored_ms: int) -> None:
        """Of all its messages."""
        self._broker(one).stored_ms[one] = list(stored_ms)

    def restart(self, lost_messages: int = 0) -> None:
        """The broker of A, which keeps the group's offsets."""
        self._broker(A).restart(lost_messages)

    @property
    def stored(self) -> dict[MessageQueue, int]:
        """The group's offsets."""
        return {one: at for broker in self.cluster.brokers.values() for one, at in broker.offsets.items()}

    @property
    def marks(self) -> dict[MessageQueue, int]:
        """Where an operator has reset queues to, and nobody was told."""
        return {one: at for broker in self.cluster.brokers.values() for one, at in broker.marks.items()}

    @property
    def in_file(self) -> dict[MessageQueue, int] | None:
        return decode_offsets(self._file.content)

    def store(self, one: MessageQueue, offset: int) -> None:
        self._broker(one).offsets[one] = offset

    def _broker(self, one: MessageQueue) -> SimulatedBroker:
        return self.cluster.brokers[one.broker_name]

    def _set_not_owned(self, queues: Collection[MessageQueue]) -> None:
        """The first queues go to "her", the last ones to "you": their names are before and after ours."""
        self.cluster.set_others(*{"her" if one == A else "you" for one in queues})

    not_owned = property(fset=_set_not_owned)

    def _set_unavailable(self, queues: Collection[MessageQueue]) -> None:
        """Above what the route shows."""
        count = min((one.queue_id for one in queues), default=len(self.cluster.brokers["broker-a"].stored_ms))
        self.cluster.show("orders", "broker-a", count)

    unavailable = property(fset=_set_unavailable)

    def _set_version(self, version: int) -> None:
        for broker in self.cluster.brokers.values():
            broker.version = version

    version = property(fset=_set_version)

    def _set_unresponsive(self, broker_names: Collection[str]) -> None:
        for name in self.cluster.brokers.keys() - {UNRESPONSIVE_BROKER}:
            self.cluster.brokers[name].reach = Reach.UNRESPONSIVE if name in broker_names else Reach.UP
        self.clock.advance(REQUEST_PAUSES.longest_ms)

    unresponsive = property(fset=_set_unresponsive)

    def _set_not_confirming(self, queues: set[MessageQueue]) -> None:
        self.cluster.brokers["broker-a"].unacknowledged_writes = queues
        self.clock.advance(REQUEST_PAUSES.longest_ms)

    not_confirming = property(fset=_set_not_confirming)

    def _set_not_searching(self, queues: set[MessageQueue]) -> None:
        self.cluster.brokers["broker-a"].unresponsive_searches = queues
        self.clock.advance(REQUEST_PAUSES.longest_ms)

    not_searching = property(fset=_set_not_searching)

    def _set_is_complete(self, is_complete: bool) -> None:
        """Else one more broker is in the route, and says nothing."""
        self.cluster.brokers[UNRESPONSIVE_BROKER].reach = Reach.UNAVAILABLE if is_complete else Reach.UNRESPONSIVE

    is_complete = property(fset=_set_is_complete)


def options(**given: str) -> ReadOptions:
    required = {"namesrvAddr": "n:9876", "consumerGroup": "g", "subscribe": "orders"}
    start = {} if "startingTimestamp" in given else {"startingOffsets": "earliest"}
    return ReadOptions.parse({**required, **start, **given})


def holding(max_offset: int, min_offset: int = 0, stored_at_ms: int = 1_000) -> QueueBounds:
    return QueueBounds(min_offset, max_offset, stored_at_ms)


@dataclass
class DrainRequest:
    """A graceful stop that is asked for, or not."""

    is_wanted: bool = False
    is_answered: bool = False

    def check_request(self) -> bool:
        return self.is_wanted

    def claim(self) -> bool:
        return self.is_wanted

    def finish(self) -> None:
        self.is_answered = True


def planner(member: SteadyMember, *, drain: DrainRequest | None = None, **given: str) -> BatchPlanner:
    member.join(options(**given))
    return BatchPlanner(member, options(**given), drain or DrainRequest(), member.clock)


def read(subject: BatchPlanner, start: SourceOffset, limit: int | None = None) -> tuple[SourceOffset, list[QueueRange]]:
    """One micro-batch: its end, and what it reads."""
    end = subject.latest_offset(start, limit)
    return end, list(end.ranges()) if end is not start else []


class LateRouteMember(SteadyMember):
    """At first something about the topic is not known; then time passes, and it is."""

    stored_before: dict[MessageQueue, int] | None = None

    def wait_for_change(self, positions: Mapping[MessageQueue, int], timeout_ms: int) -> bool:
        self.stored_before = self.stored
        self.unresponsive = set()
        self.is_complete, self.not_searching, self.not_confirming = True, set(), set()
        return True


def reached(*ends: tuple[MessageQueue, int]) -> SourceOffset:
    return SourceOffset({one: QueueProgress(0, end) for one, end in ends})
