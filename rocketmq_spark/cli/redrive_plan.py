"""Which dead letters ``rocketmq-spark dlq redrive`` sends, to which topics, and which it leaves. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from rocketmq_spark.cli.message_lines import StoredMessage, message_of, origin_topic
from rocketmq_spark.condition import one_line
from rocketmq_spark.errors import OptionError
from rocketmq_spark.model import MessageExt
from rocketmq_spark.source.dead_letter import PROBLEM
from rocketmq_spark.wire.arrow.undecodable import UndecodableMessage


def reason_to_leave(
    letter: StoredMessage, topic: str | None, reason_unusable: Callable[[str], str | None], *, is_chosen: bool
) -> str | None:
    """Return why a dead letter is not sent; None: it is sent. ``topic``: its ``target_of``. ``reason_unusable`` returns
    why nothing can be sent to a topic, or None, and is called if there is no other reason. ``is_chosen``: whether the
    user named the letter; those of ``badMessages`` are left otherwise."""
    if isinstance(letter, UndecodableMessage):
        return f"it is undecodable: {letter.problem}"
    if PROBLEM in letter.properties and not is_chosen:
        return "badMessages=deadLetter stored it, undecoded; select it to send it as it is"
    if topic is None:
        return "it names no first topic, or one of a group; name one with '--to'"
    return reason_unusable(topic)


def target_of(letter: StoredMessage, to: str | None = None) -> str | None:
    """Return the topic to which a dead letter would be sent: ``to``, or if it is None the one to which it was first
    sent, by its properties; None for a letter without such a topic, and an undecodable one."""
    return None if isinstance(letter, UndecodableMessage) else to or origin_topic(letter)


def ids_of(message: MessageExt) -> Collection[str]:
    """Return the message ID, and how ``dlq list`` prints it if that differs."""
    return {message.msg_id, one_line(message.msg_id)}


def places_of(message: MessageExt) -> Collection[str]:
    """Return the place as an argument of ``--offset``."""
    return (f"{message.broker_name}:{message.queue_id}:{message.queue_offset}",)


def selected(
    letters: Iterable[StoredMessage],
    group: str,
    names: Collection[str],
    names_of: Callable[[MessageExt], Collection[str]],
    *,
    are_unique: bool = True,
) -> list[StoredMessage]:
    """Return the letters that ``names`` name, in the order of ``letters``; hold no others. Raises
    OptionError[DEAD_LETTERS_NOT_FOUND | DEAD_LETTERS_AMBIGUOUS] for names that no letter has, and, with ``are_unique``,
    for one that several have."""
    found: dict[str, list[StoredMessage]] = {name: [] for name in names}
    chosen: list[StoredMessage] = []
    for letter in letters:
        named = found.keys() & set(names_of(message_of(letter)))
        for name in named:
            found[name].append(letter)
        chosen += [letter] if named else []
    missing = sorted(name for name, having in found.items() if not having)
    if missing:
        raise OptionError("DEAD_LETTERS_NOT_FOUND", group=group, count=len(missing), ids=", ".join(missing))
    for name, having in found.items():
        if are_unique and len(having) > 1:
            places = ", ".join(place for letter in having for place in places_of(message_of(letter)))
            raise OptionError("DEAD_LETTERS_AMBIGUOUS", group=group, count=len(having), id=name, places=places)
    return chosen
