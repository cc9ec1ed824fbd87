"""Hypothesis strategies for what a hostile producer sends."""

from __future__ import annotations

import struct
from typing import Final

from hypothesis import strategies as st

from connector_tests.support.hostile_queue import Sent
from connector_tests.support.message_bytes import inner_batch

TRUE_TAG: Final = "true"
OTHER_TAG: Final = "other"

FLAGS = st.sampled_from(
    [0, 0x1, 0x2, 0x4, 0x8, 0xC, 0x10, 0x20, 0x30, 0x40, 0x80, 0xC0, 0xC1, 0xD0, 0x81, 0x701, 0x3C1]
)
"""What a message is said to be: compressed, of a transaction, of an IPv6 host, an inner batch, and some of these."""

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
