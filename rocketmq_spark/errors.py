"""The one error tree. What its errors say is in the one table of ``conditions``.

An error says what happened, where, and what the user can do. Code raises ``SomeError("CONDITION", name=value, ...)``
with the parameters that the condition's template names.

The class says whose fault it is, the condition says what exactly:

    RocketMQError
    |-- OptionError (also ValueError)   what the user wrote; before any socket is opened where that can be known
    |-- ProtocolError                   bytes that are not RocketMQ's
    |   |-- LocalProtocolError          we were asked to send something that no broker would take
    |   `-- RemoteProtocolError         the peer sent it
    |-- TransportError                  no connection, no answer in time, connection lost
    |-- BrokerError                     the peer answered, and the answer is no
    |-- RouteError                      a topic is not there, has no queue to read, or no master; another broker answers
    |-- DataLossError                   stored messages that should be there are gone
    |-- NotSentBackError                failed rows that the brokers have not taken back
    |-- MembershipError                 the consumer group is in a state that no correct member can work in
    `-- EmbeddedBrokerError             the child JVM of ``rocketmq_spark.embedded``
"""

from __future__ import annotations

from collections.abc import Mapping

from rocketmq_spark.conditions import CONDITIONS

__all__ = [
    "BrokerError",
    "DataLossError",
    "EmbeddedBrokerError",
    "LocalProtocolError",
    "MembershipError",
    "NotSentBackError",
    "OptionError",
    "ProtocolError",
    "RemoteProtocolError",
    "RocketMQError",
    "RouteError",
    "TransportError",
]


class RocketMQError(Exception):
    """Base of all errors of this package.

    Attributes: ``condition`` (a key of ``CONDITIONS``) and ``context`` (the parameters of its texts). Errors cross
    process borders by pickle with both.
    """

    def __init__(self, condition: str, **context: str | int) -> None:
        self.condition = condition
        self.context: Mapping[str, str | int] = context
        super().__init__(condition, context)

    def __str__(self) -> str:
        text = CONDITIONS[self.condition].text(self.context)
        return f"[ROCKETMQ_{self.condition}] {text.strip()}"

    @property
    def summary(self) -> str:
        """The text without advice, for an error that has this one as its cause and advice of its own."""
        return f"[ROCKETMQ_{self.condition}] {CONDITIONS[self.condition].summary(self.context).strip()}"

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.condition, dict(self.context))


def _rebuild(cls: type[RocketMQError], condition: str, context: dict[str, str | int]) -> RocketMQError:
    return cls(condition, **context)


class OptionError(RocketMQError, ValueError):
    """An option, schema or checkpoint that the user gave cannot be used."""


class ProtocolError(RocketMQError):
    """Bytes or values that do not follow RocketMQ's protocol."""


class LocalProtocolError(ProtocolError):
    """We were asked for something that the protocol cannot carry, or that would lose messages."""


class RemoteProtocolError(ProtocolError):
    """The peer sent something that cannot be understood.

    A connection is closed by what spoils its frames (MALFORMED_FRAME, FRAME_TOO_LARGE); after the others it goes on:
    the frame was whole, and what is in it cannot be used.
    """


class TransportError(RocketMQError):
    """The peer could not be reached, or did not answer."""


class BrokerError(RocketMQError):
    """The peer answered with an error code.

    ``code`` is RocketMQ's ResponseCode. Whether to try again is decided by code (``remoting.retry``).
    """

    @property
    def code(self) -> int:
        return int(self.context["code"])


class RouteError(RocketMQError):
    """Where a topic lives cannot be found out, or it lives nowhere readable."""


class DataLossError(RocketMQError):
    """Messages that were promised are not in the broker any more; ``failOnDataLoss`` governs."""


class NotSentBackError(RocketMQError):
    """Failed rows were not sent back: the batch's replay sends them again."""


class MembershipError(RocketMQError):
    """The consumer group is in a state that no correct member can work in."""


class EmbeddedBrokerError(RocketMQError):
    """The embedded broker could not be set up, started or controlled."""
