"""PullWindow: many pulls in flight over one range, delivered in order.

It is one line of requests, in the queue's order; what has come lies in its request until all before it is delivered.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from rocketmq_spark.pull.pull_request import NO_BODY, Answers, PullAction, PulledRange, PullRequest, pull_action
from rocketmq_spark.wire.remoting.pull import PullResult, PullStatus

FIRST_STRIDE: Final = 32
"""What a broker answers with unless it is configured for more."""

MOST_MESSAGES: Final = 1024
"""Asked for at most."""


class PullWindow:
    """Reads ``[begin_offset, end_offset)`` of a queue with up to ``max_depth`` pulls in flight, at predicted offsets.

    The prediction (``stride``) is how many offsets one answer covers. The first pull finds it out; a short answer
    lowers it and what is missing is pulled again; a run of full answers is followed by a probe that may raise it. What
    comes is delivered as it lies in the queue, whatever order the answers take.

    An ordinary answer covers the stride, which is all of its request, and is no larger than those before. A run of
    them (``take_ordinary``) changes nothing but what there is to deliver; any other is a ``step``.

    Memory: answers that wait for delivery and pulls in flight are ``max_depth`` together, or as many as ``max_bytes``
    holds of the largest answer so far; and one more: what is needed next for delivery is pulled in any case.
    """

    def __init__(self, begin_offset: int, end_offset: int, *, max_depth: int, max_bytes: int) -> None:
        self.answers: Answers = deque()
        """Of the requests; put here by whoever receives them, and taken by whoever has the window."""
        self._end_offset = end_offset
        self._opened_to = begin_offset
        self._delivered_to = begin_offset
        self._requests: deque[PullRequest] = deque()
        self._incomplete = 0
        self._waiting = 0
        self._has_idle = False
        self._loss: PulledRange | None = None
        self._has_lost = False
        self._max_depth = max_depth
        self._max_bytes = max_bytes
        self._largest_bytes = 1
        self._deepest = max_depth
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

    def to_pull(self) -> list[PullRequest]:
        """Requests to send now, in the queue's order, as far as the depth allows. Each is in flight from then on."""
        requests = self._idle_ones() if self._has_idle else []
        room = max(self._depth - self._incomplete - self._waiting, self._incomplete == 0)
        while room > 0 and self._opened_to < self._end_offset:
            requests.append(self._open(self._opened_to + self._width()))
            room -= 1
        return requests

    def _idle_ones(self) -> list[PullRequest]:
        """The first in any case, others as far as the depth allows."""
        incomplete = [request for request in self._requests if not request.is_complete]
        idle = [request for request in incomplete if request.is_idle]
        room = max(0, self._depth - self._waiting - (len(incomplete) - len(idle)))
        if room == 0 and idle[:1] == incomplete[:1]:
            room = 1
        for request in idle[:room]:
            request.is_idle = False
            request.max_messages = self._most_messages(request.next_offset, request.end_offset)
        self._has_idle = len(idle) > room
        return idle[:room]

    def _open(self, to: int) -> PullRequest:
        begin_offset, end_offset = self._opened_to, min(to, self._end_offset)
        request = PullRequest(begin_offset, end_offset, self._most_messages(begin_offset, end_offset), self.answers)
        self._requests.append(request)
        self._opened_to = end_offset
        self._incomplete += 1
        return request

    def _most_messages(self, begin_offset: int, end_offset: int) -> int:
        """No more than there are offsets: the next request gets the others. The first pull has none behind it."""
        if self._stride is None:
            end_offset = self._end_offset
        return min(end_offset - begin_offset, MOST_MESSAGES)

    def _width(self) -> int:
        if self._stride is None:
            return FIRST_STRIDE
        if self._full_answers <= self._max_depth:
            return self._stride
        self._full_answers = 0
        return min(2 * self._stride, MOST_MESSAGES)

    # ------------------------------------------------------------------------------------------ what came

    def take_ordinary(self) -> int:
        """Take the answers in front that are ordinary; how many."""
        answers, stride, largest_bytes = self.answers, self._stride, self._largest_bytes
        taken = 0
        while answers and self._depth == self._deepest:
            request, answer = answers[0]
            begin_offset, end_offset = request.next_offset, request.end_offset
            if not (
                type(answer) is PullResult
                and answer.status is PullStatus.FOUND
                and answer.next_begin_offset == end_offset
                and end_offset - begin_offset == stride
                and len(answer.body) <= largest_bytes
            ):
                break
            answers.popleft()
            request.pulled.append(PulledRange(begin_offset, end_offset, answer.body))
            request.next_offset = end_offset
            taken += 1
        self._incomplete -= taken
        self._waiting += taken
        self._full_answers += taken
        return taken

    def step(self, request: PullRequest, result: PullResult) -> PullAction:
        """Take any answer to a pull. After WAIT it is the caller's turn: ``retry`` later, or ``give_up``."""
        action = pull_action(result, request.next_offset)
        if action is PullAction.DELIVER:
            self._advance(request, result.next_begin_offset, result.body)
        elif action is PullAction.SKIP:
            self._advance(request, result.next_begin_offset, NO_BODY)
        elif action is PullAction.LOST:
            self._lose(request, result.min_offset)
        if action is not PullAction.WAIT:
            self.retry(request)
        return action

    def retry(self, request: PullRequest) -> None:
        """It may be pulled again: it has waited, its pull has failed, or an answer has left something."""
        request.is_idle = True
        self._has_idle |= not request.is_complete

    def give_up(self, request: PullRequest, result: PullResult) -> bool:
        """The broker has not had the next offset for too long: lost, up to where the answer goes on, or to the end if
        the queue does not reach so far. False: the answer says neither, and nothing changes."""
        goes_on = result.next_begin_offset > request.next_offset
        if not goes_on and result.max_offset > request.next_offset:
            return False
        self._lose(request, result.next_begin_offset if goes_on else self._end_offset)
        self.retry(request)
        return True

    def busy(self) -> None:
        """A pull failed, or was refused for load: fewer at once."""
        self._depth = max(1, self._depth // 2)

    def _advance(self, request: PullRequest, to: int, body: memoryview) -> None:
        if self._stride is None:
            self._extend(request, to)
        covered = to - request.next_offset
        self._done(request, to, body)
        self._learn(covered, len(body), is_full=request.is_complete)

    def _extend(self, first: PullRequest, to: int) -> None:
        """Let the first request, behind which nothing is open yet, go on up to ``to``."""
        first.end_offset = self._opened_to = max(self._opened_to, min(to, self._end_offset))

    def _lose(self, request: PullRequest, to: int) -> None:
        """Nothing will come up to ``to``: not of this request, and not of what nobody has been asked for yet."""
        self._has_lost = True
        self._done(request, to, NO_BODY, is_lost=True)
        if self._opened_to < min(to, self._end_offset):
            self._done(self._open(to), to, NO_BODY, is_lost=True)

    def _done(self, request: PullRequest, to: int, body: memoryview, *, is_lost: bool = False) -> None:
        """The request has come as far as ``to``, or to its end."""
        end_offset = min(to, request.end_offset)
        request.pulled.append(PulledRange(request.next_offset, end_offset, body, is_lost))
        request.next_offset = end_offset
        self._waiting += 1
        self._incomplete -= request.is_complete

    def _learn(self, covered: int, body_bytes: int, *, is_full: bool) -> None:
        """Adapt the stride to what an answer covered, and let the depth grow."""
        self._largest_bytes = max(self._largest_bytes, body_bytes)
        self._deepest = max(1, min(self._max_depth, self._max_bytes // self._largest_bytes))
        if self._stride is None:
            self._stride, self._depth = covered, self._deepest
            return
        self._depth = min(self._depth + 1, self._deepest)
        if is_full and covered <= self._stride:
            self._full_answers += covered == self._stride
        else:
            self._stride = covered
            self._full_answers = 0

    # ------------------------------------------------------------------------------------------ what is ready

    def deliver(self) -> list[PulledRange]:
        """What has come, as it lies in the queue. A loss is told as a whole, once it is known where it ends."""
        ready: list[PulledRange] = []
        requests = self._requests
        while requests:
            first = requests[0]
            ready += first.pulled
            if first.next_offset < first.end_offset:
                first.pulled.clear()
                break
            requests.popleft()
        if not ready:
            return ready
        self._waiting -= len(ready)
        self._delivered_to = ready[-1].end_offset
        return self._with_whole_losses(ready) if self._has_lost else ready

    def _with_whole_losses(self, ready: list[PulledRange]) -> list[PulledRange]:
        """Lost ranges that touch become one, which is kept back until something else follows, or the range ends."""
        whole: list[PulledRange] = []
        self._waiting -= self._loss is not None
        for pulled in ready:
            if pulled.is_lost:
                begin_offset = pulled.begin_offset if self._loss is None else self._loss.begin_offset
                self._loss = pulled._replace(begin_offset=begin_offset)
                continue
            if self._loss is not None:
                whole.append(self._loss)
                self._loss = None
            whole.append(pulled)
        self._waiting += self._loss is not None
        if self._loss is not None and self.is_finished:
            whole.append(self._loss)
        return whole
