"""Hypothesis strategies for responses of a proxy: messages with any values in any of their fields, and their bytes,
mostly whole."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from hypothesis import strategies as st

from connector_tests.support.message_strategies import INT32, INT64, KINDS
from rocketmq_spark.wire.grpc import messaging_pb2 as pb
from rocketmq_spark.wire.message.compression import compress

INVISIBLE: Final = "314159"
"""In handles, for the invisible duration of the request, which has as many digits."""
HANDLE: Final = f"0 1795445135749 {INVISIBLE} 3 0 broker-a 0 0"
LONG_HANDLE: Final = f"0 1795445135749 {INVISIBLE} {'9' * 4_000} 0 broker-a 0 0"
"""With a number as long as Python reads, which none of a broker is."""
TEXTS: Final = st.text(max_size=12) | st.sampled_from(
    [
        "",
        "T",
        "broker-a",
        "localhost",
        "b\n[fake]",
        "x" * 300,
        HANDLE,
        f"{HANDLE} 9",
        f"{HANDLE[:-1]}1 9",
        LONG_HANDLE,
        "a b c 1",
    ]
)
NUMBERS: Final = st.integers(0, 3) | st.sampled_from([8081, 65_536, -1])
BODIES: Final = st.one_of(
    st.binary(max_size=40),
    st.builds(lambda size, kind: compress(bytes(size), kind), st.sampled_from([1, 70_000, 4 << 20]), KINDS),
    st.sampled_from([b"\x1f\x8b", b"\x1f\x8b\x08" + bytes(40), b"\x04\x22\x4d\x18", b"\x28\xb5\x2f\xfd\xff"]),
)
UNKNOWN: Final = st.sampled_from(
    [
        b"\x2a\x0a\x12\x03\x22\x01x\x1a\x03abc",  # telemetry: recover an orphaned transaction
        b"\x32\x03\x0a\x01n",  # print the stacks of threads
        b"\x3a\x08\x0a\x01n\x1a\x03\x22\x01x",  # verify a message
        b"\x42\x00",  # connect elsewhere
        b"\xf8\xff\xff\xff\x0f\x01",
        b"\x0b\x0c",  # a group
        b"\x0b" * 200,
    ]
)
"""Commands and fields that this version has no names for."""


@cache
def built(kind: Descriptor) -> st.SearchStrategy[Any]:
    """Messages of ``kind``, most fields of which are present."""
    fields = [(field, _values(field)) for field in kind.fields]

    @st.composite
    def build(draw: st.DrawFn) -> Message:
        message: Message = GetMessageClass(kind)()
        present = draw(st.integers(0, 2 ** len(fields) - 1) | st.just(2 ** len(fields) - 1))
        for index, (field, values) in enumerate(fields):
            if present >> index & 1:
                _set(message, field, draw(values))
        return message

    return build()


def _values(field: FieldDescriptor) -> st.SearchStrategy[Any]:
    """Values of ``field``; of a repeated one, lists; of a map, dictionaries of texts."""
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        return st.dictionaries(TEXTS, TEXTS, max_size=3)
    one = _single(field)
    return st.lists(one, max_size=3) if field.is_repeated else one


def _single(field: FieldDescriptor) -> st.SearchStrategy[Any]:
    if field.enum_type is not None:
        known = st.sampled_from([value.number for value in field.enum_type.values])
        mostly = st.just(pb.Code.OK) if field.enum_type.name == "Code" else known
        return mostly | mostly | known | INT32
    if field.message_type is not None:
        return built(field.message_type)
    kinds: dict[int, st.SearchStrategy[Any]] = {
        FieldDescriptor.TYPE_STRING: TEXTS,
        FieldDescriptor.TYPE_BYTES: BODIES,
        FieldDescriptor.TYPE_BOOL: st.booleans(),
        FieldDescriptor.TYPE_INT32: NUMBERS | INT32,
        FieldDescriptor.TYPE_INT64: NUMBERS | INT64,
    }
    return kinds[field.type]


def _set(message: Message, field: FieldDescriptor, value: Any) -> None:
    if isinstance(value, list):
        getattr(message, field.name).extend(value)
    elif isinstance(value, dict):
        getattr(message, field.name).update(value)
    elif isinstance(value, Message):
        getattr(message, field.name).CopyFrom(value)
    else:
        setattr(message, field.name, value)


@st.composite
def responses(draw: st.DrawFn, kind: type[Message]) -> bytes:
    """The bytes of a message of ``kind``: mostly whole; else cut, changed, with unknown fields, or with a field that
    is there very often."""
    data: bytes = draw(built(kind.DESCRIPTOR)).SerializeToString()
    how = draw(st.sampled_from(["whole"] * 5 + ["cut", "changed", "unknown", "often", "any"]))
    if how == "cut":
        return data[: draw(st.integers(0, len(data)))]
    if how == "changed" and data:
        at = draw(st.integers(0, len(data) - 1))
        return data[:at] + draw(st.binary(min_size=1, max_size=3)) + data[at + 1 :]
    if how == "unknown":
        return data + draw(UNKNOWN) * draw(st.sampled_from([1, 1, 5_000]))
    if how == "often":
        part = draw(st.sampled_from([b"\x0a\x00", b"\x12\x00", b"\x12\x02\x12\x00"]) | st.just(data[:300]))
        return data + part * draw(st.sampled_from([2, 100, 5_000]))
    return draw(st.binary(max_size=60)) if how == "any" else data
