"""The witness of the simulated group: it sees every plan, write, commit and move, and states what must not have
happened.

It knows nothing of how the product works, only what is promised: nothing is lost, a query never reads an offset in two
batches, replays are identical, and of two members only the micro-batch that was planned and not yet proven when a queue
moved is read twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from connector_tests.support.simulated_cluster import SimulatedCluster
from rocketmq_spark.consumer.process_queue import ProcessQueue
from rocketmq_spark.model import MessageQueue, QueueRange
from rocketmq_spark.source.stream.offsets import SourceOffset


class Violation(Enum):
    """What a group may suffer."""

    LOST = "messages are in nobody's output, and the group is past them"
    STUCK = "messages are in nobody's output though everything is up and quiet"
    READ_TWICE = "messages are read again that no move of their queue explains"
    READ_TWICE_BY_ONE = "one query has messages in two batches"
    OTHER_REPLAY = "a replayed batch is not what it was"
    UNCOMPLETED_COMMIT = "the group's offset is behind what is proven though everything is up and quiet"
    EMPTY_BATCH = "a batch was run for nothing"
    FAILED = "a query failed though nothing was the matter for long"


class GuaranteeViolationError(AssertionError):
    """A promise is broken."""

    def __init__(self, violation: Violation, what: str) -> None:
        super().__init__(f"{violation.value}: {what}")
        self.violation = violation


class Owner(Protocol):
    """A start of a query, as far as the witness is interested."""

    @property
    def query(self) -> object: ...

    def is_healthy(self, broker_name: str, since_ms: int) -> bool:
        """Whether the broker has answered all that it was asked since then."""


@dataclass(eq=False)
class Holding:
    """A queue while one start of a query has it, from the survey that gave it to its release."""

    owner: Owner
    queue: MessageQueue
    process_queue: ProcessQueue
    since: int
    gained: int
    released: int | None = None
    ended_by_crash: bool = False
    planned: list[Planned] = field(default_factory=list)


@dataclass(eq=False)
class Planned:
    """A range in somebody's ``offsets/N``. ``refreshed_at``: when the plan was begun; ``completed_at``: when the group
    knew, or should have known, that it is in the sink."""

    query: object
    batch_id: int
    range: QueueRange
    refreshed_at: int
    holding: Holding | None
    completed_at: int | None = None

    def is_open_at(self, begin: int, end: int) -> bool:
        """Whether it was planned and not proven at some time in ``[begin, end]``."""
        return self.refreshed_at <= end and (self.completed_at is None or self.completed_at >= begin)

    def __str__(self) -> str:
        covered = f"{self.range.queue} [{self.range.begin_offset}, {self.range.end_offset})"
        return f"{covered} in batch {self.batch_id} of {self.query}"


class DeliveryChecker:
    """Sees what the simulated queries and brokers do. Raises GuaranteeViolationError as soon as something is
    certain."""

    def __init__(self, cluster: SimulatedCluster, *, starts_at_first: bool) -> None:
        self._cluster = cluster
        self._starts_at_first = starts_at_first
        self._first: dict[MessageQueue, int] = {}
        self._known_queues: set[MessageQueue] = set()
        self._started_topics: set[str] = set()
        self._read: dict[MessageQueue, set[int]] = {}
        self._sinks: dict[object, dict[int, Sequence[QueueRange]]] = {}
        self._positioned: set[object] = set()
        self._planned: dict[MessageQueue, list[Planned]] = {}
        self._held: dict[Owner, dict[MessageQueue, Holding]] = {}
        self._plans: dict[Owner, tuple[int, dict[MessageQueue, Holding]]] = {}
        self._unverified: list[tuple[Planned, Planned]] = []
        self._last: dict[MessageQueue, Holding] = {}
        self.event_counts: Counter[str] = Counter()
        cluster.on_stored = self.stored

    # ------------------------------------------------------------------------------------------ what it is told

    def stored(self, queue: MessageQueue, offset: int) -> None:
        """A broker has stored a group offset."""
        self._start_topic(queue.topic)
        if queue not in self._known_queues:
            self._known_queues.add(queue)
            self._first[queue] = min(offset, self._first_position(queue))
        if offset > self.read_to(queue):
            raise GuaranteeViolationError(
                Violation.LOST, f"{queue} is stored as {offset} and read to {self.read_to(queue)}"
            )
        for planned in self._planned.get(queue, ()):
            if planned.completed_at is None and planned.range.end_offset <= offset:
                planned.completed_at = self._cluster.now

    def on_completed(self, owner: Owner, end_offsets: Mapping[MessageQueue, int], since_ms: int) -> None:
        """The member was told at ``since_ms`` that everything below is in the sink, and has done what it does then."""
        for queue in self._held.get(owner, {}):
            if queue in end_offsets and owner.is_healthy(queue.broker_name, since_ms):
                self._mark_completed(owner.query, queue, end_offsets[queue])

    def _mark_completed(self, query: object, queue: MessageQueue, end_offset: int) -> None:
        for planned in self._planned.get(queue, ()):
            if planned.query is query and planned.completed_at is None and planned.range.end_offset <= end_offset:
                planned.completed_at = self._cluster.now

    def on_refreshed(self, owner: Owner, process_queues: Collection[ProcessQueue], since: int) -> None:
        """What somebody owns now; ``since``: when it began what may have changed that."""
        held = self._held.setdefault(owner, {})
        owned = {process_queue.queue: process_queue for process_queue in process_queues}
        for queue in [queue for queue, holding in held.items() if owned.get(queue) is not holding.process_queue]:
            held.pop(queue).released = self._cluster.now
        for queue in owned.keys() - held.keys():
            held[queue] = Holding(owner, queue, owned[queue], since, self._cluster.now)
            self._count_move(held[queue])

    def _count_move(self, gained: Holding) -> None:
        before = self._last.get(gained.queue)
        self._last[gained.queue] = gained
        if before is not None and before.owner.query is not gained.owner.query:
            self.event_counts["moved"] += 1
            self.event_counts["moved with a batch in flight"] += (
                bool(before.planned) and before.planned[-1].completed_at is None
            )
            self.event_counts["moved while its last owner had it"] += before.released is None

    def ended(self, owner: Owner, *, by_crash: bool) -> None:
        """A start of a query is over."""
        for holding in self._held.pop(owner, {}).values():
            holding.released = self._cluster.now
            holding.ended_by_crash = by_crash

    def on_planned(self, owner: Owner, refreshed_at: int) -> None:
        """A plan is made; ``refreshed_at``: when it was begun."""
        self._plans[owner] = refreshed_at, dict(self._held.get(owner, {}))

    def logged(self, owner: Owner, batch_id: int, end: SourceOffset) -> None:
        """``offsets/N`` is written."""
        ranges = list(end.ranges())
        if not ranges and not end.waited and owner.query in self._positioned:
            raise GuaranteeViolationError(Violation.EMPTY_BATCH, f"batch {batch_id} of {owner.query}")
        if end.queues:
            self._positioned.add(owner.query)
        for topic in {queue.topic for queue in end.queues}:
            self._start_topic(topic)
        for queue, progress in end.queues.items():
            if progress.begin_offset > self.read_to(queue):
                raise GuaranteeViolationError(
                    Violation.LOST,
                    f"{owner.query} begins {queue} at {progress.begin_offset}, read to {self.read_to(queue)}",
                )
        refreshed_at, held = self._plans.get(owner, (0, {}))
        for one in ranges:
            self._plan(Planned(owner.query, batch_id, one, refreshed_at, held.get(one.queue)))

    def _plan(self, planned: Planned) -> None:
        """Who plans on has told the brokers of all that is below."""
        self._mark_completed(planned.query, planned.range.queue, planned.range.begin_offset)
        for earlier in self._overlapping(planned):
            if earlier.query is planned.query:
                raise GuaranteeViolationError(Violation.READ_TWICE_BY_ONE, f"{planned} after {earlier}")
            if earlier.completed_at is not None and earlier.completed_at < planned.refreshed_at:
                raise GuaranteeViolationError(Violation.READ_TWICE, f"{planned} after {earlier}, which was proven")
            self._unverified.append((earlier, planned))
            self.event_counts["read twice by a move"] += 1
        self._planned.setdefault(planned.range.queue, []).append(planned)
        if planned.holding is not None:
            planned.holding.planned.append(planned)

    def written(self, query: object, batch_id: int, ranges: Sequence[QueueRange]) -> None:
        """A batch is in the sink; written again, it replaces itself."""
        self.event_counts["written again"] += batch_id in self._sinks.get(query, {})
        before = self._sinks.setdefault(query, {}).setdefault(batch_id, ranges)
        if before != ranges:
            raise GuaranteeViolationError(
                Violation.OTHER_REPLAY, f"batch {batch_id} of {query} was {before} and is {ranges}"
            )
        for one in ranges:
            self._read.setdefault(one.queue, set()).update(range(one.begin_offset, one.end_offset))

    def appeared(self, topic: str) -> None:
        """A topic that a pattern matches was created. If the group has begun, all its messages must be read."""
        if self._started_topics:
            self._started_topics.add(topic)

    # ------------------------------------------------------------------------------------------ what it says

    def read_to(self, queue: MessageQueue) -> int:
        """Everything from the group's first position to here is in somebody's output."""
        read, offset = self._read.get(queue, set()), self._first_position(queue)
        while offset in read:
            offset += 1
        return offset

    def is_all_read(self) -> bool:
        return all(self.read_to(queue) >= self._cluster.max_offset(queue) for queue in self._cluster.queues())

    def is_all_committed(self) -> bool:
        return all(
            self._cluster.group_offset(queue) in {self._cluster.max_offset(queue)} for queue in self._cluster.queues()
        )

    def check_at_rest(self) -> None:
        """Raise GuaranteeViolationError unless all messages are read, committed, and read twice only because of a move.
        Call it when all servers are up, all members quiet, and they had time enough."""
        for queue in self._cluster.queues():
            required, committed = self._cluster.max_offset(queue), self._cluster.group_offset(queue)
            if self.read_to(queue) < required:
                raise GuaranteeViolationError(
                    Violation.STUCK, f"{queue} is read to {self.read_to(queue)} of {required}"
                )
            if committed != required:
                raise GuaranteeViolationError(
                    Violation.UNCOMPLETED_COMMIT, f"{queue} is stored as {committed} instead of {required}"
                )
        for earlier, later in self._unverified:
            if not _is_of_a_move(earlier, later) and not _is_of_a_move(later, earlier):
                raise GuaranteeViolationError(Violation.READ_TWICE, f"{later} after {earlier}, and no move explains it")

    def check_nothing_twice(self) -> None:
        """Raise GuaranteeViolationError if a message is in two outputs. Call it for an orderly group in which no member
        has crashed or stood still."""
        if self.duplicates():
            pairs = "; ".join(f"{later} after {earlier}" for earlier, later in self._unverified)
            raise GuaranteeViolationError(Violation.READ_TWICE, f"{pairs}, though everybody left gracefully")

    def duplicates(self) -> int:
        """How many messages are in more than one output, each counted as often as it is there beyond the first."""
        written = sum(len(one) for sink in self._sinks.values() for ranges in sink.values() for one in ranges)
        return written - sum(len(read) for read in self._read.values())

    # ------------------------------------------------------------------------------------------ first positions

    def _first_position(self, queue: MessageQueue) -> int:
        if self._starts_at_first:
            return 0
        if queue.topic in self._started_topics:
            return self._first.get(queue, 0)
        return self._first.get(queue, self._cluster.max_offset(queue))

    def _start_topic(self, topic: str) -> None:
        """If the group has not begun with this topic, it begins: what is stored from now on must be read."""
        if topic in self._started_topics:
            return
        self._started_topics.add(topic)
        for queue in self._cluster.queues():
            if queue.topic == topic:
                self._first[queue] = 0 if self._starts_at_first else self._cluster.max_offset(queue)

    def _overlapping(self, planned: Planned) -> Iterator[Planned]:
        for earlier in self._planned.get(planned.range.queue, ()):
            begin = max(earlier.range.begin_offset, planned.range.begin_offset)
            if begin < min(earlier.range.end_offset, planned.range.end_offset):
                yield earlier


class MessageDeliveryChecker(DeliveryChecker):
    """For queues that become others: it checks messages instead of offsets. Each that is there in the end must have
    been read, and the group's offset be what comes after the last; what was read twice is not its business."""

    def __init__(self, cluster: SimulatedCluster, *, starts_at_first: bool) -> None:
        super().__init__(cluster, starts_at_first=starts_at_first)
        self._messages: set[tuple[MessageQueue, int, int]] = set()

    def stored(self, queue: MessageQueue, offset: int) -> None:
        """Do nothing: this checker compares messages, not offsets."""

    def on_completed(self, owner: Owner, end_offsets: Mapping[MessageQueue, int], since_ms: int) -> None:
        """Do nothing, as ``stored``."""

    def logged(self, owner: Owner, batch_id: int, end: SourceOffset) -> None:
        """Do nothing, as ``stored``."""

    def written(self, query: object, batch_id: int, ranges: Sequence[QueueRange]) -> None:
        for one in ranges:
            required = range(one.begin_offset, one.end_offset)
            self._messages |= {message for message in self._present(one.queue) if message[1] in required}

    def _present(self, queue: MessageQueue) -> set[tuple[MessageQueue, int, int]]:
        """The messages that are there, each by what no other message has."""
        broker = self._cluster.brokers[queue.broker_name]
        first, stored_ms = broker.min_offsets.get(queue, 0), broker.stored_ms.get(queue, ())
        return {(queue, offset, stored_ms[offset]) for offset in range(first, len(stored_ms))}

    def is_all_read(self) -> bool:
        return not any(self._present(queue) - self._messages for queue in self._cluster.queues())

    def check_at_rest(self) -> None:
        for queue in self._cluster.queues():
            if unread := self._present(queue) - self._messages:
                offsets = sorted(offset for _, offset, _ in unread)
                raise GuaranteeViolationError(
                    Violation.LOST, f"{queue}: {offsets} of {self._cluster.max_offset(queue)}"
                )
            required, committed = self._cluster.max_offset(queue), self._cluster.group_offset(queue)
            if committed != required:
                raise GuaranteeViolationError(
                    Violation.UNCOMPLETED_COMMIT, f"{queue} is stored as {committed} instead of {required}"
                )


def _is_of_a_move(mine: Planned, other: Planned) -> bool:
    """Whether ``mine`` was the unproven micro-batch of its queue when that moved away from its owner, or to the owner
    of ``other``."""
    held, others = mine.holding, other.holding
    moved_elsewhere = held is None or (held.released is not None and mine is held.planned[-1])
    moved_to_other = others is None or mine.is_open_at(others.since, others.gained)
    return moved_elsewhere or moved_to_other
