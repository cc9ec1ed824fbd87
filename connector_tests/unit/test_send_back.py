"""What rows have to have that are sent back, and how those are named that were not taken."""

from __future__ import annotations

from typing import Any

import pytest

from rocketmq_spark.errors import NotSentBackError, OptionError
from rocketmq_spark.failed_rows.send_back import check_all_sent_back, required_values, spellings_of


class Named:
    """What is used of Spark's Row."""

    def __init__(self, **values: Any) -> None:
        self.__fields__ = list(values)
        self.asDict = lambda: values


def row(**values: Any) -> Any:
    return Named(**values)


def test_values_come_in_the_order_of_what_is_needed_whatever_the_case() -> None:
    rows = [row(MSGID="ID", body=b"b", topic="T")]
    assert list(required_values(rows, ("topic", "msgId"))) == [["T", "ID"]]


def test_what_is_missing_is_named_with_all_that_is_needed() -> None:
    with pytest.raises(OptionError, match=r"MISSING_SEND_BACK_COLUMN.*brokerName, msgId.*topic, brokerName, msgId"):
        spellings_of(["Topic"], ("topic", "brokerName", "msgId"))
    with pytest.raises(OptionError, match="MISSING_SEND_BACK_COLUMN"):
        list(required_values([row(topic="T")], ("topic", "msgId")))


def test_the_exact_spelling_of_a_needed_column_comes_first() -> None:
    rows = [row(msgId="ID", MSGID="other", topic="T")]
    assert list(required_values(rows, ("topic", "msgId"))) == [["T", "ID"]]
    assert spellings_of(["MSGID", "msgId", "Topic"], ("topic", "msgId")) == ["Topic", "msgId"]


def test_a_needed_column_that_is_ambiguous_is_refused() -> None:
    with pytest.raises(OptionError, match=r"AMBIGUOUS_COLUMN.*'msgId' is ambiguous: the rows have MsgId, MSGID"):
        list(required_values([row(MsgId="ID", MSGID="other", topic="T")], ("topic", "msgId")))


def test_the_first_ten_that_were_not_accepted_are_named_with_the_first_reason() -> None:
    check_all_sent_back([], "g")
    refused = [(f"message {number}", f"reason {number}") for number in range(11)]
    with pytest.raises(NotSentBackError, match=r"11 messages.*message 9, \.\.\.") as raised:
        check_all_sent_back(refused, "g")
    assert raised.value.context["cause"] == "reason 0"
    assert "message 10" not in str(raised.value)
    with pytest.raises(NotSentBackError) as raised:
        check_all_sent_back(refused[:10], "g")
    assert "..." not in str(raised.value)
