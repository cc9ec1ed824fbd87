"""The columnar decoder states what the scalar one states: for every input, in every projection, and about every
damage."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from connector_tests.support.message_bytes import COMPRESSED, V2, Record, batch_of, pull_body
from connector_tests.support.message_rows import EXPECTED, Row, expected_rows, rows
from connector_tests.support.message_strategies import PROPERTY_COLUMNS, TAG_VALUES, pull_bodies, records
from rocketmq_spark.errors import RemoteProtocolError
from rocketmq_spark.model import MessageExt
from rocketmq_spark.wire.arrow.arrow_types import arrow_type
from rocketmq_spark.wire.arrow.column_table import COLUMNS
from rocketmq_spark.wire.arrow.columns import ColumnDecoder
from rocketmq_spark.wire.message.stored_message import decode_messages

EVERYTHING = (-(2**63), 2**63 - 1)


def scalar_messages(bodies: Sequence[bytes]) -> list[MessageExt]:
    return [message for body in bodies for message in decode_messages(body, broker_name="b")]


def decode(
    column_decoder: type[ColumnDecoder], bodies: Sequence[bytes], columns: Sequence[str] = tuple(COLUMNS)
) -> pa.RecordBatch:
    return column_decoder(columns, broker_name="b", tags=None).decode(bodies, *EVERYTHING)


def outcome(decode_bodies: Callable[[], list[Row]]) -> object:
    """The rows, or what the error states."""
    try:
        return decode_bodies()
    except RemoteProtocolError as error:
        return error.condition, dict(error.context)


def outcomes_agree(column_decoder: type[ColumnDecoder], bodies: Sequence[bytes]) -> bool:
    scalar = outcome(lambda: expected_rows(scalar_messages(bodies), list(COLUMNS)))
    return outcome(lambda: rows(decode(column_decoder, bodies))) == scalar


@given(pull_bodies)
@example([[]])
@example([[Record(properties=b"")], [Record(properties=b"\x02")]])
@example([[Record(properties=b"a\x01b"), Record(properties=b"a\x01b\x02"), Record(properties=b"a\x01b\x02a\x01c")]])
@example([[batch_of(Record(), [(b"1", b""), (b"2", b"")]), Record()]])
@example([[Record(properties=b"a\x01b\x02c\x01\x02"), Record(properties=b"a\x01ccc\x02c\x01")]])
@example([[Record(properties=b"word\x02a\x01b\x01c\x02")]])
@example([[Record(sys_flag=COMPRESSED, body=b"")]])
def test_all_columns_of_all_messages_are_the_same(
    column_decoder: type[ColumnDecoder], pulls: list[list[Record]]
) -> None:
    bodies = [pull_body(*pull) for pull in pulls]
    assert rows(decode(column_decoder, bodies)) == expected_rows(scalar_messages(bodies), list(COLUMNS))


@given(pull_bodies, st.lists(st.sampled_from([*sorted(COLUMNS), *PROPERTY_COLUMNS]), unique=True, min_size=1))
def test_any_projection_has_its_columns_in_its_order(
    column_decoder: type[ColumnDecoder], pulls: list[list[Record]], columns: list[str]
) -> None:
    bodies = [pull_body(*pull) for pull in pulls]
    batch = decode(column_decoder, bodies, columns)
    types = [arrow_type(COLUMNS[name]) if name in COLUMNS else pa.string() for name in columns]
    assert batch.schema == pa.schema(list(zip(columns, types, strict=True)))
    assert rows(batch) == expected_rows(scalar_messages(bodies), columns)


@given(
    pull_bodies,
    st.tuples(st.integers(-1, 22), st.integers(-1, 22)),
    st.none() | st.frozensets(st.sampled_from([*TAG_VALUES, "a"])),
    st.sampled_from([("queueOffset", "body"), ("msgId",), tuple(COLUMNS)]),
)
def test_range_and_tags_choose_the_same_messages(
    column_decoder: type[ColumnDecoder],
    pulls: list[list[Record]],
    offset_range: tuple[int, int],
    tags: frozenset[str] | None,
    columns: tuple[str, ...],
) -> None:
    bodies = [pull_body(*pull) for pull in pulls]
    kept = [
        message
        for message in scalar_messages(bodies)
        if offset_range[0] <= message.queue_offset < offset_range[1] and (tags is None or message.tags in tags)
    ]
    decoder = column_decoder(columns, broker_name="b", tags=tags)
    assert rows(decoder.decode(bodies, *offset_range)) == expected_rows(kept, columns)


@st.composite
def damaged_bodies(draw: st.DrawFn) -> list[bytes]:
    """Pull bodies of which one has some bytes changed, cut or doubled."""
    bodies = [
        pull_body(*pull) for pull in draw(st.lists(st.lists(records(), min_size=1, max_size=3), min_size=1, max_size=3))
    ]
    number = draw(st.integers(0, len(bodies) - 1))
    data = bytearray(bodies[number])
    for _ in range(draw(st.integers(1, 3))):
        position = draw(st.integers(0, max(0, len(data) - 1)))
        change = draw(st.sampled_from(["set", "cut", "insert", "end"]))
        if change == "set":
            data[position : position + 1] = draw(st.sampled_from([b"\0", b"\x01", b"\x02", b"\x7f", b"\x80", b"\xff"]))
        elif change == "cut":
            del data[position : position + draw(st.integers(1, 4))]
        elif change == "insert":
            data[position:position] = draw(st.binary(min_size=1, max_size=3))
        else:
            del data[position:]
    bodies[number] = bytes(data)
    return bodies


@given(damaged_bodies())
def test_damaged_bytes_give_the_same_rows_or_the_same_error(
    column_decoder: type[ColumnDecoder], bodies: list[bytes]
) -> None:
    assert outcomes_agree(column_decoder, bodies)


def test_each_byte_damaged_alone_gives_the_same_rows_or_the_same_error(column_decoder: type[ColumnDecoder]) -> None:
    body = pull_body(
        Record(magic=V2, properties=b"a\x01b\x02", store_host=("::1", 10911), queue_offset=1),
        Record(properties=b"TAGS\x01c", queue_offset=2),
        Record(topic="", body=b"", queue_offset=3),
    )
    for position, byte in enumerate(body):
        for value in {0x00, 0x7F, 0x80, 0xFF, byte ^ 0x01} - {byte}:
            damaged = body[:position] + bytes([value]) + body[position + 1 :]
            assert outcomes_agree(column_decoder, [damaged]), (position, value)


def test_a_pull_cut_anywhere_gives_the_same_rows_or_the_same_error(column_decoder: type[ColumnDecoder]) -> None:
    body = pull_body(Record(properties=b"a\x01b\x02"), Record(magic=V2, born_host=("::1", 10911)))
    assert all(outcomes_agree(column_decoder, [body[:length]]) for length in range(len(body)))


SENT_BACK = Record(properties=b"RETRY_TOPIC\x01origin\x02ORIGIN_MESSAGE_ID\x01O\x02UNIQ_KEY\x01U\x02")


@given(pull_bodies)
@example([[SENT_BACK, Record(properties=b""), replace(SENT_BACK, sys_flag=COMPRESSED, body=b"")]])
@example([[Record(properties=b"ORIGIN_MESSAGE_ID\x01O\x02"), Record(properties=b"RETRY_TOPIC\x01origin\x02")]])
def test_topic_and_id_of_sent_back_messages_are_restored(
    column_decoder: type[ColumnDecoder], pulls: list[list[Record]]
) -> None:
    bodies = [pull_body(*pull) for pull in pulls]
    decoder = column_decoder(("topic", "msgId"), broker_name="b", tags=None, restores_origin=True)
    assert rows(decoder.decode(bodies, *EVERYTHING)) == [
        {"topic": message.origin_topic, "msgId": message.origin_msg_id} for message in scalar_messages(bodies)
    ]


def test_this_module_has_every_column() -> None:
    assert list(EXPECTED) == list(COLUMNS)
