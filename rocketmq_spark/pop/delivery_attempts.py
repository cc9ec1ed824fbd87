"""Delivery attempts: how often a message was redelivered, and whether that exceeds ``retryMaxTimes``.

A broker redelivers a message until it is acknowledged, without limit, and counts the deliveries that were not. The
receiver enforces the limit: a proxy moves the message to the group's dead-letter topic, and so does this package where
it receives from brokers. Source: ``proxy/grpc/v2/consumer/PopMessageResultFilterImpl.java``; differs from Java's push
consumer (``client/impl/consumer/DefaultMQPushConsumerImpl.java``), which acknowledges such a message without storing
it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from enum import Enum
from typing import Final, NamedTuple

from rocketmq_spark.condition import cut
from rocketmq_spark.model import StoredMessage
from rocketmq_spark.pop.receipt_handles import NORMAL_TOPIC, BrokerHandle, ReceivedMessage, RecordFormat
from rocketmq_spark.wire.message.stored_message import as_written

DEFAULT_RETRY_MAX_TIMES: Final = 16
"""Source: ``remoting/protocol/subscription/SubscriptionGroupConfig.java``."""

MAX_LISTED: Final = 10
"""Maximum number of messages that a log line lists."""


class SplitMessages(NamedTuple):
    """Messages of a response: ``usable`` ones for a batch, ``exhausted`` ones for the dead-letter topic."""

    usable: Sequence[ReceivedMessage]
    exhausted: Sequence[ReceivedMessage]


class MoveOutcome(Enum):
    """Outcome of moving a message to the dead-letter topic."""

    MOVED = "the topic has it"
    RETRY = "the topic may have it, and the move is retried"
    REJECTED = "it cannot be moved, and goes to a batch: a duplicate is better than a loss"


def has_redelivered(received: Iterable[ReceivedMessage]) -> bool:
    """Return whether ``redelivery_count`` is above 0 for any of the messages."""
    return any(map(redelivery_count, received))


def split_exhausted(received: Iterable[ReceivedMessage], retry_max_times: int | None) -> SplitMessages:
    """Split messages, in order, into ``exhausted``, redelivered more than ``retry_max_times``, and ``usable``. A
    negative limit counts as 0. Without a limit (None) all are usable."""
    usable: list[ReceivedMessage] = []
    exhausted: list[ReceivedMessage] = []
    for received_message in received:
        is_exhausted = retry_max_times is not None and redelivery_count(received_message) > max(0, retry_max_times)
        (exhausted if is_exhausted else usable).append(received_message)
    return SplitMessages(usable, exhausted)


def redelivery_count(received_message: ReceivedMessage) -> int:
    """Return how often the broker has redelivered the message, by its stored ``reconsumeTimes``. Return 0 if the
    message is not from a retry topic, is from a proxy, or cannot be decoded."""
    handle = received_message.handle
    if (
        received_message.record_format is not RecordFormat.STORED
        or not isinstance(handle, BrokerHandle)
        or handle.pop_check_point.retry == NORMAL_TOPIC
    ):
        return 0
    with suppress(ValueError):
        return as_written(received_message.record, handle.broker_name).reconsume_times
    return 0


def stored_message_of(received_message: ReceivedMessage) -> StoredMessage:
    """Return the topic that was polled, the broker name, commit log offset and message ID, with which the message can
    be sent back. The offset of a redelivered message is of its copy in the retry topic. Raises ValueError for an
    undecodable record."""
    message = as_written(received_message.record, received_message.handle.broker_name)
    return StoredMessage(
        received_message.handle.topic, received_message.handle.broker_name, message.commit_log_offset, message.msg_id
    )


def list_ids(messages: Sequence[StoredMessage]) -> str:
    """Return the IDs of the first ``MAX_LISTED`` messages, each shortened, separated by spaces, and ``...`` if there
    are more messages."""
    shown = [cut(message.msg_id) for message in messages[:MAX_LISTED]]
    return " ".join([*shown, "..."] if len(messages) > MAX_LISTED else shown)
