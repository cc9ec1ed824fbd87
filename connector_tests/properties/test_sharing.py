"""Sharing messages, as a state machine: the ledger and the checkpoint's handles over a broker of some forty lines.

Whatever comes in whatever order, crashes too: a message that is in no sink is to be had again (P1), and without crashes
and lost leases each is in the sinks once (P3).
"""

from __future__ import annotations

from collections import Counter
from typing import Final

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from rocketmq_spark.pop.delivery_attempts import MoveOutcome
from rocketmq_spark.pop.receipt_handles import (
    BrokerHandle,
    PopCheckPoint,
    ReceiptHandle,
    ReceivedMessage,
    handles_from_json,
    handles_to_json,
)
from rocketmq_spark.pop.unacked_messages import REPLAYED, Claimed, MessageState, UnackedMessages

INVISIBLE_MS: Final = 100
ALL: Final = 1_000
BROKER: Final = "b"


def number_of(handle: ReceiptHandle) -> int:
    """Of its message."""
    assert isinstance(handle, BrokerHandle)
    return handle.offset


class ModelBroker:
    """Of each message the handles that count, with the time when they end; without any it can be given out. A message
    is gone when it is acknowledged by its last one."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.free: set[int] = set()
        self.held: dict[ReceiptHandle, int] = {}
        self._pops = 0

    def pop(self, max_messages: int) -> list[ReceivedMessage]:
        given = sorted(self.free)[:max_messages]
        self.free -= set(given)
        return [ReceivedMessage(self._add(number), memoryview(b"x")) for number in given]

    def change(self, handle: ReceiptHandle) -> BrokerHandle:
        """Whatever the handle is worth: brokers do not look."""
        self.held.pop(handle, None)
        return self._add(number_of(handle))

    def release(self, handle: ReceiptHandle) -> None:
        self.held.pop(handle, None)
        self.free.add(number_of(handle))

    def acknowledge(self, handle: ReceiptHandle) -> None:
        self.held.pop(handle, None)

    def pass_time(self, time_ms: int) -> None:
        self.now_ms += time_ms
        over = [handle for handle, end_ms in self.held.items() if end_ms <= self.now_ms]
        for handle in over:
            del self.held[handle]
            self.free.add(number_of(handle))

    def can_be_had(self) -> set[int]:
        return self.free | {number_of(handle) for handle in self.held}

    def _add(self, number: int) -> BrokerHandle:
        self._pops += 1
        handle = BrokerHandle(PopCheckPoint("T", number, self.now_ms, INVISIBLE_MS, self._pops, "0", BROKER, 0), number)
        self.held[handle] = self.now_ms + INVISIBLE_MS
        return handle


class Sharing(RuleBasedStateMachine):
    """One query, beside a stranger who takes messages and reads them at once. Log and sink outlive it."""

    gives_back_before_empty = True
    has_spool = False

    @initialize()
    def begin(self) -> None:
        self.broker = ModelBroker()
        self.stored_message_of = 0
        self.sink: dict[int, list[int]] = {}
        self.strangers: list[int] = []
        self.dead_letters: list[int] = []
        self.mark_logged: tuple[int, dict[str, str | list[str]]] = (0, {})
        self.committed = 0
        self.spool: dict[int, tuple[ReceivedMessage, ...]] = {}
        self.had_failure = False
        self._start()

    def _start(self) -> None:
        self.unacked_messages = UnackedMessages(INVISIBLE_MS)
        self.frozen: dict[int, list[int]] = {}
        self.resolved = 0
        self.again = 0
        self.requested: list[Claimed] = []

    # ---- the world

    @rule(count=st.integers(1, 5))
    def send(self, count: int) -> None:
        self.broker.free |= set(range(self.stored_message_of, self.stored_message_of + count))
        self.stored_message_of += count

    @rule(time_ms=st.integers(1, INVISIBLE_MS))
    def pass_time(self, time_ms: int) -> None:
        """Who is slow beyond that may lose its leases; the query looks afterwards."""
        self.broker.pass_time(time_ms)
        self.unacked_messages.expire(self.broker.now_ms)
        self.had_failure |= self.unacked_messages.counts.expired > 0

    @rule(max_messages=st.integers(1, 4))
    def a_stranger_takes_some(self, max_messages: int) -> None:
        for handle, *_ in self.broker.pop(max_messages):
            self.strangers.append(number_of(handle))
            self.broker.acknowledge(handle)

    # ---- the query

    @rule(max_messages=st.integers(1, 4))
    def add_received(self, max_messages: int) -> None:
        self.unacked_messages.add_received(self.broker.pop(max_messages), self.broker.now_ms)

    @rule(max_messages=st.integers(1, 2))
    def receive_what_came_too_often(self, max_messages: int) -> None:
        self.unacked_messages.add_exhausted(self.broker.pop(max_messages), self.broker.now_ms)

    @rule(is_answered=st.booleans(), is_received=st.booleans())
    def move_to_the_dead_letters(self, is_answered: bool, is_received: bool) -> None:
        """It is acknowledged by another request."""
        claimed = self.unacked_messages.claim_exhausted(ALL, BROKER)
        if is_received:
            self.dead_letters += [number_of(one.handle) for _, one in claimed]
        move = MoveOutcome.MOVED if is_received and is_answered else MoveOutcome.RETRY
        self.unacked_messages.record_moves((number, move) for number, _ in claimed)

    @precondition(lambda self: not self.requested)
    @rule()
    def request_extension(self) -> None:
        self.requested = self.unacked_messages.claim_due(self.broker.now_ms, ALL, BROKER)

    @precondition(lambda self: self.requested)
    @rule(is_answered=st.booleans(), is_received=st.booleans())
    def extend(self, is_answered: bool, is_received: bool) -> None:
        """The broker hears of it or not, and if it does its answer may be lost."""
        for number, handle in self.requested:
            if is_received:
                changed = self.broker.change(handle)
            if is_received and is_answered:
                self.unacked_messages.mark_extended(number, changed, self.broker.now_ms)
            else:
                self.unacked_messages.mark_extension_failed(number, self.broker.now_ms)
                self.had_failure = True
        self.requested = []

    @precondition(lambda self: self.mark_logged[0] == self.committed)
    @rule(max_messages=st.integers(1, 6))
    def plan(self, max_messages: int) -> None:
        """What the last batch's end proves, then the next one is logged."""
        self._mark_completed()
        frozen = self._start_batch(max_messages)
        if frozen:
            self.mark_logged = self.mark_logged[0] + 1, handles_to_json(one.handle for one in frozen)
            self.frozen[self.mark_logged[0]] = [number_of(one.handle) for one in frozen]

    @precondition(lambda self: self.mark_logged[0] == self.committed)
    @rule(max_messages=st.integers(1, 6))
    def crash_before_it_is_logged(self, max_messages: int) -> None:
        self._mark_completed()
        self._start_batch(max_messages)
        self.crash()

    def _start_batch(self, max_messages: int) -> tuple[ReceivedMessage, ...]:
        frozen = self.unacked_messages.start_batch(self.mark_logged[0] + 1, max_messages)
        if frozen and self.has_spool:
            self.spool[self.mark_logged[0] + 1] = frozen
        return frozen

    def _mark_completed(self) -> None:
        number, handles = self.mark_logged
        if number in self.frozen:
            self.unacked_messages.mark_completed(number)
        elif self.again == number:
            self.unacked_messages.mark_completed(REPLAYED)
        elif self.resolved != number:
            self.unacked_messages.add_completed(handles_from_json(handles))
            self.resolved = number
        self.acknowledge()
        for one in self.spool.pop(number + 1, ()):
            self.broker.release(one.handle)
        self.spool.pop(number, None)

    @rule()
    def acknowledge(self) -> None:
        claimed = self.unacked_messages.claim_completed(ALL, BROKER)
        for _, handle in claimed:
            self.broker.acknowledge(handle)
        self.unacked_messages.mark_acknowledged(one.number for one in claimed)

    @precondition(lambda self: self.mark_logged[0] > self.committed)
    @rule()
    def write(self) -> None:
        """The sink keeps a batch under its number; what an earlier start has frozen is in the spool, or it is released,
        and the batch is empty."""
        number, handles = self.mark_logged
        if number in self.frozen:
            rows = self.frozen[number]
        elif number in self.spool:
            rows = self._rows_again(number)
        else:
            rows = []
            self._release_before_empty(number, handles)
        assert not self.has_spool or self.sink.get(number, rows) == rows, "a batch has the same rows, restarts included"
        self.sink[number] = rows

    def _rows_again(self, number: int) -> list[int]:
        if self.again != number:
            self.unacked_messages.replay_batch(self.spool[number], self.broker.now_ms, self.broker.now_ms)
            self.again = number
        return [number_of(one.handle) for one in self.spool[number]]

    def _release_before_empty(self, number: int, handles: dict[str, str | list[str]]) -> None:
        if self.resolved != number:
            for handle in handles_from_json(handles) if self.gives_back_before_empty else ():
                self.broker.release(handle)
            self.resolved = number

    @precondition(lambda self: self.mark_logged[0] in self.sink)
    @rule()
    def commit(self) -> None:
        if self.mark_logged[0] in self.frozen or self.mark_logged[0] in (self.resolved, self.again):
            self.committed = self.mark_logged[0]

    @rule()
    def crash(self) -> None:
        self.had_failure = True
        self._start()

    @precondition(lambda self: not self.requested)
    @rule()
    def stop_and_start(self) -> None:
        """What is in no batch is released; of a batch that is not proven nobody knows."""
        claimed = self.unacked_messages.claim_outside_batches(ALL, BROKER)
        for _, handle in claimed:
            self.broker.release(handle)
        self.unacked_messages.mark_released(one.number for one in claimed)
        assert (
            self.unacked_messages.count(MessageState.PREFETCHED)
            + self.unacked_messages.count(MessageState.RETRIES_EXHAUSTED)
            == 0
        )
        self.had_failure |= (
            self.unacked_messages.count(MessageState.IN_FLIGHT) + self.unacked_messages.count(MessageState.COMPLETED)
            > 0
        )
        self._start()

    # ---- what must hold

    def _in_sinks(self) -> list[int]:
        committed = [offset for number, batch in self.sink.items() if number <= self.committed for offset in batch]
        return committed + self.strangers

    @invariant()
    def nothing_is_lost(self) -> None:
        lost = (
            set(range(self.stored_message_of))
            - set(self._in_sinks())
            - set(self.dead_letters)
            - self.broker.can_be_had()
        )
        assert not lost, f"lost: {lost}"

    @invariant()
    def nothing_comes_twice_without_a_reason(self) -> None:
        if not self.had_failure:
            assert max(Counter(self._in_sinks()).values(), default=1) == 1


FORM = settings(max_examples=60, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck))


class Spooled(Sharing):
    has_spool = True


@pytest.mark.parametrize("machine", [Sharing, Spooled])
def test_nothing_is_lost_and_nothing_comes_twice_without_a_reason(machine: type[Sharing]) -> None:
    run_state_machine_as_test(machine, settings=FORM)


def test_without_giving_back_before_a_batch_is_empty_it_finds_the_loss() -> None:
    class Careless(Sharing):
        gives_back_before_empty = False

    with pytest.raises(AssertionError, match="lost"):
        restart_with_a_logged_batch(Careless())
    restart_with_a_logged_batch(Sharing())


def test_without_what_is_kept_it_finds_that_a_batch_has_other_rows() -> None:
    class Forgetful(Spooled):
        def crash(self) -> None:
            self.spool.clear()
            super().crash()

    with pytest.raises(AssertionError, match="the same rows"):
        write_twice(Forgetful())
    write_twice(Spooled())


def write_twice(machine: Sharing) -> None:
    """A batch is written; the query ends before that is committed, and the next start writes it again."""
    machine.begin()
    machine.send(3)
    machine.add_received(3)
    machine.plan(3)
    machine.write()
    machine.crash()
    machine.write()
    machine.commit()
    machine.plan(3)
    machine.nothing_is_lost()


def restart_with_a_logged_batch(machine: Sharing) -> None:
    """A batch is logged; the next start knows nothing of its messages, so it is empty; the one after that finds it
    done, and acknowledges what the log has of it."""
    machine.begin()
    machine.send(3)
    machine.add_received(3)
    machine.plan(3)
    machine.crash()
    machine.write()
    machine.commit()
    machine.crash()
    machine.plan(3)
    machine.nothing_is_lost()
