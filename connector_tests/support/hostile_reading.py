"""A queue between whose true messages a producer lies, read as tasks read it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import pairwise
from typing import Any, Final, NamedTuple, TypeAlias

from connector_tests.support.hostile_queue import Entry, HostileQueue
from connector_tests.support.manual_clock import ManualClock
from connector_tests.support.simulated_queue import QUEUE, SimulatedNetwork
from rocketmq_spark.model import Message, MessageQueue, QueueBounds, QueueRange
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.pull.range_puller import RangePuller
from rocketmq_spark.source.data_loss import LostRange
from rocketmq_spark.source.range_reader import RangeReader
from rocketmq_spark.source.stream.message_sizes import MessageSizes
from rocketmq_spark.source.stream.planning import Position, plan_batch
from rocketmq_spark.source.task_record import TaskRecord
from rocketmq_spark.wire.remoting.pull import PullResult

GROUP: Final = "G"
FEW: Final = ("queueOffset", "commitLogOffset", "body", "tags", "bornTimestamp")
LIMITED_PLANS: Final = 20
"""Ranges that the limits of a trigger cut; an inner batch that is read offset by offset takes hundreds."""

Row: TypeAlias = dict[str, Any]


class Part(NamedTuple):
    """What a true message has; a true inner batch has several."""

    body: bytes
    properties: dict[str, str]


@dataclass
class Scenario:
    """What was stored, and how it is read."""

    queue: HostileQueue
    truths: dict[int, list[Part]]
    """By place in the commit log."""
    cuts: list[int]
    """Offsets between which tasks read; limits of a trigger cut further."""
    limit: int = 32
    """Messages in one response, at most."""
    options: dict[str, str] = field(default_factory=dict)
    columns: tuple[str, ...] = FEW
    order: list[int] = field(default_factory=list)

    @cached_property
    def read_options(self) -> ReadOptions:
        return ReadOptions.parse(
            {"namesrvAddr": "n:1", "consumerGroup": GROUP, "subscribe": QUEUE.topic, "badMessages": "null"}
            | self.options
        )

    @property
    def message_queue(self) -> MessageQueue:
        return MessageQueue(self.queue.topic, QUEUE.broker_name, QUEUE.queue_id)

    @property
    def tags(self) -> frozenset[str] | None:
        """Those that the reader wants of this queue; None: any."""
        expression = self.read_options.filter_of(self.queue.topic).expression
        return None if expression == "*" else frozenset(expression.split(" || "))

    def wants(self, tag: str | None) -> bool:
        return self.tags is None or tag in self.tags

    def expected(self) -> list[tuple[Entry, int, Part]]:
        """The true messages that are to be read: where each is stored, as which of that record, and what it has."""
        return [
            (entry, number, part)
            for entry in self.queue.entries
            for number, part in enumerate(self.truths.get(entry.commit_log_offset, ()))
            if self.cuts[0] <= entry.place + number < self.cuts[-1] and self.wants(part.properties.get("TAGS"))
        ]


class Task:
    """What a task has read of its range; as the executor's client it takes dead letters."""

    def __init__(self, queue_range: QueueRange) -> None:
        self.range = queue_range
        self.rows: list[Row] = []
        self.row_counts: list[int] = []
        """Of each batch."""
        self.letters: list[Message] = []
        self.record = TaskRecord(reports_sizes=True)

    @property
    def cluster(self) -> Task:
        return self

    def call(self, queue: MessageQueue, send_back: Callable[[Task], None]) -> None:
        assert queue == self.range.queue
        send_back(self)

    def send_dead_letter(self, group: str, message: Message, broker_name: str) -> None:
        assert (group, broker_name) == (GROUP, self.range.queue.broker_name)
        self.letters.append(message)

    def query_bounds(self, queues: Collection[MessageQueue]) -> dict[MessageQueue, QueueBounds]:
        return {}


def read(scenario: Scenario) -> list[Task]:
    """What is read by tasks whose ranges touch, each of one range."""
    sizes, tasks = MessageSizes(), []
    for queue_range in _planned(scenario, sizes):
        task = Task(queue_range)
        task.rows.extend(rows_of(scenario, task))
        sizes.add(task.record.report().read)
        tasks.append(task)
    return tasks


def losses_of(tasks: Collection[Task]) -> list[LostRange]:
    return [one for task in tasks for one in task.record.lost]


def _planned(scenario: Scenario, sizes: MessageSizes) -> Iterator[QueueRange]:
    """Ranges from the first cut to the last, each planned when what was read before is known."""
    queue, options = scenario.message_queue, scenario.read_options
    bounds = QueueBounds(scenario.queue.min_offset, scenario.queue.max_offset)
    count = 0
    for at, end in pairwise(scenario.cuts):
        begin = at
        while begin < end:
            is_limited, count = count < LIMITED_PLANS, count + 1
            planned = plan_batch(
                {queue: Position(begin)},
                {queue: bounds},
                {queue: end - begin},
                limit=options.max_offsets_per_trigger if is_limited else None,
                max_bytes=options.max_bytes_per_trigger if is_limited else None,
                sizes=sizes,
            )
            yield QueueRange(queue, begin, planned[queue].end_offset)
            begin = planned[queue].end_offset


def rows_of(scenario: Scenario, task: Task) -> Iterator[Row]:
    """The rows of the task's range, as they are read."""
    clock, rounds = ManualClock(), iter(scenario.order)

    def pull(tags: frozenset[str] | None, offset: int, most: int) -> PullResult:
        return scenario.queue.pull(offset, min(most, scenario.limit), tags)

    def puller_for(some: QueueRange, is_filtered: bool) -> RangePuller:
        network = SimulatedNetwork(
            partial(pull, scenario.tags),
            clock,
            choose=lambda count: next(rounds, 0) % count,
            queue=scenario.message_queue,
            respond_unfiltered=partial(pull, None),
        )
        return RangePuller(some, network, limit_ms=1_000, missing_ms=1_000, is_filtered=is_filtered, clock=clock)

    client: Any = task
    options = scenario.read_options
    reader = RangeReader(task.range, client, puller_for, options, scenario.columns, (), task.record, ())
    for batch in reader.batches():
        batch.validate(full=True)
        assert batch.schema.names == list(scenario.columns)
        task.row_counts.append(batch.num_rows)
        yield from batch.to_pylist()
