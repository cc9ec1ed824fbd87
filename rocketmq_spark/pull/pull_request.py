"""PullRequest: the next offset of a pull, and the effect of a response on it.

``nextBeginOffset``, not the last message's offset, shows how far a response reaches: filters and retention leave gaps,
and a broker's size limits end it early. A request is sent again until its end is reached.

Source: ``client/impl/consumer/PullRequest.java`` and the pull callback of ``DefaultMQPushConsumerImpl``. Differs: an
illegal offset does not drop the queue. The range is logged, so it must be read unchanged, and the result reports what
happened to it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from enum import Enum
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol, TypeAlias

from rocketmq_spark.errors import RemoteProtocolError, RocketMQError, RouteError
from rocketmq_spark.model import BrokerAddress, MessageQueue, QueueBounds
from rocketmq_spark.remoting.error_kinds import is_topic_without_route
from rocketmq_spark.remoting.replicas import Server
from rocketmq_spark.wire.message.stored_message import first_queue_offset
from rocketmq_spark.wire.remoting.pull import OFFSET_RESET, PullOutcome, PullResult, PullStatus


class PullAction(Enum):
    """Effect of a response on the offsets from the requested one on."""

    DELIVER = "the response has all matching messages below its next offset"
    SKIP = "no message below the next offset matches"
    RETRY = "pull the same offset again, at once"
    WAIT = "the broker lacks the offset now; pull it again later"
    LOST = "all messages below the broker's min offset are deleted"
    VACANT = "no message has the requested offset; pull the next one"


BY_REASON: Final[Mapping[tuple[PullStatus, str], PullAction]] = MappingProxyType(
    {
        # A broker returns an operator's reset to one pull of the group, at any offset.
        (PullStatus.OFFSET_ILLEGAL, OFFSET_RESET): PullAction.RETRY,
        # Retention deletes messages now: the min offset rises soon, and then shows which are lost.
        (PullStatus.NO_MATCHED_MSG, "MESSAGE_WAS_REMOVING"): PullAction.WAIT,
    }
)
"""Actions where the broker's reason (``GetMessageStatus``) is more specific than the status."""

BY_STATUS: Final[Mapping[PullStatus, PullAction]] = MappingProxyType(
    {
        PullStatus.FOUND: PullAction.DELIVER,
        PullStatus.NO_MATCHED_MSG: PullAction.SKIP,
        # The range was planned from the broker's own max offset, so these are a broker that lost its tail or is still
        # recovering it: OFFSET_FOUND_NULL, OFFSET_OVERFLOW_ONE, OFFSET_OVERFLOW_BADLY, NO_MATCHED_LOGIC_QUEUE, ...
        PullStatus.NO_NEW_MSG: PullAction.WAIT,
        PullStatus.OFFSET_ILLEGAL: PullAction.WAIT,
    }
)


_ADVANCED, _NOT_ADVANCED = True, False
_DELETED, _RETAINED = True, False

BY_OFFSETS: Final[Mapping[tuple[PullAction, bool, bool], PullAction]] = MappingProxyType(
    {
        # FOUND or NO_MATCHED_MSG without a later next offset has read nothing: the store failed, or it is a slave.
        (PullAction.DELIVER, _NOT_ADVANCED, _RETAINED): PullAction.WAIT,
        (PullAction.DELIVER, _NOT_ADVANCED, _DELETED): PullAction.LOST,
        (PullAction.SKIP, _NOT_ADVANCED, _RETAINED): PullAction.WAIT,
        (PullAction.SKIP, _NOT_ADVANCED, _DELETED): PullAction.LOST,
        # A postponed offset is lost once the broker's min offset has passed it.
        (PullAction.WAIT, _NOT_ADVANCED, _DELETED): PullAction.LOST,
        (PullAction.WAIT, _ADVANCED, _DELETED): PullAction.LOST,
    }
)
"""Actions where the response's offsets override status and reason. Key: that action, whether ``nextBeginOffset`` is
above the requested offset, and whether ``minOffset`` is."""


def pull_action(result: PullResult, offset: int) -> PullAction:
    """Return the action for ``result`` of a pull at ``offset``, by reason (BY_REASON) or else by status (BY_STATUS).
    The offsets of the response may override it (BY_OFFSETS).

    Return VACANT if a batch consume queue has no message at ``offset``. The broker returns the previous message to each
    such pull, and its end as the next offset. Source: ``store/queue/BatchConsumeQueue.java#iterateFrom``.
    """
    action = BY_REASON.get((result.status, result.reason), BY_STATUS[result.status])
    action = BY_OFFSETS.get((action, result.next_begin_offset > offset, result.min_offset > offset), action)
    if action is PullAction.WAIT and result.status is PullStatus.FOUND:
        first = first_queue_offset(result.body)
        if first is not None and first < result.next_begin_offset <= offset < result.max_offset:
            return PullAction.VACANT
    return action


def as_queue_unavailable(error: RocketMQError, queue: MessageQueue, planned: BrokerAddress | None) -> RocketMQError:
    """Return RouteError[TOPIC_UNAVAILABLE.QUEUE], not raised, for the error of a missing topic. The topic existed when
    its queue was ``planned`` at an address, so most likely its broker is unavailable. Return any other error
    unchanged."""
    if not is_topic_without_route(error):
        return error
    broker, address = queue.broker_name + ("" if planned is None else f" ({planned})"), error.context["address"]
    return RouteError(
        "TOPIC_UNAVAILABLE.QUEUE", topic=queue.topic, address=address, queue_id=queue.queue_id, broker=broker
    )


def stalled_error(queue: MessageQueue, offset: int, result: PullResult, waited_ms: int) -> RemoteProtocolError:
    """Return RemoteProtocolError[PULL_STALLED], not raised, for an ``offset`` that all responses lacked for
    ``waited_ms``; ``result``: the last."""
    return RemoteProtocolError(
        "PULL_STALLED", queue=str(queue), offset=offset, reason=result.reason, waited_ms=waited_ms
    )


NO_BODY: Final = memoryview(b"")


class RangeKind(Enum):
    """Kind of a pulled range: whether its offsets were read, and if not, why."""

    READ = "the body has all matching messages of the offsets"
    DELETED = "the broker deleted the messages of the offsets"
    PRESUMED_LOST = "the broker has lacked some of the offsets for long"
    VACANT = "no message ever had the offsets"


READ: Final = RangeKind.READ
"""Kind of nearly all ranges. A constant, because a look-up in the enum is slower, and readers compare each range."""

LOST_KINDS: Final = (RangeKind.DELETED, RangeKind.PRESUMED_LOST)
"""Kinds of losses. A tuple, because a set would call ``Enum.__hash__`` for each range."""


class PulledRange(NamedTuple):
    """Result of the offsets ``[begin_offset, end_offset)``.

    ``body``: the matching messages, as the broker encoded them. It may also have messages on either side of the range
    (a filtered response, an inner batch), which belong to other ranges. ``kind``: READ, or why there is no body.
    ``response_end_offset``: end of the response with ``body``, or None if it is within the range. ``vacant_from``: for
    a VACANT range, the end of the message before it (``PullAction.VACANT``), else None.
    """

    begin_offset: int
    end_offset: int
    body: memoryview = NO_BODY
    kind: RangeKind = READ
    response_end_offset: int | None = None
    vacant_from: int | None = None

    @property
    def response_range(self) -> tuple[int, int]:
        """Return the offsets ``[begin_offset, end)`` of the response with ``body``, or, without one, of the range."""
        return self.begin_offset, self.end_offset if self.response_end_offset is None else self.response_end_offset


class PullRequest:
    """Offsets ``[next_offset, end_offset)`` to pull, one response after another, at most ``max_messages`` each.
    Only PullWindow changes it. ``is_idle``: not in flight, to be sent when the depth allows it.

    ``sent_to``: server of the last pull, if any. ``pulled``: ranges received and not delivered, up to ``next_offset``.
    ``completion_queue``: receives the completions of its pulls.
    """

    __slots__ = (
        "completion_queue",
        "end_offset",
        "is_idle",
        "max_messages",
        "next_offset",
        "pulled",
        "sent_to",
    )

    def __init__(self, next_offset: int, end_offset: int, max_messages: int, completion_queue: CompletionQueue) -> None:
        self.next_offset = next_offset
        self.end_offset = end_offset
        self.max_messages = max_messages
        self.completion_queue = completion_queue
        self.is_idle = False
        self.sent_to: Server | None = None
        self.pulled: list[PulledRange] = []

    @property
    def is_complete(self) -> bool:
        return self.next_offset >= self.end_offset


Completion: TypeAlias = tuple[PullRequest, PullOutcome, int]
"""A pull, its result or error, and the ID of the server of the broker from which the response suggests to pull next;
with an error to be ignored."""

CompletionQueue: TypeAlias = deque[Completion]
"""Completions of one range's pulls, in the order of arrival."""


class PullClient(Protocol):
    """Sends pulls and returns their completions: ExecutorPullClient. Its methods raise nothing."""

    def pull(
        self,
        queue: MessageQueue,
        requests: Sequence[PullRequest],
        address: BrokerAddress | None,
        server: Server,
        *,
        is_filtered: bool,
    ) -> list[Completion]:
        """Send pulls of a queue to ``address``, or for None to ``server`` of its broker in the route. Without
        ``is_filtered`` pull all messages. Return the pulls completed already, failed ones with their errors."""

    def receive(self, timeout_ms: int) -> list[Completion]:
        """Wait up to ``timeout_ms`` for completions of any queue, and return them, each once."""

    def forget_route(self, queue: MessageQueue) -> None:
        """Invalidate the queue's route: the next pull without an address requests it."""

    def query_bounds(self, queues: Collection[MessageQueue]) -> Mapping[MessageQueue, QueueBounds]:
        """Request the bounds of the queues, wait, and return those of responsive brokers; other queues are missing."""
