"""Dead letter of a message with an undecodable body: readable by any consumer, with a description of the original.

It is not enough to send the original back through the broker: it keeps the compression flag, so the dead letter would
be as unreadable, for Java too. Here the body is the stored one, and a property has the original flags.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from rocketmq_spark.errors import LocalProtocolError
from rocketmq_spark.model import (
    DEAD_LETTER_TOPIC_PREFIX,
    RESERVED_PROPERTIES,
    RETRY_TOPIC_PREFIX,
    Message,
    MessageQueue,
)
from rocketmq_spark.wire.arrow.undecodable import UndecodableMessage
from rocketmq_spark.wire.message.properties import (
    KEYS,
    ORIGIN_MESSAGE_ID,
    PROPERTIES_LIMIT_BYTES,
    PROPERTIES_RESERVE_BYTES,
    RETRY_TOPIC,
    TAGS,
    UNIQ_KEY,
    as_property_text,
    encode_properties,
)

PROBLEM: Final = "BAD_MESSAGE_PROBLEM"
QUEUE: Final = "BAD_MESSAGE_QUEUE"
OFFSET: Final = "BAD_MESSAGE_OFFSET"
SYS_FLAG: Final = "BAD_MESSAGE_SYS_FLAG"

DROPPED_PROPERTIES: Final = RESERVED_PROPERTIES - {TAGS, KEYS, UNIQ_KEY}
"""Properties that servers act on, whatever their origin: a server would store the dead letter as a half message of a
transaction, deliver it later or elsewhere, use the receipt handle of the undecodable message, or reject it."""

TOPIC_CHARACTERS: Final = 255
ID_CHARACTERS: Final = 64
PROBLEM_CHARACTERS: Final = 1_000
"""Maximum lengths of quoted texts: a producer may have written them."""

NO_BODY: Final = b" "
"""Replacement for an empty body, which brokers reject in a single message."""


def dead_letter(undecodable: UndecodableMessage, queue: MessageQueue) -> Message:
    """Return ``undecodable``, read from ``queue``, as a message for ``Broker.send_dead_letter``, which ignores its
    topic, the queue's. Send nothing.

    It keeps the stored body (a blank for an empty one), the user's properties, keys, tag and the producer's ID. If
    these leave no space for the description and for properties that brokers add, it keeps of them the ID alone,
    truncated if necessary. RETRY_TOPIC and ORIGIN_MESSAGE_ID identify the original, as in messages that are sent back
    for retry. Brokers write them to retry and dead-letter topics only, so in other topics they are a producer's.
    """
    stored = undecodable.message
    origin_topic, origin_id = stored.topic, stored.offset_msg_id
    if queue.topic.startswith((RETRY_TOPIC_PREFIX, DEAD_LETTER_TOPIC_PREFIX)):
        origin_topic, origin_id = stored.origin_topic, stored.properties.get(ORIGIN_MESSAGE_ID, origin_id)
    kept = {name: value for name, value in stored.properties.items() if name not in DROPPED_PROPERTIES}
    diagnostic = {
        RETRY_TOPIC: origin_topic[:TOPIC_CHARACTERS],
        ORIGIN_MESSAGE_ID: origin_id[:ID_CHARACTERS],
        PROBLEM: as_property_text(undecodable.problem, PROBLEM_CHARACTERS),
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
    """Return whether the encoded ``properties`` leave ``PROPERTIES_RESERVE_BYTES`` for those that brokers add; False if
    they cannot be encoded."""
    try:
        return len(encode_properties(properties)) <= PROPERTIES_LIMIT_BYTES - PROPERTIES_RESERVE_BYTES
    except LocalProtocolError:
        return False
