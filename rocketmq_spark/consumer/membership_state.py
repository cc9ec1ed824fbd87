"""MembershipStateMachine: the state of a member in its group, and its reaction to each event, as one table.

Pure and without a clock: ``group_members`` sends the requests and carries out the actions.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from enum import Enum
from types import MappingProxyType
from typing import Final, NamedTuple

from rocketmq_spark.state_table import transition_of

GROUP: Final = "registration in the group"
IDENTITY: Final = "a unique client ID"
SUBSCRIPTIONS: Final = "consistent subscriptions in the group"

DUPLICATE_CLIENT_ID_LIMIT_MS: Final = 120_000
"""Time for which a joining member waits for another connection with its client ID: brokers detect a dead one within
it."""

LISTED_WITHIN_MS: Final = 1_000
"""Time in which a missing registration is not logged: brokers may list a member shortly after its heartbeat."""

JOINING_LIMIT_MS: Final = 10_000
"""Time for which a joining member waits for an inconsistent one, which may be its own predecessor with old options."""


class MembershipState(Enum):
    """State of a member in its group."""

    NEW = "new: it owns no queue while another connection may have its client ID"
    JOINING = "the only one with its client ID, once at least: it owns no queue while another member is inconsistent"
    MEMBER = "consistent with the others, once at least: it keeps its queues if one is inconsistent or has its ID later"


class MembershipEvent(Enum):
    """Result of the brokers' lists of members, or of the comparison with the other members."""

    NO_RESPONSE = "no broker returns the members of the group"
    NOT_LISTED = "a broker that responds does not list this member"
    LISTED_TWICE = "all brokers that respond list this member, and more than one connection has its client ID"
    LISTED = "all brokers that respond list this member, once"
    INCONSISTENT = "a member has another subscription, other consumer settings, or the checkpoint of this member"
    CONSISTENT = "no member is known to be inconsistent"


class MembershipAction(Enum):
    """Reaction of a member. Only SHARE allows a plan; queues that are owned stay owned meanwhile."""

    SEND_HEARTBEATS = "heartbeats to all brokers"
    CHECK_GROUP = "heartbeats to all brokers, and requests the reason why they do not list it"
    WAIT = "requests the members again at the next metadata refresh"
    COMPARE = "compares itself with the other members; the result is the next event"
    SHARE = "allocates the queues among the members"


class Limit(Enum):
    """Time until a problem is an error."""

    CLUSTER = "`clusterTimeoutMs`"
    DUPLICATE_CLIENT_ID = f"{DUPLICATE_CLIENT_ID_LIMIT_MS // 1000} s"
    JOINING = f"{JOINING_LIMIT_MS // 1000} s, or `clusterTimeoutMs` if that is less"

    def in_ms(self, cluster_timeout_ms: int) -> int:
        """Return the limit in ms, from the start of the problem, after which the member fails. JOINING is at most
        ``cluster_timeout_ms``. DUPLICATE_CLIENT_ID does not depend on it."""
        limits = {
            Limit.CLUSTER: cluster_timeout_ms,
            Limit.DUPLICATE_CLIENT_ID: DUPLICATE_CLIENT_ID_LIMIT_MS,
            Limit.JOINING: min(JOINING_LIMIT_MS, cluster_timeout_ms),
        }
        return limits[self]


class MembershipProblem(NamedTuple):
    """Outage of a group condition, with its limit; its first ``quiet_ms`` are not logged."""

    subject: str
    limit: Limit
    quiet_ms: int = 0


class MembershipTransition(NamedTuple):
    """Result of an event.

    ``problem``: condition that fails now. ``resolved``: conditions that hold now. ``unknown``: conditions without
    information now. All other problems persist.
    """

    next_state: MembershipState
    action: MembershipAction
    problem: MembershipProblem | None = None
    resolved: Collection[str] = ()
    unknown: Collection[str] = ()


_NEW, _JOINING, _MEMBER = MembershipState
_ALL: Final = (GROUP, IDENTITY, SUBSCRIPTIONS)
_LISTING: Final = MembershipProblem(GROUP, Limit.CLUSTER, LISTED_WITHIN_MS)
_IDENTITY: Final = MembershipProblem(IDENTITY, Limit.DUPLICATE_CLIENT_ID)

MEMBERSHIP_TRANSITIONS: Final[Mapping[tuple[MembershipState, MembershipEvent], MembershipTransition]] = (
    MappingProxyType(
        {
            (_NEW, MembershipEvent.NO_RESPONSE): MembershipTransition(
                _NEW, MembershipAction.SEND_HEARTBEATS, unknown=_ALL
            ),
            (_NEW, MembershipEvent.NOT_LISTED): MembershipTransition(
                _NEW, MembershipAction.CHECK_GROUP, _LISTING, resolved=(IDENTITY,)
            ),
            (_NEW, MembershipEvent.LISTED_TWICE): MembershipTransition(
                _NEW, MembershipAction.WAIT, _IDENTITY, resolved=(GROUP,)
            ),
            (_NEW, MembershipEvent.LISTED): MembershipTransition(
                _JOINING, MembershipAction.COMPARE, resolved=(GROUP, IDENTITY)
            ),
            (_JOINING, MembershipEvent.NO_RESPONSE): MembershipTransition(
                _JOINING, MembershipAction.SEND_HEARTBEATS, unknown=_ALL
            ),
            (_JOINING, MembershipEvent.NOT_LISTED): MembershipTransition(
                _JOINING, MembershipAction.CHECK_GROUP, _LISTING
            ),
            (_JOINING, MembershipEvent.LISTED_TWICE): MembershipTransition(
                _JOINING, MembershipAction.COMPARE, resolved=(GROUP,)
            ),
            (_JOINING, MembershipEvent.LISTED): MembershipTransition(
                _JOINING, MembershipAction.COMPARE, resolved=(GROUP,)
            ),
            (_JOINING, MembershipEvent.INCONSISTENT): MembershipTransition(
                _JOINING, MembershipAction.WAIT, MembershipProblem(SUBSCRIPTIONS, Limit.JOINING)
            ),
            (_JOINING, MembershipEvent.CONSISTENT): MembershipTransition(
                _MEMBER, MembershipAction.SHARE, resolved=(SUBSCRIPTIONS,)
            ),
            (_MEMBER, MembershipEvent.NO_RESPONSE): MembershipTransition(
                _MEMBER, MembershipAction.SEND_HEARTBEATS, unknown=_ALL
            ),
            (_MEMBER, MembershipEvent.NOT_LISTED): MembershipTransition(
                _MEMBER, MembershipAction.CHECK_GROUP, _LISTING
            ),
            (_MEMBER, MembershipEvent.LISTED_TWICE): MembershipTransition(
                _MEMBER, MembershipAction.COMPARE, resolved=(GROUP,)
            ),
            (_MEMBER, MembershipEvent.LISTED): MembershipTransition(
                _MEMBER, MembershipAction.COMPARE, resolved=(GROUP,)
            ),
            (_MEMBER, MembershipEvent.INCONSISTENT): MembershipTransition(
                _MEMBER, MembershipAction.SHARE, MembershipProblem(SUBSCRIPTIONS, Limit.CLUSTER)
            ),
            (_MEMBER, MembershipEvent.CONSISTENT): MembershipTransition(
                _MEMBER, MembershipAction.SHARE, resolved=(SUBSCRIPTIONS,)
            ),
        }
    )
)
"""All valid transitions. A NEW member compares nothing, so CONSISTENT and INCONSISTENT are missing for it."""


def event_from_lists(client_ids: Sequence[str] | None, client_id: str) -> MembershipEvent:
    """Return the event for ``client_id`` in the merged lists of ``GroupMembers.query_members``: NOT_LISTED, LISTED
    (once) or LISTED_TWICE (more often); NO_RESPONSE for None, if no broker responded."""
    if client_ids is None:
        return MembershipEvent.NO_RESPONSE
    times = client_ids.count(client_id)
    return (
        MembershipEvent.NOT_LISTED
        if times == 0
        else MembershipEvent.LISTED
        if times == 1
        else MembershipEvent.LISTED_TWICE
    )


class MembershipStateMachine:
    """State of one member, initially NEW. Not thread-safe."""

    def __init__(self) -> None:
        self.state = _NEW

    def apply(self, event: MembershipEvent) -> MembershipTransition:
        """Change ``state`` by ``event`` and return the transition; the caller carries out its action and records its
        problems. Raises ValueError, without a change, if ``state`` has no such event."""
        transition = transition_of(MEMBERSHIP_TRANSITIONS, self.state, event, "a member")
        self.state = transition.next_state
        return transition
