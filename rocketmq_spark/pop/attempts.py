"""Attempts: how often a message came again, and when that was often enough.

A broker hands a message out until it is acknowledged, however often that is; each time that nobody did it counts. Who
receives ends that: a proxy moves the message to the group's dead letter topic, and so does this package where it asks
brokers itself. Source: ``proxy/grpc/v2/consumer/PopMessageResultFilterImpl.java``; differs from Java's push consumer
(``client/impl/consumer/DefaultMQPushConsumerImpl.java``), which acknowledges such a message without keeping it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Final, NamedTuple

from rocketmq_spark.model import StoredMessage
from rocketmq_spark.pop.handles import ORDINARY, Form, Handle, Received
from rocketmq_spark.wire.message.stored_message import as_written

BY_DEFAULT: Final = 16
"""Source: ``remoting/protocol/subscription/SubscriptionGroupConfig.java``."""


class ByAttempts(NamedTuple):
    """Messages of an answer: for a batch, and for the dead letter topic."""

    wanted: Sequence[Received]
    spent: Sequence[Received]


class Move(Enum):
    """What became of one that was to be moved to the dead letter topic."""

    DONE = "it is there"
    LATER = "it may be there, and is tried again"
    REFUSED = "it is for a batch after all: rather once more than not at all"


def have_come_again(received: Iterable[Received]) -> bool:
    """Whether there is one that nobody has acknowledged before."""
    return any(map(times_again, received))


def by_attempts(received: Iterable[Received], retry_max_times: int | None) -> ByAttempts:
    """A message may come again ``retry_max_times``; None: as often as it does."""
    wanted: list[Received] = []
    spent: list[Received] = []
    for one in received:
        is_spent = retry_max_times is not None and times_again(one) > max(0, retry_max_times)
        (spent if is_spent else wanted).append(one)
    return ByAttempts(wanted, spent)


def times_again(one: Received) -> int:
    """How often a broker's message came again. What comes again comes from a retry topic."""
    handle = one.handle
    if one.form is not Form.STORED or not isinstance(handle, Handle) or handle.check_point.retry == ORDINARY:
        return 0
    return as_written(one.record, handle.broker_name).reconsume_times


def stored(one: Received) -> StoredMessage:
    """Where its broker has the message that was handed out: of one that came again, in the retry topic."""
    message = as_written(one.record, one.handle.broker_name)
    return StoredMessage(one.handle.topic, one.handle.broker_name, message.commit_log_offset, message.msg_id)


def named(messages: Sequence[StoredMessage], most: int = 10) -> str:
    """The ids of the first of them, for a line."""
    return " ".join([one.msg_id for one in messages[:most]] + ["..."] * (len(messages) > most))
