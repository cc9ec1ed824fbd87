"""What the Rust twin takes, what it refuses, and how it treats memory that is not its own."""

from __future__ import annotations

import struct
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, NoReturn

import pyarrow as pa
import pytest

from connector_tests.support.decoders import native_decoder
from connector_tests.support.message_bytes import (
    COMPRESSED,
    INNER_BATCH,
    V2,
    Record,
    inner_batch,
    pull_body,
    with_a_v1_topic_of_128_bytes,
)
from rocketmq_spark.wire.arrow.column_table import COLUMNS
from rocketmq_spark.wire.arrow.columns import ColumnDecoder
from rocketmq_spark.wire.message.compression import compress
from rocketmq_spark.wire.message.sys_flag import MessageSysFlag

if TYPE_CHECKING:
    from rocketmq_spark.wire.arrow.native_columns import NativeColumnDecoder as Native
else:
    Native = native_decoder()
EVERYTHING = (-(2**63), 2**63 - 1)
FIRST_MS, LAST_MS = -59_011_459_200_000, 250_246_627_199_999
MESSAGE = Record(
    topic="TopicA",
    body=b"payload",
    properties={"TAGS": "TagA", "KEYS": "k1 k2", "UNIQ_KEY": "ABC"},
    queue_offset=7,
    born_timestamp_ms=1_700_000_000_123,
)
PACKED = replace(MESSAGE, sys_flag=COMPRESSED, body=compress(b"plain", MessageSysFlag.ZLIB))
MAPPED = ("::ffff:10.0.0.1", 10911)


def properties_of(count: int) -> bytes:
    return b"".join(b"name-%d\x01v\x02" % number for number in range(count))


def one_byte_longer(record: bytes) -> bytes:
    return struct.pack(">i", len(record) + 1) + record[4:] + b"\0"


def ordinary(
    *bodies: bytes | bytearray | memoryview,
    columns: tuple[str, ...] = tuple(COLUMNS),
    tags: frozenset[str] | None = None,
    offset_range: tuple[int, int] = EVERYTHING,
) -> pa.RecordBatch | None:
    """The batch of native code alone, which is that of Python alone; None if it refuses."""
    batch = Native(columns, broker_name="b", tags=tags).decode_fast_path(bodies, *offset_range)
    if batch is not None:
        batch.validate(full=True)
        expected = ColumnDecoder(columns, broker_name="b", tags=tags).decode(bodies, *offset_range)
        assert batch.schema.equals(expected.schema, check_metadata=True)
        assert batch.equals(expected)
    return batch


@pytest.mark.parametrize(
    "records",
    [
        pytest.param([], id="nothing"),
        pytest.param([MESSAGE], id="one"),
        pytest.param([MESSAGE, replace(MESSAGE, properties=b""), MESSAGE], id="a row without properties"),
        pytest.param([replace(MESSAGE, properties=properties_of(256))], id="256 properties"),
        pytest.param([replace(MESSAGE, properties=b"a\x01\x02\x01b\x02c\x02\x02d\x01e\x01f")], id="odd properties"),
        pytest.param(
            [replace(MESSAGE, properties=text) for text in (b"TAGS\x01x\x02a\x01b\x02", b"TAGS\x01\x02a\x01b\x02")],
            id="the same names, and no value",
        ),
        pytest.param([replace(MESSAGE, magic=V2, topic="t" * 200)], id="a long topic"),
        pytest.param([replace(MESSAGE, topic="话题", properties={"KEYS": "订单"})], id="text beyond ASCII"),
        pytest.param([replace(MESSAGE, born_host=("2001:db8::1", 1), store_host=("::1", -1))], id="IPv6"),
        pytest.param([replace(MESSAGE, born_timestamp_ms=LAST_MS, store_timestamp_ms=FIRST_MS)], id="widest times"),
        pytest.param([replace(MESSAGE, sys_flag=COMPRESSED, body=b"")], id="nothing to decompress"),
        pytest.param([replace(MESSAGE, sys_flag=0x40)], id="half an inner batch"),
        pytest.param([replace(MESSAGE, topic=f"t{n % 3}", properties={"TAGS": str(n)}) for n in range(99)], id="many"),
    ],
)
def test_ordinary_messages_are_accepted(records: list[Record]) -> None:
    batch = ordinary(b"", pull_body(*records), b"", pull_body(*records))
    assert batch is not None
    assert len(batch) == 2 * len(records)


REFUSED = [
    pytest.param(pull_body(replace(MESSAGE, magic=1)), id="magic"),
    pytest.param(MESSAGE.encode()[:-1], id="cut"),
    pytest.param(MESSAGE.encode() + b"\0", id="more"),
    pytest.param(one_byte_longer(MESSAGE.encode()), id="more inside"),
    pytest.param(MESSAGE.encode() + bytes(100), id="zeros"),
    pytest.param(with_a_v1_topic_of_128_bytes(), id="topic of -128 bytes"),
    pytest.param(replace(MESSAGE, sys_flag=INNER_BATCH, body=inner_batch([(b"", b"")])).encode(), id="inner batch"),
    pytest.param(replace(MESSAGE, sys_flag=0x80).encode(), id="half an inner batch, which may have several offsets"),
    pytest.param(PACKED.encode(), id="compressed"),
    pytest.param(replace(MESSAGE, topic=b"T\xff").encode(), id="topic"),
    pytest.param(replace(MESSAGE, properties=b"a\x01\xed\xa0\x80\x02").encode(), id="properties"),
    pytest.param(replace(MESSAGE, properties=b"a\x01b\x02a\x01c\x02").encode(), id="a name twice"),
    pytest.param(replace(MESSAGE, properties=properties_of(257)).encode(), id="257 properties"),
    pytest.param(replace(MESSAGE, born_timestamp_ms=LAST_MS + 1).encode(), id="born too late"),
    pytest.param(replace(MESSAGE, store_timestamp_ms=FIRST_MS - 1).encode(), id="stored too early"),
    pytest.param(replace(MESSAGE, born_host=MAPPED).encode(), id="IPv4 in IPv6, born"),
    pytest.param(replace(MESSAGE, store_host=MAPPED).encode(), id="IPv4 in IPv6, stored"),
]


@pytest.mark.parametrize("odd", REFUSED)
def test_what_is_odd_is_refused_as_a_whole_wherever_it_is(odd: bytes) -> None:
    good = MESSAGE.encode()
    assert ordinary(good) is not None
    for bodies in ([odd], [good, odd], [good + odd], [odd, good]):
        assert ordinary(*bodies) is None


def test_messages_at_other_places_than_stored_are_refused() -> None:
    decoder = Native(("queueOffset",), broker_name="b", tags=None)
    body = pull_body(*(replace(MESSAGE, queue_offset=offset) for offset in (5, 7, 8)))
    assert decoder.decode_fast_path([body], 0, 10, [(5, 8)]) is None
    batch_builder = decoder.batch_builder(1_000, 3)
    assert batch_builder is not None and not batch_builder.add([body], 0, 10, [(5, 8)])
    for responded in ([], [(5, 9)], [(5, 7)]):
        assert decoder.decode_fast_path([body], 0, 10, responded) is not None
    filtered = Native(("queueOffset",), broker_name="b", tags=frozenset({"TagA"}))
    assert filtered.decode_fast_path([body], 0, 10, [(5, 8)]) is not None
    placed = Native(("queueOffset",), broker_name="b", tags=frozenset({"TagA"}), is_unfiltered=True)
    assert (placed.decode_fast_path([body], 0, 10, [(5, 8)]), placed.batch_builder(1_000, 3)) == (None, None)


def test_what_is_not_requested_may_be_odd() -> None:
    odd = replace(
        PACKED,
        topic=b"\xff",
        properties=b"\xff",
        born_timestamp_ms=2**62,
        store_timestamp_ms=2**62,
        born_host=MAPPED,
        store_host=MAPPED,
    )
    columns = ("queueOffset", "sysFlag", "offsetMsgId")
    assert ordinary(odd.encode(), columns=columns) is not None
    for column in ("topic", "msgId", "tags", "body", "bornTimestamp", "storeTimestamp", "bornHost", "storeHost"):
        assert ordinary(odd.encode(), columns=(*columns, column)) is None
        assert ordinary(odd.encode(), columns=(*columns, column), offset_range=(0, 7)) is not None, "outside the range"


def test_of_ordinary_messages_those_with_a_subscribed_tag_are_kept() -> None:
    bodies = [replace(MESSAGE, queue_offset=at, properties={"TAGS": tag}).encode() for at, tag in enumerate("abca")]
    for tags, kept in ((frozenset("ab"), [0, 1, 3]), (frozenset("x"), []), (None, [0, 1, 2, 3])):
        batch = ordinary(*bodies, tags=tags)
        assert batch is not None
        assert batch.column("queueOffset").to_pylist() == kept


def test_damage_outside_the_range_is_refused() -> None:
    assert ordinary(MESSAGE.encode()[:-1], offset_range=(0, 7)) is None


def test_a_compressed_body_is_refused_whatever_its_tag() -> None:
    """Python looks into it before it checks tags."""
    assert ordinary(MESSAGE.encode(), PACKED.encode(), tags=frozenset({"other"})) is None


class WithoutPython(Native):
    """Fails where it would ask Python."""

    def _frames(self, bodies: object, responded: object) -> NoReturn:
        raise AssertionError("decoded by Python")


def test_what_is_accepted_is_not_decoded_by_python() -> None:
    decoder = WithoutPython(tuple(COLUMNS), broker_name="b", tags=None)
    batch, undecodable = decoder.decode_with_undecodable([MESSAGE.encode()], *EVERYTHING)
    assert undecodable == []
    assert batch.equals(ordinary(MESSAGE.encode()))
    assert batch.equals(decoder.decode([MESSAGE.encode()], *EVERYTHING))
    with pytest.raises(AssertionError, match="decoded by Python"):
        decoder.decode_with_undecodable([PACKED.encode()], *EVERYTHING)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_bytes_in_a_row_are_accepted(kind: type[bytes | bytearray | memoryview]) -> None:
    for body in (MESSAGE.encode(), b""):
        assert ordinary(kind(body)) is not None
    around = b"\xff" * 50 + MESSAGE.encode() + b"\xff" * 50
    assert ordinary(memoryview(around)[50:-50]) is not None


def test_bytes_that_are_not_in_a_row_are_refused() -> None:
    """Python refuses them too."""
    apart = bytes(byte for pair in zip(MESSAGE.encode(), MESSAGE.encode(), strict=True) for byte in pair)
    assert ordinary(memoryview(apart)[::2]) is None
    with pytest.raises(TypeError, match="bytes-like"):
        Native(("body",), broker_name="b", tags=None).decode([memoryview(apart)[::2]], *EVERYTHING)


def test_two_gibibytes_are_refused() -> None:
    """For Python to state it: Arrow's offsets would overflow."""
    head_bytes = len(replace(MESSAGE, body=b"").encode())
    body = replace(MESSAGE, body=bytes(2**21 - head_bytes)).encode()
    decoder = Native(("queueOffset",), broker_name="b", tags=None)
    batch = decoder.decode_fast_path([body] * 1023, *EVERYTHING)
    assert batch is not None
    assert len(batch) == 1023
    assert decoder.decode_fast_path([body] * 1024, *EVERYTHING) is None


def test_a_column_of_two_gibibytes_is_refused() -> None:
    """The name of the broker, which is in no message."""
    name = "b" * 2**20
    body = MESSAGE.encode()
    decoder = Native(("brokerName",), broker_name=name, tags=None)
    assert decoder.decode_fast_path([body] * 2048, *EVERYTHING) is None


def test_what_is_no_column_is_an_error() -> None:
    from rocketmq_spark.wire import _native

    with pytest.raises(ValueError, match="no column"):
        _native.Decoder(["prepared_transaction_offset"], "b", None)


def test_the_memory_of_a_column_may_only_be_read_and_outlives_its_decoder() -> None:
    from rocketmq_spark.wire import _native

    decoded = _native.Decoder(["queue_offset"], "b", None).decode([MESSAGE.encode()], *EVERYTHING)
    assert decoded is not None
    ((_, memory),) = decoded[1]
    assert memory is not None
    view = memoryview(memory)
    del decoded, memory
    assert view.readonly
    assert view.cast("q").tolist() == [7]
    with pytest.raises(TypeError, match="read-only"):
        view[0] = 0


@pytest.fixture
def never_switched() -> Iterator[None]:
    """No thread gives the GIL to another but by its own will."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(3600)
    yield
    sys.setswitchinterval(before)


def test_other_threads_run_meanwhile(never_switched: None) -> None:
    bodies = [pull_body(*[MESSAGE] * 1000)] * 4
    decoder = Native(("body",), broker_name="b", tags=None)
    begun, seen = threading.Event(), threading.Event()
    rounds = 0

    def decode_until_seen() -> None:
        nonlocal rounds
        begun.set()
        while not seen.is_set() and rounds < 10_000:
            decoder._native_decoder.decode(bodies, *EVERYTHING)
            rounds += 1

    thread = threading.Thread(target=decode_until_seen)
    thread.start()
    begun.wait()
    seen.set()
    thread.join()
    assert rounds < 10_000
