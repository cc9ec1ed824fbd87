"""Polls: how many requests for messages are on their way, to whom the next ones go, and who has nothing more.

One is always on its way to each broker of each topic, while there is room for what it may bring, and several where the
last one has brought something. Not thread-safe.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

MOST_MESSAGES: Final = 32
"""What a broker gives at most. Source: ``broker/processor/PopMessageProcessor.java#processRequest``."""

WHILE_FOUND: Final = 4
"""Polls to one target while it has something."""

LONG_POLL_MS: Final = 15_000
"""How long a broker holds a poll while there is nothing. It wakes first the one with the least time left: shorter polls
than those of others, Java's clients among them, would get everything.

Source: ``broker/longpolling/PopRequest.java#COMPARATOR``.
"""

SHORT_POLL_MS: Final = 1_000
"""The same of the first poll, and of who looks once; not shorter: a broker refuses what is on its way for half a second
longer, by its own clock."""


HANDED_OUT_AGAIN_MS: Final = 8_000
"""Within which brokers hand out again what was given back or given up: they look for it now and then."""


class Target(NamedTuple):
    """Who is asked for messages: one broker, for those of one topic."""

    topic: str
    broker_name: str


class Poll(NamedTuple):
    """A request that is to be sent now."""

    target: Target
    most: int
    poll_ms: int


@dataclass(slots=True)
class _Known:
    on_the_way: int = 0
    has_answered: bool = False
    has_found: bool = False
    is_dry: bool = False


class Polls:
    """See the module. ``looks_once``: the query reads what is there, wants to know soon when that is all, and then has
    no poll on its way: that would take what is stored after the query's end.
    """

    def __init__(self, looks_once: bool) -> None:
        self._looks_once = looks_once
        self._known: dict[Target, _Known] = {}
        self._have_all_answered = False
        self._again_until_ms: int | None = None
        """What went back to brokers may come again until then."""

    @property
    def have_all_answered(self) -> bool:
        """Whether at some time each target had, once at least: what is stored since is not passed over. It stays so
        while nobody can say where the targets are."""
        return self._have_all_answered

    @property
    def are_dry(self) -> bool:
        """Each target had nothing when it was last asked, and nothing is on its way from there or back there."""
        is_awaited = self._again_until_ms is not None
        return not is_awaited and bool(self._known) and all(one.is_dry for one in self._known.values())

    @property
    def on_the_way(self) -> int:
        """Those that are not back."""
        return sum(one.on_the_way for one in self._known.values())

    def aim(self, targets: Collection[Target]) -> None:
        """These there are now."""
        self._known = {target: self._known.get(target, _Known()) for target in targets}

    def wanted(self, room: int, may_ask: Collection[Target]) -> Iterator[Poll]:
        """What is to be sent now, to targets that ``may_ask`` has, where there is room for so many messages."""
        for target in may_ask:
            one = self._known[target]
            if self._looks_once and one.is_dry:
                continue
            for _ in range(one.on_the_way, WHILE_FOUND if one.has_found else 1):
                if room <= 0:
                    return
                most = min(MOST_MESSAGES, room)
                is_long = one.has_answered and not self._looks_once
                one.on_the_way += 1
                yield Poll(target, most, LONG_POLL_MS if is_long else SHORT_POLL_MS)

    def expect_again(self, now_ms: int) -> None:
        """Something went back: it comes again, soon."""
        self._again_until_ms = now_ms + HANDED_OUT_AGAIN_MS

    def pass_time(self, now_ms: int) -> None:
        """Who had nothing is asked again while something is expected there."""
        if self._again_until_ms is None:
            return
        for one in self._known.values():
            one.is_dry = False
        if now_ms >= self._again_until_ms:
            self._again_until_ms = None

    def answered(self, target: Target, *, has_found: bool) -> None:
        """One poll is back."""
        one = self._back(target)
        one.has_answered = True
        is_all = bool(self._known) and all(each.has_answered for each in self._known.values())
        self._have_all_answered = self._have_all_answered or is_all
        one.has_found = has_found
        one.is_dry = not has_found and one.on_the_way == 0

    def failed(self, target: Target) -> None:
        """One poll came to nothing."""
        one = self._back(target)
        one.has_found = one.is_dry = False

    def _back(self, target: Target) -> _Known:
        one = self._known.get(target, _Known(1))
        one.on_the_way -= 1
        return one


class Ahead:
    """``most``: so many at any time. Not thread-safe."""

    def __init__(self, most: int) -> None:
        self._limit = most
        self.most = most

    def expired(self, kept: int) -> None:
        """Some were given up that waited, and so many still wait."""
        self.most = min(self.most, max(MOST_MESSAGES, kept))

    def frozen(self) -> None:
        """A batch has taken some: a few more are tried."""
        self.most = min(self._limit, self.most + MOST_MESSAGES)
