"""DeadLetterMover: where messages go that came again too often, asked of brokers. A proxy sees to that itself.

A message is stored in the group's dead letter topic, answered, before it is acknowledged: what fails in between has it
there twice, and never loses it. Source: ``proxy/processor/ProducerProcessor.java#forwardMessageToDeadLetterQueue``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from rocketmq_spark.errors import RocketMQError
from rocketmq_spark.model import BrokerAddress, StoredMessage, dead_letter_topic
from rocketmq_spark.pop.attempts import BY_DEFAULT, ByAttempts, Move, by_attempts, have_come_again, named, stored
from rocketmq_spark.pop.handles import Received
from rocketmq_spark.pop.polls import Target
from rocketmq_spark.remoting.broker import Broker
from rocketmq_spark.remoting.clock import Clock, monotonic_ms
from rocketmq_spark.remoting.pop_broker import PopBroker
from rocketmq_spark.remoting.retry import Outlook, outlook_of_request

log = logging.getLogger(__name__)

KNOWN_FOR_MS: Final = 60_000
"""An operator may change a group."""

TO_THE_DEAD_LETTERS: Final = -1

PopBrokerOf: TypeAlias = Callable[[str, str], PopBroker]
"""By topic and broker name. Raises what finding it does."""

BrokerAt: TypeAlias = Callable[[BrokerAddress], Broker]


class DeadLetterMover:
    """Those of one group.

    Threads: any; ``move`` of one broker one at a time.
    """

    def __init__(self, group: str, pop_broker: PopBrokerOf, broker_at: BrokerAt, clock: Clock = monotonic_ms) -> None:
        self._group = group
        self._pop_broker = pop_broker
        self._broker_at = broker_at
        self._clock = clock
        self._known: dict[str, tuple[int | None, int]] = {}
        """By broker name: the limit, and until when it is known."""
        self._failing: set[str] = set()

    def is_to_be_asked(self, target: Target, received: Sequence[Received]) -> bool:
        """See ``DeadLetterTopic``."""
        return not self._is_known(target) and have_come_again(received)

    def _is_known(self, target: Target) -> bool:
        return target.broker_name in self._known and self._clock() < self._known[target.broker_name][1]

    def by_attempts(self, target: Target, received: Sequence[Received]) -> ByAttempts:
        """See ``DeadLetterTopic``. Asks the broker how often messages may come again, if one has."""
        return by_attempts(received, self.retry_max_times(target) if have_come_again(received) else None)

    def retry_max_times(self, target: Target) -> int | None:
        """How often a message may come again, as the broker's settings of the group have it; 16 where they are not for
        us to know. None: however often, because nothing can be moved, or because nobody says it now."""
        if self._is_known(target):
            return self._known[target.broker_name][0]
        limit: int | None
        try:
            retries = self._pop_broker(*target).group_retries(self._group)
        except RocketMQError as error:
            if outlook_of_request(error) is not Outlook.FINAL:
                return None
            limit = BY_DEFAULT
            log.info(
                "RETRY_LIMIT_UNKNOWN: Cannot read retryMaxTimes of group=%s at broker=%s, using %d: %s",
                self._group,
                target.broker_name,
                limit,
                error,
            )
        else:
            limit = retries.max_times if retries.queue_count > 0 else None
        self._known[target.broker_name] = limit, self._clock() + KNOWN_FOR_MS
        return limit

    def move(self, messages: Sequence[Received]) -> list[Move]:
        """See ``DeadLetterTopic``. A broker that fails is asked once."""
        failing: set[str] = set()
        places = [stored(one) for one in messages]
        moves = [self._move(place, failing) for place in places]
        moved = [place for place, move in zip(places, moves, strict=True) if move is Move.DONE]
        if moved:
            log.warning(
                "DEAD_LETTERS_STORED: Moved %d messages that exceeded retryMaxTimes to dead-letter topic=%s, msgId: %s",
                len(moved),
                dead_letter_topic(self._group),
                named(moved),
            )
        return moves

    def _move(self, message: StoredMessage, failing: set[str]) -> Move:
        if message.broker_name in failing:
            return Move.LATER
        try:
            broker = self._broker_at(self._pop_broker(message.topic, message.broker_name).address)
            broker.send_back(self._group, message, delay_level=TO_THE_DEAD_LETTERS, max_reconsume_times=0)
        except RocketMQError as error:
            move = Move.REFUSED if outlook_of_request(error) is Outlook.FINAL else Move.LATER
            self._warn(message, move, error)
            if move is Move.LATER:
                failing.add(message.broker_name)
            return move
        self._failing.discard(message.broker_name)
        return Move.DONE

    def _warn(self, message: StoredMessage, move: Move, error: RocketMQError) -> None:
        """Once, until something succeeds there."""
        if message.broker_name not in self._failing:
            self._failing.add(message.broker_name)
            log.warning(
                "DEAD_LETTER_NOT_STORED: Cannot move message %s, which exceeded retryMaxTimes, to dead-letter "
                "topic=%s; %s. Other failures of its broker are not logged until a move succeeds: %s",
                message,
                dead_letter_topic(self._group),
                "retrying" if move is Move.LATER else "the query delivers it once more",
                error,
            )
