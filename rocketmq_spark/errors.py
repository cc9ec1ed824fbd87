"""The error classes. The texts of their conditions are in the table ``conditions``.

An error names the failure, its place, and the fix. Code raises ``SomeError("CONDITION", name=value, ...)`` with the
parameters in the condition's template.

The class is the origin of the failure, the condition its exact kind:

    RocketMQError
    |-- OptionError (also ValueError)   user input; raised before any socket is opened, if it can be detected then
    |-- ProtocolError                   bytes or values that violate RocketMQ's protocol
    |   |-- LocalProtocolError          requested of the connector, but no broker would accept it
    |   `-- RemoteProtocolError         received from a server
    |-- TransportError                  no connection, no response in time, connection lost
    |-- BrokerError                     a server returned an error code
    |-- RouteError                      a topic has no route, no readable queue or no master; another broker responded
    |-- DataLossError                   stored messages that the query still needs were deleted
    |-- NotSentBackError                failed rows that the brokers have not accepted for retry
    |-- MembershipError                 a state of the consumer group in which no correct member can work
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

    Attributes: ``condition`` (a key of ``CONDITIONS``) and ``context`` (the parameters of its texts). Pickling keeps
    both, so errors can cross process borders.
    """

    def __init__(self, condition: str, **context: str | int) -> None:
        self.condition = condition
        self.context: Mapping[str, str | int] = context
        super().__init__(condition, context)

    def __str__(self) -> str:
        """Return ``[ROCKETMQ_condition]``, the summary and the advice. Raises KeyError if ``context`` lacks one of
        their parameters."""
        text = CONDITIONS[self.condition].text(self.context)
        return f"[ROCKETMQ_{self.condition}] {text.strip()}"

    @property
    def summary(self) -> str:
        """Return ``str(error)`` without advice, for an error that has this one as its cause and its own advice."""
        return f"[ROCKETMQ_{self.condition}] {CONDITIONS[self.condition].summary(self.context).strip()}"

    def __reduce__(self) -> tuple[object, ...]:
        """Keep class, condition and context when pickled or copied, but not cause and traceback."""
        return _rebuild, (type(self), self.condition, dict(self.context))


def _rebuild(cls: type[RocketMQError], condition: str, context: dict[str, str | int]) -> RocketMQError:
    return cls(condition, **context)


class OptionError(RocketMQError, ValueError):
    """An option, schema or checkpoint of the user is unusable."""


class ProtocolError(RocketMQError):
    """Bytes or values that do not follow RocketMQ's protocol."""


class LocalProtocolError(ProtocolError):
    """The protocol cannot carry the requested message or value, or sending it would lose messages."""


class RemoteProtocolError(ProtocolError):
    """A server sent bytes that cannot be decoded.

    MALFORMED_FRAME and FRAME_TOO_LARGE close the connection, because its frames are no longer aligned. After other
    conditions it stays open: the frame was complete, and only its content is unusable.
    """


class TransportError(RocketMQError):
    """A server could not be reached, or did not respond."""


class BrokerError(RocketMQError):
    """A server responded with an error code.

    ``code`` is RocketMQ's ResponseCode. It determines the retryability (``remoting.retry``).
    """

    @property
    def code(self) -> int:
        """Return the response code in ``context``. Raises KeyError without one."""
        return int(self.context["code"])


class RouteError(RocketMQError):
    """A topic has no route, no master or no usable queue there, or another broker responded at a broker's address."""


class DataLossError(RocketMQError):
    """Expected messages are no longer on the broker; option ``failOnDataLoss`` applies."""


class NotSentBackError(RocketMQError):
    """Failed rows were not sent back for retry; replaying the batch sends them again."""


class MembershipError(RocketMQError):
    """The consumer group is in a state in which no correct member can work."""


class EmbeddedBrokerError(RocketMQError):
    """The embedded broker could not be set up, started or controlled."""
