"""Polls: how many requests for messages are on their way, to whom the next ones go, and who has nothing more.

One is always on its way to each broker of each topic, while there is room for what it may bring, and several where the
last one has brought something. Not thread-safe.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

MAX_MESSAGES_PER_REQUEST: Final = 32
"""What a broker gives at most. Source: ``broker/processor/PopMessageProcessor.java#processRequest``."""

MAX_CONCURRENT_REQUESTS: Final = 4
"""Polls to one target while it has something."""

LONG_POLL_MS: Final = 15_000
"""How long a broker holds a poll while there is nothing. It wakes first the one with the least time left: shorter polls
than those of others, Java's clients among them, would get everything.

Source: ``broker/longpolling/PopRequest.java#COMPARATOR``.
"""

SHORT_POLL_MS: Final = 1_000
"""The same of the first poll, and of who looks once; not shorter: a broker refuses what is on its way for half a second
longer, by its own clock."""


REDELIVERY_WITHIN_MS: Final = 8_000
"""Within which brokers hand out again what was given back or given up: they look for it now and then."""


class Target(NamedTuple):
    """Who is asked for messages: one broker, for those of one topic."""

    topic: str
    broker_name: str


class ReceiveRequest(NamedTuple):
    """A request that is to be sent now."""

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
    """See the module. ``is_available_now``: the query reads what is there, wants to know soon when that is all, and
    then has no poll on its way: that would take what is stored after the query's end.
    """

    def __init__(self, is_available_now: bool) -> None:
        self._is_available_now = is_available_now
        self._states: dict[Target, _TargetState] = {}
        self._have_all_responded = False
        self._redelivery_until_ms: int | None = None
        """What went back to brokers may come again until then."""

    @property
    def have_all_responded(self) -> bool:
        """Whether at some time each target had, once at least: what is stored since is not passed over. It stays so
        while nobody can say where the targets are."""
        return self._have_all_responded

    @property
    def are_all_empty(self) -> bool:
        """Each target had nothing when it was last asked, and nothing is on its way from there or back there."""
        is_redelivery_expected = self._redelivery_until_ms is not None
        return (
            not is_redelivery_expected and bool(self._states) and all(state.is_empty for state in self._states.values())
        )

    @property
    def pending_requests(self) -> int:
        """Those that are not back."""
        return sum(state.pending_requests for state in self._states.values())

    def set_targets(self, targets: Collection[Target]) -> None:
        """These there are now."""
        self._states = {target: self._states.get(target, _TargetState()) for target in targets}

    def schedule(self, capacity: int, allowed: Collection[Target]) -> Iterator[ReceiveRequest]:
        """What is to be sent now, to targets that ``allowed`` has, where there is room for so many messages."""
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
        """Something went back: it comes again, soon."""
        self._redelivery_until_ms = now_ms + REDELIVERY_WITHIN_MS

    def recheck_empty_targets(self, now_ms: int) -> None:
        """Who had nothing is asked again while something is expected there."""
        if self._redelivery_until_ms is None:
            return
        for state in self._states.values():
            state.is_empty = False
        if now_ms >= self._redelivery_until_ms:
            self._redelivery_until_ms = None

    def mark_responded(self, target: Target, *, has_messages: bool) -> None:
        """One poll is back."""
        state = self._finish_request(target)
        state.has_responded = True
        have_all = bool(self._states) and all(each.has_responded for each in self._states.values())
        self._have_all_responded = self._have_all_responded or have_all
        state.has_messages = has_messages
        state.is_empty = not has_messages and state.pending_requests == 0

    def mark_failed(self, target: Target) -> None:
        """One poll came to nothing."""
        state = self._finish_request(target)
        state.has_messages = state.is_empty = False

    def _finish_request(self, target: Target) -> _TargetState:
        state = self._states.get(target, _TargetState(1))
        state.pending_requests -= 1
        return state


class PrefetchLimit:
    """``max_messages``: so many at any time. Not thread-safe."""

    def __init__(self, max_messages: int) -> None:
        self._upper_bound = max_messages
        self.max_messages = max_messages

    def shrink(self, remaining: int) -> None:
        """Some were given up that waited, and so many still wait."""
        self.max_messages = min(self.max_messages, max(MAX_MESSAGES_PER_REQUEST, remaining))

    def grow(self) -> None:
        """A batch has taken some: a few more are tried."""
        self.max_messages = min(self._upper_bound, self.max_messages + MAX_MESSAGES_PER_REQUEST)
