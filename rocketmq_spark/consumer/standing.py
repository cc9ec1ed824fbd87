"""GroupStanding: what a member is to its group, and what it does about what it is told there. All of it is one table.

``group_members`` asks, and carries out what the table says; here nobody is asked, and no time passes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from enum import Enum
from types import MappingProxyType
from typing import Final, NamedTuple

GROUP: Final = "registration in the group"
IDENTITY: Final = "a unique client ID"
SUBSCRIPTIONS: Final = "consistent subscriptions in the group"

NAMESAKE_LIMIT_MS: Final = 120_000
"""How long a newcomer waits for the connection that has its client id: a broker notices a dead one within so long."""

LISTED_WITHIN_MS: Final = 1_000
"""Brokers may need a moment to list who has just told them of itself; of that nothing is said."""

NEWCOMER_LIMIT_MS: Final = 10_000
"""How long a newcomer waits for a member that differs: its own predecessor, with the old options, may be leaving."""


class Standing(Enum):
    """What a member is to its group."""

    NAMELESS = "new: its client id may be another connection's still, so it owns nothing beside one that has it"
    NEWCOMER = (
        "alone with its client id; of one mind with the others it never was, and it owns nothing beside who differs"
    )
    MEMBER = "of one mind with the others, or was once: it goes on beside who has taken its client id or differs now"


class Told(Enum):
    """What a member is told: by the brokers' lists, then by the other members."""

    NOTHING = "no broker says who is in the group"
    NOT_LISTED = "a broker that answers does not list us"
    LISTED_TWICE = "all that answer list us, and more than one connection has our client id"
    LISTED = "all that answer list us, once"
    DIFFERS = "a member is known to subscribe to something else, consume in another manner, or share our checkpoint"
    AGREES = "no member is known to"


class Then(Enum):
    """What a member does about it. Only who shares plans anything; what is owned meanwhile stays owned."""

    TELL_AGAIN = "heartbeats to all brokers"
    ASK_WHY = "heartbeats to all brokers, and asks them why they do not list it"
    WAIT = "asks again in the next survey"
    COMPARE = "compares itself with the others, and is told how that ends"
    SHARE = "shares the queues with the others"


class Limit(Enum):
    """How long something is waited for before it is an error."""

    CLUSTER = "`clusterTimeoutMs`"
    NAMESAKE = f"{NAMESAKE_LIMIT_MS // 1000} s"
    NEWCOMER = f"{NEWCOMER_LIMIT_MS // 1000} s, or `clusterTimeoutMs` if that is less"

    def in_ms(self, cluster_timeout_ms: int) -> int:
        """Counted from when it first was wrong; whoever has waited for all of it fails."""
        limits = {
            Limit.CLUSTER: cluster_timeout_ms,
            Limit.NAMESAKE: NAMESAKE_LIMIT_MS,
            Limit.NEWCOMER: min(NEWCOMER_LIMIT_MS, cluster_timeout_ms),
        }
        return limits[self]


class Awaited(NamedTuple):
    """What is waited for, and how long; of the first ``quiet_ms`` nothing is said."""

    subject: str
    limit: Limit
    quiet_ms: int = 0


class Step(NamedTuple):
    """What comes of what a member is told.

    ``awaited``: what is wrong now. ``settled``: what is known to be right now. ``unsaid``: what nobody says anything of
    now. Whatever else was wrong is wrong still.
    """

    after: Standing
    then: Then
    awaited: Awaited | None = None
    settled: Collection[str] = ()
    unsaid: Collection[str] = ()


_NAMELESS, _NEWCOMER, _MEMBER = Standing
_ALL: Final = (GROUP, IDENTITY, SUBSCRIPTIONS)
_LISTING: Final = Awaited(GROUP, Limit.CLUSTER, LISTED_WITHIN_MS)
_NAME: Final = Awaited(IDENTITY, Limit.NAMESAKE)

STEPS: Final[Mapping[tuple[Standing, Told], Step]] = MappingProxyType(
    {
        (_NAMELESS, Told.NOTHING): Step(_NAMELESS, Then.TELL_AGAIN, unsaid=_ALL),
        (_NAMELESS, Told.NOT_LISTED): Step(_NAMELESS, Then.ASK_WHY, _LISTING, settled=(IDENTITY,)),
        (_NAMELESS, Told.LISTED_TWICE): Step(_NAMELESS, Then.WAIT, _NAME, settled=(GROUP,)),
        (_NAMELESS, Told.LISTED): Step(_NEWCOMER, Then.COMPARE, settled=(GROUP, IDENTITY)),
        (_NEWCOMER, Told.NOTHING): Step(_NEWCOMER, Then.TELL_AGAIN, unsaid=_ALL),
        (_NEWCOMER, Told.NOT_LISTED): Step(_NEWCOMER, Then.ASK_WHY, _LISTING),
        (_NEWCOMER, Told.LISTED_TWICE): Step(_NEWCOMER, Then.COMPARE, settled=(GROUP,)),
        (_NEWCOMER, Told.LISTED): Step(_NEWCOMER, Then.COMPARE, settled=(GROUP,)),
        (_NEWCOMER, Told.DIFFERS): Step(_NEWCOMER, Then.WAIT, Awaited(SUBSCRIPTIONS, Limit.NEWCOMER)),
        (_NEWCOMER, Told.AGREES): Step(_MEMBER, Then.SHARE, settled=(SUBSCRIPTIONS,)),
        (_MEMBER, Told.NOTHING): Step(_MEMBER, Then.TELL_AGAIN, unsaid=_ALL),
        (_MEMBER, Told.NOT_LISTED): Step(_MEMBER, Then.ASK_WHY, _LISTING),
        (_MEMBER, Told.LISTED_TWICE): Step(_MEMBER, Then.COMPARE, settled=(GROUP,)),
        (_MEMBER, Told.LISTED): Step(_MEMBER, Then.COMPARE, settled=(GROUP,)),
        (_MEMBER, Told.DIFFERS): Step(_MEMBER, Then.SHARE, Awaited(SUBSCRIPTIONS, Limit.CLUSTER)),
        (_MEMBER, Told.AGREES): Step(_MEMBER, Then.SHARE, settled=(SUBSCRIPTIONS,)),
    }
)
"""What is not in here cannot happen: who is NAMELESS compares nothing, so it is not told how others are."""


def told_by(client_ids: Sequence[str] | None, client_id: str) -> Told:
    """What the lists say of ``client_id``, taken together as ``GroupMembers.listed`` does; None: nobody answers."""
    if client_ids is None:
        return Told.NOTHING
    times = client_ids.count(client_id)
    return Told.NOT_LISTED if times == 0 else Told.LISTED if times == 1 else Told.LISTED_TWICE


class GroupStanding:
    """The standing of one member, which begins NAMELESS. Not thread-safe."""

    def __init__(self) -> None:
        self.now = _NAMELESS

    def hear(self, told: Told) -> Step:
        """Take the step. Raises ValueError, and changes nothing, where a member that is ``now`` is not told that."""
        if (self.now, told) not in STEPS:
            raise ValueError(f"who is {self.now.name} cannot be told {told.name}")
        step = STEPS[self.now, told]
        self.now = step.after
        return step
