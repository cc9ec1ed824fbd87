"""Moves of messages that exceeded ``retryMaxTimes`` to the dead-letter topic, requested from brokers (proxies do it
alone).

A message is acknowledged only after the broker has confirmed its copy in the group's dead-letter topic. A failure in
between stores it there twice, and never loses it. Source:
``proxy/processor/ProducerProcessor.java#forwardMessageToDeadLetterQueue``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from rocketmq_spark.errors import RocketMQError
from rocketmq_spark.model import BrokerAddress, StoredMessage, dead_letter_topic
from rocketmq_spark.pop.delivery_attempts import (
    DEFAULT_RETRY_MAX_TIMES,
    MoveOutcome,
    SplitMessages,
    has_redelivered,
    list_ids,
    split_exhausted,
    stored_message_of,
)
from rocketmq_spark.pop.receipt_handles import ReceivedMessage
from rocketmq_spark.pop.receive_scheduler import Target
from rocketmq_spark.remoting.broker import Broker
from rocketmq_spark.remoting.clock import Clock, monotonic_ms
from rocketmq_spark.remoting.pop_broker import PopBroker
from rocketmq_spark.remoting.retry import Retryability, retryability_of_request

log = logging.getLogger(__name__)

RETRY_LIMIT_TTL_MS: Final = 60_000
"""How long a group's ``retryMaxTimes`` is cached, since an operator may change it."""

DEAD_LETTER_DELAY_LEVEL: Final = -1

PopBrokerOf: TypeAlias = Callable[[str, str], PopBroker]
"""Returns the broker for a topic and broker name. Raises what resolving its address does."""

BrokerAt: TypeAlias = Callable[[BrokerAddress], Broker]


class DeadLetterMover:
    """The ``DeadLetterTopic`` of one group at brokers, which store a message that is sent back in ``%DLQ%<group>``.

    Threads: any; ``move`` must not run twice at once for one broker.
    """

    def __init__(self, group: str, pop_broker: PopBrokerOf, broker_at: BrokerAt, clock: Clock = monotonic_ms) -> None:
        self._group = group
        self._pop_broker = pop_broker
        self._broker_at = broker_at
        self._clock = clock
        self._retry_limits: dict[str, tuple[int | None, int]] = {}
        """By broker name: the limit, and until when it is cached."""
        self._failing_brokers: set[str] = set()

    def needs_broker_call(self, target: Target, received: Sequence[ReceivedMessage]) -> bool:
        """Return whether ``split_exhausted`` would send a request and wait, because a message was redelivered, and the
        broker's ``retryMaxTimes`` is not cached."""
        return not self._is_cached(target) and has_redelivered(received)

    def _is_cached(self, target: Target) -> bool:
        """Return whether the limit of the target's broker is cached, for no longer than RETRY_LIMIT_TTL_MS."""
        return target.broker_name in self._retry_limits and self._clock() < self._retry_limits[target.broker_name][1]

    def split_exhausted(self, target: Target, received: Sequence[ReceivedMessage]) -> SplitMessages:
        """Split messages, in order, into ``exhausted``, redelivered more often than the limit (at least 0), and
        ``usable``. Only if a message was redelivered, get the limit by ``retry_max_times``, which may send a request
        and wait. Without a limit all are usable."""
        return split_exhausted(received, self.retry_max_times(target) if has_redelivered(received) else None)

    def retry_max_times(self, target: Target) -> int | None:
        """Return the group's ``retryMaxTimes`` at the target's broker, cached for 60 s; if it is not cached, request it
        and wait. Return 16, and log it, if the broker refuses permanently. Return None (no limit) if the group has no
        retry queue, since no message can be moved then. Return None, uncached, after a temporary failure. Raises no
        RocketMQError."""
        if self._is_cached(target):
            return self._retry_limits[target.broker_name][0]
        limit: int | None
        try:
            retries = self._pop_broker(*target).query_group_retry_settings(self._group)
        except RocketMQError as error:
            if retryability_of_request(error) is not Retryability.PERMANENT:
                return None
            limit = DEFAULT_RETRY_MAX_TIMES
            log.info(
                "RETRY_LIMIT_UNKNOWN: Cannot read retryMaxTimes of group=%s at broker=%s, using %d: %s",
                self._group,
                target.broker_name,
                limit,
                error,
            )
        else:
            limit = retries.max_times if retries.queue_count > 0 else None
        self._retry_limits[target.broker_name] = limit, self._clock() + RETRY_LIMIT_TTL_MS
        return limit

    def move(self, messages: Sequence[ReceivedMessage]) -> list[MoveOutcome]:
        """Store messages in the group's dead-letter topic, one request after another; log the moved ones, and errors by
        ``_warn``. Return an outcome for each, in order: MOVED; REJECTED if the broker refuses it permanently; RETRY
        after any other error. After a RETRY, later messages of the same broker get RETRY without a request. Acknowledge
        nothing, raise no RocketMQError."""
        failing: set[str] = set()
        stored_messages = [stored_message_of(one) for one in messages]
        outcomes = [self._move(stored_message, failing) for stored_message in stored_messages]
        moved = [
            stored_message
            for stored_message, outcome in zip(stored_messages, outcomes, strict=True)
            if outcome is MoveOutcome.MOVED
        ]
        if moved:
            log.warning(
                "DEAD_LETTERS_STORED: Moved %d messages that exceeded retryMaxTimes to dead-letter topic=%s, msgId: %s",
                len(moved),
                dead_letter_topic(self._group),
                list_ids(moved),
            )
        return outcomes

    def _move(self, message: StoredMessage, failing: set[str]) -> MoveOutcome:
        """Send one message back to its broker with the delay level of the dead-letter topic, wait, and return the
        outcome. Return RETRY without a request if ``failing`` has the broker's name. Return REJECTED for a permanent
        error, RETRY for another one, and then add the name to ``failing``. Log the error by ``_warn``."""
        if message.broker_name in failing:
            return MoveOutcome.RETRY
        try:
            broker = self._broker_at(self._pop_broker(message.topic, message.broker_name).address)
            broker.send_back(self._group, message, delay_level=DEAD_LETTER_DELAY_LEVEL, max_reconsume_times=0)
        except RocketMQError as error:
            move = (
                MoveOutcome.REJECTED if retryability_of_request(error) is Retryability.PERMANENT else MoveOutcome.RETRY
            )
            self._warn(message, move, error)
            if move is MoveOutcome.RETRY:
                failing.add(message.broker_name)
            return move
        self._failing_brokers.discard(message.broker_name)
        return MoveOutcome.MOVED

    def _warn(self, message: StoredMessage, move: MoveOutcome, error: RocketMQError) -> None:
        """Log a warning about a failed move, only the first of its broker since the last successful move there."""
        if message.broker_name not in self._failing_brokers:
            self._failing_brokers.add(message.broker_name)
            log.warning(
                "DEAD_LETTER_NOT_STORED: Cannot move message %s, which exceeded retryMaxTimes, to dead-letter "
                "topic=%s; %s. Until a move succeeds at this broker, failed ones are not logged: %s",
                message,
                dead_letter_topic(self._group),
                "retrying" if move is MoveOutcome.RETRY else "the query delivers it once more",
                error,
            )
