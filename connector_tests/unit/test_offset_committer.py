"""The group's offsets at two brokers: what is written, what an operator has said, and what reports another queue."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from connector_tests.support.manual_clock import ManualClock
from connector_tests.support.queues import queues
from connector_tests.support.simulated_cluster import (
    Fate,
    Reach,
    SimulatedBroker,
    SimulatedCluster,
    SimulatedClusterClient,
)
from rocketmq_spark.consumer.cluster_api import Link
from rocketmq_spark.consumer.offset_committer import CompletedOffset, OffsetCommitter, RemoteBrokerOffsetStore
from rocketmq_spark.consumer.offset_resets import OffsetResets
from rocketmq_spark.consumer.outage_aware_client import OutageAwareClient
from rocketmq_spark.consumer.outage_tracker import OutageTracker
from rocketmq_spark.consumer.subscribed_topics import SubscribedTopics
from rocketmq_spark.errors import BrokerError, TransportError
from rocketmq_spark.model import BrokerAddress, MessageQueue
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.remoting.retry import REQUEST_PAUSES
from rocketmq_spark.source.stream.planning import EMPTIED_STORE_TIME_MS

A0, A1 = queues(2, broker_name="a")
B0, B1 = queues(2, broker_name="b")
ALL = (A0, A1, B0, B1)
OPTIONS = ReadOptions.parse({"namesrvAddr": "n:9876", "consumerGroup": "g", "subscribe": "orders"})
BUSY = BrokerError("BROKER_ERROR", address="a", request="?", code=2, code_name="SYSTEM_BUSY", remark="")


class Case:
    """A member that owns all four queues, each of which has ten messages, stored at 1 to 10 ms."""

    def __init__(self) -> None:
        self.clock = ManualClock(1_000)
        self.cluster = SimulatedCluster("ab", self.clock)
        self.cluster.create_topic("orders", {"a": 2, "b": 2})
        for queue in ALL:
            self.cluster.brokers[queue.broker_name].stored_ms[queue] = list(range(1, 11))
        self.client = SimulatedClusterClient(self.cluster, "us")
        outages = OutageTracker(SubscribedTopics(OPTIONS), self.client.routes, self.clock)
        self.servers = OutageAwareClient(OPTIONS, self.client, SubscribedTopics(OPTIONS), outages)
        self.servers.topic_routes.refresh()
        self.resets = OffsetResets("g", self.servers)
        self.store = RemoteBrokerOffsetStore("g", self.servers, self.resets)
        self.ours = set(ALL)
        self.links: list[str] = []
        self.offsets = OffsetCommitter(self.store, self.resets, self.ours.__contains__, self._link)

    def _link(self, broker_name: str) -> Link | None:
        self.links.append(broker_name)
        return self.servers.link(broker_name)

    @property
    def a(self) -> SimulatedBroker:
        return self.cluster.brokers["a"]

    @property
    def b(self) -> SimulatedBroker:
        return self.cluster.brokers["b"]

    @property
    def stored(self) -> dict[MessageQueue, int]:
        return self.a.offsets | self.b.offsets

    def mark_completed(self, completions: dict[MessageQueue, int]) -> None:
        for queue, next_offset in completions.items():
            self.offsets.mark_completed(queue, next_offset)


@pytest.fixture
def case() -> Case:
    return Case()


# ---------------------------------------------------------------------------------------------------- the brokers


def test_offsets_are_read_from_each_broker_and_not_of_unresponsive_ones(case: Case) -> None:
    case.a.offsets[A0], case.b.offsets[B1] = 3, 4
    assert case.store.stored_offsets(ALL) == {A0: 3, A1: None, B0: None, B1: 4}
    case.b.reach = Reach.UNRESPONSIVE
    assert case.store.stored_offsets(ALL) == {A0: 3, A1: None}


def test_offsets_are_written_at_each_broker_and_what_gets_no_response_is_left_alone_for_a_while(case: Case) -> None:
    case.b.unacknowledged_writes = {B0}
    assert case.store.write_offsets({A0: 3, B0: 4, B1: 5}) == {A0, B1}
    assert case.stored == {A0: 3, B1: 5}
    assert [case.store.may_write(queue) for queue in (A0, B0, B1)] == [True, False, True]
    case.b.unacknowledged_writes = set()
    assert case.store.write_offsets({B0: 4, B1: 6}) == {B1}, "not asked again yet"
    case.clock.advance(REQUEST_PAUSES.longest_ms)
    assert case.store.write_offsets({B0: 4}) == {B0}
    assert case.store.may_write(B0)
    assert case.stored == {A0: 3, B0: 4, B1: 6}


def test_a_refused_write_is_tried_again_after_a_pause_and_forgotten_once_it_gets_a_response(case: Case) -> None:
    case.a.write_refusal = BUSY
    assert case.store.write_offsets({A0: 3}) == set()
    assert not case.store.may_write(A0)
    case.clock.advance(REQUEST_PAUSES.shortest_ms)
    assert case.store.may_write(A0)
    case.a.write_refusal = None
    assert case.store.write_offsets({A0: 3}) == {A0}
    case.a.write_refusal = BUSY
    case.store.write_offsets({A0: 4})
    case.clock.advance(REQUEST_PAUSES.shortest_ms)
    assert case.store.may_write(A0), "the first pause again"


def test_a_write_that_a_mark_keeps_off_reports_where_an_operator_has_reset_to(case: Case) -> None:
    case.a.reset(A0, 1)
    assert case.store.write_offsets({A0: 3, A1: 4}) == {A1}
    assert (case.resets.pending, case.resets.changes) == ({A0: 1}, 1)
    assert case.store.may_write(A0), "no refusal"


def test_a_queue_is_the_same_where_nothing_below_the_completion_was_stored_later(case: Case) -> None:
    completions = {
        A0: CompletedOffset(5, 5),
        A1: CompletedOffset(5, 4),
        B0: CompletedOffset(5, 0),
        B1: CompletedOffset(11, 99),
    }
    assert case.store.are_unchanged(completions) == {A0: True, A1: False, B0: True, B1: False}
    case.b.reach = Reach.UNRESPONSIVE
    assert case.store.are_unchanged(completions) == {A0: True, A1: False, B0: True}


def test_a_queue_that_was_met_empty_is_another_one_once_it_has_any_message_below_the_completion(case: Case) -> None:
    assert case.store.are_unchanged(
        {A0: CompletedOffset(5, EMPTIED_STORE_TIME_MS), A1: CompletedOffset(1, EMPTIED_STORE_TIME_MS)}
    ) == {A0: False, A1: True}


def test_a_hint_that_is_too_small_is_inspected(case: Case) -> None:
    case.a.hint_deficit = 1
    assert case.store.are_unchanged({A0: CompletedOffset(5, 5), A1: CompletedOffset(5, 4)}) == {A0: True, A1: False}


# ---------------------------------------------------------------------------------------------------- what is told


def test_what_is_completed_is_committed_until_the_broker_has_confirmed_it(case: Case) -> None:
    case.mark_completed({A0: 3, B0: 4})
    assert case.offsets.unconfirmed == {A0: 3, B0: 4}
    case.b.reach = Reach.UNRESPONSIVE
    assert not case.offsets.persist()
    assert (case.stored, case.offsets.unconfirmed) == ({A0: 3}, {B0: 4})
    assert [case.offsets.has_confirmed(queue) for queue in (A0, B0)] == [True, False]
    case.b.reach = Reach.UP
    case.clock.advance(REQUEST_PAUSES.longest_ms)
    assert case.offsets.persist()
    assert (case.stored, case.offsets.unconfirmed) == ({A0: 3, B0: 4}, {})


def test_what_may_not_be_tried_now_is_not_even_read(case: Case) -> None:
    case.mark_completed({A0: 3})
    case.a.write_refusal = BUSY
    assert not case.offsets.persist()
    before = case.cluster.now
    assert not case.offsets.persist()
    assert case.cluster.now == before


def test_nothing_is_lowered_and_a_larger_offset_confirms(case: Case) -> None:
    case.a.offsets |= {A0: 9, A1: 3}
    case.mark_completed({A0: 5, A1: 3})
    assert case.offsets.persist()
    assert case.stored == {A0: 9, A1: 3}


def test_only_progress_of_our_own_queues_is_remembered(case: Case) -> None:
    case.ours.discard(B0)
    assert case.offsets.raise_to({A0: 3, B0: 4}) == {A0, B0}
    assert [case.offsets.has_confirmed(queue) for queue in (A0, B0)] == [True, False]


def test_a_first_offset_is_probed_again_and_written_again_where_it_is_lost(case: Case) -> None:
    def lose_once(queue: MessageQueue, _offset: int) -> None:
        if queue == A0 and len(reported) == 0:
            del case.a.offsets[A0]
        reported.append(queue)

    reported: list[MessageQueue] = []
    case.cluster.on_stored = lose_once
    case.b.offsets[B0] = 1
    assert case.offsets.raise_to({A0: 3, A1: 2, B0: 4}) == {A0, A1, B0}
    assert reported == [A0, A1, B0, A0]
    assert case.stored == {A0: 3, A1: 2, B0: 4}


def test_a_first_offset_that_cannot_be_probed_again_is_not_confirmed(case: Case) -> None:
    case.cluster.on_stored = lambda _queue, _offset: setattr(case.a, "reach", Reach.UNRESPONSIVE)
    assert case.offsets.raise_to({A0: 3, B0: 4}) == {B0}
    assert [case.offsets.has_confirmed(queue) for queue in (A0, B0)] == [False, True]


def test_what_is_lowered_is_what_the_broker_has_and_nothing_completed_before_is_committed(case: Case) -> None:
    case.a.offsets[A0] = 9
    case.mark_completed({A0: 10, A1: 4})
    assert case.offsets.replace_offsets({A0: 2}) == {A0}
    assert (case.stored, case.offsets.unconfirmed) == ({A0: 2}, {A1: 4})
    assert case.offsets.has_confirmed(A0)
    case.a.reach = Reach.UNRESPONSIVE
    assert case.offsets.replace_offsets({A0: 1}) == set()
    assert not case.offsets.has_confirmed(A0)


def test_links_are_requested_once_for_each_broker(case: Case) -> None:
    case.offsets.raise_to(dict.fromkeys(ALL, 3))
    assert sorted(case.links) == ["a", "b"]


# ---------------------------------------------------------------------------------------------------- resets


def confirmed(case: Case, next_offset: int = 5) -> None:
    case.mark_completed(dict.fromkeys(ALL, next_offset))
    assert case.offsets.persist()


def test_a_smaller_offset_over_the_same_connection_is_an_operators_word(case: Case) -> None:
    confirmed(case)
    case.b.reset(B0, 2)
    case.mark_completed({A0: 7, B0: 7})
    assert case.offsets.persist(), "what is reset is nothing to be told"
    assert case.resets.pending == {B0: 2}
    assert case.b.marks == {}
    assert case.offsets.unconfirmed == {}
    assert case.stored == {A0: 7, A1: 5, B0: 2, B1: 5}
    noted = case.resets.changes
    case.offsets.raise_to({B0: 7})
    assert case.resets.changes == noted, "it is known"


def test_a_smaller_offset_over_another_connection_is_a_broker_that_forgot(case: Case) -> None:
    confirmed(case)
    case.b.offsets[B0] = 2
    case.b.connection_number += 1
    case.mark_completed({B0: 7})
    assert case.offsets.persist()
    assert (case.resets.pending, case.stored[B0]) == ({}, 7)


def replace_master(case: Case) -> tuple[SimulatedBroker, SimulatedBroker]:
    """Return the master of ``b`` until now, which stays connected as a slave, and the elected one. Both have an offset
    of 2, below the confirmed one."""
    replaced, elected = case.b, case.cluster.replicate("b")
    case.cluster.replicas[replaced.address] = replaced
    case.cluster.brokers["b"] = elected
    replaced.offsets[B0] = elected.offsets[B0] = 2
    return replaced, elected


def test_a_smaller_offset_at_a_replaced_master_is_no_reset(case: Case) -> None:
    """A paused master that is a slave when it runs again copies older offsets, over connections that were not lost."""
    confirmed(case)
    replaced, elected = replace_master(case)
    case.mark_completed({B0: 7})
    case.offsets.persist()
    assert (case.resets.pending, replaced.offsets[B0]) == ({}, 2)
    assert case.offsets.persist()
    assert (case.resets.pending, elected.offsets[B0]) == ({}, 7)


def test_an_older_route_of_another_topic_makes_no_reset_of_a_replaced_masters_offset(case: Case) -> None:
    """Only the topics of lower offsets are requested: another topic's route, received earlier, names the old master."""
    case.cluster.create_topic("returns", {"b": 1})
    case.client.routes.forget("orders")
    assert case.client.routes.refresh(["returns", "orders"]) == {}
    confirmed(case)
    replaced, elected = replace_master(case)
    case.mark_completed({B0: 7})
    assert not case.offsets.persist()
    assert (case.resets.pending, replaced.offsets[B0]) == ({}, 2)
    case.client.routes.refresh(["returns"])
    assert case.offsets.persist()
    assert (case.resets.pending, elected.offsets[B0]) == ({}, 7)


def test_a_smaller_offset_without_a_route_is_neither_a_reset_nor_raised(case: Case) -> None:
    confirmed(case)
    case.b.offsets[B0] = 2
    case.cluster.name_server_error = TransportError("CONNECTION_LOST", address="n:9876", reason="cut")
    case.mark_completed({B0: 7})
    assert not case.offsets.persist()
    assert (case.resets.pending, case.stored[B0]) == ({}, 2)
    case.cluster.name_server_error = None
    case.offsets.persist()
    assert case.resets.pending == {B0: 2}


def test_where_no_link_is_known_nothing_is_an_operators_word(case: Case) -> None:
    confirmed(case)
    offsets = OffsetCommitter(case.store, case.resets, case.ours.__contains__, lambda _broker_name: None)
    offsets.raise_to({B0: 5})
    case.b.offsets[B0] = 2
    offsets.raise_to({B0: 7})
    assert (case.resets.pending, case.stored[B0]) == ({}, 7)


@pytest.mark.parametrize("offset", [5, 6])
def test_an_offset_that_is_not_smaller_is_no_reset(case: Case, offset: int) -> None:
    confirmed(case)
    case.b.offsets[B0] = offset
    case.mark_completed({B0: 7})
    assert case.offsets.persist()
    assert (case.resets.pending, case.stored[B0]) == ({}, 7)


def test_one_reset_among_others_hides_none(case: Case) -> None:
    confirmed(case)
    case.a.reset(A1, 1)
    case.b.reset(B1, 2)
    case.mark_completed(dict.fromkeys(ALL, 7))
    case.offsets.persist()
    assert case.resets.pending == {A1: 1, B1: 2}
    assert case.stored == {A0: 7, A1: 1, B0: 7, B1: 2}


def test_one_that_was_not_reset_hides_none_behind_it(case: Case) -> None:
    confirmed(case)
    case.a.reset(A1, 1)
    case.offsets.raise_to({A0: 1, A1: 1})
    assert case.resets.pending == {A1: 1}, "though nothing had to be written"


def test_offsets_that_are_reset_end_the_pending_resets_of_their_queues(case: Case) -> None:
    confirmed(case)
    case.resets.record(A0, 1)
    case.resets.record(B0, 2)
    case.resets.record(B1, 3)
    case.b.reach = Reach.UNRESPONSIVE
    assert case.offsets.reset_offsets({A0: 1, A1: 4, B0: 2}) == {A0, A1}
    assert (case.stored[A0], case.stored[A1]) == (1, 4)
    assert case.resets.pending == {B0: 2, B1: 3}, "where the store has not confirmed the offset, it is still pending"


def test_marks_are_searched_for_and_their_queues_forgotten_with_them(case: Case) -> None:
    case.a.reset(A1, 1)
    case.b.reset(B1, 0)
    case.resets.consume_marks(ALL)
    assert (case.resets.pending, case.resets.changes) == ({A1: 1, B1: 0}, 2)
    assert [queue in case.resets for queue in ALL] == [False, True, False, True]
    case.resets.discard(A1)
    case.resets.discard(A0)
    case.resets.pending.clear()
    assert case.resets.pending == {B1: 0}


# ---------------------------------------------------------------------------------------------------- doubt


def test_a_queue_whose_completion_is_of_another_one_is_doubtful_and_nothing_of_it_is_written(case: Case) -> None:
    for queue, stored_to_ms in ((A0, 5), (A1, 4), (B0, 4)):
        case.offsets.mark_completed(queue, 5, stored_to_ms)
    assert not case.offsets.persist()
    assert (case.offsets.suspect, case.offsets.changes) == ({A1, B0}, 2)
    assert (case.stored, case.offsets.unconfirmed) == ({A0: 5}, {A1: 5, B0: 5})
    case.offsets.mark_completed(A1, 6, 99)
    assert not case.offsets.persist()
    assert (case.stored, case.offsets.changes) == ({A0: 5}, 2)


def test_a_queue_whose_confirmed_offset_has_vanished_is_doubtful_until_it_is_forgotten(case: Case) -> None:
    confirmed(case)
    del case.a.offsets[A0]
    case.mark_completed({A0: 7, A1: 7})
    assert not case.offsets.persist()
    assert (case.offsets.suspect, case.offsets.changes) == ({A0}, 1)
    case.offsets.discard(A0)
    assert case.offsets.suspect == set()
    assert not case.offsets.has_confirmed(A0)
    case.mark_completed({A0: 7})
    assert case.offsets.persist()
    assert case.stored[A0] == 7


def test_what_cannot_be_probed_is_not_written_though_its_broker_would_take_it(case: Case) -> None:
    case.a.hint_deficit, case.a.pull_refusal = 1, BUSY
    case.offsets.mark_completed(A0, 5, 5)
    assert not case.offsets.persist()
    assert (case.offsets.suspect, case.stored) == (set(), {})
    case.a.pull_refusal = None
    case.clock.advance(REQUEST_PAUSES.longest_ms)
    assert case.offsets.persist()


def test_an_identity_that_is_unknown_now_is_reported_later(case: Case) -> None:
    case.offsets.mark_completed(A0, 5, 5)
    case.client.fates = [Fate.NO_RESPONSE]
    assert not case.offsets.persist()
    assert (case.offsets.suspect, case.stored) == (set(), {})
    case.clock.advance(REQUEST_PAUSES.longest_ms)
    assert case.offsets.persist()
    assert case.stored == {A0: 5}


def test_offset_whose_broker_was_killed_after_its_response_is_committed_again(case: Case) -> None:
    """Before it had flushed its offsets, while those of other brokers were awaited."""
    connections = {"a": 1}

    class LosesConnection(RemoteBrokerOffsetStore):
        def write_offsets(self, offsets: Mapping[MessageQueue, int]) -> set[MessageQueue]:
            written = super().write_offsets(offsets)
            connections["a"] += 1
            return written

    for commit in (OffsetCommitter.raise_to, OffsetCommitter.replace_offsets):
        store = LosesConnection("g", case.servers, case.resets)
        offsets = OffsetCommitter(
            store, case.resets, case.ours.__contains__, lambda name: (BrokerAddress(name), connections[name])
        )
        assert commit(offsets, {A0: 5}) == {A0}
        case.a.offsets[A0] = 2
        assert offsets.raise_to({A0: 5}) == {A0}
        assert case.resets.pending == {}
        assert case.stored == {A0: 5}
