"""What a member is to its group: every standing and all that it is told, and what cannot be told changes nothing."""

from __future__ import annotations

from itertools import product

import pytest

from connector_tests.support.one_broker_group import Group
from connector_tests.support.simulated_cluster import Reach
from rocketmq_spark.consumer.membership import Membership
from rocketmq_spark.consumer.standing import (
    GROUP,
    IDENTITY,
    NAMESAKE_LIMIT_MS,
    NEWCOMER_LIMIT_MS,
    STEPS,
    SUBSCRIPTIONS,
    GroupStanding,
    Limit,
    Standing,
    Step,
    Then,
    Told,
    told_by,
)

WAYS = {
    Standing.NAMELESS: (),
    Standing.NEWCOMER: (Told.LISTED, Told.DIFFERS),
    Standing.MEMBER: (Told.LISTED, Told.AGREES),
}
PAIRS = list(product(Standing, Told))
LEGAL = [pair for pair in PAIRS if pair in STEPS]
ILLEGAL = [pair for pair in PAIRS if pair not in STEPS]
FROM_LISTS = [Told.NOTHING, Told.NOT_LISTED, Told.LISTED_TWICE, Told.LISTED]
FROM_MEMBERS = [Told.DIFFERS, Told.AGREES]


def of_standing(standing: Standing) -> GroupStanding:
    member = GroupStanding()
    for told in WAYS[standing]:
        member.hear(told)
    return member


@pytest.mark.parametrize("standing", Standing)
def test_every_standing_is_reached(standing: Standing) -> None:
    assert of_standing(standing).now is standing


@pytest.mark.parametrize(("standing", "told"), LEGAL)
def test_what_may_be_told_leads_where_the_table_says(standing: Standing, told: Told) -> None:
    member = of_standing(standing)
    assert member.hear(told) is STEPS[standing, told]
    assert member.now is STEPS[standing, told].after


@pytest.mark.parametrize(("standing", "told"), ILLEGAL)
def test_what_cannot_be_told_raises_and_changes_nothing(standing: Standing, told: Told) -> None:
    member = of_standing(standing)
    with pytest.raises(ValueError, match=f"who is {standing.name} cannot be told {told.name}"):
        member.hear(told)
    assert member.now is standing


def test_who_may_have_another_s_client_id_compares_nothing_and_everything_else_may_be_told() -> None:
    assert set(ILLEGAL) == set(product([Standing.NAMELESS], FROM_MEMBERS))


@pytest.mark.parametrize(("standing", "told"), LEGAL)
def test_no_standing_is_lost_again(standing: Standing, told: Told) -> None:
    order = list(Standing)
    assert order.index(STEPS[standing, told].after) >= order.index(standing)


@pytest.mark.parametrize(("standing", "told"), LEGAL)
def test_who_compares_may_be_told_how_that_ends_and_then_shares_or_waits(standing: Standing, told: Told) -> None:
    step = STEPS[standing, told]
    if told in FROM_MEMBERS:
        assert step.then in (Then.SHARE, Then.WAIT)
    else:
        assert step.then is not Then.SHARE
    if step.then is Then.COMPARE:
        assert {(step.after, verdict) for verdict in FROM_MEMBERS} <= STEPS.keys()


@pytest.mark.parametrize(("standing", "told"), LEGAL)
def test_who_plans_nothing_says_for_what_it_waits_or_nobody_says_anything(standing: Standing, told: Told) -> None:
    step = STEPS[standing, told]
    waits = step.then in (Then.WAIT, Then.ASK_WHY)
    assert (step.awaited is not None) or not waits
    assert bool(step.unsaid) is (told is Told.NOTHING)


@pytest.mark.parametrize(
    ("client_ids", "told"),
    [
        (None, Told.NOTHING),
        ([], Told.NOT_LISTED),
        (["you", "you"], Told.NOT_LISTED),
        (["me", "you", "you"], Told.LISTED),
        (["me", "me"], Told.LISTED_TWICE),
        (["me", "me", "me", "you"], Told.LISTED_TWICE),
    ],
)
def test_what_the_lists_say(client_ids: list[str] | None, told: Told) -> None:
    assert told_by(client_ids, "me") is told


@pytest.mark.parametrize(
    ("limit", "cluster_timeout_ms", "limit_ms"),
    [
        (Limit.CLUSTER, 5, 5),
        (Limit.NAMESAKE, 5, NAMESAKE_LIMIT_MS),
        (Limit.NEWCOMER, 5, 5),
        (Limit.NEWCOMER, 3_600_000, NEWCOMER_LIMIT_MS),
    ],
)
def test_limits(limit: Limit, cluster_timeout_ms: int, limit_ms: int) -> None:
    assert limit.in_ms(cluster_timeout_ms) == limit_ms


# ------------------------------------------------------------------------------------------------ in a membership

AT_ODDS = {"you": {"bills": "*"}}
CLUSTER_TIMEOUT_MS = 60_000


class Heard:
    """What the table says of a member that is told this and that."""

    def __init__(self, standing: Standing) -> None:
        self._standing = standing
        self.waits: dict[str, int] = {}
        self.shares = False
        for told in WAYS[standing]:
            self._take(STEPS[Standing.NEWCOMER if told in FROM_MEMBERS else Standing.NAMELESS, told])

    def hear(self, told: Told, verdict: Told) -> None:
        self._take(STEPS[self._standing, told])
        if STEPS[self._standing, told].then is Then.COMPARE:
            self._take(STEPS[STEPS[self._standing, told].after, verdict])

    def _take(self, step: Step) -> None:
        for subject in (*step.settled, *step.unsaid):
            self.waits.pop(subject, None)
        if step.awaited is not None:
            self.waits[step.awaited.subject] = step.awaited.limit.in_ms(CLUSTER_TIMEOUT_MS)
        self.shares = step.then is Then.SHARE


def group_with(standing: Standing) -> tuple[Group, Membership]:
    group = Group(subscriptions=AT_ODDS)
    member = group.member(clusterTimeoutMs=str(CLUSTER_TIMEOUT_MS))
    if standing is not Standing.NAMELESS:
        group.cluster.set_others(*["you"] * (standing is Standing.NEWCOMER))
        member.survey()
    return group, member


def tell(group: Group, told: Told, verdict: Told) -> None:
    if told is Told.NOTHING:
        group.broker.reach = Reach.SILENT
    if told is Told.NOT_LISTED:
        group.broker.connections.clear()
        group.broker.hears_nothing = True
    group.cluster.set_others(*["me"] * (told is Told.LISTED_TWICE), *["you"] * (verdict is Told.DIFFERS))


@pytest.mark.parametrize("standing", Standing)
@pytest.mark.parametrize("told", FROM_LISTS)
@pytest.mark.parametrize("verdict", FROM_MEMBERS)
def test_a_member_plans_and_waits_as_the_table_says(standing: Standing, told: Told, verdict: Told) -> None:
    group, member = group_with(standing)
    heard = Heard(standing)
    heard.hear(told, verdict)
    tell(group, told, verdict)
    assert bool(member.survey().owned) is heard.shares
    waits = [wait for wait in member.publish().waits if wait.what in (GROUP, IDENTITY, SUBSCRIPTIONS)]
    assert {wait.what: wait.until_ms for wait in waits} == {
        what: group.clock() + limit_ms for what, limit_ms in heard.waits.items()
    }
