"""Hypothesis strategies for rows that are to be written: such as brokers take, and such as they do not."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from rocketmq_spark.model import RESERVED_PROPERTIES
from rocketmq_spark.sink.invalid_rows import OWN_PROPERTIES_LIMIT_BYTES

Row = dict[str, Any]

BODY_LIMIT_BYTES = 50
TOPICS = ("T", "other-topic_1", "%RETRY%g|2")
BROKER = "broker-a"
QUEUE_COUNT = 4

_ANY_TEXT = st.text(st.characters(codec="utf-8"), max_size=8) | st.text("\x01\x02a ", max_size=3)
_TEXT = st.text(st.characters(exclude_characters="\x02", codec="utf-8"), min_size=1, max_size=12)
_FREE_NAMES = st.text(st.characters(exclude_characters="\x01\x02", codec="utf-8"), min_size=1, max_size=8).filter(
    lambda name: name not in RESERVED_PROPERTIES
)
_QUEUES = st.tuples(st.just(BROKER), st.integers(0, QUEUE_COUNT - 1))
_NO_QUEUE = st.just((None, None))


def _usable(keys: list[str | None] | None) -> bool:
    """Whether each key stays itself in the text of all."""
    return all(key and " " not in key for key in keys or [] if key is not None)


# Made once, not for each row: to make a strategy takes longer than to draw from it.
_TARGETS = _NO_QUEUE | _QUEUES
_BODIES = st.binary(min_size=1, max_size=40) | st.binary(min_size=1, max_size=9).map(lambda one: one * 700)
_TEXT_OR_NONE = st.none() | _TEXT
_KEYS = st.none() | st.lists(_TEXT_OR_NONE, max_size=3).filter(_usable)
_PROPERTIES = st.none() | st.dictionaries(_FREE_NAMES, _TEXT, max_size=3)
_SHARDING_KEYS = st.none() | st.sampled_from(["a", "b", "é"])


@st.composite
def good_rows(draw: st.DrawFn) -> Row:
    """What a broker takes: ``keys`` are a list, ``properties`` a mapping; None is what a row does not have."""
    broker_name, queue_id = draw(_TARGETS)
    return {
        "body": draw(_BODIES),
        "tags": draw(_TEXT_OR_NONE),
        "keys": draw(_KEYS),
        "properties": draw(_PROPERTIES),
        "shardingKey": draw(_SHARDING_KEYS),
        "brokerName": broker_name,
        "queueId": queue_id,
    }


_LONG = st.integers(OWN_PROPERTIES_LIMIT_BYTES - 200, OWN_PROPERTIES_LIMIT_BYTES + 50).map(lambda size: "x" * size)
_ANY_NAMES = _ANY_TEXT | st.sampled_from(sorted(RESERVED_PROPERTIES)) | _FREE_NAMES
_ANY_VALUES = st.none() | _ANY_TEXT | _TEXT | _LONG
_ODD: dict[str, st.SearchStrategy[Any]] = {
    "body": st.none() | st.binary(max_size=BODY_LIMIT_BYTES + 10),
    "topic": st.none() | _ANY_TEXT | st.sampled_from(["a" * 127, "a" * 128, "T\n"]),
    "tags": _ANY_TEXT,
    "keys": _ANY_TEXT,
    "properties": st.lists(st.tuples(_ANY_NAMES, _ANY_VALUES), max_size=2, unique_by=lambda one: one[0]),
    "shardingKey": _ANY_TEXT,
    "brokerName": st.none() | st.just(BROKER),
    "queueId": st.sampled_from([None, -1, QUEUE_COUNT]),
    "delayLevel": st.integers(-1, 18),
}
"""What may be wrong, by column."""
_ODD_COLUMNS = st.lists(st.sampled_from(sorted(_ODD)), max_size=2, unique=True)
_ANY_TOPIC = st.sampled_from(TOPICS)
_ANY_DELAY = st.none() | st.none() | st.integers(1, 18)


@st.composite
def any_rows(draw: st.DrawFn) -> Row:
    """Good ones, and such as have something odd in one or two columns: ``keys`` are a text, ``properties`` pairs."""
    good = draw(good_rows())
    row = {
        **good,
        "body": good["body"][:BODY_LIMIT_BYTES],
        "topic": draw(_ANY_TOPIC),
        "keys": draw(_TEXT_OR_NONE),
        "properties": list((good["properties"] or {}).items()),
        "delayLevel": draw(_ANY_DELAY),
    }
    odd = draw(_ODD_COLUMNS)
    return row | {name: draw(_ODD[name]) for name in odd}
