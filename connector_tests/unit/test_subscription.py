from __future__ import annotations

import json

import pytest

from rocketmq_spark.errors import LocalProtocolError
from rocketmq_spark.model import MessageFilter
from rocketmq_spark.wire.body.subscription import (
    SubscriptionData,
    build_subscription,
    encode_filter_check,
    exact_tags,
    java_hash_code,
    subscription_fields,
    tags_of,
)


@pytest.mark.parametrize("expression", ["*", "", " * "])
def test_a_star_subscribes_to_everything(expression: str) -> None:
    assert build_subscription("T", expression, 5) == SubscriptionData("T", "*", frozenset(), frozenset(), 5)
    assert exact_tags(expression) is None


@pytest.mark.parametrize("expression", ["TagA||TagB", "TagA || TagB", "TagA||TagB||", "||TagA|| ||\tTagB\n||TagA"])
def test_tags_are_what_stands_between_the_bars(expression: str) -> None:
    subscription = build_subscription("T", expression, 5)
    assert subscription.tags_set == {"TagA", "TagB"}
    assert subscription.code_set == {2598919, 2598920}
    assert subscription.sub_string == expression


def test_tags_with_one_hash_stay_two_tags() -> None:
    subscription = build_subscription("T", "Aa||BB", 5)
    assert subscription.tags_set == {"Aa", "BB"}
    assert subscription.code_set == {2112}


def test_only_javas_blanks_are_trimmed() -> None:
    assert exact_tags("\u00a0TagA\x01||\x00!") == frozenset({"\u00a0TagA", "!"})
    assert exact_tags("\u00a0*") == frozenset({"\u00a0*"}), "a tag, and not all messages"
    assert exact_tags("\x01*\x1f") is None


@pytest.mark.parametrize("expression", ["||", " || ", "||||"])
def test_a_subscription_that_no_message_fits_is_refused(expression: str) -> None:
    with pytest.raises(LocalProtocolError, match="names no tag"):
        build_subscription("T", expression, 5)


def test_sql92_subscription_has_no_tags() -> None:
    subscription = build_subscription("T", "a || b = 'x||y'", 5, "SQL92")
    assert subscription == SubscriptionData("T", "a || b = 'x||y'", frozenset(), frozenset(), 5, "SQL92")
    assert subscription_fields(subscription)["expressionType"] == "SQL92"
    assert tags_of(MessageFilter("a = 1", "SQL92")) is None
    assert tags_of(MessageFilter("a || b")) == frozenset({"a", "b"})
    assert tags_of(MessageFilter()) is None


def test_filter_check_has_group_and_subscription() -> None:
    subscription = build_subscription("T", "a > 1", 5, "SQL92")
    assert json.loads(encode_filter_check("g", subscription)) == {
        "group": "g",
        "subscriptionData": subscription_fields(subscription),
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("TagA", 2598919),
        ("TagB", 2598920),
        ("订单", 1129459),
        ("a😀b", 57849694),
        ("polygenelubricants", -(2**31)),
        ("\ud83d", 0xD83D),
    ],
)
def test_the_hash_is_the_one_of_java_strings(text: str, expected: int) -> None:
    assert java_hash_code(text) == expected
