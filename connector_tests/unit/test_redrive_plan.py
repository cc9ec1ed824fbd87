"""Which dead letters ``rocketmq-spark dlq redrive`` sends, where, and which it leaves."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from dataclasses import fields, replace

import pytest

from connector_tests.unit.test_message_lines import message
from rocketmq_spark.cli.message_lines import StoredMessage
from rocketmq_spark.cli.redrive_plan import (
    ids_of,
    origin_topic,
    places_of,
    reason_to_leave,
    redriven,
    selected,
    target_of,
)
from rocketmq_spark.errors import OptionError
from rocketmq_spark.model import Message, MessageExt
from rocketmq_spark.wire.arrow.undecodable import UndecodableMessage


def letter(offset: int, msg_id: str = "ID1", **properties: str) -> MessageExt:
    return replace(message(), queue_offset=offset, msg_id=msg_id, properties=properties)


GOOD, OTHER = letter(0, RETRY_TOPIC="orders"), letter(1, RETRY_TOPIC="returns")
DAMAGED = letter(2, RETRY_TOPIC="orders", BAD_MESSAGE_PROBLEM="damaged")
UNDECODABLE = UndecodableMessage(letter(3, RETRY_TOPIC="orders"), "its body is damaged")
HOMELESS = letter(4)


def reasons(letters: list[StoredMessage], to: str | None, *, is_chosen: bool) -> list[str | None]:
    """Where nothing can be sent to one topic."""
    unusable = {"returns": "gone"}.get
    return [reason_to_leave(one, target_of(one, to), unusable, is_chosen=is_chosen) for one in letters]


def test_letters_are_sent_to_their_first_topics_and_others_left() -> None:
    sent, unusable, *others = reasons([GOOD, OTHER, DAMAGED, UNDECODABLE, HOMELESS], None, is_chosen=False)
    assert (sent, unusable) == (None, "gone")
    damaged, undecodable, homeless = map(str, others)
    assert "badMessages=deadLetter" in damaged
    assert undecodable == "it is undecodable: its body is damaged"
    assert "--to" in homeless


def test_letters_go_to_the_given_topic_but_not_undecodable_ones() -> None:
    *sent, undecodable = reasons([OTHER, DAMAGED, HOMELESS, UNDECODABLE], "here", is_chosen=True)
    assert sent == [None, None, None]
    assert undecodable == "it is undecodable: its body is damaged"
    assert reasons([GOOD], "returns", is_chosen=True) == ["gone"]


@pytest.mark.parametrize("topic", ["%DLQ%g", "%RETRY%g"])
def test_letter_is_not_sent_to_the_topic_of_a_group(topic: str) -> None:
    assert reasons([GOOD], topic, is_chosen=True) == [f"topic '{topic}' is one of a group"]


def test_undecodable_letter_has_no_target() -> None:
    assert [target_of(one) for one in (GOOD, UNDECODABLE, HOMELESS)] == ["orders", None, None]
    assert [target_of(one, "here") for one in (GOOD, UNDECODABLE, HOMELESS)] == ["here", None, "here"]


def test_letters_are_selected_in_their_order() -> None:
    letters = [letter(0, "A"), letter(1, "B"), letter(2, "C")]
    assert selected(letters, "g", ["C", "A", "C"], ids_of) == [letters[0], letters[2]]
    assert selected(letters, "g", ["broker-a:3:1"], places_of) == [letters[1]]


def test_printed_form_of_an_id_selects_its_letter_unless_another_has_it() -> None:
    control, plain = letter(0, "a\nb"), letter(1, r"a\nb")
    assert selected([control], "g", [r"a\nb"], ids_of) == [control]
    assert selected([control], "g", ["a\nb"], ids_of) == [control]
    with pytest.raises(OptionError, match=r"DEAD_LETTERS_AMBIGUOUS"):
        selected([control, plain], "g", [r"a\nb"], ids_of)


def test_id_of_several_letters_is_an_error_with_their_places() -> None:
    with pytest.raises(OptionError) as raised:
        selected([letter(0), letter(1), letter(7)], "g", ["ID1"], ids_of)
    assert str(raised.value) == (
        "[ROCKETMQ_DEAD_LETTERS_AMBIGUOUS] 3 dead letters of group 'g' with message ID 'ID1': broker-a:3:0, "
        "broker-a:3:1, broker-a:3:7. Producers set these IDs. Select by place, with '--offset BROKER:QUEUE:OFFSET'. "
        "No message was sent."
    )


class WatchedLetter(MessageExt):
    """A letter that a weak reference can name."""

    __slots__ = ("__weakref__",)


def test_copies_of_an_id_are_not_held_and_the_first_places_are_listed() -> None:
    """100 compressed letters with one ID filled the memory, only to be counted."""
    letters: list[weakref.ref[MessageExt]] = []
    held_counts: list[int] = []

    def copies() -> Iterator[StoredMessage]:
        for offset in range(100):
            held_counts.append(sum(reference() is not None for reference in letters))
            values = {field.name: getattr(GOOD, field.name) for field in fields(GOOD)}
            copy = WatchedLetter(**values | {"queue_offset": offset})
            letters.append(weakref.ref(copy))
            yield copy

    with pytest.raises(OptionError, match=r" 100 dead letters .*: broker-a:3:0, .*, broker-a:3:7 and 92 more\."):
        selected(copies(), "g", ["ID1"], ids_of)
    assert max(held_counts) <= 2  # the first copy, and the one before


def test_name_without_a_letter_is_an_error() -> None:
    with pytest.raises(OptionError, match=r"DEAD_LETTERS_NOT_FOUND.* 2 messages not among .*'g': ID2, ID3\."):
        selected([letter(0)], "g", ["ID3", "ID1", "ID2"], ids_of)


@pytest.mark.parametrize(
    ("properties", "topic"),
    [
        ({"RETRY_TOPIC": "orders", "DLQ_ORIGIN_TOPIC": "%RETRY%g"}, "orders"),
        ({"DLQ_ORIGIN_TOPIC": "orders"}, "orders"),
        ({"DLQ_ORIGIN_TOPIC": "%RETRY%g"}, None),
        ({"RETRY_TOPIC": "%DLQ%g"}, None),
        ({}, None),
    ],
)
def test_first_topic_of_a_dead_letter_is_in_its_properties(properties: dict[str, str], topic: str | None) -> None:
    assert origin_topic(replace(message(), properties=properties)) == topic


def test_redriven_message_is_a_new_one_with_the_users_content() -> None:
    dead = message(TAGS="books", KEYS="k1", UNIQ_KEY="ID1", RETRY_TOPIC="orders", region="eu", RECONSUME_TIME="16")
    assert redriven(dead, "elsewhere") == Message("elsewhere", b"a book", "books", "k1", {"region": "eu"}, 9)
