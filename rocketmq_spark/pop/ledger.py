"""The ledger: every message that the query holds, and how far it is with each.

    received ── freeze ──▶ frozen ── prove ──▶ proven ── acknowledged ──▶ (gone)
       └── given back ──▶ (gone)                  until it is proven it is renewed
    spent ── moved ──▶ proven                     what came again too often; what cannot be moved is received after all
    disowned ── given back ──▶ (gone)             of an earlier start's batch that is in no sink

Whoever asks a broker something of a message takes it first (``take_...``) and says afterwards what came of it. Nobody
else gets it meanwhile: so no message is renewed and acknowledged at once, and who acknowledges has its last handle.
Times are arguments. Not thread-safe.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from itertools import accumulate
from typing import Final, NamedTuple

from rocketmq_spark.pop.attempts import Move
from rocketmq_spark.pop.handles import AnyHandle, Form, Handle, Received
from rocketmq_spark.pop.invisible_duration import Lease

BEFORE_ALL: Final = 0
"""The number of a batch that an earlier start has frozen. Those of this start count from 1."""


class State(Enum):
    """How far a message is."""

    RECEIVED = "in no batch yet"
    FROZEN = "in a batch that is not proven"
    PROVEN = "in the sink, and not acknowledged"
    SPENT = "not in the dead letter topic yet"
    DISOWNED = "in a batch that nobody has, and not given back"


@dataclass(slots=True)
class _Held:
    handle: AnyHandle
    record: memoryview
    form: Form
    lease: Lease
    state: State = State.RECEIVED
    batch: int = 0
    is_taken: bool = False
    is_told_expired: bool = False

    @property
    def received(self) -> Received:
        return Received(self.handle, self.record, self.form)


class Taken(NamedTuple):
    """A message about which a broker is asked now."""

    number: int
    handle: AnyHandle


@dataclass(slots=True)
class Counts:
    """What became of messages since the query started."""

    received: int = 0
    acknowledged: int = 0
    extended: int = 0
    released: int = 0
    expired: int = 0
    dead_letters: int = 0


class Ledger:
    """See the module. Messages are numbered as they come."""

    def __init__(self, invisible_ms: int) -> None:
        self._invisible_ms = invisible_ms
        self._held: dict[int, _Held] = {}
        self._next = 0
        self._waiting = 0
        self._waiting_bytes = 0
        self.counts = Counts()
        self.expired: Counter[str] = Counter()
        """``counts.expired`` by broker name."""

    # ------------------------------------------------------------------------------------------ what there is

    @property
    def waiting(self) -> int:
        """How many messages are in no batch yet."""
        return self._waiting

    @property
    def waiting_bytes(self) -> int:
        return self._waiting_bytes

    @property
    def is_done(self) -> bool:
        """Whether nothing is left to do but what a batch is waited for."""
        return all(one.state is State.FROZEN for one in self._held.values())

    @property
    def can_freeze(self) -> bool:
        """Whether there is a message for a batch."""
        return any(not one.is_taken for _, one in self._in_state(State.RECEIVED))

    def count(self, state: State) -> int:
        return sum(1 for _ in self._in_state(state))

    # ------------------------------------------------------------------------------------------ the way of a message

    def receive(self, received: Iterable[Received], now_ms: int) -> None:
        """They are ours, from about now on."""
        for handle, record, form in received:
            self._hold(_Held(handle, record, form, Lease.begun(now_ms, self._invisible_ms)))
            self._waiting += 1
            self._waiting_bytes += len(record)
            self.counts.received += 1

    def receive_spent(self, received: Iterable[Received], now_ms: int) -> None:
        """They are ours, and for no batch: they came again too often."""
        for handle, record, form in received:
            self._hold(_Held(handle, record, form, Lease.begun(now_ms, self._invisible_ms), State.SPENT))
            self.counts.received += 1

    def freeze(self, batch: int, most: int, most_bytes: int | None = None) -> tuple[Received, ...]:
        """The next ``batch``: the oldest messages that are received, and of which nobody asks a broker just now; one at
        least, whatever its size."""
        free = [number for number, one in self._in_state(State.RECEIVED) if not one.is_taken][:most]
        if most_bytes is not None:
            ends = accumulate(len(self._held[number].record) for number in free)
            free = free[: max(1, sum(end <= most_bytes for end in ends))]
        for number in free:
            one = self._held[number]
            self._waiting_is_over(one)
            one.state, one.batch = State.FROZEN, batch
        return tuple(self._held[number].received for number in free)

    def freeze_again(self, messages: Iterable[Received], now_ms: int, epoch_ms: int) -> None:
        """Messages of a batch that an earlier start of the query has frozen, and that is not in the sink yet; all
        batches of this start come after it. ``epoch_ms`` is now by the clock that brokers name."""
        for handle, record, form in messages:
            lease = self._lease_of(handle, now_ms, epoch_ms)
            self._hold(_Held(handle, record, form, lease, State.FROZEN, BEFORE_ALL))

    def _lease_of(self, handle: AnyHandle, now_ms: int, epoch_ms: int) -> Lease:
        """Of a message that was received some time ago. How long ago only a broker's handle says; another server's is
        renewed at once."""
        if not isinstance(handle, Handle):
            return Lease.begun(now_ms - self._invisible_ms // 2, self._invisible_ms)
        age_ms = max(0, epoch_ms - handle.check_point.pop_time_ms)
        return Lease.begun(now_ms - age_ms, handle.check_point.invisible_ms)

    def adopt(self, handles: Iterable[AnyHandle]) -> None:
        """Messages of a batch that an earlier start of the query has frozen, and that is in the sink."""
        for handle in handles:
            lease = Lease(self._invisible_ms, 0, 0)
            self._hold(_Held(handle, memoryview(b""), Form.STORED, lease, State.PROVEN))

    def disown(self, handles: Iterable[AnyHandle]) -> None:
        """Messages of a batch that an earlier start of the query has frozen, and that is in no sink: they are to be
        given back. Once, if they are told again."""
        known = {one.handle for _, one in self._in_state(State.DISOWNED)}
        for handle in handles:
            if handle not in known:
                lease = Lease(self._invisible_ms, 0, 0)
                self._hold(_Held(handle, memoryview(b""), Form.STORED, lease, State.DISOWNED))

    def prove(self, batch: int) -> None:
        """All that was frozen up to ``batch`` is in the sink."""
        for _, one in self._in_state(State.FROZEN):
            if one.batch <= batch:
                one.state, one.record = State.PROVEN, memoryview(b"")

    # ------------------------------------------------------------------------------------------ whom to ask

    def to_be_asked(self, now_ms: int) -> set[str]:
        """Brokers that are to be told something: that a message is done, goes back, or is still needed."""
        due = (one for one in self._held.values() if _is_urgent(one) or (_is_renewed(one) and one.lease.is_due(now_ms)))
        return {one.handle.broker_name for one in due if not one.is_taken}

    def to_be_asked_at_the_end(self) -> set[str]:
        """The same for who receives no more: what is in no batch is given back. An earlier start's is left to a later
        one."""
        last = _IN_NO_BATCH | {State.PROVEN}
        return {one.handle.broker_name for one in self._held.values() if one.state in last and not one.is_taken}

    def brokers_of(self, state: State) -> set[str]:
        """Whose messages are so far, be they taken or not."""
        return {one.handle.broker_name for _, one in self._in_state(state)}

    # ------------------------------------------------------------------------------------------ renewal

    def take_due(self, now_ms: int, most: int, broker_name: str | None = None) -> list[Taken]:
        """Some of those whose leases are to be renewed now; of one broker, or of any."""
        due = (number for number, one in self._held.items() if _is_renewed(one) and one.lease.is_due(now_ms))
        return self._take(due, most, broker_name)

    def renewed(self, number: int, handle: AnyHandle, now_ms: int) -> None:
        """The broker knows it by another handle; ``now_ms``: when it was asked."""
        one = self._held[number]
        one.handle, one.lease, one.is_taken = handle, Lease.begun(now_ms, self._invisible_ms), False
        self.counts.extended += 1

    def not_renewed(self, number: int, now_ms: int) -> None:
        """Nobody knows whether the broker has heard of it; it keeps its handle, and is tried again."""
        one = self._held[number]
        one.lease, one.is_taken = one.lease.tried_in_vain(now_ms), False

    def expire(self, now_ms: int) -> int:
        """Others may get what was not renewed in time. What is in no batch is given up: so many. What is in one stays,
        counted: it may be twice in the output of the group."""
        given_up = 0
        over = [number for number, one in self._held.items() if _is_renewed(one) and one.lease.is_over(now_ms)]
        for number in over:
            one = self._held[number]
            if one.is_taken or one.is_told_expired:
                continue
            self._note_expired(one)
            if one.state is not State.FROZEN:
                self._remove(number)
                given_up += 1
        return given_up

    # ------------------------------------------------------------------------------------------ what is spent

    def take_spent(self, most: int, broker_name: str | None = None) -> list[tuple[int, Received]]:
        """Some that are to be moved to the dead letter topic."""
        taken = self._take((number for number, _ in self._in_state(State.SPENT)), most, broker_name)
        return [(number, self._held[number].received) for number, _ in taken]

    def settle(self, moves: Iterable[tuple[int, Move]]) -> None:
        """What is there is acknowledged next."""
        for number, move in moves:
            one = self._held[number]
            one.is_taken = False
            if move is Move.DONE:
                one.state, one.record = State.PROVEN, memoryview(b"")
                self.counts.dead_letters += 1
            elif move is Move.REFUSED:
                one.state = State.RECEIVED
                self._waiting += 1
                self._waiting_bytes += len(one.record)

    # ------------------------------------------------------------------------------------------ the end

    def take_proven(self, most: int, broker_name: str | None = None) -> list[Taken]:
        """Some that can be acknowledged."""
        return self._take((number for number, _ in self._in_state(State.PROVEN)), most, broker_name)

    def acknowledged(self, numbers: Iterable[int]) -> None:
        """The broker has said nothing against it."""
        for number in numbers:
            self._remove(number)
            self.counts.acknowledged += 1

    def too_late(self, numbers: Iterable[int]) -> None:
        """Their time was over when they were acknowledged: they come again."""
        for number in numbers:
            if not self._held[number].is_told_expired:
                self._note_expired(self._held[number])
            self._remove(number)

    def take_waiting(self, most: int, broker_name: str | None = None) -> list[Taken]:
        """Some that can be given back: they are in no batch."""
        return self._take(
            (number for number, one in self._held.items() if one.state in _IN_NO_BATCH), most, broker_name
        )

    def take_disowned(self, most: int, broker_name: str | None = None) -> list[Taken]:
        """Some that are to be given back."""
        return self._take((number for number, _ in self._in_state(State.DISOWNED)), most, broker_name)

    def given_back(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            self._remove(number)
            self.counts.released += 1

    def put_back(self, numbers: Collection[int]) -> None:
        """What they were taken for did not come about; it may be tried again."""
        for number in numbers:
            self._held[number].is_taken = False

    # ------------------------------------------------------------------------------------------ inside

    def _note_expired(self, one: _Held) -> None:
        one.is_told_expired = True
        self.counts.expired += 1
        self.expired[one.handle.broker_name] += 1

    def _hold(self, one: _Held) -> None:
        self._held[self._next] = one
        self._next += 1

    def _in_state(self, state: State) -> Iterator[tuple[int, _Held]]:
        return ((number, one) for number, one in self._held.items() if one.state is state)

    def _take(self, numbers: Iterable[int], most: int, broker_name: str | None) -> list[Taken]:
        taken: list[Taken] = []
        for number in numbers:
            one = self._held[number]
            is_wanted = broker_name is None or one.handle.broker_name == broker_name
            if is_wanted and not one.is_taken and len(taken) < most:
                one.is_taken = True
                taken.append(Taken(number, one.handle))
        return taken

    def _remove(self, number: int) -> None:
        one = self._held.pop(number)
        if one.state is State.RECEIVED:
            self._waiting_is_over(one)

    def _waiting_is_over(self, one: _Held) -> None:
        self._waiting -= 1
        self._waiting_bytes -= len(one.record)


_URGENT: Final = frozenset({State.PROVEN, State.DISOWNED})
_IN_NO_BATCH: Final = frozenset({State.RECEIVED, State.SPENT})


def _is_urgent(one: _Held) -> bool:
    """It is held only until its broker has been told."""
    return one.state in _URGENT


def _is_renewed(one: _Held) -> bool:
    return one.state not in _URGENT
