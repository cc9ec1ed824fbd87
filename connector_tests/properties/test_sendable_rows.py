"""Of whatever rows: each is refused with what is wrong with it, or its message states what the row states."""

from __future__ import annotations

import string
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa
import pytest
from hypothesis import assume, event, given
from hypothesis import strategies as st

from connector_tests.support.row_strategies import BODY_LIMIT_BYTES, Row, any_rows
from connector_tests.support.written_rows import row_number
from rocketmq_spark.errors import LocalProtocolError
from rocketmq_spark.model import RESERVED_PROPERTIES, MessageQueue, QueueRange
from rocketmq_spark.options import WriteOptions
from rocketmq_spark.sink.invalid_rows import OWN_PROPERTIES_LIMIT_BYTES
from rocketmq_spark.sink.send_batches import RowTarget, SendBatch, named_queue
from rocketmq_spark.sink.topic_lookup import TopicRequirement
from rocketmq_spark.sink.write_task import Columns, WriteTask, write_rows
from rocketmq_spark.source.partitioning import tasks_of
from rocketmq_spark.source.skipped_ranges import without_skipped
from rocketmq_spark.wire.message.batch import decode_batch
from rocketmq_spark.wire.message.compression import decompress
from rocketmq_spark.wire.message.properties import UNIQ_KEY, decode_properties, encode_properties

SCHEMA = pa.schema(
    {
        "body": pa.binary(),
        "topic": pa.string(),
        "tags": pa.string(),
        "keys": pa.string(),
        "properties": pa.map_(pa.string(), pa.string()),
        "shardingKey": pa.string(),
        "brokerName": pa.string(),
        "queueId": pa.int32(),
        "delayLevel": pa.int32(),
    }
)
COLUMNS = Columns({name: position for position, name in enumerate(SCHEMA.names)})
TASK = WriteTask("any rows", 0)
DEAD = "DEAD"
OPTIONS = WriteOptions.parse({"namesrvAddr": "n:1", "deadLetterTopic": DEAD})
TOPIC_LETTERS = frozenset(string.ascii_letters + string.digits + "%|_-")
ROWS = st.lists(any_rows(), max_size=6)
COMPRESSION = st.sampled_from(["none", "zlib", "lz4", "zstd"])


@dataclass(frozen=True)
class Travelled:
    """A message as a broker gets it, decoded by the codec of single messages."""

    topic: str
    queue: MessageQueue | None
    body: bytes
    properties: dict[str, str]


class Wire:
    """A sender that keeps what it is given."""

    def __init__(self) -> None:
        self._batches: list[SendBatch] = []

    @property
    def topics(self) -> Wire:
        return self

    def find_problems(
        self, requirements: Collection[TopicRequirement], *, first_only: bool
    ) -> Mapping[TopicRequirement, str]:
        """All can be had."""
        return {}

    def resolve_queue(self, target: RowTarget) -> MessageQueue | None:
        return named_queue(target)

    def send(self, batch: SendBatch) -> None:
        self._batches.append(batch)

    def finish(self) -> None:
        """All is stored already."""

    def by_id(self) -> dict[str, list[Travelled]]:
        found: dict[str, list[Travelled]] = {}
        for message in (message for batch in self._batches for message in messages_in(batch)):
            found.setdefault(message.properties.pop(UNIQ_KEY), []).append(message)
        return found


def messages_in(batch: SendBatch) -> Iterator[Travelled]:
    if batch.properties is not None:
        pairs = [(bytes(batch.body), decode_properties(batch.properties.encode()))]
    else:
        pairs = [(one.body, one.properties) for one in decode_batch(bytes(batch.body))]
    assert len(pairs) == batch.row_count
    for body, properties in pairs:
        plain = decompress(body, batch.sys_flag) if batch.sys_flag else body
        yield Travelled(batch.topic, batch.queue, plain, properties)


def properties_of(row: Row) -> list[tuple[str, str | None]]:
    delay = row["delayLevel"]
    named = {"TAGS": row["tags"], "KEYS": row["keys"], "__SHARDINGKEY": row["shardingKey"]}
    named |= {"DELAY": None if delay is None else str(delay)}
    return [(name, value) for name, value in named.items() if value is not None] + (row["properties"] or [])


def is_good(row: Row) -> bool:
    """By RocketMQ's rules, one value after another."""
    named = (row["brokerName"] is not None, row["queueId"] is not None)
    return (
        0 < len(row["body"] or b"") <= BODY_LIMIT_BYTES
        and TOPIC_LETTERS.issuperset(row["topic"] or " ")
        and len(row["topic"]) <= 127
        and RESERVED_PROPERTIES.isdisjoint(name for name, _ in row["properties"] or [])
        and named[0] == named[1]
        and (row["queueId"] or 0) >= 0
        and (row["delayLevel"] is None or row["delayLevel"] > 0)
        and can_travel(properties_of(row))
    )


def can_travel(properties: list[tuple[str, str | None]]) -> bool:
    if any(value is None for _, value in properties):
        return False
    given = {UNIQ_KEY: "0" * 32} | {name: value or "" for name, value in properties}
    try:
        data = encode_properties(given)
    except LocalProtocolError:
        return False
    return len(data) <= OWN_PROPERTIES_LIMIT_BYTES and decode_properties(data) == given


def expected(row: Row) -> Travelled:
    queue = None if row["brokerName"] is None else MessageQueue(row["topic"], row["brokerName"], row["queueId"])
    return Travelled(row["topic"], queue, row["body"], {name: value or "" for name, value in properties_of(row)})


@given(ROWS, COMPRESSION)
def test_each_row_is_refused_with_what_is_wrong_or_travels_as_it_is(rows: list[Row], compression: str) -> None:
    """Seen by what is sent: refused rows as dead letters."""
    given = {"namesrvAddr": "n:9876", "deadLetterTopic": DEAD, "maxMessageBytes": str(BODY_LIMIT_BYTES)}
    options = WriteOptions.parse({**given, "compression": compression, "compressMsgBodyOverHowmuch": "20"})
    wire = Wire()
    assert write_rows([pa.RecordBatch.from_pylist(rows, schema=SCHEMA)], COLUMNS, TASK, options, wire) == len(rows)

    sent = wire.by_id()
    ids = sorted(sent, key=row_number)
    assert list(map(row_number, ids)) == list(range(len(rows)))
    for row, (message,) in zip(rows, (sent[one] for one in ids), strict=True):
        event(f"good: {is_good(row)}")
        if is_good(row):
            assert message == expected(row)
        else:
            assert message.topic == DEAD
            assert message.properties["INVALID_ROW_PROBLEM"].startswith(("its ", "it ", "'", '"'))


@given(ROWS)
def test_without_a_dead_letter_topic_the_first_invalid_row_is_named_and_nothing_is_sent(rows: list[Row]) -> None:
    first_invalid = next((number for number, row in enumerate(rows) if not is_good(row)), None)
    assume(first_invalid is not None)
    wire = Wire()
    options = WriteOptions.parse({"namesrvAddr": "n:9876", "maxMessageBytes": str(BODY_LIMIT_BYTES)})
    with pytest.raises(LocalProtocolError, match=f"Invalid row {first_invalid} in partition 0 of any rows: "):
        write_rows([pa.RecordBatch.from_pylist(rows, schema=SCHEMA)], COLUMNS, TASK, options, wire)
    assert wire.by_id() == {}


@st.composite
def logged_batches(draw: st.DrawFn) -> list[QueueRange]:
    """Ranges of a batch, each of another queue; small ones share a task."""
    queues = [MessageQueue("T", broker, queue_id) for broker in ("a", "b") for queue_id in range(2)]
    lengths = draw(st.lists(st.integers(0, 4), min_size=len(queues), max_size=len(queues)))
    return [QueueRange(queue, 10, 10 + length) for queue, length in zip(queues, lengths, strict=True) if length]


@dataclass(frozen=True)
class Attempt:
    """One reading of a logged batch: what is gone or filtered by then, or null (``badMessages``), what is skipped, how
    it is packed and sent."""

    missing: frozenset[tuple[MessageQueue, int]]
    unreadable: frozenset[tuple[MessageQueue, int]]
    skipped: tuple[QueueRange, ...]
    min_partitions: int | None
    max_records: int | None
    arrow_rows: int


@st.composite
def attempts(draw: st.DrawFn, logged: list[QueueRange], *, with_unreadable: bool = False) -> Attempt:
    offsets = [(one.queue, offset) for one in logged for offset in range(one.begin_offset, one.end_offset)]
    return Attempt(
        frozenset(draw(st.lists(st.sampled_from(offsets), max_size=4))),
        frozenset(draw(st.lists(st.sampled_from(offsets), max_size=3)) if with_unreadable else ()),
        tuple(draw(st.lists(st.sampled_from(logged), max_size=2, unique=True))),
        draw(st.none() | st.integers(1, 5)),
        draw(st.none() | st.integers(2, 6)),
        draw(st.integers(1, 8)),
    )


Sent = tuple[str, tuple[str, bytes]]
"""ID of a message, and its content: topic and body."""


def written(logged: list[QueueRange], attempt: Attempt, body_count: int | None = None) -> list[Sent]:
    """All that an attempt sends; a body is a queue and an offset, or with ``body_count`` one of so many. Rows without a
    body are dead letters."""
    tasks = tasks_of(logged, min_partitions=attempt.min_partitions, max_records=attempt.max_records)
    wire = Wire()
    for number, task in enumerate(without_skipped(tasks, attempt.skipped)):
        read = [
            (one.queue, offset)
            for one in task
            for offset in range(one.begin_offset, one.end_offset)
            if (one.queue, offset) not in attempt.missing
        ]
        bodies = [None if place in attempt.unreadable else body_at(*place, body_count) for place in read]
        rows = pa.RecordBatch.from_pylist([{"body": body, "topic": "T"} for body in bodies], schema=SCHEMA)
        batches = [rows.slice(begin, attempt.arrow_rows) for begin in range(0, len(rows), attempt.arrow_rows)]
        write_rows(batches, COLUMNS, WriteTask("query q batch 7", number), OPTIONS, wire)
    return [(id_, (message.topic, message.body)) for id_, messages in wire.by_id().items() for message in messages]


def body_at(queue: MessageQueue, offset: int, body_count: int | None) -> bytes:
    return (f"{queue}:{offset}" if body_count is None else f"{offset % body_count}").encode()


@pytest.mark.parametrize("with_unreadable", [False, pytest.param(True, marks=pytest.mark.full)])
@given(data=st.data(), body_count=st.none() | st.integers(1, 3))
def test_an_id_belongs_to_one_row_whatever_a_replay_misses(
    data: st.DataObject, body_count: int | None, with_unreadable: bool
) -> None:
    """Whatever is lost, skipped, filtered, null or packed in another way between attempts. Of equal rows each has an ID
    in each attempt, so deduplication keeps as many as an attempt has stored."""
    logged = data.draw(logged_batches().filter(bool))
    content_of: dict[str, tuple[str, bytes]] = {}
    drawn = attempts(logged, with_unreadable=with_unreadable)
    for attempt in data.draw(st.lists(drawn, min_size=2, max_size=3)):
        sent = written(logged, attempt, body_count)
        assert len({id_ for id_, _ in sent}) == len(sent)
        for id_, content in sent:
            assert content_of.setdefault(id_, content) == content


@given(st.data())
def test_a_replay_of_the_same_rows_has_the_same_ids(data: st.DataObject) -> None:
    logged = data.draw(logged_batches().filter(bool))
    attempt = data.draw(attempts(logged))
    assert written(logged, attempt) == written(logged, attempt)


@pytest.mark.full
@given(st.data())
def test_rows_of_other_tasks_keep_their_ids_when_ranges_are_skipped(data: st.DataObject) -> None:
    logged = data.draw(logged_batches().filter(bool))
    attempt = replace(data.draw(attempts(logged)), missing=frozenset(), max_records=1)
    whole, rest = written(logged, replace(attempt, skipped=())), written(logged, attempt)
    skipped = {f"{one.queue}:{offset}".encode() for one in attempt.skipped for offset in range(10, one.end_offset)}
    assert rest == [(id_, (topic, body)) for id_, (topic, body) in whole if body not in skipped]
