"""What options state can be written down, in any case, and is read back the same."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from rocketmq_spark.errors import OptionError
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.options.kinds import ADDRESSES, BOOLEAN, EXPRESSION, GROUP, INSTANCE, TOPICS
from rocketmq_spark.options.table import Option, rows

ROWS = dict(rows(ReadOptions))
ATTRIBUTES = {spelling.lower(): attribute for attribute, row in ROWS.items() for spelling in row.spellings}

HOSTS = st.text("az09.-", min_size=1, max_size=10) | st.just("[::1]")
ADDRESS = st.builds("{}:{}".format, HOSTS, st.integers(1, 65535))
NAME = st.text("%|azAZ09_-", min_size=1, max_size=20)
TAG = st.text("aZ9_-é订\U0001f600", min_size=1, max_size=10)

VALUES: dict[str, st.SearchStrategy[Any]] = {
    ADDRESSES.expected: st.lists(ADDRESS, min_size=1, max_size=3, unique=True).map(tuple),
    TOPICS.expected: st.lists(NAME, min_size=1, max_size=3, unique=True).map(tuple),
    GROUP.expected: NAME,
    INSTANCE.expected: st.text("aZ9#_-é订", min_size=1, max_size=100),
    EXPRESSION.expected: st.lists(TAG, min_size=1, max_size=3).map(" || ".join) | st.just("*"),
    BOOLEAN.expected: st.booleans(),
}


def values_of(row: Option) -> st.SearchStrategy[Any]:
    """Values that the option can have; of a kind that is not known here, its default."""
    if whole := re.fullmatch(r"an integer from (-?\d+) to (\d+)", row.kind.expected):
        return st.integers(int(whole[1]), int(whole[2]))
    if row.kind.expected in VALUES:
        return VALUES[row.kind.expected]
    if re.fullmatch(r"'\w+'( or '\w+')*", row.kind.expected):
        return st.sampled_from(re.findall(r"\w+(?=')", row.kind.expected))
    return st.none()


DRAWN = {attribute: (row, values_of(row)) for attribute, row in ROWS.items()}
"""Made once: to make a strategy takes longer than to draw from it."""


def render(row: Option, value: Any) -> str:
    if isinstance(value, tuple):
        return (";" if row.kind is ADDRESSES else ",").join(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


@st.composite
def written(draw: st.DrawFn) -> tuple[dict[str, str], dict[str, Any]]:
    """What a user may write, and the attributes that it means."""
    texts, meant = {}, {}
    for attribute, (row, values) in DRAWN.items():
        if (row.required or draw(st.booleans())) and (value := draw(values)) is not None:
            texts[draw(in_any_case(draw(st.sampled_from(row.spellings))))] = render(row, value)
            meant[attribute] = value
    return texts, meant


@cache
def in_any_case(name: str) -> st.SearchStrategy[str]:
    return st.integers(0, 2 ** len(name) - 1).map(
        lambda uppers: "".join(c.upper() if uppers >> place & 1 else c.lower() for place, c in enumerate(name))
    )


def contradiction(texts: dict[str, str]) -> str | None:
    """The name of an optional one that contradicts another, or requires one that is not there, if any does. To draw
    until none does took twenty times as many examples."""
    try:
        ReadOptions.parse(texts)
    except OptionError as error:
        if error.condition not in {"INCOMPATIBLE_OPTIONS", "MISSING_OPTION", "OPTION_REQUIRES_OPTION"}:
            raise
        named = {str(value).lower() for value in error.context.values()}
        return next(name for name in texts if name.lower() in named and not ROWS[ATTRIBUTES[name.lower()]].required)
    return None


@given(written())
def test_what_is_rendered_is_parsed_as_it_was(pair: tuple[dict[str, str], dict[str, Any]]) -> None:
    texts, meant = pair
    while (contradicting := contradiction(texts)) is not None:
        del texts[contradicting], meant[ATTRIBUTES[contradicting.lower()]]
    options = ReadOptions.parse(texts)
    assert {attribute: getattr(options, attribute) for attribute in meant} == meant


@given(written(), st.text(min_size=1, max_size=30))
def test_any_other_name_is_refused_and_named(pair: tuple[dict[str, str], dict[str, Any]], name: str) -> None:
    assume(name.lower() not in ATTRIBUTES)
    with pytest.raises(OptionError) as raised:
        ReadOptions.parse({**pair[0], name: "x"})
    assert (raised.value.condition, raised.value.context["option"]) == ("UNKNOWN_OPTION", name)


@given(st.sampled_from(list(ROWS.values())), st.text(max_size=40))
def test_any_text_is_accepted_or_refused_with_the_options_name(row: Option, text: str) -> None:
    try:
        row.parse(text)
    except OptionError as error:
        assert (error.condition, error.context["option"]) == ("INVALID_OPTION_VALUE", row.name)
        assert row.kind.expected in str(error)
