"""Hypothesis strategies for what a hostile producer sends."""

from __future__ import annotations

import struct
import zlib
from typing import Final

from hypothesis import strategies as st

from connector_tests.support.hostile_queue import INNER, HostileQueue, QueueKind, Sent
from connector_tests.support.hostile_reading import FEW, GROUP, Part, Scenario
from connector_tests.support.message_bytes import COMPRESSED, INNER_BATCH, inner_batch, property_bytes
from connector_tests.support.simulated_queue import QUEUE
from rocketmq_spark.model import retry_topic
from rocketmq_spark.source.schema import canonical_names, default_schema
from rocketmq_spark.wire.arrow.column_table import COLUMNS
from rocketmq_spark.wire.message.properties import PROPERTIES_LIMIT_BYTES

TRUE_TAG: Final = "true"
OTHER_TAG: Final = "other"
CLOCK_MS: Final = 1_700_000_000_000
"""Of a true message."""

FLAGS = st.sampled_from(
    [0, 0x1, 0x2, 0x4, 0x8, 0xC, 0x10, 0x20, 0x30, 0x40, 0x80, 0xC0, 0xC1, 0xD0, 0x81, 0x701, 0x3C1]
)
"""What a message is said to be: compressed, of a transaction, of an IPv6 host, an inner batch, and some of these."""

ANY_FLAGS = st.one_of(FLAGS, st.integers(-(2**31), 2**31 - 1))
_IPV6_FLAGS: Final = 0x30

COUNTS = st.sampled_from(
    [
        "",
        "0",
        "1",
        "2",
        "3",
        "+3",
        "003",
        "-2",
        "x",
        "40",
        "500",
        "32767",
        "99999",
        "\N{FULLWIDTH DIGIT NINE}",
        "٠٠٠٠٠٠٣",
    ]
)
CLOCKS = st.sampled_from([0, 1_700_000_000_000, 2**63 - 1, -(2**63), 253_402_300_800_000, -62_135_596_800_001])

_PARTS = st.lists(st.tuples(st.binary(max_size=8), st.sampled_from([b"", b"TAGS\x01true\x02"])), max_size=6)
_MANY = st.sampled_from([40, 500]).map(lambda count: inner_batch([(b"", b"TAGS\x01true\x02")] * count))


def posing(topic: str, *, body_bytes: int = 0, properties_bytes: int | None = None) -> bytes:
    """A body that has lengths of its own for who reads the message 12 bytes too late, as one of an IPv6 host.

    By default they fill the message, if that has no properties of its own.
    """
    name = topic.encode()
    behind = len(name) + 3 + 12
    own = behind if properties_bytes is None else properties_bytes
    return bytes(8) + struct.pack(">ib", body_bytes, len(name)) + name + struct.pack(">h", own)


@st.composite
def lies(draw: st.DrawFn, at: int, topic: str) -> Sent:
    """One hostile message to ``topic``, of which its producer believes that it is stored at offset ``at``."""
    properties = {"TAGS": draw(st.sampled_from([TRUE_TAG, OTHER_TAG]))}
    if draw(st.booleans()):
        properties["INNER_NUM"] = draw(COUNTS)
    if draw(st.booleans()):
        properties["INNER_BASE"] = str(at)
    bodies = [posing(topic), posing(topic, body_bytes=-7), posing(topic, properties_bytes=-1)]
    body = draw(st.one_of(st.binary(max_size=80), _PARTS.map(inner_batch), _MANY, st.sampled_from(bodies)))
    flags = draw(FLAGS)
    if body in bodies and draw(st.booleans()):
        properties, flags = {}, 0x10
    return Sent(body, flags, {name: value for name, value in properties.items() if value}, draw(CLOCKS))


_NAMES: Final = (
    *("TAGS", "KEYS", "UNIQ_KEY", "POP_CK", "RETRY_TOPIC", "ORIGIN_MESSAGE_ID", "REAL_TOPIC", "REAL_QID", "TRAN_MSG"),
    *("INNER_NUM", "INNER_BASE", "PGROUP", "colour", "a name"),
)
_HANDLE: Final = "0 1700000000000 60000 0 0 broker-a 0 5"
_VALUES: Final = (
    *("0", "2", "true", "false", "orders", "%RETRY%G", "%DLQ%G", _HANDLE, "k v"),
    *("a\nb", "é\N{GRINNING FACE}", "x" * 3_000),
)
_PAIRS: Final = [(name, value) for name in _NAMES for value in _VALUES]
_NO_PROPERTIES: Final = (
    *(b"TAGS\x01true\x02", b"TAGS\x01other\x02", b"TAGS\x01\x02", b"TAGS\x02", b"TAGS", b"TAGS\x01tr\xffue\x02"),
    *(b"\x01true\x02", b"\x01\x02", b"\x02\x02", b"\x01", b"KEYS\x01a\x01b\x02", b"DELAY\x012\x02"),
    *(b"colour\x01\xed\xa0\x80\x02", b"\xff\xfe\x01\x80\x02", b"UNIQ_KEY\x01\xc3", b"colour\x01" + b"x" * 20_000),
)
"""Such as are none, or no text, or twice, or what a single message may not have."""
_NAMED = st.lists(st.sampled_from(_PAIRS), max_size=4).map(dict)
_RAW = st.tuples(
    st.lists(st.sampled_from([*(property_bytes(dict([one])) for one in _PAIRS), *_NO_PROPERTIES * 6]), max_size=5),
    st.binary(max_size=12),
).map(lambda drawn: b"".join([*drawn[0], drawn[1]])[:PROPERTIES_LIMIT_BYTES])
_INNER_BASE: Final = b"INNER_BASE"

_PACKED: Final = zlib.compress(inner_batch([(bytes(2_000), b"TAGS\x01true\x02")] * 3))
_LARGE = st.sampled_from(
    [
        bytes(3_000),
        b"\xff" * 20_000,
        bytes(70_000),
        posing(QUEUE.topic) + bytes(9_000),
        zlib.compress(bytes(300_000)),
        zlib.compress(bytes(9_000))[:-4],
        _PACKED,
        _PACKED[:-9],
        _PACKED + bytes(5_000),
        inner_batch([(bytes(3_000), b"TAGS\x01other\x02"), (b"", b"\xff\x01\xff")]),
    ]
)
_ANY_BODY = st.one_of(st.none(), _LARGE)
_FORMS = st.sampled_from(["known", "named", "raw"])
_IS_V4 = st.booleans()


@st.composite
def any_lies(draw: st.DrawFn, queue: HostileQueue) -> Sent:
    """One hostile message, of any flags and sizes, and with properties as of a batch's messages, which brokers do not
    read before they store them.

    A batch consume queue believes a batch's message that states offsets: it is the broker's own then that are wrong.
    """
    lie = draw(lies(queue.max_offset, queue.topic))
    form = draw(_FORMS)
    if form == "known":
        return lie
    body, flags = draw(_ANY_BODY) or lie.body, draw(ANY_FLAGS) & ~(_IPV6_FLAGS * draw(_IS_V4))
    if form == "named" or queue.topic == retry_topic(GROUP):
        return Sent(body, flags, {**lie.decoded, **draw(_NAMED)}, lie.born_timestamp_ms)
    raw = draw(_RAW)
    if queue.kind is QueueKind.BATCH:
        raw, flags = raw.replace(_INNER_BASE, b"X"), flags & ~INNER
    return Sent(body, flags, raw, lie.born_timestamp_ms)


_LIE: Final = "lie"
_RESTART: Final = "restart"
_PLAIN: Final = ("plain", 1)
_TRUE_FORMS: Final = (*(_PLAIN,) * 6, ("compressed", 1), ("large", 1), ("batch", 2), ("batch", 4))
_INNER_FORMS: Final = (("inner", 1), ("inner", 3), ("inner", 40), ("compressed inner", 40))


def _sends(*forms: str | tuple[str, int]) -> st.SearchStrategy[list[str | tuple[str, int]]]:
    form = st.sampled_from(forms)
    return st.one_of(st.lists(form, min_size=1), st.lists(form, min_size=10, max_size=30))


_ORDINARY_SENDS = _sends(*[_LIE] * 5, _RESTART, *_TRUE_FORMS)
_BATCH_SENDS = _sends(*[_LIE] * 7, _RESTART, *_TRUE_FORMS, *_INNER_FORMS)


def _truths(form: str, count: int, number: int) -> list[tuple[Sent, list[Part]]]:
    """What an honest producer sends at once, each with what readers get of it: a message, maybe compressed, a batch,
    which brokers take apart, or an inner batch, which they do not and filter by the tag of its first part."""
    tag = TRUE_TAG if number % 3 else OTHER_TAG
    tags = [OTHER_TAG if at % 2 else tag for at in range(count)]
    filling = b"." * (5_000 * (form == "large"))
    parts = [
        Part(b"true %d.%d" % (number, at) + filling, _true_properties(tag, number, at)) for at, tag in enumerate(tags)
    ]
    if "inner" not in form:
        flags, pack = (COMPRESSED, zlib.compress) if form == "compressed" else (0, bytes)
        return [(Sent(pack(part.body), flags, part.properties, CLOCK_MS), [part]) for part in parts]
    body = inner_batch([(part.body, part.properties) for part in parts])
    flags, body = (COMPRESSED, zlib.compress(body)) if form == "compressed inner" else (0, body)
    return [(Sent(body, INNER_BATCH | flags, {"TAGS": tags[0], "INNER_NUM": str(count)}, CLOCK_MS), parts)]


def _true_properties(tag: str, number: int, at: int) -> dict[str, str]:
    properties = {"TAGS": tag, "UNIQ_KEY": f"{number:016X}{at:016X}", "RETRY_TOPIC": "payments"}
    if number % 2:
        properties |= {"KEYS": f"key{number}", "colour": "blue", "ORIGIN_MESSAGE_ID": "0" * 32}
    return properties


_PROPERTY_COLUMNS: Final = ("colour", "POP_CK")
_COLUMN_SETS: Final = (
    FEW,
    ("body",),
    ("commitLogOffset",),
    ("msgId", "queueOffset"),
    ("queueOffset", "body", "colour"),
    tuple(COLUMNS),
    canonical_names(default_schema()),
    canonical_names(default_schema(include_properties=True, property_columns=_PROPERTY_COLUMNS), _PROPERTY_COLUMNS),
)
"""Of schemas that users give, and with ``includeProperties`` and ``propertyColumns`` or without them."""
_KINDS = st.tuples(st.sampled_from(QueueKind), st.sampled_from([QUEUE.topic] * 3 + [retry_topic(GROUP)]))
_OPTIONS = st.fixed_dictionaries(
    {
        "badMessages": st.sampled_from(["null", "deadLetter", "deadLetter", "fail"]),
        "failOnDataLoss": st.sampled_from(["true", "false"]),
        "subExpression": st.sampled_from(["*", "*", TRUE_TAG, f"{TRUE_TAG} || none"]),
        "retryTopic": st.sampled_from(["true", "false"]),
    }
)
_LIMITS = st.sampled_from([None, None, 1, 2, 5])
_COLUMNS = st.sampled_from(_COLUMN_SETS)
_PULLED = st.sampled_from([1, 3, 32])
_ORDER = st.lists(st.integers(0, 7), max_size=20)


@st.composite
def scenarios(draw: st.DrawFn) -> Scenario:
    """A queue with true messages and lies, of a broker that may be restarted, and a reader of it with any options."""
    kind, topic = draw(_KINDS)
    queue = HostileQueue(kind, topic)
    truths: dict[int, list[Part]] = {}
    for number, form in enumerate(draw(_BATCH_SENDS if kind is QueueKind.BATCH else _ORDINARY_SENDS)):
        if form == _RESTART:
            queue.restart()
            continue
        if isinstance(form, str):
            queue.send(draw(any_lies(queue)))
            continue
        for sent, parts in _truths(*form, number):
            assert queue.send(sent)
            truths[queue.entries[-1].commit_log_offset] = parts
    least, most = queue.min_offset, queue.max_offset
    begin, *cuts = draw(st.lists(st.integers(least, most), min_size=1, max_size=4))
    options = draw(_OPTIONS)
    if topic == retry_topic(GROUP):
        options["retryTopic"] = "true"
    if (triggers := draw(_LIMITS)) is not None:
        options["maxOffsetsPerTrigger"] = str(max(1, (most - begin) // triggers))
    if (triggers := draw(_LIMITS)) is not None:
        options["maxBytesPerTrigger"] = str(max(1, sum(len(entry.record) for entry in queue.entries) // triggers))
    cuts = sorted({begin, *(cut for cut in cuts if cut > begin), most})
    columns = draw(_COLUMNS)
    if queue.was_restarted and options["subExpression"] != "*":  # offsets may be stored ones and name no message
        options["badMessages"], columns = "null", FEW
    return Scenario(queue, truths, cuts, draw(_PULLED), options, columns, draw(_ORDER))
