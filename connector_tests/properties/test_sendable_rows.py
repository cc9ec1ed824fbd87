"""Of whatever rows: each is refused with what is wrong with it, or its message says what the row says."""

from __future__ import annotations

import string
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pytest
from hypothesis import assume, event, given
from hypothesis import strategies as st

from connector_tests.support.row_strategies import BODY_LIMIT_BYTES, Row, any_rows
from rocketmq_spark.errors import LocalProtocolError
from rocketmq_spark.model import RESERVED_PROPERTIES, MessageQueue
from rocketmq_spark.options import WriteOptions
from rocketmq_spark.sink.message_ids import id_prefix, row_ids
from rocketmq_spark.sink.queue_choice import named_queue
from rocketmq_spark.sink.row_checks import OWN_PROPERTIES_LIMIT_BYTES
from rocketmq_spark.sink.send_batches import Place, SendBatch
from rocketmq_spark.sink.task import Columns, Task, write_rows
from rocketmq_spark.sink.topic_checks import Wanted
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
TASK = Task("any rows", 0)
DEAD = "DEAD"
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

    def problems(self, wanted: Collection[Wanted], *, first_only: bool) -> Mapping[Wanted, str]:
        """All can be had."""
        return {}

    def queue_of(self, place: Place) -> MessageQueue | None:
        return named_queue(place)

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
    ids = [one.decode() for one in row_ids(id_prefix(TASK.job, TASK.partition_id), 0, len(rows)).tolist()]
    assert sorted(sent) == ids
    for row, (message,) in zip(rows, (sent[one] for one in ids), strict=True):
        event(f"good: {is_good(row)}")
        if is_good(row):
            assert message == expected(row)
        else:
            assert message.topic == DEAD
            assert message.properties["UNSENDABLE_PROBLEM"].startswith(("its ", "it ", "'", '"'))


@given(ROWS)
def test_without_a_dead_letter_topic_the_first_bad_row_is_named_and_nothing_is_sent(rows: list[Row]) -> None:
    first_bad = next((number for number, row in enumerate(rows) if not is_good(row)), None)
    assume(first_bad is not None)
    wire = Wire()
    options = WriteOptions.parse({"namesrvAddr": "n:9876", "maxMessageBytes": str(BODY_LIMIT_BYTES)})
    with pytest.raises(LocalProtocolError, match=f"Row {first_bad} of partition 0 of any rows cannot be sent: "):
        write_rows([pa.RecordBatch.from_pylist(rows, schema=SCHEMA)], COLUMNS, TASK, options, wire)
    assert wire.by_id() == {}
