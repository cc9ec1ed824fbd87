"""PullWindow: many pulls in flight over one range, delivered in order.

Its requests form one sequence in the queue's order. A request keeps its ranges until all ranges before them are
delivered.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final, assert_never

from rocketmq_spark.pull.pull_request import (
    LOST_KINDS,
    NO_BODY,
    READ,
    Completion,
    CompletionQueue,
    PullAction,
    PulledRange,
    PullRequest,
    RangeKind,
)
from rocketmq_spark.remoting.replicas import Server
from rocketmq_spark.wire.remoting.pull import PullResult, PullStatus

FIRST_STRIDE: Final = 32
"""A broker's default maximum of messages per response."""

MAX_MESSAGES: Final = 1024
"""Maximum number of messages that a pull requests."""

SHORT_PENALTY: Final = 8
MAX_SHORTNESS: Final = 32
"""A short response adds SHORT_PENALTY to the shortness, a full one subtracts 1; the stride is lowered at MAX_SHORTNESS.
One large message among some hundred does not lower it: it costs one more pull, while a low stride costs many."""

REFILL_DIVISOR: Final = 4
"""Pulls are sent together when a quarter of the depth is free: each write has a cost, and wakes the broker's
threads."""

MAX_PROBE_INTERVAL: Final = 64
"""Maximum number of full responses between two probes of a larger stride, in units of ``max_depth``. A short response
to a probe delays the delivery of all later ranges, because the rest of the probe is pulled afterwards."""

SIZE_DECAY: Final = 0.08
"""Decay of the expected size with each smaller response that follows a large one: half after eight."""


class PullWindow:
    """Plans the pulls of ``RangePuller`` for ``[begin_offset, end_offset)`` of a queue: up to ``max_depth`` in flight,
    at predicted offsets. It sends nothing. A request is in flight, idle (to be sent) or complete. Not thread-safe.

    The prediction (``stride``) is the number of offsets that one response covers. The first pull measures it. Frequent
    short responses lower it, and the rest of a short one is pulled again. A run of full responses triggers a probe that
    may raise it. Ranges are delivered in the queue's order, independent of the order of responses.

    At most ``max_depth`` pulls are in flight or wait for delivery. The waiting bytes plus the expected bytes of pulls
    in flight are at most ``max_bytes``. The next range to deliver may exceed both limits. The expected size is the
    largest of the last responses, and decays slowly: large ones come in runs.
    """

    def __init__(
        self, begin_offset: int, end_offset: int, *, max_depth: int, max_bytes: int, completion_queue: CompletionQueue
    ) -> None:
        """``completion_queue``: the caller's, for the completions of all requests."""
        self._completion_queue = completion_queue
        self._end_offset = end_offset
        self._opened_to = begin_offset
        self._delivered_to = begin_offset
        self._requests: deque[PullRequest] = deque()
        self._incomplete = 0
        self._buffered = 0
        self._has_idle = False
        self._loss: PulledRange | None = None
        self._has_lost = False
        self._max_depth = max_depth
        self._max_bytes = max_bytes
        self._buffered_bytes = 0
        self._expected_bytes: float = 1
        self._depth = 1
        self._stride: int | None = None
        """Number of offsets that a response is expected to cover; None before the first response."""
        self._full_responses = 0
        self._probe_interval = max_depth
        self._shortness = 0
        self._longest_short_response = 0

    @property
    def is_finished(self) -> bool:
        """Whether the whole range is delivered."""
        return self._delivered_to >= self._end_offset

    @property
    def depth(self) -> int:
        """Current maximum number of pulls in flight and responses that wait for delivery."""
        return max(1, min(self._depth, self._affordable(self._max_bytes)))

    # ------------------------------------------------------------------------------------------ requests

    def take_requests(self, sent_to: Server | None = None) -> list[PullRequest]:
        """Mark as in flight and return the requests to send to ``sent_to`` now, in the queue's order: idle ones,
        then, once a quarter of the depth is free, new ones. The depth limits them, but not the next to deliver."""
        requests = self._start_idle(sent_to) if self._has_idle else []
        spare = self._spare_depth(self._incomplete)
        if self._incomplete and spare * REFILL_DIVISOR < self.depth:
            return requests
        spare = max(spare, self._incomplete == 0)
        while spare > 0 and self._opened_to < self._end_offset:
            requests.append(self._open(self._opened_to + self._width(), sent_to))
            spare -= 1
        return requests

    def _start_idle(self, sent_to: Server | None) -> list[PullRequest]:
        """Mark as in flight and return the idle requests to send now, in the queue's order. The depth limits their
        number, but not the first incomplete request."""
        incomplete = [request for request in self._requests if not request.is_complete]
        idle = [request for request in incomplete if request.is_idle]
        spare = max(0, self._spare_depth(len(incomplete) - len(idle)))
        if spare == 0 and idle[:1] == incomplete[:1]:
            spare = 1
        for request in idle[:spare]:
            request.is_idle, request.sent_to = False, sent_to
            request.max_messages = self._message_limit(request.next_offset, request.end_offset)
        self._has_idle = len(idle) > spare
        return idle[:spare]

    def _spare_depth(self, in_flight: int) -> int:
        """Return how many pulls may be sent beside ``in_flight`` ones, by depth and memory; 0 or negative for none."""
        affordable = self._affordable(self._max_bytes - self._buffered_bytes)
        return min(self._depth - self._buffered, affordable) - in_flight

    def _affordable(self, available_bytes: int) -> int:
        """Return how many responses of the expected size fit into ``available_bytes``."""
        return int(available_bytes // self._expected_bytes)

    def _open(self, to: int, sent_to: Server | None = None) -> PullRequest:
        """Add and return a request in flight, from the last one's end to ``to``, at most to the range's end."""
        begin_offset, end_offset = self._opened_to, min(to, self._end_offset)
        max_messages = self._message_limit(begin_offset, end_offset)
        request = PullRequest(begin_offset, end_offset, max_messages, self._completion_queue)
        request.sent_to = sent_to
        self._requests.append(request)
        self._opened_to = end_offset
        self._incomplete += 1
        return request

    def _message_limit(self, begin_offset: int, end_offset: int) -> int:
        """Return the number of messages to request with a pull of ``[begin_offset, end_offset)``: one for each offset,
        up to MAX_MESSAGES. Before the first response, one for each offset up to the range's end."""
        if self._stride is None:
            end_offset = self._end_offset
        return min(end_offset - begin_offset, MAX_MESSAGES)

    def _width(self) -> int:
        """Return the number of offsets of the next new request: the stride, or FIRST_STRIDE before the first response.
        If a probe is due, return twice the stride, at most MAX_MESSAGES, and raise the interval to the next probe."""
        if self._stride is None:
            return FIRST_STRIDE
        if self._full_responses <= self._probe_interval:
            return self._stride
        self._full_responses = 0
        self._probe_interval = min(2 * self._probe_interval, MAX_PROBE_INTERVAL * self._max_depth)
        return min(2 * self._stride, MAX_MESSAGES)

    # ------------------------------------------------------------------------------------------ responses

    def accept_fast_path(self, completions: Iterable[Completion]) -> int:
        """Buffer the ranges of the fast-path responses at the front of ``completions``, and return their number; the
        caller removes them. Such a response is FOUND and covers its whole request, of exactly one stride. Stop at the
        first other completion. Accept none while the depth is reduced."""
        stride = self._stride if self._depth == self._max_depth else None
        accepted = accepted_bytes = largest_bytes = 0
        for request, outcome, _ in completions:
            begin_offset, end_offset = request.next_offset, request.end_offset
            if not (
                type(outcome) is PullResult
                and outcome.status is PullStatus.FOUND
                and outcome.next_begin_offset == end_offset
                and end_offset - begin_offset == stride
            ):
                break
            request.pulled.append(PulledRange(begin_offset, end_offset, outcome.body))
            request.next_offset = end_offset
            body_bytes = len(outcome.body)
            accepted_bytes += body_bytes
            if body_bytes > largest_bytes:
                largest_bytes = body_bytes
            accepted += 1
        if accepted:
            self._incomplete -= accepted
            self._buffered += accepted
            self._buffered_bytes += accepted_bytes
            self._record_full(accepted)
            self._update_expected_bytes(accepted, largest_bytes)
        return accepted

    def step(self, request: PullRequest, result: PullResult, action: PullAction, vacant_to: int | None = None) -> None:
        """Process a response to a pull, as ``action`` (its ``pull_action``) requires, and make the request idle, so
        that its rest is pulled. After WAIT change nothing: the caller must call ``retry`` later, or ``presume_lost``.
        ``vacant_to``: end of the offsets without messages, for VACANT; by default one offset."""
        if action is PullAction.DELIVER:
            self._advance(request, result.next_begin_offset, result.body)
        elif action is PullAction.SKIP:
            self._advance(request, result.next_begin_offset, NO_BODY)
        elif action is PullAction.LOST:
            self._mark_lost(request, result.min_offset, RangeKind.DELETED)
        elif action is PullAction.VACANT:
            self._mark_vacant(request, result.next_begin_offset, vacant_to or request.next_offset + 1)
        elif action is PullAction.WAIT:
            return
        elif action is not PullAction.RETRY:
            assert_never(action)
        self.retry(request)

    def retry(self, request: PullRequest) -> None:
        """Make the request idle, so that ``take_requests`` returns it again unless it is complete."""
        request.is_idle = True
        self._has_idle |= not request.is_complete

    def presume_lost(self, request: PullRequest, result: PullResult) -> bool:
        """Mark offsets that the broker has lacked for too long as lost, from the request's next offset on, and make it
        idle. They end at the response's next offset if this is larger, or at the range's end if the queue ends at or
        before the request's next offset. Return False, without a change, if neither holds."""
        advances = result.next_begin_offset > request.next_offset
        if not advances and result.max_offset > request.next_offset:
            return False
        self._mark_lost(request, result.next_begin_offset if advances else self._end_offset, RangeKind.PRESUMED_LOST)
        self.retry(request)
        return True

    def reduce_depth(self) -> None:
        """Halve the depth, to 1 at least. Call it if a pull failed, or the broker refused it for load."""
        self._depth = max(1, self._depth // 2)

    def _advance(self, request: PullRequest, to: int, body: memoryview) -> None:
        """Append offsets up to ``to`` or the request's end, with ``body``; update the expected size. The first response
        moves the end to ``to``, sets stride and full depth. Later ones raise a reduced depth, may change the stride."""
        covered, requested = to - request.next_offset, request.end_offset - request.next_offset
        if self._stride is None:
            self._extend(request, to)
            self._stride, self._depth = covered, self._max_depth
        else:
            self._depth = min(self._depth + 1, self._max_depth)
            self._adapt_stride(self._stride, requested, covered)
        self._append_range(request, to, body, READ)
        self._update_expected_bytes(1, len(body))

    def _extend(self, first: PullRequest, to: int) -> None:
        """Extend the first request of the range, the only one so far, up to ``to``, at most the range's end."""
        first.end_offset = self._opened_to = max(self._opened_to, min(to, self._end_offset))

    def _mark_vacant(self, request: PullRequest, vacant_from: int, to: int) -> None:
        """Mark ``[request.next_offset, to)`` as vacant (no message) in this request. Offsets beyond all requests go
        into a new one; requests in between are skipped. ``vacant_from``: end of the message before ``to``."""
        self._append_range(request, to, NO_BODY, RangeKind.VACANT, vacant_from)
        if self._opened_to < min(to, self._end_offset):
            self._mark_vacant(self._open(to), vacant_from, to)

    def _mark_lost(self, request: PullRequest, to: int, kind: RangeKind) -> None:
        """Mark ``[request.next_offset, to)`` as lost, with a ``kind`` of LOST_KINDS, in this request. Offsets beyond
        all requests go into a new one; requests in between are skipped."""
        self._has_lost = True
        self._append_range(request, to, NO_BODY, kind)
        if self._opened_to < min(to, self._end_offset):
            self._append_range(self._open(to), to, NO_BODY, kind)

    def _append_range(
        self, request: PullRequest, to: int, body: memoryview, kind: RangeKind, vacant_from: int | None = None
    ) -> None:
        """Append ``[request.next_offset, to)``, up to the request's end, to its ranges; advance it and the window's
        counts. ``response_end_offset``: ``to`` if ``body`` reaches beyond the request."""
        end_offset = min(to, request.end_offset)
        response_end = to if to > end_offset and body else None
        request.pulled.append(PulledRange(request.next_offset, end_offset, body, kind, response_end, vacant_from))
        request.next_offset = end_offset
        self._buffered += 1
        self._buffered_bytes += len(body)
        self._incomplete -= request.is_complete

    def _adapt_stride(self, stride: int, requested: int, covered: int) -> None:
        """Raise the stride to ``covered`` if it is larger. Else record a full response, or a short one, which may lower
        the stride. Ignore a short response to a request of less than a stride, such as the rest of a request."""
        if covered > stride:
            self._change_stride(covered)
        elif covered == stride:
            self._record_full(1)
        elif requested >= stride:
            self._record_short(covered)

    def _record_full(self, count: int) -> None:
        """Count ``count`` full responses: they bring the next probe closer, and lower the shortness, to 0 at least."""
        self._full_responses += count
        self._shortness = max(0, self._shortness - count)

    def _record_short(self, covered: int) -> None:
        """Record a short response; at MAX_SHORTNESS, lower the stride to the longest recent short response."""
        self._longest_short_response = max(covered, self._longest_short_response if self._shortness else 0)
        self._shortness += SHORT_PENALTY
        if self._shortness >= MAX_SHORTNESS:
            self._change_stride(self._longest_short_response)

    def _change_stride(self, stride: int) -> None:
        """Set the stride, and begin to count full responses, shortness and the probe interval again."""
        self._stride, self._full_responses, self._shortness = stride, 0, 0
        self._probe_interval = self._max_depth

    def _update_expected_bytes(self, count: int, largest_bytes: int) -> None:
        """Update the expected size from ``count`` responses, the largest of ``largest_bytes``."""
        self._expected_bytes = max(1, largest_bytes, self._expected_bytes * (1 - SIZE_DECAY) ** count)

    # ------------------------------------------------------------------------------------------ delivery

    def deliver(self) -> list[PulledRange]:
        """Remove and return the received ranges that follow those delivered before, in order; [] if the next one is
        missing. Adjacent losses are one range, held back until another range follows or the whole range is read."""
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
        self._buffered -= len(ready)
        self._buffered_bytes -= sum(len(pulled.body) for pulled in ready)
        self._delivered_to = ready[-1].end_offset
        return self._with_merged_losses(ready) if self._has_lost else ready

    def _with_merged_losses(self, ready: list[PulledRange]) -> list[PulledRange]:
        """Return ``ready`` with adjacent losses merged, also with the loss held back before. Hold back a loss at its
        end, until a range follows or all is read."""
        merged: list[PulledRange] = []
        self._buffered -= self._loss is not None
        for pulled in ready:
            if pulled.kind in LOST_KINDS:
                self._loss = pulled if self._loss is None else _joined(self._loss, pulled)
                continue
            if self._loss is not None:
                merged.append(self._loss)
                self._loss = None
            merged.append(pulled)
        self._buffered += self._loss is not None
        if self._loss is not None and self.is_finished:
            merged.append(self._loss)
        return merged


def _joined(first: PulledRange, second: PulledRange) -> PulledRange:
    """Return two adjacent losses as one; it is presumed lost if one of them is."""
    kind = second.kind if first.kind is RangeKind.DELETED else first.kind
    return PulledRange(first.begin_offset, second.end_offset, NO_BODY, kind)
