"""What a member is to its group: every standing and all that it is told, and what cannot be told changes nothing."""

from __future__ import annotations

from itertools import product

import pytest

from connector_tests.support.one_broker_group import Group
from connector_tests.support.simulated_cluster import Reach
from rocketmq_spark.consumer.membership import Membership
from rocketmq_spark.consumer.membership_state import (
    DUPLICATE_CLIENT_ID_LIMIT_MS,
    GROUP,
    IDENTITY,
    JOINING_LIMIT_MS,
    MEMBERSHIP_TRANSITIONS,
    SUBSCRIPTIONS,
    Limit,
    MembershipAction,
    MembershipEvent,
    MembershipState,
    MembershipStateMachine,
    MembershipTransition,
    event_from_lists,
)

WAYS = {
    MembershipState.NEW: (),
    MembershipState.JOINING: (MembershipEvent.LISTED, MembershipEvent.INCONSISTENT),
    MembershipState.MEMBER: (MembershipEvent.LISTED, MembershipEvent.CONSISTENT),
}
PAIRS = list(product(MembershipState, MembershipEvent))
LEGAL = [pair for pair in PAIRS if pair in MEMBERSHIP_TRANSITIONS]
ILLEGAL = [pair for pair in PAIRS if pair not in MEMBERSHIP_TRANSITIONS]
FROM_LISTS = [
    MembershipEvent.NO_RESPONSE,
    MembershipEvent.NOT_LISTED,
    MembershipEvent.LISTED_TWICE,
    MembershipEvent.LISTED,
]
FROM_MEMBERS = [MembershipEvent.INCONSISTENT, MembershipEvent.CONSISTENT]


def of_standing(standing: MembershipState) -> MembershipStateMachine:
    member = MembershipStateMachine()
    for told in WAYS[standing]:
        member.apply(told)
    return member


@pytest.mark.parametrize("standing", MembershipState)
def test_every_standing_is_reached(standing: MembershipState) -> None:
    assert of_standing(standing).state is standing


@pytest.mark.parametrize(("standing", "told"), LEGAL)
def test_what_may_be_told_leads_where_the_table_says(standing: MembershipState, told: MembershipEvent) -> None:
    member = of_standing(standing)
    assert member.apply(told) is MEMBERSHIP_TRANSITIONS[standing, told]
    assert member.state is MEMBERSHIP_TRANSITIONS[standing, told].next_state


@pytest.mark.parametrize(("standing", "told"), ILLEGAL)
def test_what_cannot_be_told_raises_and_changes_nothing(standing: MembershipState, told: MembershipEvent) -> None:
    member = of_standing(standing)
    with pytest.raises(ValueError, match=f"a member that is {standing.name} has no event {told.name}"):
        member.apply(told)
    assert member.state is standing


def test_who_may_have_another_s_client_id_compares_nothing_and_everything_else_may_be_told() -> None:
    assert set(ILLEGAL) == set(product([MembershipState.NEW], FROM_MEMBERS))


@pytest.mark.parametrize(("standing", "told"), LEGAL)
def test_no_standing_is_lost_again(standing: MembershipState, told: MembershipEvent) -> None:
    order = list(MembershipState)
    assert order.index(MEMBERSHIP_TRANSITIONS[standing, told].next_state) >= order.index(standing)


@pytest.mark.parametrize(("standing", "told"), LEGAL)
def test_who_compares_may_be_told_how_that_ends_and_then_shares_or_waits(
    standing: MembershipState, told: MembershipEvent
) -> None:
    step = MEMBERSHIP_TRANSITIONS[standing, told]
    if told in FROM_MEMBERS:
        assert step.action in (MembershipAction.SHARE, MembershipAction.WAIT)
    else:
        assert step.action is not MembershipAction.SHARE
    if step.action is MembershipAction.COMPARE:
        assert {(step.next_state, verdict) for verdict in FROM_MEMBERS} <= MEMBERSHIP_TRANSITIONS.keys()


@pytest.mark.parametrize(("standing", "told"), LEGAL)
def test_who_plans_nothing_says_for_what_it_waits_or_nobody_says_anything(
    standing: MembershipState, told: MembershipEvent
) -> None:
    step = MEMBERSHIP_TRANSITIONS[standing, told]
    outages = step.action in (MembershipAction.WAIT, MembershipAction.CHECK_GROUP)
    assert (step.problem is not None) or not outages
    assert bool(step.unknown) is (told is MembershipEvent.NO_RESPONSE)


@pytest.mark.parametrize(
    ("client_ids", "told"),
    [
        (None, MembershipEvent.NO_RESPONSE),
        ([], MembershipEvent.NOT_LISTED),
        (["you", "you"], MembershipEvent.NOT_LISTED),
        (["me", "you", "you"], MembershipEvent.LISTED),
        (["me", "me"], MembershipEvent.LISTED_TWICE),
        (["me", "me", "me", "you"], MembershipEvent.LISTED_TWICE),
    ],
)
def test_what_the_lists_say(client_ids: list[str] | None, told: MembershipEvent) -> None:
    assert event_from_lists(client_ids, "me") is told


@pytest.mark.parametrize(
    ("limit", "cluster_timeout_ms", "limit_ms"),
    [
        (Limit.CLUSTER, 5, 5),
        (Limit.DUPLICATE_CLIENT_ID, 5, DUPLICATE_CLIENT_ID_LIMIT_MS),
        (Limit.JOINING, 5, 5),
        (Limit.JOINING, 3_600_000, JOINING_LIMIT_MS),
    ],
)
def test_limits(limit: Limit, cluster_timeout_ms: int, limit_ms: int) -> None:
    assert limit.in_ms(cluster_timeout_ms) == limit_ms


# ------------------------------------------------------------------------------------------------ in a membership

AT_ODDS = {"you": {"bills": "*"}}
CLUSTER_TIMEOUT_MS = 60_000


class Heard:
    """What the table says of a member that is told this and that."""

    def __init__(self, standing: MembershipState) -> None:
        self._standing = standing
        self.outages: dict[str, int] = {}
        self.shares = False
        for told in WAYS[standing]:
            self._take(
                MEMBERSHIP_TRANSITIONS[MembershipState.JOINING if told in FROM_MEMBERS else MembershipState.NEW, told]
            )

    def apply(self, told: MembershipEvent, verdict: MembershipEvent) -> None:
        self._take(MEMBERSHIP_TRANSITIONS[self._standing, told])
        if MEMBERSHIP_TRANSITIONS[self._standing, told].action is MembershipAction.COMPARE:
            self._take(MEMBERSHIP_TRANSITIONS[MEMBERSHIP_TRANSITIONS[self._standing, told].next_state, verdict])

    def _take(self, step: MembershipTransition) -> None:
        for subject in (*step.resolved, *step.unknown):
            self.outages.pop(subject, None)
        if step.problem is not None:
            self.outages[step.problem.subject] = step.problem.limit.in_ms(CLUSTER_TIMEOUT_MS)
        self.shares = step.action is MembershipAction.SHARE


def group_with(standing: MembershipState) -> tuple[Group, Membership]:
    group = Group(subscriptions=AT_ODDS)
    member = group.member(clusterTimeoutMs=str(CLUSTER_TIMEOUT_MS))
    if standing is not MembershipState.NEW:
        group.cluster.set_others(*["you"] * (standing is MembershipState.JOINING))
        member.refresh_metadata()
    return group, member


def tell(group: Group, told: MembershipEvent, verdict: MembershipEvent) -> None:
    if told is MembershipEvent.NO_RESPONSE:
        group.broker.reach = Reach.UNRESPONSIVE
    if told is MembershipEvent.NOT_LISTED:
        group.broker.connections.clear()
        group.broker.ignores_heartbeats = True
    group.cluster.set_others(
        *["me"] * (told is MembershipEvent.LISTED_TWICE), *["you"] * (verdict is MembershipEvent.INCONSISTENT)
    )


@pytest.mark.parametrize("standing", MembershipState)
@pytest.mark.parametrize("told", FROM_LISTS)
@pytest.mark.parametrize("verdict", FROM_MEMBERS)
def test_a_member_plans_and_waits_as_the_table_says(
    standing: MembershipState, told: MembershipEvent, verdict: MembershipEvent
) -> None:
    group, member = group_with(standing)
    heard = Heard(standing)
    heard.apply(told, verdict)
    tell(group, told, verdict)
    assert bool(member.refresh_metadata().owned) is heard.shares
    outages = [wait for wait in member.publish().outages if wait.resource in (GROUP, IDENTITY, SUBSCRIPTIONS)]
    assert {wait.resource: wait.until_ms for wait in outages} == {
        resource: group.clock() + limit_ms for resource, limit_ms in heard.outages.items()
    }
