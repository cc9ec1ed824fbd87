"""The dead letter of a message whose body cannot be read: one that anybody can read, and that says what it was.

What a broker does with what is sent back would not do: it keeps the flag that says compressed, so the dead letter would
be as unreadable, for Java too. Here the body is what was stored, and a property says the flags that it had.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from rocketmq_spark.errors import LocalProtocolError
from rocketmq_spark.model import Message, MessageQueue
from rocketmq_spark.wire.arrow.bad_messages import BadMessage
from rocketmq_spark.wire.message.properties import (
    INNER_BASE,
    INNER_NUM,
    ORIGIN_MESSAGE_ID,
    POP_CK,
    RETRY_TOPIC,
    UNIQ_KEY,
    encode_properties,
)

PROBLEM: Final = "BAD_MESSAGE_PROBLEM"
QUEUE: Final = "BAD_MESSAGE_QUEUE"
OFFSET: Final = "BAD_MESSAGE_OFFSET"
SYS_FLAG: Final = "BAD_MESSAGE_SYS_FLAG"

_SEPARATORS: Final = str.maketrans("\x01\x02", "  ")

HOLD_BACK: Final = frozenset(
    {"DELAY", "TIMER_DELAY_SEC", "TIMER_DELAY_MS", "TIMER_DELIVER_MS", "TIMER_OUT_MS", "REAL_TOPIC", "REAL_QID"}
)
"""Properties with which a broker would deliver it later, or elsewhere. Source: ``common/message/MessageConst.java``."""


NOT_ITS_OWN: Final = HOLD_BACK | {POP_CK, INNER_BASE, INNER_NUM}
"""A handle would be taken for that of the dead letter by who is handed it out; and a broker refuses a message that has
the count of an inner batch and is none."""


NO_BODY: Final = b" "
"""In place of an empty body, which brokers refuse of a single message."""


def dead_letter(bad: BadMessage, queue: MessageQueue) -> Message:
    """``bad``, met in ``queue``, as a message for the group's dead letter topic.

    It keeps its properties, its keys and tags among them, unless these leave no room for what is said of it.
    RETRY_TOPIC and ORIGIN_MESSAGE_ID say where it was stored, as with what was sent back.
    """
    stored = bad.message
    own = {name: value for name, value in stored.properties.items() if name not in NOT_ITS_OWN}
    said = {
        RETRY_TOPIC: stored.origin_topic,
        ORIGIN_MESSAGE_ID: stored.properties.get(ORIGIN_MESSAGE_ID, stored.offset_msg_id),
        PROBLEM: bad.problem.translate(_SEPARATORS),
        QUEUE: str(queue),
        OFFSET: str(stored.queue_offset),
        SYS_FLAG: str(stored.sys_flag),
    }
    properties = {**own, **said}
    if not _fit(properties):
        properties = {name: own[name] for name in (UNIQ_KEY,) if name in own} | said
    return Message(queue.topic, stored.body or NO_BODY, properties=properties, flag=stored.flag)


def _fit(properties: Mapping[str, str]) -> bool:
    try:
        encode_properties(properties)
    except LocalProtocolError:
        return False
    return True
