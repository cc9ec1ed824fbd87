"""The dead letter of a message whose body cannot be read: one that anybody can read, and that says what it was.

What a broker does with what is sent back would not do: it keeps the flag that says compressed, so the dead letter would
be as unreadable, for Java too. Here the body is what was stored, and a property says the flags that it had.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from rocketmq_spark.errors import LocalProtocolError
from rocketmq_spark.model import RESERVED_PROPERTIES, Message, MessageQueue
from rocketmq_spark.wire.arrow.undecodable import UndecodableMessage
from rocketmq_spark.wire.message.properties import (
    KEYS,
    ORIGIN_MESSAGE_ID,
    PROPERTIES_LIMIT_BYTES,
    PROPERTIES_RESERVE_BYTES,
    RETRY_TOPIC,
    TAGS,
    UNIQ_KEY,
    encode_properties,
)

PROBLEM: Final = "BAD_MESSAGE_PROBLEM"
QUEUE: Final = "BAD_MESSAGE_QUEUE"
OFFSET: Final = "BAD_MESSAGE_OFFSET"
SYS_FLAG: Final = "BAD_MESSAGE_SYS_FLAG"

_SEPARATORS: Final = str.maketrans("\x01\x02", "  ")

DROPPED_PROPERTIES: Final = RESERVED_PROPERTIES - {TAGS, KEYS, UNIQ_KEY}
"""Servers act by these, whoever wrote them: they would store it as half a transaction, deliver it later or elsewhere,
take a handle of the bad message for its own, or refuse it."""

TOPIC_CHARACTERS: Final = 255
ID_CHARACTERS: Final = 64
PROBLEM_CHARACTERS: Final = 1_000
"""Of what is quoted, at most: a producer may have written it."""

NO_BODY: Final = b" "
"""In place of an empty body, which brokers refuse of a single message."""


def dead_letter(undecodable: UndecodableMessage, queue: MessageQueue) -> Message:
    """``undecodable``, met in ``queue``, as a message for the group's dead letter topic.

    It keeps a user's properties, keys, tag and the producer's id, unless these leave no room for what is said of
    it and what brokers add: then the id stays alone, cut where it has to be. RETRY_TOPIC and ORIGIN_MESSAGE_ID say
    where it was stored, as with what was sent back.
    """
    stored = undecodable.message
    kept = {name: value for name, value in stored.properties.items() if name not in DROPPED_PROPERTIES}
    diagnostic = {
        RETRY_TOPIC: stored.origin_topic[:TOPIC_CHARACTERS],
        ORIGIN_MESSAGE_ID: stored.properties.get(ORIGIN_MESSAGE_ID, stored.offset_msg_id)[:ID_CHARACTERS],
        PROBLEM: undecodable.problem.translate(_SEPARATORS)[:PROBLEM_CHARACTERS],
        QUEUE: str(queue),
        OFFSET: str(stored.queue_offset),
        SYS_FLAG: str(stored.sys_flag),
    }
    properties = {**kept, **diagnostic}
    if not _fit(properties):
        properties = {UNIQ_KEY: kept[UNIQ_KEY], **diagnostic} if UNIQ_KEY in kept else diagnostic
    if not _fit(properties):
        properties = {UNIQ_KEY: kept[UNIQ_KEY][:ID_CHARACTERS], **diagnostic}
    return Message(queue.topic, stored.body or NO_BODY, properties=properties, flag=stored.flag)


def _fit(properties: Mapping[str, str]) -> bool:
    try:
        return len(encode_properties(properties)) <= PROPERTIES_LIMIT_BYTES - PROPERTIES_RESERVE_BYTES
    except LocalProtocolError:
        return False
