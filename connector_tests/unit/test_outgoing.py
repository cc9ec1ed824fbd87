from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from typing import Any

import pytest

from rocketmq_spark.errors import LocalProtocolError
from rocketmq_spark.model import RESERVED_PROPERTIES, Message
from rocketmq_spark.sink.outgoing import Body, message_id, outgoing_messages
from rocketmq_spark.wire.message.batch import message_properties


def outgoing(
    bodies: Body | Iterable[Body],
    tags: str | None = None,
    keys: str | Sequence[str] | None = None,
    properties: Mapping[str, str] | None = None,
) -> list[Message]:
    ids = map(str, count())
    return list(
        outgoing_messages(
            "T", bodies, tags=tags, keys=keys, properties=properties or {}, next_id=lambda: f"id-{next(ids)}"
        )
    )


@pytest.mark.parametrize(
    ("bodies", "expected"),
    [
        ("text", [b"text"]),
        (b"bytes", [b"bytes"]),
        (["é", b"\x00"], ["é".encode(), b"\x00"]),
        (bytearray(b"ab"), [b"ab"]),
        (memoryview(b"ab"), [b"ab"]),
        ([bytearray(b"a"), memoryview(b"b")], [b"a", b"b"]),
        ([], []),
    ],
)
def test_one_body_or_several_become_messages(bodies: Body | Iterable[Body], expected: list[bytes]) -> None:
    assert [message.body for message in outgoing(bodies)] == expected


@pytest.mark.parametrize("bodies", [[3, 2], [True], [[1, 2]], [None], {1: b"a"}])
def test_what_is_no_text_and_no_bytes_is_no_body(bodies: Any) -> None:
    """A number n was sent as n zero bytes, and the bytes of a bytearray as numbers."""
    with pytest.raises(LocalProtocolError, match=r"a body must be text or bytes, not (int|bool|list|NoneType)"):
        outgoing(bodies)


def test_bodies_may_come_one_after_another() -> None:
    assert [message.body for message in outgoing(body for body in ("a", "b"))] == [b"a", b"b"]


def test_each_has_an_id_of_its_own_and_what_all_share() -> None:
    first, second = outgoing(["a", "b"], tags="T1", keys="k1 k2", properties={"a": "b"})
    assert [first.topic, second.topic] == ["T", "T"]
    shared = {"TAGS": "T1", "KEYS": "k1 k2", "a": "b"}
    assert message_properties(first) == shared | {"UNIQ_KEY": "id-0"}
    assert message_properties(second) == shared | {"UNIQ_KEY": "id-1"}
    assert [message_id(first), message_id(second)] == ["id-0", "id-1"]


def test_keys_may_be_one_for_each() -> None:
    assert [message.keys for message in outgoing(["a", "b"], keys=["k1", "k2"])] == ["k1", "k2"]


@pytest.mark.parametrize("name", sorted(RESERVED_PROPERTIES))
def test_a_property_of_rocketmqs_own_is_refused(name: str) -> None:
    """With TRAN_MSG or REAL_TOPIC it gave an id, and the message was never in its topic."""
    with pytest.raises(LocalProtocolError, match=f"INVALID_MESSAGE.*property '{re.escape(name)}' is RocketMQ's own"):
        outgoing("a", properties={"own": "x", name: "true"})


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"properties": {"a": 5}}, "property 'a' must be text, not int"),
        ({"properties": {"a": b"true"}}, "property 'a' must be text, not bytes"),
        ({"properties": {"a": None}}, "property 'a' must be text, not NoneType"),
        ({"properties": {b"a": "true"}}, "the name of property b'a' must be text, not bytes"),
        ({"properties": {b"TRAN_MSG": "true"}}, "the name of property b'TRAN_MSG' must be text, not bytes"),
        ({"tags": 5}, "property 'TAGS' must be text, not int"),
        ({"keys": [["k"]]}, "property 'KEYS' must be text, not list"),
        ({"properties": {"a": "\ud800"}}, "property 'a' is no text: surrogates not allowed"),
        ({"properties": {"\ud800": "b"}}, r"property '.ud800' is no text: surrogates not allowed"),
    ],
)
def test_a_property_that_is_no_text_is_refused_by_name(arguments: dict[str, Any], problem: str) -> None:
    """It was a TypeError that named nothing."""
    with pytest.raises(LocalProtocolError, match=f"INVALID_MESSAGE.*{problem}"):
        outgoing("a", **arguments)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"bodies": ["a", ""]}, ": a body is empty, and brokers reject it"),
        ({"bodies": ["a", "b"], "keys": ["k"]}, "1 keys were given for 2 messages"),
        ({"bodies": "a", "properties": {"a": "x\x02y"}}, "'a' contains a separator"),
        ({"bodies": "a", "tags": ""}, "'TAGS' is empty"),
        ({"bodies": ["a", "\ud800"]}, "a body is no text: surrogates not allowed"),
        ({"bodies": 5}, "messages are one body or several, and not int"),
        ({"bodies": None}, "messages are one body or several, and not NoneType"),
        ({"bodies": "a", "keys": 5}, "keys are text, or a sequence of one for each message, and not int"),
        ({"bodies": "ab", "keys": b"ab"}, "keys are text, or a sequence of one for each message, and not bytes"),
        ({"bodies": ["a", "b"], "keys": {"k1": 1, "k2": 2}}, "keys are text, .* and not dict"),
        ({"bodies": "a", "properties": [("a", "b")]}, "properties are a mapping, and not list"),
        ({"bodies": "a", "properties": "ab"}, "properties are a mapping, and not str"),
    ],
)
def test_what_no_broker_would_take_is_refused(arguments: dict[str, object], problem: str) -> None:
    with pytest.raises(LocalProtocolError, match=f"INVALID_MESSAGE.*{problem}"):
        outgoing(**arguments)  # type: ignore[arg-type]  # a table of arguments
