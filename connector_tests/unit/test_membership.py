from __future__ import annotations

import logging
from collections.abc import Collection, Mapping

import pytest

from connector_tests.support.manual_clock import ManualClock
from connector_tests.support.one_broker_group import QUEUES, Group, committed_to, refreshes_per_minute
from connector_tests.support.refusals import refused
from connector_tests.support.simulated_cluster import (
    Reach,
    SimulatedBroker,
    SimulatedCluster,
    SimulatedClusterClient,
)
from rocketmq_spark.consumer.membership import Membership
from rocketmq_spark.consumer.offset_store import LocalFileOffsetStore, decode_offsets
from rocketmq_spark.errors import BrokerError, TransportError
from rocketmq_spark.model import BrokerAddress, MessageQueue
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.remoting.retry import REQUEST_PAUSES
from rocketmq_spark.wire.remoting.codes import ResponseCode


def assignments(member: Membership) -> dict[MessageQueue, int]:
    return {held.queue: held.generation for held in member.process_queues}


def test_a_member_alone_owns_every_queue() -> None:
    assert Group().member().refresh_metadata().owned == set(QUEUES)


REFUSED_TO_US = BrokerError("TOPIC_DENIED", address="a:1", request="PULL", code=16, remark="not you", topic="orders")


def test_what_is_refused_to_us_alone_is_not_waited_for() -> None:
    group = Group()
    member = group.member()
    member.refresh_metadata()
    group.broker.pull_refusal = REFUSED_TO_US
    with pytest.raises(BrokerError, match="TOPIC_DENIED"):
        member.client.probe_store_times({QUEUES[0]: 0})


@pytest.mark.parametrize("condition", ["TLS_REQUIRED", "CONNECT_FAILED"])
def test_name_servers_that_will_not_let_us_in_are_not_waited_for(condition: str) -> None:
    group = Group()
    group.cluster.name_server_error = TransportError(condition, address="n:9876", reason="it says no more")
    member = group.member()
    if condition == "CONNECT_FAILED":
        assert not member.refresh_metadata().is_complete
    else:
        with pytest.raises(TransportError, match="TLS_REQUIRED"):
            member.refresh_metadata()


def test_an_orderly_member_owns_only_what_it_could_lock() -> None:
    group = Group()
    group.lock_for_another(QUEUES[1])
    orderly = group.member(consumeOrderly="true")
    assert orderly.refresh_metadata().owned == set(QUEUES) - {QUEUES[1]}
    del group.broker.locks[QUEUES[1]]
    orderly.retry_locks()
    assert assignments(orderly).keys() == set(QUEUES), "before any survey"
    assert orderly.refresh_metadata().owned == set(QUEUES)


def test_a_lock_that_was_refused_is_not_tried_again_once_its_queue_is_another_members() -> None:
    group = Group()
    group.lock_for_another(QUEUES[3])
    orderly = group.member(consumeOrderly="true")
    orderly.refresh_metadata()
    group.cluster.set_others("you")
    orderly.refresh_metadata()
    before = group.cluster.now
    orderly.retry_locks()
    assert group.cluster.now == before


def test_a_queue_that_is_being_released_is_kept_where_it_is_no_longer_required() -> None:
    group = Group()
    orderly = group.member(consumeOrderly="true")
    orderly.refresh_metadata()
    orderly.mark_in_flight({QUEUES[3]: (0, 10)})
    group.cluster.set_others("you")
    assert orderly.refresh_metadata().releasing == {QUEUES[3]}
    group.cluster.set_others()
    snapshot = orderly.refresh_metadata()
    assert snapshot.owned == set(QUEUES)
    assert snapshot.releasing == set()


def test_nothing_that_is_skipped_is_reported_while_the_group_does_not_list_us() -> None:
    group = Group()
    orderly = group.member(consumeOrderly="true")
    orderly.refresh_metadata()
    orderly.mark_in_flight({QUEUES[3]: (0, 10)})
    group.cluster.set_others("you")
    orderly.refresh_metadata()
    group.broker.connections.clear()
    group.broker.ignores_heartbeats = True
    snapshot = orderly.refresh_metadata()
    assert len(snapshot.owned) == len(snapshot.releasing) == 0
    assert not snapshot.is_complete


def test_a_refresh_reports_which_brokers_delete_offsets_with_their_topic() -> None:
    assert Group().member().refresh_metadata().brokers_deleting_offsets == {"broker-a"}


def test_an_orderly_queue_with_an_uncompleted_range_is_released_only_when_it_is_completed_and_committed() -> None:
    group = Group()
    orderly = group.member(consumeOrderly="true")
    orderly.refresh_metadata()
    orderly.mark_in_flight({QUEUES[3]: (0, 10)})
    group.cluster.set_others("you")
    assert orderly.refresh_metadata().owned == {QUEUES[0], QUEUES[1]}
    assert group.locked == {QUEUES[0], QUEUES[1], QUEUES[3]}
    orderly.mark_completed({QUEUES[3]: 10}, {})
    assert group.broker.offsets == {QUEUES[3]: 10}
    assert group.locked == {QUEUES[0], QUEUES[1]}


def test_a_concurrent_queue_is_released_at_once_and_what_is_completed_later_is_not_committed() -> None:
    group = Group()
    concurrent = group.member()
    concurrent.refresh_metadata()
    concurrent.mark_in_flight({QUEUES[3]: (0, 10)})
    group.cluster.set_others("you")
    assert concurrent.refresh_metadata().owned == {QUEUES[0], QUEUES[1]}
    concurrent.mark_completed({QUEUES[3]: 10}, {})
    assert group.broker.offsets == {}
    assert concurrent.completed_after_rebalance == 1


def test_a_completion_is_late_when_its_queue_has_another_assignment_by_then_or_none_and_is_counted_once() -> None:
    group = Group()
    member = group.member()
    member.refresh_metadata()
    stays, comes_back, goes, _unplanned = QUEUES
    member.mark_in_flight({stays: (0, 10), comes_back: (0, 10), goes: (0, 10)})
    before = assignments(member)
    for others in (("x", "y", "z"), (), ("x",)):
        group.cluster.set_others(*others)
        member.refresh_metadata()
    assert assignments(member) == {stays: before[stays], comes_back: 5}
    for _ in range(2):
        member.mark_completed(dict.fromkeys(QUEUES, 10), {})
    assert member.completed_after_rebalance == 2


def test_a_completion_within_a_range_commits_no_further_than_where_that_begins() -> None:
    """A restart may have planned otherwise than what was logged: what is in flight is not in the sink as a whole."""
    group = Group()
    member = group.member()
    member.refresh_metadata()
    member.mark_in_flight({QUEUES[0]: (0, 4)})
    member.mark_in_flight({QUEUES[0]: (4, 8)})
    member.mark_completed({QUEUES[0]: 6}, {})
    assert group.broker.offsets == {QUEUES[0]: 4}
    member.mark_completed({QUEUES[0]: 8}, {})
    assert group.broker.offsets == {QUEUES[0]: 8}


def test_how_far_a_queue_was_planned_is_forgotten_with_it() -> None:
    """Operators' tools would show it as if it were planned here."""
    group = Group()
    member = group.member()
    member.refresh_metadata()
    member.mark_in_flight({QUEUES[0]: (0, 4), QUEUES[3]: (0, 7)})
    assert member.log_and_snapshot().view.positions == {QUEUES[0]: 4, QUEUES[3]: 7}
    group.cluster.set_others("you")
    member.refresh_metadata()
    assert member.log_and_snapshot().view.positions == {QUEUES[0]: 4}


def test_operators_are_shown_members_queues_times_and_offsets() -> None:
    group = Group()
    group.clock.advance(7)
    member = group.member(consumeOrderly="true")
    member.refresh_metadata()
    published = member.log_and_snapshot()
    assert published.masters == {"broker-a": BrokerAddress(group.broker.address)}
    assert (published.view.consumer.group, published.view.name_servers, published.view.started_ms) == (
        "g",
        ("n:9876",),
        1,
    )
    held = published.view.process_queues[QUEUES[0]]
    assert (held.commit_offset, held.cached_count, held.is_locked, held.last_lock_timestamp_ms) == (0, 0, True, 7)
    member.mark_in_flight({QUEUES[0]: (0, 10)})
    assert member.log_and_snapshot().view.process_queues[QUEUES[0]].cached_count == 10
    member.mark_completed({QUEUES[0]: 10}, {})
    held = member.log_and_snapshot().view.process_queues[QUEUES[0]]
    assert (held.commit_offset, held.cached_count) == (10, 0)


def test_what_was_confirmed_before_it_was_completed_is_in_flight_no_more() -> None:
    group = Group()
    member = group.member()
    member.refresh_metadata()
    member.offsets.raise_to({QUEUES[0]: 10})
    member.mark_in_flight({QUEUES[0]: (0, 10)})
    assert member.log_and_snapshot().view.process_queues[QUEUES[0]].cached_count == 10
    member.mark_completed({QUEUES[0]: 10}, {})
    assert member.log_and_snapshot().view.process_queues[QUEUES[0]].cached_count == 0


def test_each_change_of_ownership_is_one_more_and_so_is_each_broker_that_responds_again() -> None:
    group = Group()
    member = group.member()
    changes = [member.log_and_snapshot().changes]
    for others in ((), ("you",), ("you",), ()):
        group.cluster.set_others(*others)
        member.refresh_metadata()
        changes.append(member.log_and_snapshot().changes)
    assert changes == [0, 1, 2, 2, 3]
    group.broker.reach = Reach.UNRESPONSIVE
    member.refresh_metadata()
    unresponsive_ms = group.clock()
    due_ms = member.log_and_snapshot().next_try_ms
    assert due_ms is not None
    assert [member.log_and_snapshot().is_due(at_ms) for at_ms in (unresponsive_ms, due_ms - 1, due_ms)] == [
        False,
        False,
        True,
    ]
    group.broker.reach = Reach.UP
    group.clock.advance(REQUEST_PAUSES.longest_ms)
    member.refresh_metadata()
    assert member.log_and_snapshot().changes == 4


def test_a_change_of_ownership_is_logged_with_some_of_the_queues(caplog: pytest.LogCaptureFixture) -> None:
    group = Group(brokers=2)
    group.cluster.grow("orders", "broker-a", 1)
    member = group.member()
    with caplog.at_level(logging.INFO, "rocketmq_spark.consumer.membership"):
        member.refresh_metadata()
        group.cluster.show("orders", "broker-a", 4)
        member.refresh_metadata()
        Group(brokers=2).member().refresh_metadata()
    a, b = ([f"orders@broker-{letter}:{number}" for number in range(5)] for letter in "ab")
    assert caplog.messages == [
        f"REBALANCED: Queues added: 9 ({', '.join(a + b[:3])}, ...); queues removed: none",
        f"REBALANCED: Queues added: none; queues removed: 1 ({a[4]})",
        f"REBALANCED: Queues added: 8 ({', '.join(a[:4] + b[:4])}); queues removed: none",
    ]


def test_leaving_keeps_the_locks_of_queues_with_unproven_ranges() -> None:
    group = Group()
    orderly = group.member(consumeOrderly="true")
    orderly.refresh_metadata()
    orderly.mark_in_flight({QUEUES[0]: (0, 10)})
    orderly.leave()
    assert group.locked == {QUEUES[0]}
    assert group.broker.consumer_ids() == []


def test_a_lock_that_may_have_expired_is_renewed_before_anything_is_planned() -> None:
    group = Group()
    orderly = group.member(consumeOrderly="true")
    orderly.refresh_metadata()
    group.clock.advance(30_000)
    group.lock_for_another(QUEUES[2])
    assert orderly.refresh_metadata().owned == set(QUEUES) - {QUEUES[2]}


class LosesOne(SimulatedBroker):
    """Confirms several first offsets that come at once, and has one less then."""

    def store(self, offsets: Mapping[MessageQueue, int]) -> None:
        were_there = bool(self.offsets)
        super().store(offsets)
        if not were_there:
            self.offsets.pop(QUEUES[1])


class BecomesUnresponsive(LosesOne):
    """And answers nothing after that."""

    def store(self, offsets: Mapping[MessageQueue, int]) -> None:
        super().store(offsets)
        self.reach = Reach.UNRESPONSIVE


def with_broker(kind: type[SimulatedBroker]) -> Group:
    group = Group()
    group.cluster.brokers["broker-a"] = kind("broker-a", group.clock, stored_ms=group.broker.stored_ms)
    return group


def test_a_first_offset_that_a_broker_confirmed_and_lost_is_sent_again() -> None:
    """Its queue looked new then, and with ``latest`` it was read from its first message instead of from its end."""
    group = with_broker(LosesOne)
    member = group.member()
    member.refresh_metadata()
    assert member.offsets.raise_to({QUEUES[0]: 50, QUEUES[1]: 60}) == {QUEUES[0], QUEUES[1]}
    assert group.broker.offsets == {QUEUES[0]: 50, QUEUES[1]: 60}


def test_a_first_offset_that_cannot_be_probed_again_is_not_confirmed() -> None:
    member = with_broker(BecomesUnresponsive).member()
    member.refresh_metadata()
    assert member.offsets.raise_to({QUEUES[0]: 50, QUEUES[1]: 60}) == set()


def test_nothing_is_written_where_the_groups_offset_has_vanished() -> None:
    """The topic may be another one of the same name, and the next owner would take our number for its own."""
    group = Group()
    member = committed_to(group, 10)
    group.broker.recreate(QUEUES[0])
    before = member.log_and_snapshot().changes
    member.mark_completed({QUEUES[0]: 20}, {})
    member.offsets.persist()
    assert group.broker.offsets == {}
    assert member.offsets.suspect == {QUEUES[0]}
    assert member.log_and_snapshot().changes == before + 1
    member.offsets.discard(QUEUES[0])
    assert member.offsets.raise_to({QUEUES[0]: 20}) == {QUEUES[0]}
    assert group.broker.offsets == {QUEUES[0]: 20}


def test_what_is_completed_is_persisted_before_a_queue_is_dropped() -> None:
    group = Group()
    member = group.member()
    member.refresh_metadata()
    member.offsets.mark_completed(QUEUES[3], 7)
    group.cluster.set_others("you")
    assert QUEUES[3] not in member.refresh_metadata().owned
    assert group.broker.offsets == {QUEUES[3]: 7}


def test_a_commit_that_was_refused_by_a_broker_that_became_unresponsive_then_is_not_due_all_the_time() -> None:
    """It cannot be tried while the broker is left alone: 83 surveys a second were once made of such, and then four."""
    group = Group()
    member = committed_to(group, 10)
    group.broker.write_refusal = refused(ResponseCode.SYSTEM_ERROR)
    member.mark_completed({QUEUES[0]: 20}, {})
    assert member.offsets.unconfirmed == {QUEUES[0]: 20}
    group.broker.reach = Reach.UNRESPONSIVE
    assert refreshes_per_minute(group, member) < 20


def test_what_the_broker_of_a_lost_queue_did_not_store_is_not_written_later() -> None:
    """Its next owner may have begun again from an operator's reset, or read on: the offset is that member's to tell."""
    group = Group()
    group.broker.write_refusal = TransportError("RESPONSE_TIMED_OUT", address="broker-a:1", request="X", timeout_ms=1)
    member = group.member()
    member.refresh_metadata()
    member.offsets.mark_completed(QUEUES[0], 7)
    member.offsets.mark_completed(QUEUES[3], 7)
    group.cluster.set_others("you")
    assert QUEUES[3] not in member.refresh_metadata().owned
    group.broker.write_refusal = None
    group.clock.advance(REQUEST_PAUSES.longest_ms)
    assert member.offsets.persist()
    assert group.broker.offsets == {QUEUES[0]: 7}


class LocksSlowly(SimulatedBroker):
    """Ten seconds, within a client's patience."""

    def lock(self, client_id: str, queues: Collection[MessageQueue]) -> set[MessageQueue]:
        granted = super().lock(client_id, queues)
        assert isinstance(self.clock, ManualClock)
        self.clock.advance(10_000)
        return granted


def test_a_locks_time_counts_from_before_it_was_requested() -> None:
    """The broker counts from some moment before its answer; from after it, two members could hold one lock."""
    group = with_broker(LocksSlowly)
    orderly = group.member(consumeOrderly="true")
    called_ms = group.clock()
    orderly.refresh_metadata()
    published = orderly.log_and_snapshot().view.process_queues
    assert {published[queue].last_lock_timestamp_ms for queue in QUEUES} == {called_ms}


def test_a_lock_is_forgotten_with_its_queue() -> None:
    """Another member may have it since: trusted on, one queue would have two owners."""
    group = Group()
    orderly = group.member(consumeOrderly="true")
    orderly.refresh_metadata()
    group.cluster.set_others("you")
    assert QUEUES[3] not in orderly.refresh_metadata().owned
    group.lock_for_another(QUEUES[3])
    group.cluster.set_others()
    assert orderly.refresh_metadata().owned == set(QUEUES) - {QUEUES[3]}


class NoFile:
    """Offsets that are kept in memory."""

    def read(self) -> tuple[None, None]:
        return None, None

    def write(self, content: bytes, *, keep_backup: bool) -> None:
        self.content = content


def test_in_broadcasting_each_member_owns_every_queue_and_the_brokers_keep_no_offset() -> None:
    group, file = Group("you"), NoFile()
    given = {"namesrvAddr": "n:9876", "consumerGroup": "g", "subscribe": "orders", "messageModel": "BROADCASTING"}
    options, client = (
        ReadOptions.parse({**given, "instanceName": "one"}),
        SimulatedClusterClient(group.cluster, "our connection"),
    )
    store = LocalFileOffsetStore(file)
    member = Membership(options, "me", client, group.clock, group.clock, started_ms=1, local_offsets=store)
    assert member.refresh_metadata().owned == set(QUEUES)
    assert member.members.consumer_data.message_model == "BROADCASTING"
    member.mark_in_flight({QUEUES[0]: (0, 10)})
    member.mark_completed({QUEUES[0]: 10}, {})
    assert decode_offsets(file.content) == {QUEUES[0]: 10}
    assert group.broker.offsets == {}
    store.write_offsets({QUEUES[0]: 4})
    member.mark_in_flight({QUEUES[0]: (10, 20)})
    member.mark_completed({QUEUES[0]: 20}, {})
    assert decode_offsets(file.content) == {QUEUES[0]: 20}
    assert member.prune_resets() == {}, "a smaller offset in a file is no operator's word"


# ---------------------------------------------------------------------------------------------------- subscriptions


def commit_ms(brokers: int) -> tuple[int, int]:
    """How long a first commit takes, and a later one, at a round trip of 20 ms."""
    clock = ManualClock()
    names = [f"broker-{number}" for number in range(brokers)]
    cluster = SimulatedCluster(names, clock)
    cluster.create_topic("orders", dict.fromkeys(names, 2))
    options = ReadOptions.parse({"namesrvAddr": "n:9876", "consumerGroup": "g", "subscribe": "orders"})
    client = SimulatedClusterClient(cluster, "our connection")
    client.round_trip_ms = 20
    member = Membership(options, "me", client, clock, clock, started_ms=1)
    owned = member.refresh_metadata().owned
    took_ms = []
    for end_offset in (10, 20):
        member.mark_in_flight(dict.fromkeys(owned, (end_offset - 10, end_offset)))
        began_ms = clock()
        member.mark_completed(dict.fromkeys(owned, end_offset), {})
        took_ms.append(clock() - began_ms)
        assert {at for broker in cluster.brokers.values() for at in broker.offsets.values()} == {end_offset}
    first_ms, later_ms = took_ms
    return first_ms, later_ms


def test_a_commit_to_many_brokers_takes_as_many_round_trips_as_to_one() -> None:
    """Nobody else has the turn meanwhile."""
    assert commit_ms(16) == commit_ms(1) == (60, 40)


def test_a_refresh_of_many_topics_takes_a_few_round_trips() -> None:
    clock = ManualClock()
    cluster = SimulatedCluster(["broker-a", "broker-b"], clock)
    topics = [f"topic-{number}" for number in range(50)]
    for topic in topics:
        cluster.create_topic(topic, {"broker-a": 4, "broker-b": 4})
    given = {"namesrvAddr": "n:9876", "consumerGroup": "g", "subscribe": ",".join(topics)}
    client = SimulatedClusterClient(cluster, "our connection")
    client.round_trip_ms = 20
    member = Membership(ReadOptions.parse(given), "me", client, clock, clock, started_ms=1)
    times_ms = []
    for _ in range(2):
        began_ms = clock()
        assert len(member.refresh_metadata().bounds) == 400
        times_ms.append(clock() - began_ms)
    assert times_ms == [80, 60]


def with_a_masterless_broker(**given: str) -> tuple[Group, Membership]:
    group = Group()
    group.cluster.brokers["broker-b"] = SimulatedBroker("broker-b", group.clock, master_id=1)
    group.cluster.grow("orders", "broker-b", 1)
    return group, group.member(**given)


def test_a_broker_that_is_listed_without_a_master_is_unresponsive_and_not_absent() -> None:
    """A first AvailableNow run used to end without its messages, and ``latest`` to begin wrong."""
    group, member = with_a_masterless_broker()
    assert not member.refresh_metadata().is_complete
    group.cluster.brokers["broker-b"].master_id = 0
    group.clock.advance(REQUEST_PAUSES.longest_ms)
    member.refresh_metadata()
    assert member.refresh_metadata().is_complete


def test_a_broker_that_stays_without_a_master_is_named_after_the_clusters_limit() -> None:
    group, member = with_a_masterless_broker(clusterTimeoutMs="60000")
    member.refresh_metadata()
    group.clock.advance(60_000)
    with pytest.raises(TransportError, match=r"CLUSTER_TIMEOUT.*MASTER_UNAVAILABLE.*broker-b"):
        member.refresh_metadata()


def test_queues_that_were_read_are_unavailable_while_their_broker_has_no_master() -> None:
    queue = MessageQueue("orders", "broker-b", 0)
    group, member = with_a_masterless_broker(clusterTimeoutMs="60000")
    for _ in range(2):
        snapshot = member.refresh_metadata([queue])
        assert set(snapshot.unavailable) == {queue}
        assert snapshot.is_complete
        group.clock.advance(60_000)


def test_locks_are_renewed_by_the_timer_and_not_by_refreshes() -> None:
    group = Group()
    orderly = group.member(consumeOrderly="true")
    orderly.refresh_metadata()
    for extend, extended_ms in ((orderly.refresh_metadata, 0), (orderly.renew_locks, 20_000)):
        group.clock.advance(10_000)
        extend()
        assert {at_ms for _, at_ms in group.broker.locks.values()} == {extended_ms}
        published = orderly.log_and_snapshot().view.process_queues
        assert {published[queue].last_lock_timestamp_ms for queue in QUEUES} == {extended_ms}


def test_a_lock_that_was_too_old_and_is_renewed_is_a_change() -> None:
    """A survey in which it grew too old left its queue out, and nothing made the next survey: the query stood still."""
    group = Group()
    member = group.member(consumeOrderly="true")
    member.refresh_metadata()
    group.clock.advance(30_000)
    before = member.log_and_snapshot().changes
    member.renew_locks()
    assert member.log_and_snapshot().changes == before + 1
    member.renew_locks()
    assert member.log_and_snapshot().changes == before + 1
