"""The interface through which a receiver gets and acknowledges messages: implemented for brokers and for proxies."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias, TypeVar

from rocketmq_spark.errors import RocketMQError
from rocketmq_spark.pop.delivery_attempts import MoveOutcome, SplitMessages
from rocketmq_spark.pop.receipt_handles import ReceiptHandle, ReceivedMessage
from rocketmq_spark.pop.receive_scheduler import ReceiveRequest, Target

T = TypeVar("T")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class IncompleteResponse:
    """A response that ended before its last message. ``received``: the messages before its end. Empty only if a proxy
    could not convert a message (``is_conversion_failure``)."""

    received: Sequence[ReceivedMessage]
    failure: RocketMQError


ReceiveOutcome: TypeAlias = Sequence[ReceivedMessage] | IncompleteResponse | Exception
"""The messages of a poll, empty if there were none, or its error. One that is no RocketMQError is a bug, and fails the
query."""

AckOutcome: TypeAlias = bool | RocketMQError
"""True: the server accepted the acknowledgement. False: the invisible duration had expired; the message is
redelivered."""

ChangeOutcome: TypeAlias = ReceiptHandle | RocketMQError | None
"""The handle that replaces the one in the request; None: the server no longer has the message under that handle."""


class DeadLetterTopic(Protocol):
    """The destination of a group's messages that exceeded ``retryMaxTimes``, used by one receiver."""

    def needs_broker_call(self, target: Target, received: Sequence[ReceivedMessage]) -> bool:
        """Return whether ``split_exhausted`` would block on a request to a broker."""

    def split_exhausted(self, target: Target, received: Sequence[ReceivedMessage]) -> SplitMessages:
        """Split messages into those for a batch and those for the dead-letter topic; may request ``retryMaxTimes`` and
        wait."""

    def move(self, messages: Sequence[ReceivedMessage]) -> list[MoveOutcome]:
        """Store messages in the dead-letter topic and wait; return an outcome for each, in order. The caller
        acknowledges MOVED ones."""


class ServerSideDeadLetters:
    """The ``DeadLetterTopic`` for a server that moves such messages itself, and so delivers none."""

    def needs_broker_call(self, _target: Target, _received: Sequence[ReceivedMessage]) -> bool:
        """Return False."""
        return False

    def split_exhausted(self, _target: Target, received: Sequence[ReceivedMessage]) -> SplitMessages:
        """Return all messages as usable."""
        return SplitMessages(received, ())

    def move(self, messages: Sequence[ReceivedMessage]) -> list[MoveOutcome]:
        """Send nothing, and return REJECTED for each message."""
        return [MoveOutcome.REJECTED for _ in messages]


class Transport(Protocol):
    """The transport of one query. Its constructor opens no connection.

    Threads: any; ``refresh_routes`` is called by one thread, and publishes its result atomically.
    """

    client_id: str
    """The client ID in log lines; a proxy gets it in requests too."""

    route_refresh_interval_ms: int
    """Time between two calls of ``refresh_routes`` while none fails."""

    @property
    def dead_letters(self) -> DeadLetterTopic:
        """Return the group's dead-letter topic."""

    def refresh_routes(self) -> dict[str, RocketMQError]:
        """Refresh the topics' routes, which waits, and register this client there. Return the errors by topic, empty if
        none; raise no RocketMQError."""

    def targets(self) -> list[Target]:
        """Return the topics and brokers to poll by the last ``refresh_routes``; request nothing."""

    def receive(self, request: ReceiveRequest, on_response: Callable[[ReceiveOutcome], None]) -> None:
        """Start one poll without waiting for its response. ``on_response`` is called exactly once, possibly on another
        thread; this method never raises a RocketMQError."""

    def acknowledge(self, handles: Sequence[ReceiptHandle]) -> list[AckOutcome]:
        """Acknowledge messages, at all of their servers concurrently, and wait. Return an outcome for each handle, in
        order; raise no RocketMQError."""

    def change_invisible_duration(
        self, handles: Sequence[ReceiptHandle], invisible_ms: int, *, suspend: bool
    ) -> list[ChangeOutcome]:
        """Make messages invisible for ``invisible_ms`` from now on, with all requests in flight together, and wait.

        With ``suspend``, the redelivery after that time does not count as a delivery attempt. Return for each handle,
        in order, the new handle, or the RocketMQError, not raised. None: the server no longer has the message under the
        old handle.
        """

    def close(self) -> None:
        """Close all connections; no more messages are received. Wait some seconds at most."""


def result_or_error(call: Callable[[], T]) -> T | Exception:
    """Return the result of ``call``, or the exception that it raises. Log an exception that is no RocketMQError."""
    try:
        return call()
    except RocketMQError as error:
        return error
    except Exception as error:
        log.exception("INTERNAL_ERROR: Unexpected error of a poll; the query fails. Report it.")
        return error
