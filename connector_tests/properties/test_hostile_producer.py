"""A producer that lies: whatever it stores between true messages, each of these is read exactly once.

It chooses bytes, flags and properties; the broker counts the offsets. What it writes may harm its own message only. The
long form: ``pytest -m long`` on this file. On real brokers: ``integration/test_hostile_messages``.
"""

from __future__ import annotations

import tracemalloc
import zlib
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from connector_tests.support.hostile_queue import HostileQueue, QueueKind, Sent
from connector_tests.support.hostile_strategies import OTHER_TAG, TRUE_TAG, lies, posing
from connector_tests.support.manual_clock import ManualClock
from connector_tests.support.message_bytes import COMPRESSED, INNER_BATCH, inner_batch
from connector_tests.support.simulated_queue import QUEUE, SimulatedNetwork
from rocketmq_spark.errors import DataLossError, RemoteProtocolError
from rocketmq_spark.model import Message, MessageQueue, QueueBounds, QueueRange
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.pull.range_puller import RangePuller
from rocketmq_spark.source import partition_reader, range_decoding
from rocketmq_spark.source.data_loss import RETENTION, VACANT, LostRange, report_losses
from rocketmq_spark.source.partition_reader import _RangeReader
from rocketmq_spark.source.stream.offsets import QueueProgress
from rocketmq_spark.source.stream.planning import Position, lost_ranges, position_of
from rocketmq_spark.source.task_record import TaskRecord
from rocketmq_spark.wire.arrow import columns, undecodable

MIB = 1024 * 1024
SHORT, LONG = 60, 5_000
CASES = pytest.mark.parametrize(
    "cases", [SHORT, pytest.param(LONG, marks=[pytest.mark.long, pytest.mark.timeout(3600)])]
)


@dataclass
class Scenario:
    """What was stored, and how it is read."""

    queue: HostileQueue
    true_bodies: dict[int, bytes]
    """By place in the commit log."""
    cuts: list[int]
    tags: frozenset[str] | None
    mode: str
    fails_on_loss: bool
    limit: int
    order: list[int] = field(default_factory=list)


@st.composite
def scenarios(draw: st.DrawFn) -> Scenario:
    kind = draw(st.sampled_from(QueueKind))
    queue = HostileQueue(kind, QUEUE.topic)
    tags = draw(st.sampled_from([None, None, frozenset({TRUE_TAG})]))
    true_bodies: dict[int, bytes] = {}
    for number in range(draw(st.integers(1, 40))):
        if draw(st.integers(0, 4)) == 0:
            queue.send(draw(lies(queue.max_offset, QUEUE.topic)))
            continue
        before = len(queue.entries)
        queue.send(Sent(b"true %d" % number, 0, {"TAGS": TRUE_TAG if number % 3 else OTHER_TAG}))
        if len(queue.entries) > before:
            entry = queue.entries[-1]
            true_bodies[entry.commit_log_offset] = entry.sent.body
    inner = draw(st.lists(st.integers(queue.min_offset, queue.max_offset), max_size=3))
    return Scenario(
        queue,
        true_bodies,
        sorted({queue.min_offset, *inner, queue.max_offset}),
        tags,
        draw(st.sampled_from(["null", "deadLetter", "fail"])),
        draw(st.booleans()),
        draw(st.sampled_from([1, 3, 32])),
        draw(st.lists(st.integers(0, 7), max_size=20)),
    )


class Letters:
    """The executor's client, as far as dead letters need it."""

    def __init__(self) -> None:
        self.sent: list[Message] = []

    @property
    def cluster(self) -> Letters:
        return self

    def call(self, queue: MessageQueue, send_back: Callable[[Letters], None]) -> None:
        assert queue == QUEUE
        send_back(self)

    def send_dead_letter(self, group: str, message: Message, broker_name: str) -> None:
        assert broker_name == QUEUE.broker_name
        self.sent.append(message)

    def query_bounds(self, queues: Collection[MessageQueue]) -> dict[MessageQueue, QueueBounds]:
        return {}


COLUMNS = ("queueOffset", "commitLogOffset", "body", "tags", "bornTimestamp")
Row = dict[str, Any]


def read(
    scenario: Scenario, cuts: Sequence[int], losses: list[LostRange], row_counts: list[int] | None = None
) -> list[Row]:
    """The rows of ranges that touch, of which each is read by its own task. ``row_counts`` gets those of batches."""
    ranges = [QueueRange(QUEUE, begin, end) for begin, end in pairwise(cuts)]
    return [
        row
        for queue_range in ranges
        for row in _rows(scenario, queue_range, losses, [] if row_counts is None else row_counts)
    ]


def _rows(scenario: Scenario, queue_range: QueueRange, losses: list[LostRange], row_counts: list[int]) -> Iterator[Row]:
    given = {"namesrvAddr": "n:1", "consumerGroup": "G", "subscribe": QUEUE.topic, "badMessages": scenario.mode}
    given["failOnDataLoss"] = str(scenario.fails_on_loss).lower()
    if scenario.tags is not None:
        given["subExpression"] = " || ".join(scenario.tags)
    options, clock, rounds = ReadOptions.parse(given), ManualClock(), iter(scenario.order)

    def puller_for(some: QueueRange, is_whole: bool) -> RangePuller:
        def network(tags: frozenset[str] | None) -> SimulatedNetwork:
            return SimulatedNetwork(
                lambda offset, most: scenario.queue.pull(offset, min(most, scenario.limit), tags),
                clock,
                choose=lambda count: next(rounds, 0) % count,
            )

        filtered, unfiltered_client = network(None if is_whole else scenario.tags), network(None)
        return RangePuller(
            some, filtered, limit_ms=1_000, missing_ms=1_000, unfiltered_client=unfiltered_client, clock=clock
        )

    client: Any = Letters()
    record = TaskRecord()
    record.lost = losses
    for batch in _RangeReader(queue_range, client, puller_for, options, COLUMNS, (), record, ()).batches():
        row_counts.append(batch.num_rows)
        yield from _checked(batch).to_pylist()


def _checked(batch: pa.RecordBatch) -> pa.RecordBatch:
    batch.validate(full=True)
    return batch


def check(scenario: Scenario) -> None:
    losses: list[LostRange] = []
    try:
        rows = read(scenario, scenario.cuts, losses)
    except RemoteProtocolError as error:
        assert scenario.mode == "fail"
        assert error.condition == "UNDECODABLE_MESSAGE_BODY"
        offset = error.context["offset"]
        (entry,) = (entry for entry in scenario.queue.entries if entry.place == offset)
        assert entry.commit_log_offset not in scenario.true_bodies, error
        return
    check_rows(scenario, rows)
    assert {loss.cause for loss in losses} <= {VACANT}
    held = {offset for entry in scenario.queue.entries for offset in range(entry.place, entry.end)}
    assert held.isdisjoint(offset for loss in losses for offset in range(loss.begin_offset, loss.end_offset))


def check_rows(scenario: Scenario, rows: list[Row]) -> None:
    offsets = [row["queueOffset"] for row in rows]
    assert all(one < other for one, other in pairwise(offsets)), "an offset comes once, in order"
    expected = {
        entry.commit_log_offset: (entry.place, entry.sent.body)
        for entry in scenario.queue.entries
        if entry.commit_log_offset in scenario.true_bodies
        and (scenario.tags is None or entry.sent.tag in scenario.tags)
    }
    found = [(row["commitLogOffset"], (row["queueOffset"], row["body"])) for row in rows]
    found = [one for one in found if one[0] in scenario.true_bodies]
    assert len(found) == len(expected), "each once"
    assert found == list(expected.items())
    places = {entry.commit_log_offset: range(entry.place, entry.end) for entry in scenario.queue.entries}
    if scenario.tags is None:
        assert all(row["queueOffset"] in places[row["commitLogOffset"]] for row in rows)


@CASES
@pytest.mark.usefixtures("implementation")
def test_true_messages_beside_any_lie_come_once(cases: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(range_decoding, "DECODED_AT_ONCE_BYTES", 600)
    monkeypatch.setattr(range_decoding, "BATCH_BYTES", 3_000)

    @settings(max_examples=cases)
    @given(scenarios())
    def report(scenario: Scenario) -> None:
        event(f"{scenario.queue._kind.value}, filtered: {scenario.tags is not None}, {scenario.mode}")
        check(scenario)

    report()


def reported(
    kind: QueueKind,
    *sent: Sent,
    mode: str = "null",
    true_after: int = 5,
    tags: frozenset[str] | None = None,
    is_first: bool = False,
) -> Scenario:
    """A true message, unless ``is_first``, lies, and more true ones, read from offset 0 with default options but for
    ``badMessages``."""
    queue = HostileQueue(kind, QUEUE.topic)
    true_bodies: dict[int, bytes] = {}
    before = () if is_first else (Sent(b"true"),)
    for one in (*before, *sent, *(Sent(b"true %d" % number) for number in range(true_after))):
        assert queue.send(one)
        if one not in sent and queue.entries:
            true_bodies[queue.entries[-1].commit_log_offset] = one.body
    return Scenario(queue, true_bodies, [0, queue.max_offset], tags, mode, True, 32)


PARTS_OF_A_LIE = inner_batch([(b"part", b"")] * 1_000)
LIES = {
    "a batch flag on 4.9.7": (QueueKind.OLD, Sent(PARTS_OF_A_LIE, 0xC0)),
    "a batch flag and a count on 4.9.7": (
        QueueKind.OLD,
        Sent(PARTS_OF_A_LIE, 0xC0, {"INNER_NUM": "1000", "INNER_BASE": "1"}),
    ),
    "a count of less than there are": (QueueKind.BATCH, Sent(inner_batch([(b"", b"")] * 3), 0xC0, {"INNER_NUM": "2"})),
    "a count of more than there are": (QueueKind.BATCH, Sent(inner_batch([(b"", b"")] * 3), 0xC0, {"INNER_NUM": "9"})),
    "no count": (QueueKind.BATCH, Sent(inner_batch([(b"", b"")] * 3), 0xC0)),
    "a count of what is no batch": (QueueKind.OLD, Sent(b"no batch", 0xC0, {"INNER_NUM": "500", "INNER_BASE": "1"})),
    "a count of what is not unwrapped": (QueueKind.BATCH, Sent(b"x", 0x80, {"INNER_NUM": "4"})),
    "an IPv6 flag on 4.9.7": (QueueKind.OLD, Sent(b"x" * 60, 0x10)),
    "both IPv6 flags": (QueueKind.ORDINARY, Sent(b"x" * 60, 0x30)),
    "lengths that the broker takes": (QueueKind.ORDINARY, Sent(posing(QUEUE.topic), 0x10)),
    "lengths below 0": (QueueKind.ORDINARY, Sent(posing(QUEUE.topic, body_bytes=-7), 0x10)),
    "a count of less than none": (QueueKind.BATCH, Sent(inner_batch([(b"", b"")]), 0xC0, {"INNER_NUM": "-3"})),
    "a count of what no consumer gets": (QueueKind.BATCH, Sent(b"x" * 60, 0xD0, {"INNER_NUM": "7"})),
    "a clock of the year 10000": (QueueKind.ORDINARY, Sent(b"x", 0, {}, 253_402_300_800_000)),
}


@pytest.mark.usefixtures("implementation")
def test_a_message_its_broker_cannot_read_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    partition_reader._warn_of_undelivered.cache_clear()
    for _ in range(2):
        check(reported(QueueKind.OLD, Sent(b"x" * 60, 0x10)))
    (line,) = caplog.messages
    assert line.startswith(
        f"MESSAGES_UNREADABLE: Broker stores messages of queue={QUEUE} count=1 that it delivers to no consumer"
    )


@pytest.mark.usefixtures("implementation")
@pytest.mark.parametrize(
    ("kind", "lie", "count"),
    [
        (QueueKind.OLD, Sent(b"x" * 60, 0x10), 1),
        (QueueKind.ORDINARY, Sent(b"x" * 60, 0x20), 1),
        (QueueKind.BATCH, Sent(b"x" * 60, 0xD0, {"INNER_NUM": "32767"}), 32_767),
    ],
)
def test_a_made_up_host_of_the_first_message_is_reported_as_deleted(kind: QueueKind, lie: Sent, count: int) -> None:
    """The limitation "The query fails although nothing was deleted". The queue's min offset is behind that message, as
    it is after retention, and no response differs. Only the offsets of the message itself are reported."""
    scenario = reported(kind, lie, is_first=True)
    queue, deleted = scenario.queue, LostRange(QUEUE, 0, count, RETENTION)
    position = position_of(QUEUE, QueueBounds(queue.min_offset, queue.max_offset), QueueProgress(0, 0), 0)
    assert position == Position(count, deleted)
    with pytest.raises(DataLossError) as planned:
        report_losses(lost_ranges([position]), is_failure=True)
    with pytest.raises(DataLossError) as read_again:
        read(scenario, scenario.cuts, [])
    assert {planned.value.condition, read_again.value.condition} == {"DATA_LOSS.OFFSETS_UNAVAILABLE"}
    scenario.fails_on_loss = False
    losses: list[LostRange] = []
    check_rows(scenario, read(scenario, scenario.cuts, losses))
    assert losses == [deleted]


@pytest.mark.usefixtures("implementation")
def test_offsets_that_no_message_has_end_no_query_and_one_omitted_does() -> None:
    scenario = reported(QueueKind.BATCH, Sent(b"x" * 60, 0xD0, {"INNER_NUM": "7"}))
    vacant: list[LostRange] = []
    read(scenario, scenario.cuts, vacant)
    assert vacant == [LostRange(QUEUE, 1, 8, VACANT)]
    check(reported(QueueKind.BATCH, Sent(b"x" * 60, 0xD0, {"INNER_NUM": "1100"}), tags=frozenset({TRUE_TAG})))
    ordinary = reported(QueueKind.ORDINARY)
    del ordinary.queue.entries[3]
    with pytest.raises(DataLossError, match=r"3, 4.*omitted them from its responses"):
        read(ordinary, ordinary.cuts, [])


@pytest.mark.usefixtures("implementation")
@pytest.mark.parametrize("mode", ["null", "deadLetter"])
@pytest.mark.parametrize(("kind", "lie"), LIES.values(), ids=LIES.keys())
def test_true_messages_behind_a_known_lie_come_once(kind: QueueKind, lie: Sent, mode: str) -> None:
    check(reported(kind, lie, mode=mode, true_after=1_200))


@pytest.mark.usefixtures("implementation")
def test_rows_of_an_unreadable_batch_are_bounded_in_size_and_come_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "REPEATED_LIMIT_BYTES", 130_000)
    scenario = reported(QueueKind.BATCH, Sent(b"x", 0x80, {"INNER_NUM": "700", "KEYS": "k" * 300}))
    sizes: list[int] = []
    rows = read(scenario, scenario.cuts, [], sizes)
    check_rows(scenario, rows)
    assert sum(row["body"] is None for row in rows) == 700
    assert max(sizes) <= 100


@pytest.mark.usefixtures("implementation")
def test_what_was_decoded_in_vain_is_freed_before_the_halves_are_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (undecodable, columns):
        monkeypatch.setattr(module, "DECOMPRESSED_LIMIT_BYTES", MIB)
    scenario = reported(QueueKind.ORDINARY, *[Sent(zlib.compress(bytes(250_000)), COMPRESSED)] * 64)
    queue_range = QueueRange(QUEUE, 0, scenario.queue.max_offset)
    tracemalloc.start()
    try:
        assert sum(len(row["body"]) == 250_000 for row in _rows(scenario, queue_range, [], [])) == 64
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 4 * MIB


@pytest.mark.usefixtures("implementation")
def test_good_batches_that_are_too_large_together_come_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those before an offset were decoded with it: the fifth of 30 MiB ended a query in each mode."""
    for module in (undecodable, columns):
        monkeypatch.setattr(module, "DECOMPRESSED_LIMIT_BYTES", 8_000)
    packed = zlib.compress(inner_batch([(bytes(2_000), b"")] * 2))
    scenario = reported(QueueKind.BATCH, *[Sent(packed, COMPRESSED | INNER_BATCH, {"INNER_NUM": "2"})] * 6)
    rows = read(scenario, scenario.cuts, [])
    assert [row["queueOffset"] for row in rows] == list(range(scenario.queue.max_offset))
    assert sum(row["body"] == bytes(2_000) for row in rows) == 12


@pytest.mark.usefixtures("implementation")
@pytest.mark.parametrize("tags", [None, frozenset({TRUE_TAG}), frozenset({OTHER_TAG})])
def test_offsets_that_no_message_has_cost_few_pulls(tags: frozenset[str] | None) -> None:
    """Each cost a pull, or with a filter two: 3.6 s for one message of a producer, or 16 s."""
    lie = Sent(b"x" * 60, 0xD0, {"INNER_NUM": "32767"})
    scenario = reported(QueueKind.BATCH, lie, Sent(b"", 0, {"TAGS": OTHER_TAG}), lie, lie, tags=tags)
    check(scenario)
    assert scenario.queue.pulls < 1_000
    vacant: list[LostRange] = []
    read(scenario, scenario.cuts, vacant)
    assert vacant == [LostRange(QUEUE, 1, 32_768, VACANT), LostRange(QUEUE, 32_769, 98_303, VACANT)]
