"""Transport: what a receiver needs of whoever hands messages out one by one: brokers, or a proxy before them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

from rocketmq_spark.errors import RocketMQError
from rocketmq_spark.pop.delivery_attempts import MoveOutcome, SplitMessages
from rocketmq_spark.pop.receipt_handles import ReceiptHandle, ReceivedMessage
from rocketmq_spark.pop.receive_scheduler import ReceiveRequest, Target

ReceiveOutcome: TypeAlias = Sequence[ReceivedMessage] | RocketMQError
"""What came of a poll; nothing, where there was none."""

AckOutcome: TypeAlias = bool | RocketMQError
"""Whether the server says nothing against it; else its time was over, and the message comes again."""

ChangeOutcome: TypeAlias = ReceiptHandle | RocketMQError | None
"""The handle by which a server knows a message since it was asked; None: it knows the message no more."""


class DeadLetterTopic(Protocol):
    """Where a group's messages go that came again too often."""

    def needs_broker_call(self, target: Target, received: Sequence[ReceivedMessage]) -> bool:
        """Whether ``split_exhausted`` waits for a server."""

    def split_exhausted(self, target: Target, received: Sequence[ReceivedMessage]) -> SplitMessages:
        """Which are for a batch, and which go there."""

    def move(self, messages: Sequence[ReceivedMessage]) -> list[MoveOutcome]:
        """Have these stored there; they are to be acknowledged then. What became of each."""


class ServerSideDeadLetters:
    """The ``DeadLetterTopic`` of those who get no messages that are for it."""

    def needs_broker_call(self, _target: Target, _received: Sequence[ReceivedMessage]) -> bool:
        return False

    def split_exhausted(self, _target: Target, received: Sequence[ReceivedMessage]) -> SplitMessages:
        return SplitMessages(received, ())

    def move(self, messages: Sequence[ReceivedMessage]) -> list[MoveOutcome]:
        return [MoveOutcome.REJECTED for _ in messages]


class Transport(Protocol):
    """Of one query. Making it opens nothing.

    Threads: any; ``refresh_routes`` is one thread's, and what it has found replaces what was known in one step.
    """

    client_id: str
    """Of this transport, as log lines name it; to a proxy, also as its requests do."""

    route_refresh_interval_ms: int
    """How often ``refresh_routes`` is wanted while nothing fails."""

    @property
    def dead_letters(self) -> DeadLetterTopic:
        """Of the group."""

    def refresh_routes(self) -> dict[str, RocketMQError]:
        """Find out where the topics are, and be known there. What went wrong, by topic."""

    def targets(self) -> list[Target]:
        """Whom to ask for messages."""

    def receive(self, request: ReceiveRequest, on_response: Callable[[ReceiveOutcome], None]) -> None:
        """Ask for messages. ``on_response`` is called once, maybe on another thread; never raises."""

    def acknowledge(self, handles: Sequence[ReceiptHandle]) -> list[AckOutcome]:
        """Say that these are done, to all of their servers at once. What came of each."""

    def change_invisible_duration(
        self, handles: Sequence[ReceiptHandle], invisible_ms: int, *, suspend: bool
    ) -> list[ChangeOutcome]:
        """Have these invisible from now on for so long, all in flight at once; with ``suspend`` that counts as no
        attempt. What came of each."""

    def close(self) -> None:
        """Close all connections: nothing more is handed out to us."""
