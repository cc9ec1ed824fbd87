"""The states of a member in its group: every state is reached, and an event that cannot be sent changes nothing."""

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


def of_membership_state(member_state: MembershipState) -> MembershipStateMachine:
    member = MembershipStateMachine()
    for event in WAYS[member_state]:
        member.apply(event)
    return member


@pytest.mark.parametrize("member_state", MembershipState)
def test_every_membership_state_is_reached(member_state: MembershipState) -> None:
    assert of_membership_state(member_state).state is member_state


@pytest.mark.parametrize(("member_state", "event"), LEGAL)
def test_what_may_be_sent_leads_where_the_table_defines(member_state: MembershipState, event: MembershipEvent) -> None:
    member = of_membership_state(member_state)
    assert member.apply(event) is MEMBERSHIP_TRANSITIONS[member_state, event]
    assert member.state is MEMBERSHIP_TRANSITIONS[member_state, event].next_state


@pytest.mark.parametrize(("member_state", "event"), ILLEGAL)
def test_what_cannot_be_sent_raises_and_changes_nothing(member_state: MembershipState, event: MembershipEvent) -> None:
    member = of_membership_state(member_state)
    with pytest.raises(ValueError, match=f"a member is {member_state.name}, which has no event {event.name}"):
        member.apply(event)
    assert member.state is member_state


def test_a_member_that_may_have_another_s_client_id_compares_nothing_and_everything_else_may_be_reported() -> None:
    assert set(ILLEGAL) == set(product([MembershipState.NEW], FROM_MEMBERS))


@pytest.mark.parametrize(("member_state", "event"), LEGAL)
def test_no_membership_state_is_lost_again(member_state: MembershipState, event: MembershipEvent) -> None:
    order = list(MembershipState)
    assert order.index(MEMBERSHIP_TRANSITIONS[member_state, event].next_state) >= order.index(member_state)


@pytest.mark.parametrize(("member_state", "event"), LEGAL)
def test_a_member_that_compares_may_receive_the_result_and_then_shares_or_waits(
    member_state: MembershipState, event: MembershipEvent
) -> None:
    step = MEMBERSHIP_TRANSITIONS[member_state, event]
    if event in FROM_MEMBERS:
        assert step.action in (MembershipAction.SHARE, MembershipAction.WAIT)
    else:
        assert step.action is not MembershipAction.SHARE
    if step.action is MembershipAction.COMPARE:
        assert {(step.next_state, verdict) for verdict in FROM_MEMBERS} <= MEMBERSHIP_TRANSITIONS.keys()


@pytest.mark.parametrize(("member_state", "event"), LEGAL)
def test_a_member_that_plans_nothing_reports_for_what_it_waits_or_no_reason_is_logged(
    member_state: MembershipState, event: MembershipEvent
) -> None:
    step = MEMBERSHIP_TRANSITIONS[member_state, event]
    outages = step.action in (MembershipAction.WAIT, MembershipAction.CHECK_GROUP)
    assert (step.problem is not None) or not outages
    assert bool(step.unknown) is (event is MembershipEvent.NO_RESPONSE)


@pytest.mark.parametrize(
    ("client_ids", "event"),
    [
        (None, MembershipEvent.NO_RESPONSE),
        ([], MembershipEvent.NOT_LISTED),
        (["you", "you"], MembershipEvent.NOT_LISTED),
        (["me", "you", "you"], MembershipEvent.LISTED),
        (["me", "me"], MembershipEvent.LISTED_TWICE),
        (["me", "me", "me", "you"], MembershipEvent.LISTED_TWICE),
    ],
)
def test_what_the_lists_contain(client_ids: list[str] | None, event: MembershipEvent) -> None:
    assert event_from_lists(client_ids, "me") is event


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


class Received:
    """What the table defines for a member that receives these events."""

    def __init__(self, member_state: MembershipState) -> None:
        self._membership_state = member_state
        self.outages: dict[str, int] = {}
        self.shares = False
        for event in WAYS[member_state]:
            self._take(
                MEMBERSHIP_TRANSITIONS[MembershipState.JOINING if event in FROM_MEMBERS else MembershipState.NEW, event]
            )

    def apply(self, event: MembershipEvent, verdict: MembershipEvent) -> None:
        self._take(MEMBERSHIP_TRANSITIONS[self._membership_state, event])
        if MEMBERSHIP_TRANSITIONS[self._membership_state, event].action is MembershipAction.COMPARE:
            self._take(
                MEMBERSHIP_TRANSITIONS[MEMBERSHIP_TRANSITIONS[self._membership_state, event].next_state, verdict]
            )

    def _take(self, step: MembershipTransition) -> None:
        for subject in (*step.resolved, *step.unknown):
            self.outages.pop(subject, None)
        if step.problem is not None:
            self.outages[step.problem.subject] = step.problem.limit.in_ms(CLUSTER_TIMEOUT_MS)
        self.shares = step.action is MembershipAction.SHARE


def group_with(member_state: MembershipState) -> tuple[Group, Membership]:
    group = Group(subscriptions=AT_ODDS)
    member = group.member(clusterTimeoutMs=str(CLUSTER_TIMEOUT_MS))
    if member_state is not MembershipState.NEW:
        group.cluster.set_others(*["you"] * (member_state is MembershipState.JOINING))
        member.refresh_metadata()
    return group, member


def report(group: Group, event: MembershipEvent, verdict: MembershipEvent) -> None:
    if event is MembershipEvent.NO_RESPONSE:
        group.broker.reach = Reach.UNRESPONSIVE
    if event is MembershipEvent.NOT_LISTED:
        group.broker.connections.clear()
        group.broker.ignores_heartbeats = True
    group.cluster.set_others(
        *["me"] * (event is MembershipEvent.LISTED_TWICE), *["you"] * (verdict is MembershipEvent.INCONSISTENT)
    )


@pytest.mark.parametrize("member_state", MembershipState)
@pytest.mark.parametrize("event", FROM_LISTS)
@pytest.mark.parametrize("verdict", FROM_MEMBERS)
def test_a_member_plans_and_waits_as_the_table_defines(
    member_state: MembershipState, event: MembershipEvent, verdict: MembershipEvent
) -> None:
    group, member = group_with(member_state)
    received = Received(member_state)
    received.apply(event, verdict)
    report(group, event, verdict)
    assert bool(member.refresh_metadata().owned) is received.shares
    outages = [wait for wait in member.log_and_snapshot().outages if wait.resource in (GROUP, IDENTITY, SUBSCRIPTIONS)]
    assert {wait.resource: wait.until_ms for wait in outages} == {
        resource: group.clock() + limit_ms for resource, limit_ms in received.outages.items()
    }
