"""What reports a queue from another one of the same name, and what only looks as if it did."""

from __future__ import annotations

from dataclasses import replace

import pytest

from connector_tests.support.queues import queues
from rocketmq_spark.consumer.cluster_api import Link, MetadataSnapshot
from rocketmq_spark.model import BrokerAddress, MessageQueue, QueueBounds
from rocketmq_spark.source.stream.offsets import QueueProgress, SourceOffset
from rocketmq_spark.source.stream.queue_identity import (
    VerifiedQueues,
    last_read,
    over_same_links,
    recreated_from,
    recreated_queues,
    stored_later,
)

A, B, C = queues(3)
LINK: Link = (BrokerAddress("broker-a:10911"), 1)
BOUNDS = QueueBounds(10, 20, 500)


def snapshot(bounds: dict[MessageQueue, QueueBounds], link: Link | None = LINK) -> MetadataSnapshot:
    links = {} if link is None else {"broker-a": link}
    return MetadataSnapshot(
        frozenset(bounds), bounds, is_complete=True, links=links, brokers_deleting_offsets=frozenset({"broker-a"})
    )


def trusting(bounds: QueueBounds = BOUNDS, *names: MessageQueue) -> VerifiedQueues:
    trusted = VerifiedQueues()
    known = dict.fromkeys(names or (A,), bounds)
    trusted.mark_verified(known, snapshot(known))
    return trusted


def is_trusted_after(now: QueueBounds, before: QueueBounds = BOUNDS) -> bool:
    trusted = trusting(before)
    trusted.update(snapshot({A: now}), {})
    return A in trusted


@pytest.mark.parametrize(
    "now",
    [
        BOUNDS,
        QueueBounds(10, 21, 500),
        QueueBounds(10, 21, 501),
        QueueBounds(20, 20, 500),
        QueueBounds(20, 20, 0),
        QueueBounds(20, 20, -1),
    ],
)
def test_bounds_that_have_only_grown_are_no_sign(now: QueueBounds) -> None:
    assert is_trusted_after(now)


@pytest.mark.parametrize(
    "now",
    [
        QueueBounds(9, 20, 500),
        QueueBounds(10, 19, 500),
        QueueBounds(9, 21, 500),
        QueueBounds(11, 19, 500),
        QueueBounds(10, 20, 501),
        QueueBounds(10, 20, 499),
        QueueBounds(10, 21, 499),
        QueueBounds(10, 20, 1),
    ],
)
def test_a_bound_or_a_store_time_that_is_not_the_old_queues_is_a_sign(now: QueueBounds) -> None:
    assert not is_trusted_after(now)


def test_a_queue_without_a_time_reports_nothing_by_the_next_one() -> None:
    assert is_trusted_after(QueueBounds(10, 20, 500), before=QueueBounds(10, 20, 0))
    assert not is_trusted_after(QueueBounds(10, 20, 500), before=QueueBounds(10, 20, 1))


def test_another_connection_is_a_sign_and_so_is_a_queue_that_was_not_seen() -> None:
    for now in (
        snapshot({A: BOUNDS}, (BrokerAddress("broker-a:10911"), 2)),
        snapshot({A: BOUNDS}, None),
        snapshot({B: BOUNDS}),
    ):
        trusted = trusting()
        trusted.update(now, {})
        assert A not in trusted


def test_links_are_those_of_verified_queues() -> None:
    trusted = trusting(BOUNDS, A, B)
    assert trusted.links == {LINK}
    trusted.update(snapshot({A: BOUNDS}), {})
    assert trusted.links == {LINK}
    trusted.mark_unverified([A])
    assert trusted.links == frozenset()
    trusted.mark_verified([A], snapshot({A: BOUNDS}, None))
    assert trusted.links == {None}


def test_writes_are_made_over_the_links_of_the_snapshot_only() -> None:
    other = MessageQueue("orders", "broker-b", 0)
    writes, names = {A: 5, B: 6, other: 7}, []
    other_link: Link = (BrokerAddress("broker-b:10911"), 2)
    seen = replace(snapshot({A: BOUNDS, B: BOUNDS, other: BOUNDS}), links={"broker-a": LINK, "broker-b": other_link})

    def link_to(name: str) -> Link:
        names.append(name)
        return LINK if name == "broker-a" else (other_link[0], 3)

    assert over_same_links(seen, link_to, writes) == {A: 5, B: 6}
    assert sorted(names) == ["broker-a", "broker-b"]
    assert over_same_links(seen, lambda name: None, writes) == {}
    assert over_same_links(replace(seen, links={}), lambda name: None, writes) == writes


def test_one_queue_with_a_sign_leaves_the_others_trusted() -> None:
    trusted = trusting(BOUNDS, A, B, C)
    trusted.update(snapshot({A: BOUNDS, C: BOUNDS}), {})
    assert [queue in trusted for queue in (A, B, C)] == [True, False, True]
    trusted = trusting(BOUNDS, A, B, C)
    trusted.update(snapshot({A: BOUNDS, B: QueueBounds(0, 1, 9), C: BOUNDS}), {})
    assert [queue in trusted for queue in (A, B, C)] == [True, False, True]


def test_where_nothing_reports_deletions_a_queue_that_has_grown_is_probed_again() -> None:
    for has_own, brokers_deleting_offsets in ((True, {"broker-a"}), (False, {"broker-b"}), (False, set())):
        for max_offset, is_trusted in ((20, True), (21, False)):
            trusted = VerifiedQueues(has_own_offsets=has_own)
            trusted.mark_verified([A], snapshot({A: BOUNDS}))
            grown = snapshot({A: QueueBounds(10, max_offset, 500)})
            trusted.update(replace(grown, brokers_deleting_offsets=frozenset(brokers_deleting_offsets)), {})
            assert (A in trusted) is is_trusted


def test_a_caller_that_is_doubted_is_probed_again() -> None:
    trusted = trusting(BOUNDS, A, B)
    trusted.mark_unverified([A, C])
    assert [queue in trusted for queue in (A, B)] == [False, True]


def test_a_queue_that_was_emptied_after_all_of_it_was_planned_begins_again_until_it_is_trusted() -> None:
    trusted = trusting(BOUNDS, A, B)
    emptied = snapshot(dict.fromkeys((A, B), QueueBounds(0, 0, 0)))
    trusted.update(emptied, {A: 20, B: 19})
    assert trusted.emptied == {A}
    trusted.mark_verified([B], emptied)
    assert trusted.emptied == {A}
    trusted.mark_verified([A], emptied)
    assert not trusted.emptied


def test_a_queue_that_goes_back_to_another_offset_than_the_first_was_not_emptied() -> None:
    trusted = trusting()
    trusted.update(snapshot({A: QueueBounds(1, 1, 0)}), {A: 20})
    assert not trusted.emptied


def checkpoint(end_offset: int, last_store_timestamp_ms: int = 500) -> SourceOffset:
    return SourceOffset({A: QueueProgress(0, end_offset, last_store_timestamp_ms)})


@pytest.mark.parametrize(("end_offset", "offset"), [(11, 10), (15, 14), (20, 19)])
def test_the_last_message_that_was_read_is_probed(end_offset: int, offset: int) -> None:
    assert last_read([A, B], checkpoint(end_offset), {A: BOUNDS, B: BOUNDS}) == {A: offset}


@pytest.mark.parametrize("end_offset", [0, 10, 21])
def test_a_message_that_the_broker_does_not_have_is_not_probed(end_offset: int) -> None:
    assert last_read([A], checkpoint(end_offset), {A: BOUNDS}) == {}


def test_without_a_time_that_it_could_contradict_no_message_is_probed() -> None:
    assert last_read([A], checkpoint(15, 0), {A: BOUNDS}) == {}
    assert last_read([A], checkpoint(15, 1), {A: BOUNDS}) == {A: 14}


@pytest.mark.parametrize(("at_ms", "is_later"), [(499, False), (500, False), (501, True), (None, True)])
def test_a_message_that_was_stored_after_the_plan_is_another_queues(at_ms: int | None, is_later: bool) -> None:
    assert (A in stored_later({A: at_ms}, checkpoint(15))) is is_later


def other(bounds: QueueBounds, end_offset: int, *, is_later: bool, known_ms: int = 500) -> bool:
    found = recreated_queues([A, B], {A} if is_later else (), checkpoint(end_offset, known_ms), {A: bounds, B: bounds})
    assert found in ({}, {A: known_ms})
    return bool(found)


def test_a_queue_with_a_later_message_is_another_one_if_the_newest_is_newer_than_all_that_was_known() -> None:
    assert other(QueueBounds(10, 20, 501), 15, is_later=True)
    assert not other(QueueBounds(10, 20, 500), 15, is_later=True), "a clock that was put back"


def test_a_queue_that_does_not_reach_so_far_any_more_is_another_one_if_something_newer_is_in_it() -> None:
    assert other(QueueBounds(10, 14, 501), 15, is_later=False)
    assert not other(QueueBounds(10, 14, 500), 15, is_later=False), "it has only lost its end"
    assert not other(QueueBounds(10, 15, 501), 15, is_later=False)


def test_of_a_queue_without_a_time_nothing_can_be_reported() -> None:
    assert not other(QueueBounds(10, 20, 501), 15, is_later=True, known_ms=0)
    assert other(QueueBounds(10, 20, 501), 15, is_later=True, known_ms=1)


def test_another_queue_begins_below_our_position_or_it_is_the_same() -> None:
    progress = QueueProgress(0, 15, 500)
    assert [recreated_from(first, progress) for first in (14, 15)] == [14, None]
