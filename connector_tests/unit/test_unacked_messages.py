"""The ledger, by example; ``properties/test_sharing`` has what holds whatever happens."""

from __future__ import annotations

from itertools import product
from typing import cast

import pytest

from rocketmq_spark.pop.delivery_attempts import MoveOutcome
from rocketmq_spark.pop.receipt_handles import (
    BrokerHandle,
    OpaqueHandle,
    PopCheckPoint,
    ReceiptHandle,
    ReceivedMessage,
    RecordFormat,
)
from rocketmq_spark.pop.unacked_messages import (
    REPLAYED,
    TRANSITIONS,
    Counts,
    MessageEvent,
    MessageState,
    UnackedMessages,
)

INVISIBLE_MS = 1_000
ALL = 1_000
BROKER = "broker-a"


def handle(number: int, pop_time_ms: int = 0) -> BrokerHandle:
    return BrokerHandle(PopCheckPoint("T", 0, pop_time_ms, INVISIBLE_MS, 0, "0", BROKER, 0), number)


def unacked_messages_with(count: int) -> UnackedMessages:
    """Messages that were received at 0."""
    unacked_messages = UnackedMessages(INVISIBLE_MS)
    unacked_messages.add_received((ReceivedMessage(handle(number), memoryview(b"12345")) for number in range(count)), 0)
    return unacked_messages


def offset(one: ReceiptHandle) -> int:
    assert isinstance(one, BrokerHandle)
    return one.offset


def numbers(unacked_messages: UnackedMessages, batch: int, max_messages: int = ALL) -> list[int]:
    return [offset(one.handle) for one in unacked_messages.start_batch(batch, max_messages)]


def test_what_waits_is_counted_with_its_bytes_until_it_is_in_a_batch() -> None:
    unacked_messages = unacked_messages_with(3)
    assert (unacked_messages.prefetched_count, unacked_messages.prefetched_bytes) == (3, 15)
    assert numbers(unacked_messages, 1, max_messages=2) == [0, 1]
    assert (unacked_messages.prefetched_count, unacked_messages.prefetched_bytes) == (1, 5)
    assert [unacked_messages.count(state) for state in MessageState] == [1, 2, 0, 0, 0]


def test_what_is_completed_is_acknowledged_once() -> None:
    unacked_messages = unacked_messages_with(3)
    assert [one.record for one in unacked_messages.start_batch(1, 2)] == [memoryview(b"12345")] * 2
    assert unacked_messages.claim_completed(ALL, BROKER) == []
    unacked_messages.mark_completed(1)
    claimed = unacked_messages.claim_completed(ALL, BROKER)
    assert [one.handle for one in claimed] == [handle(0), handle(1)]
    assert unacked_messages.claim_completed(ALL, BROKER) == []
    unacked_messages.mark_acknowledged(one.number for one in claimed)
    assert unacked_messages.count(MessageState.COMPLETED) == 0
    assert unacked_messages.counts == Counts(received=3, acknowledged=2)


def test_a_completion_is_of_all_batches_before_and_of_none_after() -> None:
    unacked_messages = unacked_messages_with(3)
    for batch in (1, 2, 3):
        unacked_messages.start_batch(batch, 1)
    unacked_messages.mark_completed(2)
    assert [unacked_messages.count(state) for state in MessageState] == [0, 1, 2, 0, 0]


def test_a_replayed_batch_comes_before_all_others_and_is_extended_by_its_age() -> None:
    unacked_messages = unacked_messages_with(1)
    kept = [
        ReceivedMessage(handle(number, pop_time_ms=10_000 - age_ms), memoryview(b"1"))
        for number, age_ms in ((7, 0), (8, INVISIBLE_MS // 2), (9, INVISIBLE_MS))
    ]
    unacked_messages.replay_batch(kept, now_ms=50_000, epoch_ms=10_000)
    assert [offset(one.handle) for one in unacked_messages.claim_due(50_000, ALL, BROKER)] == [8]
    unacked_messages.expire(50_000)
    assert (unacked_messages.counts.expired, unacked_messages.count(MessageState.IN_FLIGHT)) == (2, 3), (
        "one of them in no batch, and given up"
    )
    unacked_messages.mark_completed(REPLAYED)
    assert unacked_messages.count(MessageState.COMPLETED) == 3


def test_what_another_server_has_delivered_is_extended_at_once_when_it_is_read_again() -> None:
    """Its handle does not state when that was."""
    unacked_messages = UnackedMessages(INVISIBLE_MS)
    opaque = OpaqueHandle("T", BROKER, "its own")
    kept = (ReceivedMessage(opaque, memoryview(b"1"), RecordFormat.PROXIED),)
    unacked_messages.replay_batch(kept, now_ms=50_000, epoch_ms=10_000)
    assert [one.handle for one in unacked_messages.claim_due(50_000, ALL, BROKER)] == [opaque]


def test_a_message_stays_in_the_form_in_which_it_came() -> None:
    unacked_messages = UnackedMessages(INVISIBLE_MS)
    both = tuple(ReceivedMessage(handle(number), memoryview(b"1"), form) for number, form in enumerate(RecordFormat))
    unacked_messages.add_received(both, 0)
    assert unacked_messages.start_batch(1, ALL) == both


def test_a_clock_behind_the_brokers_shortens_no_lease() -> None:
    unacked_messages = UnackedMessages(INVISIBLE_MS)
    unacked_messages.replay_batch(
        [ReceivedMessage(handle(0, pop_time_ms=10_000), memoryview(b""))], now_ms=0, epoch_ms=9_000
    )
    assert unacked_messages.claim_due(INVISIBLE_MS // 2 - 1, ALL, BROKER) == []
    assert len(unacked_messages.claim_due(INVISIBLE_MS // 2, ALL, BROKER)) == 1


def test_what_could_not_be_acknowledged_is_tried_again() -> None:
    unacked_messages = unacked_messages_with(1)
    unacked_messages.start_batch(1, 1)
    unacked_messages.mark_completed(1)
    unacked_messages.unclaim([one.number for one in unacked_messages.claim_completed(ALL, BROKER)])
    assert len(unacked_messages.claim_completed(ALL, BROKER)) == 1


def test_what_is_being_extended_is_neither_in_a_batch_nor_acknowledged_nor_released() -> None:
    unacked_messages = unacked_messages_with(2)
    unacked_messages.start_batch(1, 1)
    claimed = unacked_messages.claim_due(500, ALL, BROKER)
    unacked_messages.mark_completed(1)
    assert (
        numbers(unacked_messages, 2),
        unacked_messages.claim_completed(ALL, BROKER),
        unacked_messages.claim_outside_batches(ALL, BROKER),
    ) == ([], [], [])
    assert (unacked_messages.prefetched_count, unacked_messages.can_start_batch) == (1, False)
    assert unacked_messages.claim_due(500, ALL, BROKER) == []
    for one in claimed:
        unacked_messages.mark_extended(one.number, handle(offset(one.handle), pop_time_ms=500), 500)
    assert unacked_messages.can_start_batch
    assert [one.handle for one in unacked_messages.claim_completed(ALL, BROKER)] == [handle(0, pop_time_ms=500)]
    assert unacked_messages.start_batch(2, ALL)[0].handle == handle(1, pop_time_ms=500)
    assert unacked_messages.counts.extended == 2


def test_what_is_extended_has_a_new_lease_from_when_it_was_requested() -> None:
    unacked_messages = unacked_messages_with(1)
    assert unacked_messages.claim_due(499, ALL, BROKER) == []
    (one,) = unacked_messages.claim_due(500, ALL, BROKER)
    unacked_messages.mark_extended(one.number, handle(0, 500), 500)
    assert unacked_messages.claim_due(999, ALL, BROKER) == []
    assert len(unacked_messages.claim_due(1_000, ALL, BROKER)) == 1


def test_what_could_not_be_extended_keeps_its_handle_and_is_tried_again_after_a_pause() -> None:
    unacked_messages = unacked_messages_with(1)
    (one,) = unacked_messages.claim_due(500, ALL, BROKER)
    unacked_messages.mark_extension_failed(one.number, 520)
    assert unacked_messages.claim_due(569, ALL, BROKER) == []
    assert unacked_messages.claim_due(570, ALL, BROKER) == [one]


def test_what_was_completed_while_it_was_being_extended_is_not_extended_again() -> None:
    unacked_messages = unacked_messages_with(1)
    unacked_messages.start_batch(1, 1)
    (one,) = unacked_messages.claim_due(500, ALL, BROKER)
    unacked_messages.mark_completed(1)
    unacked_messages.mark_extension_failed(one.number, 520)
    assert unacked_messages.claim_due(900, ALL, BROKER) == []
    assert unacked_messages.claim_completed(ALL, BROKER) == [one]


def test_what_was_not_extended_in_time_is_skipped_unless_it_is_in_a_batch_and_counted_once() -> None:
    unacked_messages = unacked_messages_with(2)
    unacked_messages.start_batch(1, 1)
    for now_ms in (999, 1_000, 2_000):
        unacked_messages.expire(now_ms)
    assert unacked_messages.counts.expired == 2
    assert [unacked_messages.count(state) for state in MessageState] == [0, 1, 0, 0, 0]
    assert (unacked_messages.prefetched_count, unacked_messages.prefetched_bytes) == (0, 0)
    unacked_messages.mark_completed(1)
    assert len(unacked_messages.claim_completed(ALL, BROKER)) == 1


def test_what_a_broker_is_called_for_does_not_expire_meanwhile() -> None:
    unacked_messages = unacked_messages_with(1)
    (one,) = unacked_messages.claim_due(999, ALL, BROKER)
    unacked_messages.expire(1_000)
    assert unacked_messages.counts.expired == 0
    unacked_messages.mark_extension_failed(one.number, 1_000)
    unacked_messages.expire(1_000)
    assert (unacked_messages.counts.expired, unacked_messages.prefetched_count) == (1, 0)


def test_what_was_acknowledged_too_late_is_counted_once_as_expired() -> None:
    unacked_messages = unacked_messages_with(3)
    unacked_messages.start_batch(1, ALL)
    unacked_messages.expire(1_000)
    unacked_messages.mark_completed(1)
    claimed = unacked_messages.claim_completed(ALL, BROKER)
    unacked_messages.mark_acknowledged(one.number for one in claimed[:1])
    unacked_messages.mark_expired(one.number for one in claimed[1:])
    assert unacked_messages.counts == Counts(received=3, acknowledged=1, expired=3)
    unacked_messages.add_completed([handle(7)])
    unacked_messages.mark_expired(one.number for one in unacked_messages.claim_completed(ALL, BROKER))
    assert (unacked_messages.counts.expired, unacked_messages.count(MessageState.COMPLETED)) == (4, 0)


def test_what_does_not_expire_holds_up_nothing_behind_it() -> None:
    unacked_messages = unacked_messages_with(3)
    unacked_messages.claim_due(999, 1, BROKER)
    unacked_messages.expire(1_000)
    assert (unacked_messages.counts.expired, unacked_messages.prefetched_count) == (2, 1)


def test_what_is_in_no_batch_can_be_released() -> None:
    unacked_messages = unacked_messages_with(4)
    unacked_messages.start_batch(1, 1)
    claimed = unacked_messages.claim_outside_batches(ALL, BROKER)
    assert [offset(one.handle) for one in claimed] == [1, 2, 3]
    unacked_messages.mark_released(one.number for one in claimed[:2])
    unacked_messages.unclaim([claimed[2].number])
    assert (unacked_messages.prefetched_count, unacked_messages.counts.released) == (1, 2)
    assert unacked_messages.claim_outside_batches(ALL, BROKER) == claimed[2:]


def test_no_more_are_accepted_than_required() -> None:
    unacked_messages = unacked_messages_with(3)
    assert [len(unacked_messages.claim_due(500, 2, BROKER)) for _ in range(3)] == [2, 1, 0]


def test_an_earlier_starts_batch_is_adopted_to_be_acknowledged_and_never_extended_or_expired() -> None:
    unacked_messages = UnackedMessages(INVISIBLE_MS)
    unacked_messages.add_completed([handle(5)])
    unacked_messages.expire(10_000)
    assert unacked_messages.claim_due(10_000, ALL, BROKER) == []
    assert [one.handle for one in unacked_messages.claim_completed(ALL, BROKER)] == [handle(5)]
    assert unacked_messages.counts == Counts()


def test_all_that_is_adopted_and_received_is_held_apart() -> None:
    unacked_messages = UnackedMessages(INVISIBLE_MS)
    unacked_messages.add_completed(map(handle, range(3)))
    unacked_messages.add_received([ReceivedMessage(handle(number), memoryview(b"")) for number in range(3, 6)], 0)
    assert [offset(one.handle) for one in unacked_messages.claim_completed(ALL, BROKER)] == [0, 1, 2]
    assert numbers(unacked_messages, 1) == [3, 4, 5]


def exhausted_messages(count: int) -> UnackedMessages:
    unacked_messages = UnackedMessages(INVISIBLE_MS)
    unacked_messages.add_exhausted(
        (ReceivedMessage(handle(number), memoryview(b"12345")) for number in range(count)), 0
    )
    return unacked_messages


def test_a_message_without_retries_left_is_in_no_batch_and_acknowledged_only_when_it_is_in_the_dead_letter_topic() -> (
    None
):
    unacked_messages = exhausted_messages(3)
    assert (
        unacked_messages.prefetched_count,
        unacked_messages.prefetched_bytes,
        unacked_messages.can_start_batch,
        unacked_messages.start_batch(1, ALL),
    ) == (0, 0, False, ())
    claimed = unacked_messages.claim_exhausted(2, BROKER)
    assert [one.record for _, one in claimed] == [memoryview(b"12345")] * 2
    assert (unacked_messages.claim_completed(ALL, BROKER), len(unacked_messages.claim_exhausted(ALL, BROKER))) == (
        [],
        1,
    )
    assert not unacked_messages.has_only_in_flight
    (first, _), (second, _) = claimed
    unacked_messages.record_moves([(first, MoveOutcome.MOVED), (second, MoveOutcome.RETRY)])
    assert [one.number for one in unacked_messages.claim_completed(ALL, BROKER)] == [first]
    assert [number for number, _ in unacked_messages.claim_exhausted(ALL, BROKER)] == [second]
    assert not unacked_messages.has_only_in_flight
    unacked_messages.mark_acknowledged([first])
    assert unacked_messages.counts == Counts(received=3, acknowledged=1, dead_letters=1)


def test_a_message_without_retries_left_that_cannot_be_moved_is_for_a_batch() -> None:
    unacked_messages = exhausted_messages(2)
    unacked_messages.record_moves([(unacked_messages.claim_exhausted(1, BROKER)[0][0], MoveOutcome.REJECTED)])
    assert (
        unacked_messages.prefetched_count,
        unacked_messages.prefetched_bytes,
        unacked_messages.count(MessageState.RETRIES_EXHAUSTED),
    ) == (1, 5, 1)
    assert numbers(unacked_messages, 1) == [0]


def test_an_unknown_outcome_of_a_move_raises() -> None:
    unacked_messages = exhausted_messages(1)
    with pytest.raises(KeyError):
        unacked_messages.record_moves([(0, cast(MoveOutcome, None))])


def test_a_message_without_retries_left_is_extended_skipped_and_released_as_what_is_in_no_batch() -> None:
    unacked_messages = exhausted_messages(2)
    (one, other) = unacked_messages.claim_due(INVISIBLE_MS // 2, ALL, BROKER)
    unacked_messages.mark_extended(one.number, handle(0, pop_time_ms=500), 500)
    unacked_messages.mark_extension_failed(other.number, 500)
    unacked_messages.expire(INVISIBLE_MS)
    assert (unacked_messages.counts.expired, unacked_messages.count(MessageState.RETRIES_EXHAUSTED)) == (1, 1)
    assert [claimed.number for claimed in unacked_messages.claim_outside_batches(ALL, BROKER)] == [one.number]
    unacked_messages.mark_released([one.number])
    assert (unacked_messages.prefetched_count, unacked_messages.prefetched_bytes, unacked_messages.counts.released) == (
        0,
        0,
        1,
    )


def test_all_is_done_when_only_batches_are_waited_for() -> None:
    unacked_messages = unacked_messages_with(2)
    has_only_in_flight = []
    for step in (
        lambda: unacked_messages.start_batch(1, 1),
        lambda: unacked_messages.start_batch(2, 1),
        lambda: unacked_messages.mark_completed(1),
    ):
        step()
        has_only_in_flight.append(unacked_messages.has_only_in_flight)
    assert has_only_in_flight == [False, True, False], "one is in no batch; all are; one is not acknowledged"


def test_a_batch_has_so_many_bytes_and_one_message_at_least() -> None:
    batches = [len(unacked_messages_with(3).start_batch(1, ALL, most_bytes)) for most_bytes in (1, 5, 9, 10, 15, 1_000)]
    assert batches == [1, 1, 1, 2, 3, 3]
    unacked_messages = unacked_messages_with(3)
    assert [len(unacked_messages.start_batch(batch, 2, 1_000)) for batch in (1, 2, 3)] == [2, 1, 0]


def handle_of_broker(name: str, number: int) -> BrokerHandle:
    pop_check_point = handle(number).pop_check_point
    return BrokerHandle(pop_check_point._replace(broker_name=name), number)


def test_an_earlier_starts_batch_is_abandoned_once_to_be_released_and_never_extended_or_expired() -> None:
    unacked_messages = UnackedMessages(INVISIBLE_MS)
    unacked_messages.abandon([handle(5), handle(6)])
    unacked_messages.abandon([handle(6), handle(7)])
    unacked_messages.expire(10_000)
    assert (
        unacked_messages.claim_due(10_000, ALL, BROKER),
        unacked_messages.claim_completed(ALL, BROKER),
        unacked_messages.claim_outside_batches(ALL, BROKER),
    ) == ([], [], [])
    assert (
        unacked_messages.prefetched_count,
        unacked_messages.has_only_in_flight,
        unacked_messages.can_start_batch,
    ) == (0, False, False)
    claimed = unacked_messages.claim_abandoned(ALL, BROKER)
    assert [offset(one.handle) for one in claimed] == [5, 6, 7]
    unacked_messages.mark_released(one.number for one in claimed[:2])
    unacked_messages.unclaim([claimed[2].number])
    assert unacked_messages.claim_abandoned(ALL, BROKER) == claimed[2:]
    assert unacked_messages.counts == Counts(released=2)


def test_what_is_accepted_is_of_the_broker_that_is_called() -> None:
    unacked_messages = UnackedMessages(INVISIBLE_MS)
    unacked_messages.add_received([ReceivedMessage(handle_of_broker(name, 0), memoryview(b"")) for name in "abab"], 0)
    assert [one.handle.broker_name for one in unacked_messages.claim_due(INVISIBLE_MS // 2, ALL, "b")] == ["b", "b"]
    assert [one.handle.broker_name for one in unacked_messages.claim_outside_batches(1, "a")] == ["a"]
    unacked_messages.add_exhausted([ReceivedMessage(handle_of_broker("c", 0), memoryview(b""))], 0)
    assert (unacked_messages.claim_exhausted(ALL, "a"), len(unacked_messages.claim_exhausted(ALL, "c"))) == ([], 1)
    unacked_messages.add_completed([handle_of_broker("d", 0)])
    unacked_messages.abandon([handle_of_broker("e", 0)])
    assert (len(unacked_messages.claim_completed(ALL, "d")), unacked_messages.claim_abandoned(ALL, "d")) == (1, [])


def test_brokers_are_called_for_what_is_due_done_or_goes_back_and_is_not_just_being_called() -> None:
    unacked_messages = UnackedMessages(INVISIBLE_MS)
    unacked_messages.add_received([ReceivedMessage(handle_of_broker("a", 0), memoryview(b""))], 0)
    unacked_messages.add_exhausted([ReceivedMessage(handle_of_broker("b", 0), memoryview(b""))], 10)
    assert unacked_messages.brokers_due(INVISIBLE_MS // 2 - 1) == set()
    assert unacked_messages.brokers_due(INVISIBLE_MS // 2) == {"a"}
    unacked_messages.add_completed([handle_of_broker("c", 0)])
    unacked_messages.abandon([handle_of_broker("d", 0)])
    assert unacked_messages.brokers_due(0) == {"c", "d"}
    assert unacked_messages.brokers_due_at_stop() == {"a", "b", "c"}
    unacked_messages.claim_completed(ALL, "c")
    unacked_messages.claim_outside_batches(ALL, "a")
    assert (unacked_messages.brokers_due(0), unacked_messages.brokers_due_at_stop()) == ({"d"}, {"b"})
    assert [unacked_messages.brokers_with(state) for state in MessageState] == [{"a"}, set(), {"c"}, {"b"}, {"d"}]


def test_what_expired_is_reported_by_broker_and_how_much_of_it_waited() -> None:
    unacked_messages = UnackedMessages(INVISIBLE_MS)
    unacked_messages.add_received([ReceivedMessage(handle_of_broker(name, 0), memoryview(b"")) for name in "aabb"], 0)
    unacked_messages.start_batch(1, 1)
    assert unacked_messages.expire(INVISIBLE_MS) == 3
    assert unacked_messages.expire(INVISIBLE_MS) == 0
    assert unacked_messages.expired == {"a": 2, "b": 2}
    unacked_messages.mark_completed(1)
    unacked_messages.mark_expired(one.number for one in unacked_messages.claim_completed(ALL, "a"))
    assert (unacked_messages.expired, unacked_messages.counts.expired) == ({"a": 2, "b": 2}, 4), "told once"


# ---------------------------------------------------------------------------------------------------- the table


PAIRS = list(product(MessageState, MessageEvent))


def with_one(state: MessageState) -> UnackedMessages:
    """One message, number 0, of 5 bytes."""
    unacked_messages = unacked_messages_with(
        0 if state in (MessageState.RETRIES_EXHAUSTED, MessageState.ABANDONED) else 1
    )
    if state is MessageState.RETRIES_EXHAUSTED:
        unacked_messages.add_exhausted([ReceivedMessage(handle(0), memoryview(b"12345"))], 0)
    elif state is MessageState.ABANDONED:
        unacked_messages.abandon([handle(0)])
    elif state is not MessageState.PREFETCHED:
        unacked_messages.start_batch(1, 1)
        unacked_messages.mark_completed(1 if state is MessageState.COMPLETED else 0)
    assert states_of(unacked_messages) == [state]
    return unacked_messages


def states_of(unacked_messages: UnackedMessages) -> list[MessageState]:
    return [state for state in MessageState for _ in range(unacked_messages.count(state))]


@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_a_message_changes_as_the_table_has_it_or_not_at_all(pair: tuple[MessageState, MessageEvent]) -> None:
    state, event = pair
    unacked_messages = with_one(state)
    if pair in TRANSITIONS:
        unacked_messages._apply(event, 0)
        assert states_of(unacked_messages) == [one for one in [TRANSITIONS[pair]] if one is not None]
    else:
        with pytest.raises(ValueError, match=f"is {state.name}, which has no event {event.name}"):
            unacked_messages._apply(event, 0)
        assert states_of(unacked_messages) == [state]
    prefetched = unacked_messages.count(MessageState.PREFETCHED)
    assert (unacked_messages.prefetched_count, unacked_messages.prefetched_bytes) == (prefetched, 5 * prefetched)


def test_a_message_is_acknowledged_only_when_it_is_completed() -> None:
    unacked_messages = unacked_messages_with(1)
    with pytest.raises(ValueError, match="PREFETCHED, which has no event ACKNOWLEDGED"):
        unacked_messages.mark_acknowledged([0])
    assert unacked_messages.counts == Counts(received=1)
