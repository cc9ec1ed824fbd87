"""Transport: what a receiver needs of whoever hands messages out one by one: brokers, or a proxy before them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

from rocketmq_spark.errors import RocketMQError
from rocketmq_spark.pop.attempts import ByAttempts, Move
from rocketmq_spark.pop.handles import AnyHandle, Received
from rocketmq_spark.pop.polls import Poll, Target

Answer: TypeAlias = Sequence[Received] | RocketMQError
"""What came of a poll; nothing, where there was none."""

Acknowledged: TypeAlias = bool | RocketMQError
"""Whether the server says nothing against it; else its time was over, and the message comes again."""

Changed: TypeAlias = AnyHandle | RocketMQError | None
"""The handle by which a server knows a message since it was asked; None: it knows the message no more."""


class DeadLetterTopic(Protocol):
    """Where a group's messages go that came again too often."""

    def is_to_be_asked(self, target: Target, received: Sequence[Received]) -> bool:
        """Whether ``by_attempts`` waits for a server."""

    def by_attempts(self, target: Target, received: Sequence[Received]) -> ByAttempts:
        """Which are for a batch, and which go there."""

    def move(self, messages: Sequence[Received]) -> list[Move]:
        """Have these stored there; they are to be acknowledged then. What became of each."""


class MovedByTheServer:
    """The ``DeadLetterTopic`` of those who get no messages that are for it."""

    def is_to_be_asked(self, _target: Target, _received: Sequence[Received]) -> bool:
        return False

    def by_attempts(self, _target: Target, received: Sequence[Received]) -> ByAttempts:
        return ByAttempts(received, ())

    def move(self, messages: Sequence[Received]) -> list[Move]:
        return [Move.REFUSED for _ in messages]


class Transport(Protocol):
    """Of one query. Making it opens nothing.

    Threads: any; ``look`` is one thread's, and what it has found replaces what was known in one step.
    """

    client_id: str
    """Of this transport, as log lines name it; to a proxy, also as its requests do."""

    look_interval_ms: int
    """How often ``look`` is wanted while nothing fails."""

    @property
    def dead_letters(self) -> DeadLetterTopic:
        """Of the group."""

    def look(self) -> dict[str, RocketMQError]:
        """Find out where the topics are, and be known there. What went wrong, by topic."""

    def targets(self) -> list[Target]:
        """Whom to ask for messages."""

    def poll(self, poll: Poll, on_answer: Callable[[Answer], None]) -> None:
        """Ask for messages. ``on_answer`` is called once, maybe on another thread; never raises."""

    def acknowledge(self, handles: Sequence[AnyHandle]) -> list[Acknowledged]:
        """Say that these are done, to all of their servers at once. What came of each."""

    def change(self, handles: Sequence[AnyHandle], invisible_ms: int, *, suspend: bool) -> list[Changed]:
        """Have these invisible from now on for so long, all in flight at once; with ``suspend`` that counts as no
        attempt. What came of each."""

    def close(self) -> None:
        """Close all connections: nothing more is handed out to us."""
