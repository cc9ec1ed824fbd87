"""A producer that lies: whatever it stores between true messages, each of these is read exactly once.

It chooses bytes, flags and properties; the broker counts the offsets. What it writes may harm its own message only. The
long form: ``pytest -m long`` on this file. On real brokers: ``integration/test_hostile_messages``.
"""

from __future__ import annotations

import tracemalloc
import zlib
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import event, given, settings

from connector_tests.support.hostile_queue import INNER, Entry, HostileQueue, QueueKind, Sent
from connector_tests.support.hostile_reading import Part, Row, Scenario, Task, losses_of, read, rows_of
from connector_tests.support.hostile_strategies import OTHER_TAG, TRUE_TAG, posing, scenarios
from connector_tests.support.message_bytes import COMPRESSED, INNER_BATCH, inner_batch
from connector_tests.support.simulated_queue import QUEUE
from rocketmq_spark.errors import DataLossError, RemoteProtocolError
from rocketmq_spark.model import RESERVED_PROPERTIES, QueueBounds, QueueRange
from rocketmq_spark.source import range_decoding, range_reader
from rocketmq_spark.source.data_loss import RETENTION, VACANT, LostRange, report_losses
from rocketmq_spark.source.stream.offsets import QueueProgress
from rocketmq_spark.source.stream.planning import Position, lost_ranges, position_of
from rocketmq_spark.wire.arrow import columns, undecodable

MIB = 1024 * 1024
SHORT, LONG = 60, 5_000
KEPT_IN_A_LETTER = {"TAGS", "KEYS", "UNIQ_KEY", "RETRY_TOPIC", "ORIGIN_MESSAGE_ID"}
CASES = pytest.mark.parametrize(
    "cases", [SHORT, pytest.param(LONG, marks=[pytest.mark.long, pytest.mark.timeout(3600)])]
)


def check(scenario: Scenario) -> None:
    try:
        tasks = read(scenario)
    except RemoteProtocolError as error:
        assert scenario.read_options.bad_messages == "fail"
        assert error.condition == "UNDECODABLE_MESSAGE_BODY"
        offset = error.context["offset"]
        (entry,) = (entry for entry in scenario.queue.entries if entry.place == offset)
        assert entry.commit_log_offset not in scenario.truths, error
        return
    check_rows(scenario, [row for task in tasks for row in task.rows])
    check_letters(scenario, tasks)
    losses = losses_of(tasks)
    assert {loss.cause for loss in losses} <= {VACANT}
    assert offsets_of(scenario.queue.entries).isdisjoint(
        offset for loss in losses for offset in range(loss.begin_offset, loss.end_offset)
    )


def check_rows(scenario: Scenario, rows: list[Row]) -> None:
    """Each true message has one row, with all that its producer wrote. With a filter, and where the broker was
    restarted, the queue offset may be the stored one."""
    if "queueOffset" in scenario.columns:
        assert all(one["queueOffset"] < other["queueOffset"] for one, other in pairwise(rows)), "once, in order"
    expected = [true_row(scenario, *one) for one in scenario.expected()]
    found = [row for row in rows if is_true(scenario, row)]
    assert len(found) == len(expected), "each once"
    if scenario.tags is not None and scenario.queue.was_restarted:
        for row, (entry, _, _) in zip(found, scenario.expected(), strict=True):
            row["queueOffset"] += (entry.place - entry.stored_offset) * (row["queueOffset"] == entry.stored_offset)
    assert [{name: row[name] for name in one} for row, one in zip(found, expected, strict=True)] == expected
    if scenario.tags is None and {"queueOffset", "commitLogOffset"} <= set(scenario.columns):
        places = {entry.commit_log_offset: range(entry.place, entry.end) for entry in scenario.queue.entries}
        assert all(row["queueOffset"] in places[row["commitLogOffset"]] for row in rows)


def is_true(scenario: Scenario, row: Row) -> bool:
    if "commitLogOffset" in row:
        return row["commitLogOffset"] in scenario.truths
    if "queueOffset" in row:
        return entry_at(scenario, row["queueOffset"]).commit_log_offset in scenario.truths
    return row["body"] in {part.body for parts in scenario.truths.values() for part in parts}


def entry_at(scenario: Scenario, offset: int) -> Entry:
    entries = scenario.queue.entries
    entry = entries[bisect_right(entries, offset, key=lambda entry: entry.place) - 1]
    assert entry.place <= offset < entry.end, "an offset that the broker gave to a message"
    return entry


def true_row(scenario: Scenario, entry: Entry, number: int, part: Part) -> Row:
    """The columns that the scenario reads and the test knows."""
    topic, properties = scenario.queue.topic, part.properties
    known = {
        "topic": properties.get("RETRY_TOPIC", topic) if topic == scenario.read_options.retry_topic else topic,
        "queueOffset": entry.place + number,
        "commitLogOffset": entry.commit_log_offset,
        "body": part.body,
        "msgId": properties.get("UNIQ_KEY"),
        "tags": properties.get("TAGS"),
        "keys": properties.get("KEYS"),
        "properties": list(properties.items()),
        "colour": properties.get("colour"),
        "POP_CK": None,
    }
    return {name: value for name, value in known.items() if name in scenario.columns}


def check_letters(scenario: Scenario, tasks: list[Task]) -> None:
    """A message that a task cannot decode is one dead letter of it, with the message's body; no other is one."""
    for task in tasks:
        assert not task.letters or scenario.read_options.bad_messages == "deadLetter"
        entries = [entry_at(scenario, int(letter.properties["BAD_MESSAGE_OFFSET"])) for letter in task.letters]
        assert len({entry.place for entry in entries}) == len(entries), "each once"
        for entry, letter in zip(entries, task.letters, strict=True):
            assert entry.commit_log_offset not in scenario.truths
            assert scenario.wants(entry.sent.tag) or entry.sent.sys_flag & INNER
            assert letter.topic == scenario.queue.topic
            assert letter.body == (entry.sent.body or b" ")
            assert letter.properties["BAD_MESSAGE_SYS_FLAG"] == str(entry.sent.sys_flag)
            assert letter.properties.keys() & RESERVED_PROPERTIES <= KEPT_IN_A_LETTER
        if scenario.tags is None and "queueOffset" in scenario.columns:
            begin, end = task.range.begin_offset, task.range.end_offset
            held = offsets_of(scenario.queue.entries) & set(range(begin, end))
            of_rows = {row["queueOffset"] for row in task.rows}
            assert of_rows == held - offsets_of(entries), "each message is in rows, or a letter"


def offsets_of(entries: Iterable[Entry]) -> set[int]:
    return {offset for entry in entries for offset in range(entry.place, entry.end)}


@CASES
@pytest.mark.usefixtures("implementation")
def test_true_messages_beside_any_lie_come_once(cases: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(range_decoding, "DECODED_AT_ONCE_BYTES", 600)
    monkeypatch.setattr(range_decoding, "BATCH_BYTES", 3_000)

    @settings(max_examples=cases)
    @given(scenarios())
    def report(scenario: Scenario) -> None:
        event(f"{scenario.queue.kind.value}, filtered: {scenario.tags is not None}")
        event(f"badMessages: {scenario.read_options.bad_messages}")
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
    truths: dict[int, list[Part]] = {}
    before = () if is_first else (Sent(b"true"),)
    for one in (*before, *sent, *(Sent(b"true %d" % number) for number in range(true_after))):
        assert queue.send(one)
        if one not in sent and queue.entries:
            truths[queue.entries[-1].commit_log_offset] = [Part(one.body, {})]
    options = {"badMessages": mode, "subExpression": "*" if tags is None else " || ".join(tags)}
    return Scenario(queue, truths, [0, queue.max_offset], options=options)


def restarted(before: int, after: int, **how: Any) -> Scenario:
    """Three messages with tag ``true``, two that no consumer gets, ``before`` such messages, a restart of the broker,
    and ``after`` such messages."""
    queue = HostileQueue(QueueKind.ORDINARY, QUEUE.topic)
    truths: dict[int, list[Part]] = {}
    hidden = [Sent(b"x" * 60, 0x10)] * 2
    true = [Sent(b"true %d" % number, 0, {"TAGS": TRUE_TAG}) for number in range(3 + before + after)]
    for one in (*true[:3], *hidden, *true[3:]):
        if one is true[3 + before]:
            queue.restart()
        assert queue.send(one)
        if one not in hidden:
            truths[queue.entries[-1].commit_log_offset] = [Part(one.body, dict(one.decoded))]
    return Scenario(queue, truths, [0, queue.max_offset], options={"subExpression": TRUE_TAG}, **how)


@pytest.mark.usefixtures("implementation")
@pytest.mark.parametrize("limit", [1, 3, 6, 32])
@pytest.mark.parametrize(("before", "after"), [(3, 3), (1, 40), (40, 1), (300, 1)])
@pytest.mark.parametrize("batch_bytes", [1_000, 30_000])
def test_filter_loses_nothing_where_a_broker_was_restarted(
    limit: int, before: int, after: int, batch_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two messages share a stored offset, or one is stored beyond its response, its batch or its range. The last
    message of the range shows nothing of that."""
    monkeypatch.setattr(range_decoding, "DECODED_AT_ONCE_BYTES", 300)
    monkeypatch.setattr(range_decoding, "BATCH_BYTES", batch_bytes)
    check(restarted(before, after, limit=limit))
    scenario = restarted(before, after, limit=limit)
    for end in range(4, min(scenario.queue.max_offset, 12)):
        check(replace(scenario, cuts=[0, end, scenario.queue.max_offset]))


class BySql(Scenario):
    """A scenario whose reader filters by SQL92, which only the broker can: here by the tag."""

    @property
    def tags(self) -> frozenset[str]:
        return frozenset({TRUE_TAG})


SQL = {"expressionType": "SQL92", "subExpression": f"TAGS = '{TRUE_TAG}'"}
BY_TAG = {"subExpression": TRUE_TAG}


@pytest.mark.usefixtures("implementation")
@pytest.mark.parametrize(("make", "options"), [(Scenario, BY_TAG), (BySql, SQL)], ids=["tag", "SQL92"])
@pytest.mark.parametrize("batch_bytes", [400, 30_000])
def test_an_inner_batch_that_is_cut_has_the_same_rows_of_a_filter(
    make: type[Scenario], options: dict[str, str], batch_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Brokers filter such a batch by its own tag; its messages with other ones are dropped by a filter by tags."""
    monkeypatch.setattr(range_decoding, "BATCH_BYTES", batch_bytes)
    queue = HostileQueue(QueueKind.BATCH, QUEUE.topic)
    parts = inner_batch([(b"", b"TAGS\x01%s\x02" % tag.encode()) for tag in (OTHER_TAG, TRUE_TAG, TRUE_TAG, OTHER_TAG)])
    for tag in [TRUE_TAG, OTHER_TAG, TRUE_TAG, TRUE_TAG] * 5:
        assert queue.send(Sent(parts, INNER_BATCH, {"TAGS": tag, "INNER_NUM": "4"}))
    whole = rows_of_cuts(make(queue, {}, [0, 80], limit=6, options=options))
    assert len(whole) == 15 * (4 if options is SQL else 2)
    for end in range(1, 80):
        assert rows_of_cuts(make(queue, {}, [0, end, 80], limit=6, options=options)) == whole


def rows_of_cuts(scenario: Scenario) -> list[Row]:
    return [row for task in read(scenario) for row in task.rows]


@pytest.mark.usefixtures("implementation")
def test_a_made_up_batch_over_messages_that_do_not_match_ends_no_query_by_sql92() -> None:
    """The broker gave it one offset; between it and the next match are those of others, and the end of the range."""
    queue = HostileQueue(QueueKind.OLD, QUEUE.topic)
    true, other = (Sent(tag.encode(), 0, {"TAGS": tag}) for tag in (TRUE_TAG, OTHER_TAG))
    claim = {"TAGS": TRUE_TAG, "INNER_NUM": "4", "INNER_BASE": "1"}
    for one in (true, Sent(inner_batch([(b"", b"")] * 4), 0xC0, claim), *[other] * 6, true):
        assert queue.send(one)
    rows = rows_of_cuts(BySql(queue, {}, [0, 3, 9], options=SQL))
    assert [row["queueOffset"] for row in rows if row["body"] == TRUE_TAG.encode()] == [0, 8]


@pytest.mark.usefixtures("implementation")
def test_the_last_message_of_a_filtered_range_is_pulled_once() -> None:
    """The response has messages behind the range, which are compared with it."""
    queue = HostileQueue(QueueKind.ORDINARY, QUEUE.topic)
    for number in range(40):
        assert queue.send(Sent(b"%d" % number, 0, {"TAGS": TRUE_TAG if number % 2 else OTHER_TAG}))
    (task,) = read(Scenario(queue, {}, [0, 8], options={"subExpression": TRUE_TAG}))
    assert [row["queueOffset"] for row in task.rows] == [1, 3, 5, 7]
    assert queue.pulls == 2


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
    range_reader._warn_of_undelivered.cache_clear()
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
        read(scenario)
    assert {planned.value.condition, read_again.value.condition} == {"DATA_LOSS.OFFSETS_UNAVAILABLE"}
    scenario = replace(scenario, options={"failOnDataLoss": "false"})
    (task,) = read(scenario)
    check_rows(scenario, task.rows)
    assert task.record.lost == [deleted]


@pytest.mark.usefixtures("implementation")
def test_offsets_that_no_message_has_end_no_query_and_one_omitted_does() -> None:
    scenario = reported(QueueKind.BATCH, Sent(b"x" * 60, 0xD0, {"INNER_NUM": "7"}))
    assert losses_of(read(scenario)) == [LostRange(QUEUE, 1, 8, VACANT)]
    check(reported(QueueKind.BATCH, Sent(b"x" * 60, 0xD0, {"INNER_NUM": "1100"}), tags=frozenset({TRUE_TAG})))
    ordinary = reported(QueueKind.ORDINARY)
    del ordinary.queue.entries[3]
    with pytest.raises(DataLossError, match=r"3, 4.*omitted them from its responses"):
        read(ordinary)


@pytest.mark.usefixtures("implementation")
@pytest.mark.parametrize("mode", ["null", "deadLetter"])
@pytest.mark.parametrize(("kind", "lie"), LIES.values(), ids=LIES.keys())
def test_true_messages_behind_a_known_lie_come_once(kind: QueueKind, lie: Sent, mode: str) -> None:
    check(reported(kind, lie, mode=mode, true_after=1_200))


@pytest.mark.usefixtures("implementation")
def test_rows_of_an_unreadable_batch_are_bounded_in_size_and_come_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "REPEATED_LIMIT_BYTES", 130_000)
    scenario = reported(QueueKind.BATCH, Sent(b"x", 0x80, {"INNER_NUM": "700", "KEYS": "k" * 300}))
    (task,) = read(scenario)
    check_rows(scenario, task.rows)
    assert sum(row["body"] is None for row in task.rows) == 700
    assert max(task.row_counts) <= 100


@pytest.mark.usefixtures("implementation")
def test_what_was_decoded_in_vain_is_freed_before_the_halves_are_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (undecodable, columns):
        monkeypatch.setattr(module, "DECOMPRESSED_LIMIT_BYTES", MIB)
    scenario = reported(QueueKind.ORDINARY, *[Sent(zlib.compress(bytes(250_000)), COMPRESSED)] * 64)
    task = Task(QueueRange(QUEUE, 0, scenario.queue.max_offset))
    tracemalloc.start()
    try:
        assert sum(len(row["body"]) == 250_000 for row in rows_of(scenario, task)) == 64
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
    rows = [row for task in read(scenario) for row in task.rows]
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
    assert losses_of(read(scenario)) == [LostRange(QUEUE, 1, 32_768, VACANT), LostRange(QUEUE, 32_769, 98_303, VACANT)]
