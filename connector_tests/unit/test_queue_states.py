"""The life of a queue in a member: every state and every event, and what cannot happen changes nothing."""

from __future__ import annotations

from itertools import product

import pytest

from connector_tests.support.manual_clock import ManualClock
from connector_tests.support.queues import queues
from connector_tests.support.simulated_cluster import SimulatedCluster, SimulatedClusterClient
from connector_tests.support.state_tables import connected_states
from rocketmq_spark.consumer.membership import Membership
from rocketmq_spark.consumer.rebalance import TRANSITIONS, QueueEvent, QueueState, QueueStates
from rocketmq_spark.options import ReadOptions

A, B = queues(2)
WAYS = {
    QueueState.NOT_OWNED: (),
    QueueState.AWAITING_LOCK: (QueueEvent.LOCK_DENIED,),
    QueueState.OWNED: (QueueEvent.ADDED,),
    QueueState.RELEASING: (QueueEvent.ADDED, QueueEvent.REASSIGNED),
}
PAIRS = list(product(QueueState, QueueEvent))
LEGAL = [pair for pair in PAIRS if pair in TRANSITIONS]
ILLEGAL = [pair for pair in PAIRS if pair not in TRANSITIONS]


def in_state(state: QueueState) -> QueueStates:
    states = QueueStates()
    for event in WAYS[state]:
        states.apply(event, [A])
    return states


def everything(states: QueueStates) -> dict[QueueState, frozenset[object]]:
    return {state: frozenset(states.in_state(state)) for state in QueueState}


@pytest.mark.parametrize("state", QueueState)
def test_every_state_is_reached(state: QueueState) -> None:
    assert in_state(state).state(A) is state


@pytest.mark.parametrize(("state", "event"), LEGAL)
def test_what_may_happen_leads_where_the_table_defines_and_touches_no_other(
    state: QueueState, event: QueueEvent
) -> None:
    states = in_state(state)
    states.apply(QueueEvent.ADDED, [B])
    states.apply(event, [A])
    after = TRANSITIONS[state, event]
    assert states.state(A) is after
    assert (A in states.in_state(after)) is (after is not QueueState.NOT_OWNED)
    assert states.state(B) is QueueState.OWNED


@pytest.mark.parametrize(("state", "event"), ILLEGAL)
def test_what_cannot_happen_raises_and_changes_nothing(state: QueueState, event: QueueEvent) -> None:
    states = in_state(state)
    before = everything(states)
    with pytest.raises(ValueError, match=f"{A} is {state.name}, which has no event {event.name}"):
        states.apply(event, [A])
    assert everything(states) == before


def test_what_cannot_happen_to_one_happens_to_none() -> None:
    states = in_state(QueueState.OWNED)
    before = everything(states)
    for both in ([A, B], [B, A]):
        with pytest.raises(ValueError, match="NOT_OWNED, which has no event DROPPED"):
            states.apply(QueueEvent.DROPPED, both)
        assert everything(states) == before


def test_no_queue_is_stuck() -> None:
    """From every state there is a way to every other."""
    assert connected_states(TRANSITIONS) >= set(product(QueueState, QueueState))


# ------------------------------------------------------------------------------------------------ in a membership


@pytest.fixture
def cluster() -> SimulatedCluster:
    """Two queues at one broker."""
    cluster = SimulatedCluster(["broker-a"], ManualClock())
    cluster.create_topic("orders", {"broker-a": 2})
    return cluster


def member_of(cluster: SimulatedCluster) -> Membership:
    given = {"namesrvAddr": "n:9876", "consumerGroup": "g", "subscribe": "orders", "consumeOrderly": "true"}
    client = SimulatedClusterClient(cluster, "our connection")
    return Membership(ReadOptions.parse(given), "me", client, cluster.clock, cluster.clock, started_ms=1)


def requests_to_retry_locks(orderly: Membership, cluster: SimulatedCluster) -> int:
    before = cluster.now
    orderly.retry_locks()
    return cluster.now - before


def test_an_orderly_member_leads_a_queue_through_all_its_states(cluster: SimulatedCluster) -> None:
    orderly, broker = member_of(cluster), cluster.brokers["broker-a"]
    broker.locks[B] = "you", cluster.clock()
    assert orderly.refresh_metadata().owned == {A}
    assert requests_to_retry_locks(orderly, cluster) > 0
    del broker.locks[B]
    orderly.retry_locks()
    assert orderly.refresh_metadata().owned == {A, B}
    assert requests_to_retry_locks(orderly, cluster) == 0
    orderly.mark_in_flight({B: (0, 10)})
    cluster.set_others("you")
    assert orderly.refresh_metadata().owned == {A}
    assert {held.queue for held in orderly.process_queues} == {A, B}
    cluster.set_others()
    assert orderly.refresh_metadata().owned == {A, B}
    cluster.set_others("you")
    assert orderly.refresh_metadata().owned == {A}
    orderly.mark_completed({B: 10}, {})
    assert {held.queue for held in orderly.process_queues} == {A}


def test_a_lock_that_was_refused_is_not_tried_again_for_a_queue_that_is_another_s_by_now(
    cluster: SimulatedCluster,
) -> None:
    orderly = member_of(cluster)
    cluster.brokers["broker-a"].locks[B] = "you", cluster.clock()
    orderly.refresh_metadata()
    cluster.set_others("you")
    assert orderly.refresh_metadata().owned == {A}
    assert requests_to_retry_locks(orderly, cluster) == 0
