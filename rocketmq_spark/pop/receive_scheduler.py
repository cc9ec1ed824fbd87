"""Scheduling of polls: how many are in flight, which topic and broker gets the next, and which have no more messages.

While the prefetch limit allows, each target has one poll in flight, and up to 4 after a poll that returned messages.
Beyond the limit only a failing target has a poll, for one message. After a response that a proxy failed to convert, a
target is isolated for a while: each poll is for one message. Not thread-safe.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Final, NamedTuple

from rocketmq_spark.errors import RocketMQError
from rocketmq_spark.remoting.error_kinds import is_conversion_failure
from rocketmq_spark.remoting.outage_log import LogLine
from rocketmq_spark.state_table import transition_of

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


class TargetState(Enum):
    """State of a target."""

    NOT_ROUTED = "in no route"
    NEW = "without a response"
    UNKNOWN = "may have messages"
    HAS_MESSAGES = "its last response had messages"
    EMPTY = "its last response had no messages, and no poll is in flight"


class TargetEvent(Enum):
    """Event that changes the state of a target."""

    LISTED = "a route has it"
    REMOVED = "no route has it"
    MESSAGES = "a poll returned messages"
    NO_MESSAGES = "a poll returned none, and others are in flight"
    LAST_POLL_EMPTY = "a poll returned none, and no other is in flight"
    FAILED = "a poll failed"
    RECHECKED = "it gets a poll, or redelivery is expected"


_NOT_ROUTED, _NEW, _UNKNOWN, _HAS_MESSAGES, _EMPTY = TargetState
_POLLED: Final = (_NEW, _UNKNOWN, _HAS_MESSAGES)
_RESULTS: Final = (TargetEvent.MESSAGES, TargetEvent.NO_MESSAGES, TargetEvent.LAST_POLL_EMPTY, TargetEvent.FAILED)
"""Of a poll in flight: an empty target has none; a target that is in no route may have some from before."""

TRANSITIONS: Final[Mapping[tuple[TargetState, TargetEvent], TargetState]] = MappingProxyType(
    {
        (_NOT_ROUTED, TargetEvent.LISTED): _NEW,
        **{(state, TargetEvent.REMOVED): _NOT_ROUTED for state in (*_POLLED, _EMPTY)},
        **{(_NOT_ROUTED, result): _NOT_ROUTED for result in _RESULTS},
        **{(state, TargetEvent.MESSAGES): _HAS_MESSAGES for state in _POLLED},
        **{(state, TargetEvent.NO_MESSAGES): _UNKNOWN for state in _POLLED},
        **{(state, TargetEvent.LAST_POLL_EMPTY): _EMPTY for state in _POLLED},
        **{(state, TargetEvent.FAILED): _UNKNOWN for state in (_UNKNOWN, _HAS_MESSAGES)},
        (_NEW, TargetEvent.FAILED): _NEW,
        **{(state, TargetEvent.RECHECKED): state for state in _POLLED},
        (_EMPTY, TargetEvent.RECHECKED): _UNKNOWN,
    }
)
"""All valid transitions."""


@dataclass(slots=True)
class _TargetRecord:
    """A target's state and times, also while it is in no route. None: no such time.

    ``pending``: polls in flight. ``hidden_until_ms``: until when messages that an incomplete response lacks may be
    redelivered. From ``isolated_since_ms`` to ``isolated_until_ms`` each poll is for one message."""

    target: Target
    state: TargetState = _NOT_ROUTED
    pending: int = 0
    hidden_until_ms: int | None = None
    isolated_since_ms: int | None = None
    isolated_until_ms: int = 0

    @property
    def may_have_messages(self) -> bool:
        """Return whether the target is in a route and not empty, or has hidden messages or a poll in flight."""
        return self.state in _POLLED or self.hidden_until_ms is not None or self.pending > 0

    def apply(self, event: TargetEvent) -> None:
        """Change the state by ``TRANSITIONS``. Raises ValueError, without a change, for an invalid event."""
        self.state = transition_of(TRANSITIONS, self.state, event, self.target)


class ReceiveScheduler:
    """See the module. A target is empty if its last poll returned no message. Messages that an incomplete response
    lacks are hidden until brokers redeliver them.

    ``is_available_now``: the query ends when each target is empty. Short polls detect this soon. An empty target gets
    no poll, since it would return messages stored after the query's end, unless only a poll may end a failure.
    ``invisible_ms``: the longest invisible duration that a poll requests."""

    def __init__(self, is_available_now: bool, invisible_ms: int) -> None:
        self._is_available_now = is_available_now
        self._hidden_ms = invisible_ms + REDELIVERY_WITHIN_MS
        self._records: dict[Target, _TargetRecord] = {}
        self._incomplete_topics: frozenset[str] = frozenset()
        """Topics that may have more targets: see ``set_targets``."""
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
        if self._redelivery_until_ms is not None or not self._are_targets_complete:
            return False
        return not any(record.may_have_messages for record in self._records.values())

    @property
    def pending_requests(self) -> int:
        """Return the number of polls in flight."""
        return sum(record.pending for record in self._records.values())

    def set_targets(self, targets: Collection[Target], failing_topics: Collection[str] = ()) -> None:
        """Replace the targets. Known ones keep their state; new ones begin as not polled and not empty. Polls in flight
        to a target that was removed before still count. ``failing_topics``: topics without a current route, which may
        have more targets. Such a topic makes the targets incomplete until a call without it. If all its targets were
        there before, and none was removed, it does not."""
        routed = {record.target for record in self._routed}
        removed = {target.topic for target in routed - set(targets)}
        complete = {target.topic for target in routed} - removed - self._incomplete_topics
        self._incomplete_topics = frozenset(failing_topics) - complete
        for target in targets:
            self._records.setdefault(target, _TargetRecord(target))
        for target in {*targets} ^ routed:
            self._records[target].apply(TargetEvent.REMOVED if target in routed else TargetEvent.LISTED)

    @property
    def _routed(self) -> list[_TargetRecord]:
        """Return the records of the targets that are in a route."""
        return [record for record in self._records.values() if record.state is not _NOT_ROUTED]

    @property
    def _are_targets_complete(self) -> bool:
        """Return whether there are targets, and no topic may have more: see ``set_targets``."""
        return bool(self._routed) and not self._incomplete_topics

    def schedule(
        self, capacity: int, allowed: Collection[Target], awaits_poll: Callable[[Target], bool] = lambda _: False
    ) -> Iterator[ReceiveRequest]:
        """Yield the polls to send now. Consume all: each counts as in flight, its target as not empty. A target in
        ``allowed`` then has 1 in flight, or 4 if its last response had messages. Each poll is for ``capacity``
        messages, at most 32 (isolated target: 1). Brokers hold it for LONG_POLL_MS. Before the target's first response,
        and with ``is_available_now``, they hold it for SHORT_POLL_MS.

        If ``capacity`` is 0 or less, or for an empty target with ``is_available_now``, only ``awaits_poll`` allows a
        poll, for 1 message, if none is in flight. Raises ValueError for a poll to a target that ``set_targets``
        removed, KeyError for one that it did not get.
        """
        for target in allowed:
            record = self._records[target]
            may_receive = capacity > 0 and not (self._is_available_now and record.state is _EMPTY)
            if not (may_receive or awaits_poll(target)):
                continue
            record.apply(TargetEvent.RECHECKED)
            max_messages = min(capacity, _max_messages(record)) if may_receive else 1
            has_several = record.state is _HAS_MESSAGES and may_receive
            for _ in range(record.pending, MAX_CONCURRENT_REQUESTS if has_several else 1):
                is_long_poll = record.state is not _NEW and not self._is_available_now
                record.pending += 1
                yield ReceiveRequest(target, max_messages, LONG_POLL_MS if is_long_poll else SHORT_POLL_MS)

    def expect_redelivery(self, now_ms: int) -> None:
        """Expect that brokers redeliver released or expired messages, until the first ``recheck_empty_targets`` at 8 s
        after ``now_ms`` or later; meanwhile ``are_all_empty`` is False."""
        self._redelivery_until_ms = now_ms + REDELIVERY_WITHIN_MS

    def recheck_empty_targets(self, now_ms: int) -> None:
        """Mark all targets as not empty while redelivery is expected, else those with hidden messages, so that they are
        polled again. End what is over at ``now_ms``: that expectation, hidden messages and isolations."""
        for record in self._routed:
            if self._redelivery_until_ms is not None or record.hidden_until_ms is not None:
                record.apply(TargetEvent.RECHECKED)
        for record in self._records.values():
            record.hidden_until_ms = _unless_over(record.hidden_until_ms, now_ms)
            self._end_isolation(record, now_ms)
        self._redelivery_until_ms = _unless_over(self._redelivery_until_ms, now_ms)

    # ------------------------------------------------------------------------------------------ incomplete responses

    def record_incomplete(
        self, request: ReceiveRequest, received_count: int, failure: RocketMQError, now_ms: int
    ) -> None:
        """Record that the response to ``request`` ended early. If fewer messages than requested arrived, some may be
        hidden. Until they are redelivered, after the invisible duration and REDELIVERY_WITHIN_MS, the target is not
        empty. A request for one message hides none.

        If a proxy failed to convert a message, isolate the target for the same time: else this message fails the
        response for its neighbours again. A later such failure extends the time."""
        record, until_ms = self._records[request.target], now_ms + self._hidden_ms
        if request.max_messages > max(1, received_count):
            record.hidden_until_ms = until_ms
        if is_conversion_failure(failure):
            self._isolate(record, failure, now_ms, until_ms)

    def _isolate(self, record: _TargetRecord, failure: RocketMQError, now_ms: int, until_ms: int) -> None:
        """Begin the isolation of a target, adding a line for ``take_lines``, or extend it to ``until_ms``."""
        if record.isolated_since_ms is None:
            record.isolated_since_ms = now_ms
            self._lines.append(_begin_line(record.target, failure))
        record.isolated_until_ms = until_ms

    def take_lines(self) -> list[LogLine]:
        """Return the lines about isolations that began (a warning) or ended (its recovery) since the last call."""
        lines, self._lines = self._lines, []
        return lines

    def _end_isolation(self, record: _TargetRecord, now_ms: int) -> None:
        """End the target's isolation if it is over at ``now_ms``, with a line for ``take_lines``."""
        if record.isolated_since_ms is not None and now_ms >= record.isolated_until_ms:
            self._lines.append(_end_line(record.target, now_ms - record.isolated_since_ms))
            record.isolated_since_ms = None

    # ------------------------------------------------------------------------------------------ responses

    def mark_responded(self, target: Target, *, has_messages: bool) -> None:
        """Record that a poll in flight got a response. The target is empty if it had no messages and no other poll to
        the target is in flight. A target that ``set_targets`` removed is ignored."""
        is_last = self._records[target].pending == 1
        without_messages = TargetEvent.LAST_POLL_EMPTY if is_last else TargetEvent.NO_MESSAGES
        self._finish_request(target, TargetEvent.MESSAGES if has_messages else without_messages)
        have_all = self._are_targets_complete and all(each.state is not _NEW for each in self._routed)
        self._have_all_responded = self._have_all_responded or have_all

    def mark_failed(self, target: Target) -> None:
        """Record that a poll in flight failed: the target then counts neither as empty nor as one with messages.
        Whether it has responded before stays."""
        self._finish_request(target, TargetEvent.FAILED)

    def _finish_request(self, target: Target, result: TargetEvent) -> None:
        """Apply the result of one poll to the target, and count it no longer as in flight."""
        record = self._records[target]
        record.apply(result)
        record.pending -= 1


def _max_messages(record: _TargetRecord) -> int:
    """Return the maximum number of messages of a poll: 1 while the target is isolated, else 32."""
    return MAX_MESSAGES_PER_REQUEST if record.isolated_since_ms is None else 1


def _unless_over(until_ms: int | None, now_ms: int) -> int | None:
    """Return ``until_ms``, or None if that time is over at ``now_ms``."""
    return None if until_ms is None or now_ms >= until_ms else until_ms


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
