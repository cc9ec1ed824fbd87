"""PullRequest: where one pull goes next, and what an answer means for that.

It is ``nextBeginOffset``, never the last message's offset, that says how far an answer went: filters and retention
leave gaps, and a broker's size limits cut it short. A request goes round until its end is reached.

Source: ``client/impl/consumer/PullRequest.java`` and the pull callback of ``DefaultMQPushConsumerImpl``. Differs: an
illegal offset does not drop the queue, because the range is logged and must be read as it is; it says what became
of it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

from rocketmq_spark.wire.message.stored_message import first_queue_offset
from rocketmq_spark.wire.remoting.pull import OFFSET_RESET, PullOutcome, PullResult, PullStatus


class PullAction(Enum):
    """What an answer means for the offsets from the one that was asked for on."""

    DELIVER = "its messages are all that there is below the next offset"
    SKIP = "nothing below the next offset matches"
    RETRY = "the same offset once more, at once"
    WAIT = "the broker does not have it now; the same offset later"
    LOST = "everything below the broker's min offset is deleted"
    VACANT = "no message has the asked offset; go on at the one behind it"


BY_REASON: Final[Mapping[tuple[PullStatus, str], PullAction]] = MappingProxyType(
    {
        # An operator's reset is told to one pull of the group, whatever offset that pull asked for.
        (PullStatus.OFFSET_ILLEGAL, OFFSET_RESET): PullAction.RETRY,
        # Retention is at work: the min offset follows soon, and says then what is lost.
        (PullStatus.NO_MATCHED_MSG, "MESSAGE_WAS_REMOVING"): PullAction.WAIT,
    }
)
"""Actions where the broker's reason (``GetMessageStatus``) says more than the status."""

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
        # What claims to go on and names no later offset has read nothing: a store that failed, a slave.
        (PullAction.DELIVER, _NOT_ADVANCED, _RETAINED): PullAction.WAIT,
        (PullAction.DELIVER, _NOT_ADVANCED, _DELETED): PullAction.LOST,
        (PullAction.SKIP, _NOT_ADVANCED, _RETAINED): PullAction.WAIT,
        (PullAction.SKIP, _NOT_ADVANCED, _DELETED): PullAction.LOST,
        # What must wait is lost once the broker's min offset has passed it.
        (PullAction.WAIT, _NOT_ADVANCED, _DELETED): PullAction.LOST,
        (PullAction.WAIT, _ADVANCED, _DELETED): PullAction.LOST,
    }
)
"""Actions where the answer's offsets overrule status and reason: by that action, whether the answer names an offset
later than the asked one as the next, and whether its min offset is above the asked one."""


def pull_action(result: PullResult, offset: int) -> PullAction:
    """The three tables: what ``result`` means for a pull at ``offset``.

    Beside them: of a batch consume queue a broker answers a pull at an offset that no message has with the message in
    front of it, and with where that one ends. To ask again would bring the same for ever.
    Source: ``store/queue/BatchConsumeQueue.java#iterateFrom``.
    """
    action = BY_REASON.get((result.status, result.reason), BY_STATUS[result.status])
    action = BY_OFFSETS.get((action, result.next_begin_offset > offset, result.min_offset > offset), action)
    if action is PullAction.WAIT and result.status is PullStatus.FOUND:
        first = first_queue_offset(result.body)
        if first is not None and first < result.next_begin_offset <= offset < result.max_offset:
            return PullAction.VACANT
    return action


NO_BODY: Final = memoryview(b"")


class PulledRange(NamedTuple):
    """What became of the offsets ``[begin_offset, end_offset)``.

    ``body``: the messages among them that match, as the broker encoded them. It may hold messages on either side of the
    range too (a filtered answer, an inner batch); they belong to other ranges. ``is_lost``: nothing will come of these
    offsets, because the broker has deleted them, or where ``is_presumed_lost`` has not had all of them for long.
    ``is_vacant``: there has never been a message of these offsets for anybody, see ``PullAction.VACANT``.
    ``response_end_offset``: where the answer ends, if that is behind the range; of a vacant one that of the message in
    front.
    """

    begin_offset: int
    end_offset: int
    body: memoryview = NO_BODY
    is_lost: bool = False
    is_presumed_lost: bool = False
    is_vacant: bool = False
    response_end_offset: int | None = None

    @property
    def response_range(self) -> tuple[int, int]:
        """The offsets ``[begin, next)`` that ``body`` is the answer to."""
        return self.begin_offset, self.end_offset if self.response_end_offset is None else self.response_end_offset


class PullRequest:
    """Offsets ``[next_offset, end_offset)`` that are to be pulled, one answer after another, for at most
    ``max_messages`` each. PullWindow changes it.

    ``pulled``: what has come and is not delivered yet, up to ``next_offset``. ``completion_queue``: where its range
    finds what became of its pulls.
    """

    __slots__ = ("completion_queue", "end_offset", "is_idle", "max_messages", "next_offset", "pulled")

    def __init__(self, next_offset: int, end_offset: int, max_messages: int, completion_queue: CompletionQueue) -> None:
        self.next_offset = next_offset
        self.end_offset = end_offset
        self.max_messages = max_messages
        self.completion_queue = completion_queue
        self.is_idle = False
        self.pulled: list[PulledRange] = []

    @property
    def is_complete(self) -> bool:
        return self.next_offset >= self.end_offset


Completion: TypeAlias = tuple[PullRequest, PullOutcome]
"""A pull and what became of it."""

CompletionQueue: TypeAlias = deque[Completion]
"""What became of the pulls of one range, in the order in which it came."""
