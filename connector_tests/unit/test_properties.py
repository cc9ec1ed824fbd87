from __future__ import annotations

import pytest

from rocketmq_spark.errors import LocalProtocolError
from rocketmq_spark.wire.message.properties import (
    PROPERTIES_LIMIT_BYTES,
    as_property_text,
    decode_properties,
    decode_utf8,
    encode_properties,
)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", {}),
        (b"a\x01b\x02", {"a": "b"}),
        (b"a\x01b", {"a": "b"}),
        (b"a\x01b\x02c\x01d", {"a": "b", "c": "d"}),
        (b"a\x01b\x01c\x02", {"a": "b\x01c"}),
        (b"a\x01\x01\x02", {"a": "\x01"}),
        (b"a\x01\x02c\x01d\x02", {"c": "d"}),
        (b"\x01b\x02c\x01d\x02", {"c": "d"}),
        (b"\x01\x01b\x02", {}),
        (b"word\x02c\x01d\x02", {"c": "d"}),
        (b"\x02\x02c\x01d\x02\x02", {"c": "d"}),
        (b"a\x01b\x02c\x01d\x02a\x01e\x02", {"a": "e", "c": "d"}),
        ("订单\x01号\x02".encode(), {"订单": "号"}),
        (b"a\x01\xff\x02\xfe\x01b\x02", {"a": "\ufffd", "\ufffd": "b"}),
    ],
)
def test_properties_are_read_as_leniently_as_java_does(data: bytes, expected: dict[str, str]) -> None:
    assert decode_properties(data) == expected


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"\xed\xa0\x80", "\ufffd"),
        (b"\xed\xa0\x80\xed\xb0\x80", "\ufffd\ufffd"),
        (b"\xed\xbf", "\ufffd"),
        (b"\xed\xa0a", "\ufffda"),
        (b"\xed\x9f\xbf", "\ud7ff"),
        (b"\xc0\x80", "\ufffd\ufffd"),
        (b"\xe0\x80a", "\ufffd\ufffda"),
        (b"\xe4\xb8a", "\ufffda"),
        (b"\xf0\x9f\x98", "\ufffd"),
        (b"\xf4\x90\x80\x80", "\ufffd\ufffd\ufffd\ufffd"),
        (b"\xf5\x80", "\ufffd\ufffd"),
    ],
)
def test_malformed_text_becomes_as_many_replacement_characters_as_in_java(data: bytes, expected: str) -> None:
    assert decode_utf8(data) == expected


def test_encoded_properties_decode_to_the_same() -> None:
    properties = {"TAGS": "TagA", "a": "b\x01c", "订单": "😀"}
    assert encode_properties(properties) == "TAGS\x01TagA\x02a\x01b\x01c\x02订单\x01😀\x02".encode()
    assert decode_properties(encode_properties(properties)) == properties


@pytest.mark.parametrize(
    ("properties", "problem"),
    [
        ({"a": ""}, "property 'a' is empty, and RocketMQ would drop it"),
        ({"": "b"}, "property '' is empty, and RocketMQ would drop it"),
        ({"a\x01": "b"}, r"property 'a\x01' contains a separator (0x01 or 0x02)"),
        ({"a\x02": "b"}, r"property 'a\x02' contains a separator (0x01 or 0x02)"),
        ({"a": "b\x02"}, "property 'a' contains a separator (0x01 or 0x02)"),
        ({"a": "\ud800"}, "property 'a' is no text: surrogates not allowed"),
    ],
)
def test_what_would_not_arrive_is_refused(properties: dict[str, str], problem: str) -> None:
    with pytest.raises(LocalProtocolError) as raised:
        encode_properties(properties)
    assert (raised.value.condition, raised.value.context) == ("INVALID_MESSAGE", {"problem": problem})


def test_properties_end_at_the_largest_signed_short() -> None:
    longest = "v" * (PROPERTIES_LIMIT_BYTES - 3)
    assert len(encode_properties({"k": longest})) == 32767
    with pytest.raises(LocalProtocolError, match="have 32768 bytes"):
        encode_properties({"k": longest + "v"})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        ("a\x01b\x02", "a b "),
        ("a\x01b\x02c", "a b "),
        ("订单\x02号码", "订单 号"),
        ("\x01\x02\x01\x02\x01", "    "),
    ],
)
def test_property_text_is_cut_and_has_no_separator(text: str, expected: str) -> None:
    assert as_property_text(text, 4) == expected
