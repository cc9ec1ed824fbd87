"""The ledger, by example; ``properties/test_sharing`` has what holds whatever happens."""

from __future__ import annotations

from rocketmq_spark.pop.attempts import Move
from rocketmq_spark.pop.handles import AnyHandle, CheckPoint, Form, Handle, OpaqueHandle, Received
from rocketmq_spark.pop.ledger import BEFORE_ALL, Counts, Ledger, State

INVISIBLE_MS = 1_000
ALL = 1_000


def handle(number: int, pop_time_ms: int = 0) -> Handle:
    return Handle(CheckPoint("T", 0, pop_time_ms, INVISIBLE_MS, 0, "0", "broker-a", 0), number)


def ledger_with(count: int) -> Ledger:
    """Messages that were received at 0."""
    ledger = Ledger(INVISIBLE_MS)
    ledger.receive((Received(handle(number), memoryview(b"12345")) for number in range(count)), 0)
    return ledger


def offset(one: AnyHandle) -> int:
    assert isinstance(one, Handle)
    return one.offset


def numbers(ledger: Ledger, batch: int, most: int = ALL) -> list[int]:
    return [offset(one.handle) for one in ledger.freeze(batch, most)]


def test_what_waits_is_counted_with_its_bytes_until_it_is_in_a_batch() -> None:
    ledger = ledger_with(3)
    assert (ledger.waiting, ledger.waiting_bytes) == (3, 15)
    assert numbers(ledger, 1, most=2) == [0, 1]
    assert (ledger.waiting, ledger.waiting_bytes) == (1, 5)
    assert [ledger.count(state) for state in State] == [1, 2, 0, 0, 0]


def test_what_is_proven_is_acknowledged_once() -> None:
    ledger = ledger_with(3)
    assert [one.record for one in ledger.freeze(1, 2)] == [memoryview(b"12345")] * 2
    assert ledger.take_proven(ALL) == []
    ledger.prove(1)
    taken = ledger.take_proven(ALL)
    assert [one.handle for one in taken] == [handle(0), handle(1)]
    assert ledger.take_proven(ALL) == []
    ledger.acknowledged(one.number for one in taken)
    assert ledger.count(State.PROVEN) == 0
    assert ledger.counts == Counts(received=3, acknowledged=2)


def test_a_proof_is_of_all_batches_before_and_of_none_after() -> None:
    ledger = ledger_with(3)
    for batch in (1, 2, 3):
        ledger.freeze(batch, 1)
    ledger.prove(2)
    assert [ledger.count(state) for state in State] == [0, 1, 2, 0, 0]


def test_a_batch_that_is_read_again_comes_before_all_others_and_is_renewed_by_its_age() -> None:
    ledger = ledger_with(1)
    kept = [
        Received(handle(number, pop_time_ms=10_000 - age_ms), memoryview(b"1"))
        for number, age_ms in ((7, 0), (8, INVISIBLE_MS // 2), (9, INVISIBLE_MS))
    ]
    ledger.freeze_again(kept, now_ms=50_000, epoch_ms=10_000)
    assert [offset(one.handle) for one in ledger.take_due(50_000, ALL)] == [8]
    ledger.expire(50_000)
    assert (ledger.counts.expired, ledger.count(State.FROZEN)) == (2, 3), "one of them in no batch, and given up"
    ledger.prove(BEFORE_ALL)
    assert ledger.count(State.PROVEN) == 3


def test_what_another_server_has_handed_out_is_renewed_at_once_when_it_is_read_again() -> None:
    """Its handle does not say when that was."""
    ledger = Ledger(INVISIBLE_MS)
    opaque = OpaqueHandle("T", "broker-a", "its own")
    kept = (Received(opaque, memoryview(b"1"), Form.ANSWERED),)
    ledger.freeze_again(kept, now_ms=50_000, epoch_ms=10_000)
    assert [one.handle for one in ledger.take_due(50_000, ALL)] == [opaque]


def test_a_message_stays_in_the_form_in_which_it_came() -> None:
    ledger = Ledger(INVISIBLE_MS)
    both = tuple(Received(handle(number), memoryview(b"1"), form) for number, form in enumerate(Form))
    ledger.receive(both, 0)
    assert ledger.freeze(1, ALL) == both


def test_a_clock_behind_the_brokers_shortens_no_lease() -> None:
    ledger = Ledger(INVISIBLE_MS)
    ledger.freeze_again([Received(handle(0, pop_time_ms=10_000), memoryview(b""))], now_ms=0, epoch_ms=9_000)
    assert ledger.take_due(INVISIBLE_MS // 2 - 1, ALL) == []
    assert len(ledger.take_due(INVISIBLE_MS // 2, ALL)) == 1


def test_what_could_not_be_acknowledged_is_tried_again() -> None:
    ledger = ledger_with(1)
    ledger.freeze(1, 1)
    ledger.prove(1)
    ledger.put_back([one.number for one in ledger.take_proven(ALL)])
    assert len(ledger.take_proven(ALL)) == 1


def test_what_is_being_renewed_is_neither_frozen_nor_acknowledged_nor_given_back() -> None:
    ledger = ledger_with(2)
    ledger.freeze(1, 1)
    taken = ledger.take_due(500, ALL)
    ledger.prove(1)
    assert (numbers(ledger, 2), ledger.take_proven(ALL), ledger.take_waiting(ALL)) == ([], [], [])
    assert (ledger.waiting, ledger.can_freeze) == (1, False)
    assert ledger.take_due(500, ALL) == []
    for one in taken:
        ledger.renewed(one.number, handle(offset(one.handle), pop_time_ms=500), 500)
    assert ledger.can_freeze
    assert [one.handle for one in ledger.take_proven(ALL)] == [handle(0, pop_time_ms=500)]
    assert ledger.freeze(2, ALL)[0].handle == handle(1, pop_time_ms=500)
    assert ledger.counts.extended == 2


def test_what_is_renewed_has_a_new_lease_from_when_it_was_asked_for() -> None:
    ledger = ledger_with(1)
    assert ledger.take_due(499, ALL) == []
    (one,) = ledger.take_due(500, ALL)
    ledger.renewed(one.number, handle(0, 500), 500)
    assert ledger.take_due(999, ALL) == []
    assert len(ledger.take_due(1_000, ALL)) == 1


def test_what_could_not_be_renewed_keeps_its_handle_and_is_tried_again_after_a_pause() -> None:
    ledger = ledger_with(1)
    (one,) = ledger.take_due(500, ALL)
    ledger.not_renewed(one.number, 520)
    assert ledger.take_due(569, ALL) == []
    assert ledger.take_due(570, ALL) == [one]


def test_what_was_proven_while_it_was_being_renewed_is_not_renewed_again() -> None:
    ledger = ledger_with(1)
    ledger.freeze(1, 1)
    (one,) = ledger.take_due(500, ALL)
    ledger.prove(1)
    ledger.not_renewed(one.number, 520)
    assert ledger.take_due(900, ALL) == []
    assert ledger.take_proven(ALL) == [one]


def test_what_was_not_renewed_in_time_is_given_up_unless_it_is_in_a_batch_and_counted_once() -> None:
    ledger = ledger_with(2)
    ledger.freeze(1, 1)
    for now_ms in (999, 1_000, 2_000):
        ledger.expire(now_ms)
    assert ledger.counts.expired == 2
    assert [ledger.count(state) for state in State] == [0, 1, 0, 0, 0]
    assert (ledger.waiting, ledger.waiting_bytes) == (0, 0)
    ledger.prove(1)
    assert len(ledger.take_proven(ALL)) == 1


def test_what_a_broker_is_asked_about_does_not_expire_meanwhile() -> None:
    ledger = ledger_with(1)
    (one,) = ledger.take_due(999, ALL)
    ledger.expire(1_000)
    assert ledger.counts.expired == 0
    ledger.not_renewed(one.number, 1_000)
    ledger.expire(1_000)
    assert (ledger.counts.expired, ledger.waiting) == (1, 0)


def test_what_was_acknowledged_too_late_is_counted_once_as_expired() -> None:
    ledger = ledger_with(3)
    ledger.freeze(1, ALL)
    ledger.expire(1_000)
    ledger.prove(1)
    taken = ledger.take_proven(ALL)
    ledger.acknowledged(one.number for one in taken[:1])
    ledger.too_late(one.number for one in taken[1:])
    assert ledger.counts == Counts(received=3, acknowledged=1, expired=3)
    ledger.adopt([handle(7)])
    ledger.too_late(one.number for one in ledger.take_proven(ALL))
    assert (ledger.counts.expired, ledger.count(State.PROVEN)) == (4, 0)


def test_what_does_not_expire_holds_up_nothing_behind_it() -> None:
    ledger = ledger_with(3)
    ledger.take_due(999, 1)
    ledger.expire(1_000)
    assert (ledger.counts.expired, ledger.waiting) == (2, 1)


def test_what_is_in_no_batch_can_be_given_back() -> None:
    ledger = ledger_with(4)
    ledger.freeze(1, 1)
    taken = ledger.take_waiting(ALL)
    assert [offset(one.handle) for one in taken] == [1, 2, 3]
    ledger.given_back(one.number for one in taken[:2])
    ledger.put_back([taken[2].number])
    assert (ledger.waiting, ledger.counts.released) == (1, 2)
    assert ledger.take_waiting(ALL) == taken[2:]


def test_no_more_are_taken_than_wanted() -> None:
    ledger = ledger_with(3)
    assert [len(ledger.take_due(500, 2)) for _ in range(3)] == [2, 1, 0]


def test_an_earlier_starts_batch_is_adopted_to_be_acknowledged_and_never_renewed_or_expired() -> None:
    ledger = Ledger(INVISIBLE_MS)
    ledger.adopt([handle(5)])
    ledger.expire(10_000)
    assert ledger.take_due(10_000, ALL) == []
    assert [one.handle for one in ledger.take_proven(ALL)] == [handle(5)]
    assert ledger.counts == Counts()


def test_all_that_is_adopted_and_received_is_held_apart() -> None:
    ledger = Ledger(INVISIBLE_MS)
    ledger.adopt(map(handle, range(3)))
    ledger.receive([Received(handle(number), memoryview(b"")) for number in range(3, 6)], 0)
    assert [offset(one.handle) for one in ledger.take_proven(ALL)] == [0, 1, 2]
    assert numbers(ledger, 1) == [3, 4, 5]


def spent_ledger(count: int) -> Ledger:
    ledger = Ledger(INVISIBLE_MS)
    ledger.receive_spent((Received(handle(number), memoryview(b"12345")) for number in range(count)), 0)
    return ledger


def test_what_is_spent_is_in_no_batch_and_acknowledged_only_when_it_is_in_the_dead_letter_topic() -> None:
    ledger = spent_ledger(3)
    assert (ledger.waiting, ledger.waiting_bytes, ledger.can_freeze, ledger.freeze(1, ALL)) == (0, 0, False, ())
    taken = ledger.take_spent(2)
    assert [one.record for _, one in taken] == [memoryview(b"12345")] * 2
    assert (ledger.take_proven(ALL), len(ledger.take_spent(ALL))) == ([], 1)
    assert not ledger.is_done
    (first, _), (second, _) = taken
    ledger.settle([(first, Move.DONE), (second, Move.LATER)])
    assert [one.number for one in ledger.take_proven(ALL)] == [first]
    assert [number for number, _ in ledger.take_spent(ALL)] == [second]
    assert not ledger.is_done
    ledger.acknowledged([first])
    assert ledger.counts == Counts(received=3, acknowledged=1, dead_letters=1)


def test_what_is_spent_and_cannot_be_moved_is_for_a_batch() -> None:
    ledger = spent_ledger(2)
    ledger.settle([(ledger.take_spent(1)[0][0], Move.REFUSED)])
    assert (ledger.waiting, ledger.waiting_bytes, ledger.count(State.SPENT)) == (1, 5, 1)
    assert numbers(ledger, 1) == [0]


def test_what_is_spent_is_renewed_given_up_and_given_back_as_what_is_in_no_batch() -> None:
    ledger = spent_ledger(2)
    (one, other) = ledger.take_due(INVISIBLE_MS // 2, ALL)
    ledger.renewed(one.number, handle(0, pop_time_ms=500), 500)
    ledger.not_renewed(other.number, 500)
    ledger.expire(INVISIBLE_MS)
    assert (ledger.counts.expired, ledger.count(State.SPENT)) == (1, 1)
    assert [taken.number for taken in ledger.take_waiting(ALL)] == [one.number]
    ledger.given_back([one.number])
    assert (ledger.waiting, ledger.waiting_bytes, ledger.counts.released) == (0, 0, 1)


def test_all_is_done_when_only_batches_are_waited_for() -> None:
    ledger = ledger_with(2)
    is_done = []
    for step in (lambda: ledger.freeze(1, 1), lambda: ledger.freeze(2, 1), lambda: ledger.prove(1)):
        step()
        is_done.append(ledger.is_done)
    assert is_done == [False, True, False], "one is in no batch; all are; one is not acknowledged"


def test_a_batch_has_so_many_bytes_and_one_message_at_least() -> None:
    batches = [len(ledger_with(3).freeze(1, ALL, most_bytes)) for most_bytes in (1, 5, 9, 10, 15, 1_000)]
    assert batches == [1, 1, 1, 2, 3, 3]
    ledger = ledger_with(3)
    assert [len(ledger.freeze(batch, 2, 1_000)) for batch in (1, 2, 3)] == [2, 1, 0]


def handle_of_broker(name: str, number: int) -> Handle:
    check_point = handle(number).check_point
    return Handle(check_point._replace(broker_name=name), number)


def test_an_earlier_starts_batch_is_disowned_once_to_be_given_back_and_never_renewed_or_expired() -> None:
    ledger = Ledger(INVISIBLE_MS)
    ledger.disown([handle(5), handle(6)])
    ledger.disown([handle(6), handle(7)])
    ledger.expire(10_000)
    assert (ledger.take_due(10_000, ALL), ledger.take_proven(ALL), ledger.take_waiting(ALL)) == ([], [], [])
    assert (ledger.waiting, ledger.is_done, ledger.can_freeze) == (0, False, False)
    taken = ledger.take_disowned(ALL)
    assert [offset(one.handle) for one in taken] == [5, 6, 7]
    ledger.given_back(one.number for one in taken[:2])
    ledger.put_back([taken[2].number])
    assert ledger.take_disowned(ALL) == taken[2:]
    assert ledger.counts == Counts(released=2)


def test_what_is_taken_is_of_the_broker_that_is_asked() -> None:
    ledger = Ledger(INVISIBLE_MS)
    ledger.receive([Received(handle_of_broker(name, 0), memoryview(b"")) for name in "abab"], 0)
    assert [one.handle.broker_name for one in ledger.take_due(INVISIBLE_MS // 2, ALL, "b")] == ["b", "b"]
    assert [one.handle.broker_name for one in ledger.take_waiting(1, "a")] == ["a"]
    ledger.receive_spent([Received(handle_of_broker("c", 0), memoryview(b""))], 0)
    assert (ledger.take_spent(ALL, "a"), len(ledger.take_spent(ALL, "c"))) == ([], 1)
    ledger.adopt([handle_of_broker("d", 0)])
    ledger.disown([handle_of_broker("e", 0)])
    assert (len(ledger.take_proven(ALL, "d")), ledger.take_disowned(ALL, "d")) == (1, [])


def test_brokers_are_asked_for_what_is_due_done_or_goes_back_and_is_not_just_being_asked() -> None:
    ledger = Ledger(INVISIBLE_MS)
    ledger.receive([Received(handle_of_broker("a", 0), memoryview(b""))], 0)
    ledger.receive_spent([Received(handle_of_broker("b", 0), memoryview(b""))], 10)
    assert ledger.to_be_asked(INVISIBLE_MS // 2 - 1) == set()
    assert ledger.to_be_asked(INVISIBLE_MS // 2) == {"a"}
    ledger.adopt([handle_of_broker("c", 0)])
    ledger.disown([handle_of_broker("d", 0)])
    assert ledger.to_be_asked(0) == {"c", "d"}
    assert ledger.to_be_asked_at_the_end() == {"a", "b", "c"}
    ledger.take_proven(ALL)
    ledger.take_waiting(ALL, "a")
    assert (ledger.to_be_asked(0), ledger.to_be_asked_at_the_end()) == ({"d"}, {"b"})
    assert [ledger.brokers_of(state) for state in State] == [{"a"}, set(), {"c"}, {"b"}, {"d"}]


def test_what_expired_is_told_by_broker_and_how_much_of_it_waited() -> None:
    ledger = Ledger(INVISIBLE_MS)
    ledger.receive([Received(handle_of_broker(name, 0), memoryview(b"")) for name in "aabb"], 0)
    ledger.freeze(1, 1)
    assert ledger.expire(INVISIBLE_MS) == 3
    assert ledger.expire(INVISIBLE_MS) == 0
    assert ledger.expired == {"a": 2, "b": 2}
    ledger.prove(1)
    ledger.too_late(one.number for one in ledger.take_proven(ALL))
    assert (ledger.expired, ledger.counts.expired) == ({"a": 2, "b": 2}, 4), "told once"
