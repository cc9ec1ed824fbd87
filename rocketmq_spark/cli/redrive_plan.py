"""Which dead letters ``rocketmq-spark dlq redrive`` sends, as what and to which topics, and which it leaves. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Final

from rocketmq_spark.cli.message_lines import StoredMessage, message_of
from rocketmq_spark.condition import one_line
from rocketmq_spark.errors import OptionError
from rocketmq_spark.model import RESERVED_PROPERTIES, Message, MessageExt, is_of_group
from rocketmq_spark.source.dead_letter import PROBLEM
from rocketmq_spark.wire.arrow.undecodable import UndecodableMessage

MAX_NAMED: Final = 8
DEAD_LETTER_ORIGIN: Final = "DLQ_ORIGIN_TOPIC"
RETRY_ORIGIN: Final = "RETRY_TOPIC"


def reason_to_leave(
    letter: StoredMessage, topic: str | None, reason_unusable: Callable[[str], str | None], *, is_chosen: bool
) -> str | None:
    """Return why a dead letter is not sent, or None if it is. ``topic``: its ``target_of``. ``reason_unusable``:
    returns why nothing can be sent to a topic, or None; called last. ``is_chosen``: the user named the letter; if not,
    letters of ``badMessages`` are left."""
    if isinstance(letter, UndecodableMessage):
        return f"it is undecodable: {letter.problem}"
    if PROBLEM in letter.properties and not is_chosen:
        return "badMessages=deadLetter stored it, undecoded; select it to send it as it is"
    if topic is None:
        return "it names no first topic, or one of a group; name one with '--to'"
    if is_of_group(topic):
        return f"topic '{topic}' is one of a group"
    return reason_unusable(topic)


def target_of(letter: StoredMessage, to: str | None = None) -> str | None:
    """Return the topic to which a dead letter would be sent: ``to``, or if it is None or "" its ``origin_topic``,
    None without one. None for an undecodable letter, whatever ``to`` is."""
    return None if isinstance(letter, UndecodableMessage) else to or origin_topic(letter)


def origin_topic(message: MessageExt) -> str | None:
    """Return the topic to which a dead letter was first sent: its property RETRY_TOPIC, or without it DLQ_ORIGIN_TOPIC,
    which its producer may have forged. None without either, and for a retry or dead-letter topic."""
    properties = message.properties
    topic = properties.get(RETRY_ORIGIN) or properties.get(DEAD_LETTER_ORIGIN)
    return None if topic is None or is_of_group(topic) else topic


def redriven(message: MessageExt, topic: str) -> Message:
    """Return a new message for ``topic`` with body, tags, keys, flag and user properties of a dead letter. RocketMQ's
    own properties are omitted, among them its message ID and its number of retries."""
    properties = {name: value for name, value in message.properties.items() if name not in RESERVED_PROPERTIES}
    return Message(topic, message.body, message.tags, message.keys, properties, message.flag)


def ids_of(message: MessageExt) -> Collection[str]:
    """Return the message ID, and how ``dlq list`` prints it if this differs."""
    return {message.msg_id, one_line(message.msg_id)}


def places_of(message: MessageExt) -> Collection[str]:
    """Return the place as the argument BROKER:QUEUE:OFFSET of ``--offset``, one element."""
    return (f"{message.broker_name}:{message.queue_id}:{message.queue_offset}",)


def selected(
    letters: Iterable[StoredMessage],
    group: str,
    names: Collection[str],
    names_of: Callable[[MessageExt], Collection[str]],
) -> list[StoredMessage]:
    """Return the letters that ``names`` name, in the order of ``letters``, which are read to their end. At most one
    letter for each name is kept in memory. Raises OptionError[DEAD_LETTERS_NOT_FOUND] for names without a letter, else
    OptionError[DEAD_LETTERS_AMBIGUOUS] for a name with several, with the first MAX_NAMED (8) places."""
    counts = dict.fromkeys(names, 0)
    places: dict[str, list[str]] = {name: [] for name in names}
    chosen: list[StoredMessage] = []
    for letter in letters:
        message = message_of(letter)
        named = counts.keys() & set(names_of(message))
        for name in named:
            counts[name] += 1
            if counts[name] <= MAX_NAMED:
                places[name] += places_of(message)
        if any(counts[name] == 1 for name in named):
            chosen.append(letter)
    missing = sorted(name for name, count in counts.items() if count == 0)
    if missing:
        raise OptionError("DEAD_LETTERS_NOT_FOUND", group=group, count=len(missing), ids=", ".join(missing))
    for name, count in counts.items():
        if count > 1:
            listed = ", ".join(places[name]) + (f" and {count - MAX_NAMED} more" if count > MAX_NAMED else "")
            raise OptionError("DEAD_LETTERS_AMBIGUOUS", group=group, count=count, id=name, places=listed)
    return chosen
