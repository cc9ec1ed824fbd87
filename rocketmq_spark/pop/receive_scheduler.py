"""Scheduling of polls: how many are in flight, which topic and broker gets the next, and which have no more messages.

While the prefetch limit allows, each target has one poll in flight, and up to 4 after a poll that returned messages.
Beyond the limit only a failing target has a poll, for one message. After a response that a proxy failed to convert, a
target is isolated for a while: each poll is for one message. Not thread-safe.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from rocketmq_spark.errors import RocketMQError
from rocketmq_spark.remoting.error_kinds import is_conversion_failure
from rocketmq_spark.remoting.outage_log import LogLine

MAX_MESSAGES_PER_REQUEST: Final = 32
"""Maximum of messages in a response. Source: ``broker/processor/PopMessageProcessor.java#processRequest``."""

MAX_CONCURRENT_REQUESTS: Final = 4
"""Maximum number of polls in flight to one target that has messages."""

LONG_POLL_MS: Final = 15_000
"""How long a broker holds a poll without messages. It first wakes the poll with the least time left: with a shorter
time than other clients, such as Java's, this one would get all messages.

Source: ``broker/longpolling/PopRequest.java#COMPARATOR``.
"""

SHORT_POLL_MS: Final = 1_000
"""The same for a first poll, and with ``availableNow``. Not shorter: by its own clock, a broker rejects a poll that was
in flight for 500 ms more than this."""


REDELIVERY_WITHIN_MS: Final = 8_000
"""Time within which brokers redeliver released or expired messages; they check for these periodically."""


class Target(NamedTuple):
    """A topic and a broker to poll for its messages."""

    topic: str
    broker_name: str


class ReceiveRequest(NamedTuple):
    """A poll to send now."""

    target: Target
    max_messages: int
    poll_ms: int


@dataclass(slots=True)
class _TargetState:
    has_responded: bool = False
    has_messages: bool = False
    is_empty: bool = False


@dataclass(slots=True)
class _Isolation:
    """The time in which a target is polled for single messages. It covers the redelivery of the failed response."""

    begin_ms: int
    until_ms: int


class ReceiveScheduler:
    """See the module. A target is empty if its last poll returned no message. Messages that an incomplete response
    lacks are hidden until brokers redeliver them.

    ``is_available_now``: the query ends when each target is empty. Short polls detect this soon. An empty target gets
    no poll, since it would return messages stored after the query's end, unless only a poll may end a failure.
    ``invisible_ms``: the longest invisible duration that a poll requests."""

    def __init__(self, is_available_now: bool, invisible_ms: int) -> None:
        self._is_available_now = is_available_now
        self._hidden_ms = invisible_ms + REDELIVERY_WITHIN_MS
        self._states: dict[Target, _TargetState] = {}
        self._incomplete_topics: frozenset[str] = frozenset()
        """Topics that may have more targets: see ``set_targets``."""
        self._pending: Counter[Target] = Counter()
        """Polls in flight, also to a target that is in no route now."""
        self._isolations: dict[Target, _Isolation] = {}
        """By target, also while a target is in no route."""
        self._hidden_until_ms: dict[Target, int] = {}
        """Until when messages that an incomplete response lacks may be redelivered, also while a target is in no
        route."""
        self._lines: list[LogLine] = []
        self._have_all_responded = False
        self._redelivery_until_ms: int | None = None
        """Until when messages that were released or expired may be redelivered; None: none is expected."""

    @property
    def have_all_responded(self) -> bool:
        """Return whether at some moment each target had responded to a poll, and targets were complete
        (``set_targets``): messages stored later are not skipped. Once True, it stays True."""
        return self._have_all_responded

    @property
    def are_all_empty(self) -> bool:
        """Return whether each target's last poll was empty, and no redelivery is expected. The targets must be complete
        (``set_targets``), and no poll in flight to a removed one."""
        is_redelivery_expected = self._redelivery_until_ms is not None or bool(self._hidden_until_ms)
        are_all = self._are_targets_complete and all(state.is_empty for state in self._states.values())
        return are_all and not is_redelivery_expected and (+self._pending).keys() <= self._states.keys()

    @property
    def pending_requests(self) -> int:
        """Return the number of polls in flight."""
        return self._pending.total()

    def set_targets(self, targets: Collection[Target], failing_topics: Collection[str] = ()) -> None:
        """Replace the targets. Known ones keep their state; new ones begin as not polled and not empty. Polls in flight
        to a target that was removed before still count. ``failing_topics``: topics without a current route, which may
        have more targets. Such a topic makes the targets incomplete until a call without it. If all its targets were
        there before, and none was removed, it does not."""
        removed = {target.topic for target in self._states.keys() - set(targets)}
        complete = {target.topic for target in self._states} - removed - self._incomplete_topics
        self._incomplete_topics = frozenset(failing_topics) - complete
        self._states = {target: self._states.get(target, _TargetState()) for target in targets}

    @property
    def _are_targets_complete(self) -> bool:
        """Return whether there are targets, and no topic may have more: see ``set_targets``."""
        return bool(self._states) and not self._incomplete_topics

    def schedule(
        self, capacity: int, allowed: Collection[Target], awaits_poll: Callable[[Target], bool] = lambda _: False
    ) -> Iterator[ReceiveRequest]:
        """Yield the polls to send now. Consume all: each counts as in flight, its target as not empty. A target in
        ``allowed`` then has 1 in flight, or 4 if its last response had messages. Each poll is for ``capacity``
        messages, at most 32 (isolated target: 1). Brokers hold it for LONG_POLL_MS. Before the target's first response,
        and with ``is_available_now``, they hold it for SHORT_POLL_MS.

        If ``capacity`` is 0 or less, or for an empty target with ``is_available_now``, only ``awaits_poll`` allows a
        poll, for 1 message, if none is in flight. Raises KeyError for a target that ``set_targets`` did not get.
        """
        for target in allowed:
            state = self._states[target]
            may_receive = capacity > 0 and not (self._is_available_now and state.is_empty)
            if not (may_receive or awaits_poll(target)):
                continue
            state.is_empty = False
            max_messages = min(capacity, self._max_messages(target)) if may_receive else 1
            has_several = state.has_messages and may_receive
            for _ in range(self._pending[target], MAX_CONCURRENT_REQUESTS if has_several else 1):
                is_long_poll = state.has_responded and not self._is_available_now
                self._pending[target] += 1
                yield ReceiveRequest(target, max_messages, LONG_POLL_MS if is_long_poll else SHORT_POLL_MS)

    def _max_messages(self, target: Target) -> int:
        """Return the maximum number of messages of a poll: 1 while the target is isolated, else 32."""
        return 1 if target in self._isolations else MAX_MESSAGES_PER_REQUEST

    def expect_redelivery(self, now_ms: int) -> None:
        """Expect that brokers redeliver released or expired messages, until the first ``recheck_empty_targets`` at 8 s
        after ``now_ms`` or later; meanwhile ``are_all_empty`` is False."""
        self._redelivery_until_ms = now_ms + REDELIVERY_WITHIN_MS

    def recheck_empty_targets(self, now_ms: int) -> None:
        """Mark all targets as not empty while redelivery is expected, else those with hidden messages, so that they are
        polled again. End what is over at ``now_ms``: that expectation, hidden messages and isolations."""
        is_expected = self._redelivery_until_ms is not None
        for target in self._states if is_expected else self._hidden_until_ms.keys() & self._states.keys():
            self._states[target].is_empty = False
        self._hidden_until_ms = {one: until_ms for one, until_ms in self._hidden_until_ms.items() if now_ms < until_ms}
        if self._redelivery_until_ms is not None and now_ms >= self._redelivery_until_ms:
            self._redelivery_until_ms = None
        self._end_isolations(now_ms)

    # ------------------------------------------------------------------------------------------ incomplete responses

    def record_incomplete(
        self, request: ReceiveRequest, received_count: int, failure: RocketMQError, now_ms: int
    ) -> None:
        """Record that the response to ``request`` ended early. If fewer messages than requested arrived, some may be
        hidden. Until they are redelivered, after the invisible duration and REDELIVERY_WITHIN_MS, the target is not
        empty. A request for one message hides none.

        If a proxy failed to convert a message, isolate the target for the same time: else this message fails the
        response for its neighbours again. A later such failure extends the time."""
        until_ms = now_ms + self._hidden_ms
        if request.max_messages > max(1, received_count):
            self._hidden_until_ms[request.target] = until_ms
        if is_conversion_failure(failure):
            self._isolate(request.target, failure, now_ms, until_ms)

    def _isolate(self, target: Target, failure: RocketMQError, now_ms: int, until_ms: int) -> None:
        """Begin the isolation of a target, adding a line for ``take_lines``, or extend it to ``until_ms``."""
        if target not in self._isolations:
            self._isolations[target] = _Isolation(now_ms, until_ms)
            self._lines.append(_begin_line(target, failure))
        self._isolations[target].until_ms = until_ms

    def take_lines(self) -> list[LogLine]:
        """Return the lines about isolations that began (a warning) or ended (its recovery) since the last call."""
        lines, self._lines = self._lines, []
        return lines

    def _end_isolations(self, now_ms: int) -> None:
        """End the isolations that are over at ``now_ms``, each with a line for ``take_lines``."""
        for target, isolation in list(self._isolations.items()):
            if now_ms >= isolation.until_ms:
                del self._isolations[target]
                self._lines.append(_end_line(target, now_ms - isolation.begin_ms))

    # ------------------------------------------------------------------------------------------ responses

    def mark_responded(self, target: Target, *, has_messages: bool) -> None:
        """Record that a poll in flight got a response. The target is empty if it had no messages and no other poll to
        the target is in flight. A target that ``set_targets`` removed is ignored."""
        state = self._finish_request(target)
        state.has_responded = True
        have_all = self._are_targets_complete and all(each.has_responded for each in self._states.values())
        self._have_all_responded = self._have_all_responded or have_all
        state.has_messages = has_messages
        state.is_empty = not has_messages and not self._pending[target]

    def mark_failed(self, target: Target) -> None:
        """Record that a poll in flight failed: the target then counts neither as empty nor as one with messages.
        Whether it has responded before stays."""
        state = self._finish_request(target)
        state.has_messages = state.is_empty = False

    def _finish_request(self, target: Target) -> _TargetState:
        """Count one poll to the target less as in flight, and return its state; for a removed target a new one, not
        stored."""
        self._pending[target] -= 1
        return self._states.get(target, _TargetState())


def _begin_line(target: Target, failure: RocketMQError) -> LogLine:
    """Return the line about the begin of an isolation, with the proxy's error."""
    text = (
        f"A proxy cannot convert a message of topic={target.topic} broker={target.broker_name}, and fails each "
        "response with it. The query polls for single messages until that ends: it reads all other messages. The "
        "message itself is not read; after 'retryMaxTimes' it is in the dead-letter topic. Find its producer: it set "
        "the property POP_CK, TIMER_DELIVER_MS or TIMER_DELAY_SEC, or an impossible bornTimestamp. To read such "
        f"messages, set 'namesrvAddr' instead of 'endpoints'. {failure.summary}"
    )
    return LogLine(logging.WARNING, key="UNCONVERTIBLE_MESSAGE", text=text)


def _end_line(target: Target, lasted_ms: int) -> LogLine:
    """Return the line about the end of an isolation."""
    text = f"Recovered after {lasted_ms // 1000} s: topic={target.topic} broker={target.broker_name}"
    return LogLine(logging.INFO, key="UNCONVERTIBLE_MESSAGE", text=text)


class PrefetchLimit:
    """The maximum number of messages that a receiver holds in no batch yet; lowered when some expire.

    Not thread-safe.
    """

    def __init__(self, max_messages: int) -> None:
        self._upper_bound = max_messages
        self.max_messages = max_messages

    def shrink(self, remaining: int) -> None:
        """Lower the limit to ``remaining``, but at least 32; never raise it. ``remaining``: number of prefetched
        messages after some expired."""
        self.max_messages = min(self.max_messages, max(MAX_MESSAGES_PER_REQUEST, remaining))

    def grow(self) -> None:
        """Raise the limit by 32, up to the initial limit. Call it when a batch starts."""
        self.max_messages = min(self._upper_bound, self.max_messages + MAX_MESSAGES_PER_REQUEST)
