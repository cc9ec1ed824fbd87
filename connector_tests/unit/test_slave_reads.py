"""Brokers without a master that a member reads at a slave."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import pytest

from connector_tests.support.manual_clock import ManualClock
from connector_tests.support.queues import queues
from connector_tests.support.simulated_cluster import Reach, SimulatedCluster, SimulatedClusterClient
from connector_tests.support.state_tables import connected_states
from rocketmq_spark.consumer.outage_aware_client import OutageAwareClient
from rocketmq_spark.consumer.outage_tracker import OutageTracker
from rocketmq_spark.consumer.slave_reads import TRANSITIONS, MasterEvent, MasterState, _Master
from rocketmq_spark.consumer.subscribed_topics import SubscribedTopics
from rocketmq_spark.model import BrokerAddress, MessageQueue
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.remoting.retry import REQUEST_PAUSES

(QUEUE,) = queues(1, broker_name="a")
NO_LIMIT = "no time limit"
PAIRS = list(product(MasterState, MasterEvent))


class Case:
    """A broker whose master has gone; the only server that is left is the slave 1, at the same address."""

    def __init__(self, read_from: str) -> None:
        given = {"namesrvAddr": "n:9876", "consumerGroup": "g", "subscribe": "orders", "readFrom": read_from}
        options = ReadOptions.parse(given)
        self.clock = ManualClock()
        self.cluster = SimulatedCluster("a", self.clock)
        self.cluster.create_topic("orders", {"a": 1})
        client = SimulatedClusterClient(self.cluster, "us")
        topics = SubscribedTopics(options)
        self.tracker = OutageTracker(topics, client.routes, self.clock)
        self.servers = OutageAwareClient(options, client, topics, self.tracker)
        self.refresh()
        self.cluster.brokers["a"].master_id = 1
        self.refresh()

    def refresh(self) -> None:
        self.servers.topic_routes.refresh()
        self.servers.query_bounds(of_slaves=True)

    def offsets_at_slave(self, queue: MessageQueue) -> Sequence[object]:
        return self.servers.call_each([queue], lambda broker, of: broker.submit_query_offsets("g", of), of_slaves=True)


def test_a_broker_without_a_master_is_queried_at_its_slave() -> None:
    case = Case("auto")
    assert case.servers.slave_reads.brokers == {"a"}
    assert list(case.servers.query_bounds(of_slaves=True)) == [QUEUE]
    assert case.offsets_at_slave(QUEUE)
    assert case.servers.search_offsets({QUEUE: 0}) == {QUEUE: 0}


def test_a_slave_gets_no_commit_and_no_lock_and_shows_no_loss() -> None:
    case = Case("auto")
    assert not case.servers.may_commit(QUEUE)
    assert case.servers.call_each([QUEUE], lambda broker, of: broker.submit_lock_batch("g", "us", of)) == []
    assert case.servers.call("a", lambda broker: broker.consume_reset("g", QUEUE)) is None
    assert case.servers.query_bounds() == {}
    assert not case.tracker.is_complete()


def test_only_the_master_is_queried_by_default() -> None:
    case = Case("master")
    assert case.servers.slave_reads.brokers == frozenset()
    assert case.servers.query_bounds(of_slaves=True) == {}
    assert case.offsets_at_slave(QUEUE) == []


def test_the_start_and_the_end_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    case = Case("auto")
    for _ in range(3):
        case.clock.advance(2_000)
        case.refresh()
        case.tracker.log_outages()
    case.cluster.brokers["a"].master_id = 0
    case.refresh()
    case.tracker.log_outages()
    begun, over = (record.getMessage() for record in caplog.records)
    assert begun.startswith(f"READING_FROM_SLAVE: Waiting for the master of broker a ({NO_LIMIT}): ")
    assert over == "READING_FROM_SLAVE: Recovered after 6.0 s: the master of broker a"
    assert case.servers.may_commit(QUEUE)


def hanging_masters() -> tuple[OutageAwareClient, SimulatedClusterClient, ManualClock]:
    """Two brokers with slaves, whose masters have not responded to their last requests."""
    given = {"namesrvAddr": "n:9876", "consumerGroup": "g", "subscribe": "orders", "readFrom": "auto"}
    options, clock = ReadOptions.parse(given), ManualClock()
    cluster = SimulatedCluster("ab", clock)
    cluster.create_topic("orders", {"a": 1, "b": 1})
    for name in "ab":
        cluster.replicate(name)
    client = SimulatedClusterClient(cluster, "us")
    topics = SubscribedTopics(options)
    servers = OutageAwareClient(options, client, topics, OutageTracker(topics, client.routes, clock))
    servers.refresh_routes()
    cluster.set_reach(Reach.UNRESPONSIVE)
    assert servers.query_bounds(of_slaves=True) == {}
    return servers, client, clock


def test_hanging_masters_are_tried_together_and_again_only_after_a_pause() -> None:
    """They were tried one after another, and before almost each plan: the pause began before that."""
    servers, client, clock = hanging_masters()
    servers.refresh_routes()
    assert servers.slave_reads.brokers == {"a", "b"}
    for _ in range(10):  # the pause grows
        clock.advance(REQUEST_PAUSES.longest_ms)
        servers.refresh_routes()
    clock.advance(REQUEST_PAUSES.longest_ms)
    client.round_trip_ms = 3_000
    began_ms = clock()
    servers.refresh_routes()
    assert clock() - began_ms == 2 * client.round_trip_ms, "of the routes, and of both masters"
    servers.refresh_routes()
    assert clock() - began_ms == 3 * client.round_trip_ms


# ------------------------------------------------------------------------------------------------ the table


def test_a_master_goes_through_all_its_states() -> None:
    servers, _, clock = hanging_masters()
    reads, refresh = servers.slave_reads, servers.topic_routes.refresh
    seen = []

    def note() -> None:
        seen.append({name: master.state.name for name, master in reads._masters.items()})

    refresh()
    note()
    clock.advance(REQUEST_PAUSES.longest_ms)
    refresh()
    note()
    reads.record_tries(["a"])
    note()
    refresh()
    note()
    assert seen == [
        {"a": "UNRESPONSIVE", "b": "UNRESPONSIVE"},
        {"a": "DUE", "b": "DUE"},
        {"a": "RESPONDED", "b": "UNRESPONSIVE"},
        {"b": "UNRESPONSIVE"},
    ]
    assert reads.brokers == {"b"}
    assert reads.due_masters == {}


@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_a_master_changes_as_the_table_has_it_or_not_at_all(pair: tuple[MasterState, MasterEvent]) -> None:
    state, event = pair
    master = _Master(BrokerAddress("m:10911"), state)
    if pair in TRANSITIONS:
        master.apply(event)
    else:
        with pytest.raises(ValueError, match=f"the master at m:10911 is {state.name}, which has no event {event.name}"):
            master.apply(event)
    assert master.state is TRANSITIONS.get(pair, state)


def test_no_master_is_stuck() -> None:
    """From every state there is a way to every other."""
    assert connected_states(TRANSITIONS) >= set(product(MasterState, MasterState))
