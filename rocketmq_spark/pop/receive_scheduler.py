"""Scheduling of polls: how many are in flight, which topic and broker gets the next, and which have no more messages.

While the prefetch limit allows, each broker of each topic has one poll in flight, and up to 4 after a poll that
returned messages. Not thread-safe.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

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
    pending_requests: int = 0
    has_responded: bool = False
    has_messages: bool = False
    is_empty: bool = False


class ReceiveScheduler:
    """Scheduler of one receiver's polls: decides which topic and broker (target) is polled now, and sends nothing.

    ``is_available_now``: the query ends when each target is empty. It uses short polls to detect that soon, and sends
    none to an empty target, since that would receive messages stored after the query's end.
    """

    def __init__(self, is_available_now: bool) -> None:
        self._is_available_now = is_available_now
        self._states: dict[Target, _TargetState] = {}
        self._have_all_responded = False
        self._redelivery_until_ms: int | None = None
        """Until when messages that were released or expired may be redelivered; None: none is expected."""

    @property
    def have_all_responded(self) -> bool:
        """Return whether at some moment all targets had responded to a poll: messages stored later are not skipped.
        Once True, it stays True."""
        return self._have_all_responded

    @property
    def are_all_empty(self) -> bool:
        """Return whether each target is empty, see ``mark_responded``, and no redelivery is expected. False without
        targets."""
        is_redelivery_expected = self._redelivery_until_ms is not None
        return (
            not is_redelivery_expected and bool(self._states) and all(state.is_empty for state in self._states.values())
        )

    @property
    def pending_requests(self) -> int:
        """Return the number of polls in flight."""
        return sum(state.pending_requests for state in self._states.values())

    def set_targets(self, targets: Collection[Target]) -> None:
        """Replace the targets. Those that stay keep their state, new ones begin as not polled and not empty."""
        self._states = {target: self._states.get(target, _TargetState()) for target in targets}

    def schedule(self, capacity: int, allowed: Collection[Target]) -> Iterator[ReceiveRequest]:
        """Yield the polls to send now, by target in the order of ``allowed``: each target gets 1 in flight, or 4 if its
        last response had messages; with ``is_available_now`` an empty one gets none. Each poll is for ``capacity``
        messages, at most 32; none if ``capacity`` is 0. ``poll_ms`` is 15 s, but 1 s before the first response and with
        ``is_available_now``. A yielded poll counts as in flight, so consume the iterator. Raises KeyError for a target
        that is not in ``set_targets``."""
        for target in allowed:
            state = self._states[target]
            if self._is_available_now and state.is_empty:
                continue
            for _ in range(state.pending_requests, MAX_CONCURRENT_REQUESTS if state.has_messages else 1):
                if capacity <= 0:
                    return
                max_messages = min(MAX_MESSAGES_PER_REQUEST, capacity)
                is_long_poll = state.has_responded and not self._is_available_now
                state.pending_requests += 1
                yield ReceiveRequest(target, max_messages, LONG_POLL_MS if is_long_poll else SHORT_POLL_MS)

    def expect_redelivery(self, now_ms: int) -> None:
        """Expect for 8 s from ``now_ms`` that brokers redeliver released or expired messages."""
        self._redelivery_until_ms = now_ms + REDELIVERY_WITHIN_MS

    def recheck_empty_targets(self, now_ms: int) -> None:
        """If redelivery is expected, mark all targets as not empty, so that they are polled again; end the expectation
        if its 8 s are over at ``now_ms``."""
        if self._redelivery_until_ms is None:
            return
        for state in self._states.values():
            state.is_empty = False
        if now_ms >= self._redelivery_until_ms:
            self._redelivery_until_ms = None

    def mark_responded(self, target: Target, *, has_messages: bool) -> None:
        """Record that a poll in flight got a response. The target is empty if it had no messages and no other poll to
        the target is in flight. A target that ``set_targets`` removed is ignored."""
        state = self._finish_request(target)
        state.has_responded = True
        have_all = bool(self._states) and all(each.has_responded for each in self._states.values())
        self._have_all_responded = self._have_all_responded or have_all
        state.has_messages = has_messages
        state.is_empty = not has_messages and state.pending_requests == 0

    def mark_failed(self, target: Target) -> None:
        """Record that a poll in flight failed: the target then counts neither as empty nor as one with messages.
        Whether it has responded before stays."""
        state = self._finish_request(target)
        state.has_messages = state.is_empty = False

    def _finish_request(self, target: Target) -> _TargetState:
        """Count one poll to the target less as in flight, and return its state; for a removed target a new one, not
        stored."""
        state = self._states.get(target, _TargetState(1))
        state.pending_requests -= 1
        return state


class PrefetchLimit:
    """The maximum number of messages that a receiver holds in no batch yet; lowered when some expire.

    Not thread-safe.
    """

    def __init__(self, max_messages: int) -> None:
        self._upper_bound = max_messages
        self.max_messages = max_messages

    def shrink(self, remaining: int) -> None:
        """Lower the limit to ``remaining``, the number of prefetched messages after some expired, but not below 32;
        never raise it."""
        self.max_messages = min(self.max_messages, max(MAX_MESSAGES_PER_REQUEST, remaining))

    def grow(self) -> None:
        """Raise the limit by 32, at most to the initial one: a batch was started."""
        self.max_messages = min(self._upper_bound, self.max_messages + MAX_MESSAGES_PER_REQUEST)
