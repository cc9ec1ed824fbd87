from __future__ import annotations

from connector_tests.support.queues import queues
from rocketmq_spark.consumer.offset_store import RemoteBrokerOffsetStore, raising

A, B, C = queues(3)


def test_what_is_proven_is_to_be_told() -> None:
    store = RemoteBrokerOffsetStore()
    store.update(A, 5)
    store.update(B, 0)
    assert store.unconfirmed == {A: 5, B: 0}


def test_progress_never_moves_back() -> None:
    store = RemoteBrokerOffsetStore()
    store.update(A, 5)
    store.update(A, 3)
    assert store.unconfirmed == {A: 5}


def test_what_the_broker_confirmed_is_not_told_again() -> None:
    store = RemoteBrokerOffsetStore()
    store.update(A, 5)
    store.confirm(A, 5)
    assert store.unconfirmed == {}


def test_what_the_broker_is_known_to_store_needs_no_telling_when_it_is_proven_again() -> None:
    store = RemoteBrokerOffsetStore()
    store.confirm(A, 5)
    store.update(A, 5)
    assert store.unconfirmed == {}
    store.update(A, 6)
    assert store.unconfirmed == {A: 6}


def test_what_was_known_of_a_queue_that_comes_back_is_told_anew() -> None:
    store = RemoteBrokerOffsetStore()
    store.confirm(A, 5)
    store.remove(A)
    store.update(A, 5)
    assert store.unconfirmed == {A: 5}


def test_what_was_proven_while_the_broker_answered_stays_to_be_told() -> None:
    store = RemoteBrokerOffsetStore()
    store.update(A, 5)
    store.update(A, 9)
    store.confirm(A, 5)
    assert store.unconfirmed == {A: 9}


def test_a_broker_that_stores_more_than_we_know_confirms() -> None:
    store = RemoteBrokerOffsetStore()
    store.update(A, 5)
    store.confirm(A, 70)
    assert store.unconfirmed == {}


def test_a_confirmation_of_less_does_not_take_back_what_was_confirmed() -> None:
    store = RemoteBrokerOffsetStore()
    store.confirm(A, 5)
    store.confirm(A, 3)
    store.update(A, 5)
    assert store.unconfirmed == {}


def test_the_first_offsets_of_a_queue_count_like_any_others() -> None:
    store = RemoteBrokerOffsetStore()
    store.confirm(A, 0)
    store.update(A, 1)
    assert store.unconfirmed == {A: 1}
    store.confirm(A, 1)
    assert store.unconfirmed == {}


def test_confirming_what_was_never_told_changes_nothing() -> None:
    store = RemoteBrokerOffsetStore()
    store.confirm(A, 5)
    assert store.unconfirmed == {}


def test_nothing_is_said_about_a_queue_that_was_lost() -> None:
    store = RemoteBrokerOffsetStore()
    store.update(A, 5)
    store.update(B, 6)
    store.remove(A)
    store.remove(C)
    assert store.unconfirmed == {B: 6}


def test_the_table_cannot_be_changed_from_outside() -> None:
    store = RemoteBrokerOffsetStore()
    store.update(A, 5)
    store.unconfirmed.clear()
    assert store.unconfirmed == {A: 5}


def test_only_what_raises_the_stored_offset_is_written() -> None:
    assert raising({A: 5, B: 5, C: 5}, {A: 4, B: 5, C: 6}) == {A: 5}


def test_offset_zero_is_written_where_nothing_is_stored_and_only_there() -> None:
    assert raising({A: 0, B: 0}, {A: None, B: 0}) == {A: 0}


def test_a_queue_that_could_not_be_read_is_not_written() -> None:
    assert raising({A: 5, B: 5}, {A: None}) == {A: 5}


def test_a_queue_that_nobody_wants_written_is_not_written() -> None:
    assert raising({}, {A: None, B: 3}) == {}


def test_what_was_confirmed_last_is_known_of_each_queue_by_itself() -> None:
    store = RemoteBrokerOffsetStore()
    store.confirm(A, 5)
    assert [store.confirmed(queue) for queue in (A, B)] == [5, None]
