"""PullRequest: where one pull goes next. PullWindow: many of them in flight over one range, delivered in order.

It is ``nextBeginOffset``, never the last message's offset, that says how far an answer went: filters and retention
leave gaps, and a broker's size limits cut it short. A request goes round until its end is reached.

Source: ``client/impl/consumer/PullRequest.java`` and the pull callback of ``DefaultMQPushConsumerImpl``. Differs: an
illegal offset does not drop the queue, because the range is logged and must be read as it is; it says what became
of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from types import MappingProxyType
from typing import Final

from rocketmq_spark.pull.sliding_window import SlidingWindow
from rocketmq_spark.wire.remoting.pull import OFFSET_RESET, PullResult, PullStatus


class PullAction(Enum):
    """What an answer means for the offsets from the one that was asked for on."""

    DELIVER = "its messages are all that there is below the next offset"
    SKIP = "nothing below the next offset matches"
    AGAIN = "the same offset once more, at once"
    WAIT = "the broker does not have it now; the same offset later"
    LOST = "everything below the broker's min offset is deleted"


BY_REASON: Final[Mapping[tuple[PullStatus, str], PullAction]] = MappingProxyType(
    {
        # An operator's reset is told to one pull of the group, whatever offset that pull asked for.
        (PullStatus.OFFSET_ILLEGAL, OFFSET_RESET): PullAction.AGAIN,
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


def pull_action(result: PullResult, offset: int) -> PullAction:
    """The table: what ``result`` means for a pull at ``offset``.

    What claims to go on and names no later offset has read nothing (a store that failed, a slave), so it must wait.
    Whatever must wait is lost once the broker's min offset has passed it.
    """
    action = BY_REASON.get((result.status, result.reason), BY_STATUS[result.status])
    if action in (PullAction.DELIVER, PullAction.SKIP) and result.next_begin_offset <= offset:
        action = PullAction.WAIT
    if action is PullAction.WAIT and result.min_offset > offset:
        return PullAction.LOST
    return action


NO_BODY: Final = memoryview(b"")


@dataclass(frozen=True, slots=True)
class PulledRange:
    """What became of the offsets ``[begin_offset, end_offset)``.

    ``body``: the messages among them that match, as the broker encoded them. It may hold messages on either side of the
    range too (a filtered answer, an inner batch); they belong to other ranges. ``is_lost``: the broker does not have
    these offsets any more.
    """

    begin_offset: int
    end_offset: int
    body: memoryview = NO_BODY
    is_lost: bool = False

    def __len__(self) -> int:
        return self.end_offset - self.begin_offset


@dataclass(slots=True, eq=False)
class PullRequest:
    """Offsets ``[next_offset, end_offset)`` that are to be pulled, one answer after another. PullWindow changes it."""

    next_offset: int
    end_offset: int
    max_messages: int = 0
    is_idle: bool = True

    @property
    def is_complete(self) -> bool:
        return self.next_offset >= self.end_offset


FIRST_STRIDE: Final = 32
"""What a broker answers with unless it is configured for more."""

MOST_MESSAGES: Final = 1024
"""Asked for at most."""


class PullWindow:
    """Reads ``[begin_offset, end_offset)`` of a queue with up to ``max_depth`` pulls in flight, at predicted offsets.

    The prediction (``stride``) is how many offsets one answer covers. The first pull finds it out; a short answer
    lowers it and what is missing is pulled again; a run of full answers is followed by a probe that may raise it. The
    window orders what comes: it is delivered as it lies in the queue, whatever order the answers take.

    Memory: answers that wait for delivery and pulls in flight are ``max_depth`` together, or as many as ``max_bytes``
    holds of the largest answer so far; and one more: what is needed next for delivery is pulled in any case.
    """

    def __init__(self, begin_offset: int, end_offset: int, *, max_depth: int, max_bytes: int) -> None:
        self.sliding_window = SlidingWindow()
        self._end_offset = end_offset
        self._opened_to = begin_offset
        self._delivered_to = begin_offset
        self._requests: list[PullRequest] = []
        self._pulled: dict[int, PulledRange] = {}
        self._max_depth = max_depth
        self._max_bytes = max_bytes
        self._largest_bytes = 1
        self._depth = 1
        self._stride: int | None = None
        self._full_answers = 0

    @property
    def is_finished(self) -> bool:
        """The whole range has been delivered."""
        return self._delivered_to >= self._end_offset

    @property
    def depth(self) -> int:
        """How many pulls may now be in flight, or have been answered and wait for delivery."""
        return self._depth

    @property
    def stride(self) -> int | None:
        """How many offsets one answer is expected to cover; None before the first answer."""
        return self._stride

    # ------------------------------------------------------------------------------------------ what to pull

    def to_pull(self) -> Iterator[PullRequest]:
        """Requests to send now, in the queue's order, as far as the depth allows. Each is in flight from then on."""
        for position, request in enumerate(self._requests):
            if request.is_idle and (position == 0 or self._in_flight + len(self._pulled) < self._depth):
                yield self._sent(request)
        while self._may_open():
            yield self._sent(self._open(self._opened_to + self._width()))

    @property
    def _in_flight(self) -> int:
        return sum(not request.is_idle for request in self._requests)

    def _may_open(self) -> bool:
        has_room = not self._requests or len(self._requests) + len(self._pulled) < self._depth
        return has_room and self._opened_to < self._end_offset

    def _open(self, to: int) -> PullRequest:
        request = PullRequest(self._opened_to, self._opened_to)
        self._requests.append(request)
        self._extend(request, to)
        return request

    def _width(self) -> int:
        if self._stride is None:
            return FIRST_STRIDE
        if self._full_answers <= self._max_depth:
            return self._stride
        self._full_answers = 0
        return min(2 * self._stride, MOST_MESSAGES)

    def _extend(self, last: PullRequest, to: int) -> None:
        """Let the last request go on up to ``to``, but not beyond the range."""
        end_offset = min(to, self._end_offset)
        if end_offset > self._opened_to:
            self.sliding_window.put(self._opened_to, end_offset)
            self._opened_to = last.end_offset = end_offset

    def _sent(self, request: PullRequest) -> PullRequest:
        """Ask for no more messages than there are offsets: the next request gets the others. The first has none."""
        end_offset = self._end_offset if self._stride is None else request.end_offset
        request.max_messages = min(end_offset - request.next_offset, MOST_MESSAGES)
        request.is_idle = False
        return request

    # ------------------------------------------------------------------------------------------ what came

    def step(self, request: PullRequest, result: PullResult) -> PullAction:
        """Take the answer to a pull. After WAIT it is the caller's turn: ``retry`` later, or ``give_up``."""
        action = pull_action(result, request.next_offset)
        if action is PullAction.DELIVER:
            self._advance(request, result.next_begin_offset, result.body)
        elif action is PullAction.SKIP:
            self._advance(request, result.next_begin_offset, NO_BODY)
        elif action is PullAction.LOST:
            self._lose(request, result.min_offset)
        request.is_idle = action is not PullAction.WAIT
        return action

    def retry(self, request: PullRequest) -> None:
        """The request has waited, or its pull has failed: it may be pulled again."""
        request.is_idle = True

    def give_up(self, request: PullRequest, result: PullResult) -> bool:
        """The broker has not had the next offset for too long: lost, up to where the answer goes on, or to the end if
        the queue does not reach so far. False: the answer says neither, and nothing changes."""
        goes_on = result.next_begin_offset > request.next_offset
        if not goes_on and result.max_offset > request.next_offset:
            return False
        self._lose(request, result.next_begin_offset if goes_on else self._end_offset)
        request.is_idle = True
        return True

    def busy(self) -> None:
        """A pull failed, or was refused for load: fewer at once."""
        self._depth = max(1, self._depth // 2)

    def _advance(self, request: PullRequest, to: int, body: memoryview) -> None:
        if self._stride is None:
            self._extend(request, to)
        covered = to - request.next_offset
        self._largest_bytes = max(self._largest_bytes, len(body))
        self._done(request, PulledRange(request.next_offset, min(to, request.end_offset), body))
        self._learn(covered, is_full=request.is_complete)

    def _lose(self, request: PullRequest, to: int) -> None:
        """Nothing will come up to ``to``: not of this request, and not of what nobody has been asked for yet."""
        self._done(request, PulledRange(request.next_offset, min(to, request.end_offset), is_lost=True))
        if self._opened_to < min(to, self._end_offset):
            unasked = self._open(to)
            self._done(unasked, PulledRange(unasked.next_offset, unasked.end_offset, is_lost=True))

    def _done(self, request: PullRequest, pulled: PulledRange) -> None:
        self._pulled[pulled.begin_offset] = pulled
        self.sliding_window.remove(pulled.begin_offset, pulled.end_offset)
        request.next_offset = pulled.end_offset
        if request.is_complete:
            self._requests.remove(request)

    def _learn(self, covered: int, *, is_full: bool) -> None:
        """Adapt the stride to what an answer covered, and let the depth grow."""
        deepest = max(1, min(self._max_depth, self._max_bytes // self._largest_bytes))
        if self._stride is None:
            self._stride, self._depth = covered, deepest
            return
        self._depth = min(self._depth + 1, deepest)
        if is_full and covered <= self._stride:
            self._full_answers += covered == self._stride
        else:
            self._stride = covered
            self._full_answers = 0

    # ------------------------------------------------------------------------------------------ what is ready

    def deliver(self) -> Iterator[PulledRange]:
        """What has come, as it lies in the queue. A loss is told as a whole, once it is known where it ends."""
        ready_to = self.sliding_window.committable
        while ready_to is not None and self._delivered_to < ready_to:
            pulled = self._next_pulled()
            if pulled.is_lost and pulled.end_offset == ready_to < self._end_offset:
                return
            del self._pulled[pulled.begin_offset]
            self._delivered_to = pulled.end_offset
            yield pulled

    def _next_pulled(self) -> PulledRange:
        """The range to deliver next; lost ones that touch become one."""
        pulled = self._pulled[self._delivered_to]
        while pulled.is_lost:
            following = self._pulled.get(pulled.end_offset)
            if following is None or not following.is_lost:
                break
            del self._pulled[following.begin_offset]
            pulled = replace(pulled, end_offset=following.end_offset)
            self._pulled[pulled.begin_offset] = pulled
        return pulled
