"""All unacknowledged messages of a query, and the state of each: ``TRANSITIONS`` has the valid changes.

A message is added as PREFETCHED, or as RETRIES_EXHAUSTED if it was redelivered too often, a message of an earlier
start's batch as IN_FLIGHT, COMPLETED or ABANDONED. COMPLETED and ABANDONED messages are not extended.

The sender of a request about a message first claims it (``claim_...``), and records the outcome afterwards. A claimed
message gets no other request: it is never extended and acknowledged together, and requests have its last handle. Times
are arguments. Not thread-safe.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from itertools import accumulate
from types import MappingProxyType
from typing import Final, NamedTuple

from rocketmq_spark.pop.delivery_attempts import MoveOutcome
from rocketmq_spark.pop.invisible_duration import Lease
from rocketmq_spark.pop.receipt_handles import BrokerHandle, ReceiptHandle, ReceivedMessage, RecordFormat
from rocketmq_spark.state_table import transition_of

REPLAYED: Final = 0
"""The number of an earlier start's batch. Batches of this start count from 1."""


class MessageState(Enum):
    """The state of a message."""

    PREFETCHED = "in no batch yet"
    IN_FLIGHT = "in a batch that is not completed"
    COMPLETED = "in the sink, and not acknowledged"
    RETRIES_EXHAUSTED = "has exceeded retryMaxTimes, and is not in the dead-letter topic yet"
    ABANDONED = "in an earlier start's batch that is not in the sink, and not released"


class MessageEvent(Enum):
    """Event that changes the state of a message."""

    BATCH_STARTED = "it is in a batch of this start"
    BATCH_COMPLETED = "its batch is in the sink"
    MOVED = "it is stored in the dead-letter topic"
    MOVE_REJECTED = "it cannot be stored in the dead-letter topic"
    ACKNOWLEDGED = "its broker has accepted the acknowledgement"
    RELEASED = "its broker will redeliver it"
    EXPIRED = "its invisible duration has ended: its broker redelivers it"


_PREFETCHED, _IN_FLIGHT, _COMPLETED, _RETRIES_EXHAUSTED, _ABANDONED = MessageState
_REMOVED: Final = None

TRANSITIONS: Final[Mapping[tuple[MessageState, MessageEvent], MessageState | None]] = MappingProxyType(
    {
        (_PREFETCHED, MessageEvent.BATCH_STARTED): _IN_FLIGHT,
        (_PREFETCHED, MessageEvent.RELEASED): _REMOVED,
        (_PREFETCHED, MessageEvent.EXPIRED): _REMOVED,
        (_IN_FLIGHT, MessageEvent.BATCH_COMPLETED): _COMPLETED,
        # A batch is written as it was logged: what expires in it may be a duplicate, and is counted.
        (_IN_FLIGHT, MessageEvent.EXPIRED): _IN_FLIGHT,
        (_COMPLETED, MessageEvent.ACKNOWLEDGED): _REMOVED,
        (_COMPLETED, MessageEvent.EXPIRED): _REMOVED,
        (_RETRIES_EXHAUSTED, MessageEvent.MOVED): _COMPLETED,
        (_RETRIES_EXHAUSTED, MessageEvent.MOVE_REJECTED): _PREFETCHED,
        (_RETRIES_EXHAUSTED, MessageEvent.RELEASED): _REMOVED,
        (_RETRIES_EXHAUSTED, MessageEvent.EXPIRED): _REMOVED,
        (_ABANDONED, MessageEvent.RELEASED): _REMOVED,
    }
)
"""All valid transitions; to None: the message is removed."""


@dataclass(slots=True)
class _UnackedMessage:
    handle: ReceiptHandle
    record: memoryview
    record_format: RecordFormat
    lease: Lease
    state: MessageState = MessageState.PREFETCHED
    batch: int = 0
    is_claimed: bool = False
    is_expiry_counted: bool = False

    @property
    def received(self) -> ReceivedMessage:
        return ReceivedMessage(self.handle, self.record, self.record_format)


class Claimed(NamedTuple):
    """A message that is claimed: its number in ``UnackedMessages``, and its handle for the request."""

    number: int
    handle: ReceiptHandle


@dataclass(slots=True)
class Counts:
    """Numbers of messages since the query started, by what happened to them."""

    received: int = 0
    acknowledged: int = 0
    extended: int = 0
    released: int = 0
    expired: int = 0
    dead_letters: int = 0


class UnackedMessages:
    """A ``Receiver``'s unacknowledged messages, numbered as added; claimed: with a request to a server in flight."""

    def __init__(self, invisible_ms: int) -> None:
        self._invisible_ms = invisible_ms
        self._messages: dict[int, _UnackedMessage] = {}
        self._next = 0
        self._prefetched_count = 0
        self._prefetched_bytes = 0
        self.counts = Counts()
        self.expired: Counter[str] = Counter()
        """``counts.expired`` by broker name."""

    @property
    def prefetched_count(self) -> int:
        """Return the number of PREFETCHED messages, claimed or not."""
        return self._prefetched_count

    @property
    def prefetched_bytes(self) -> int:
        """Return the size of the records of PREFETCHED messages, claimed or not."""
        return self._prefetched_bytes

    @property
    def has_only_in_flight(self) -> bool:
        """Return whether no message is in another state than IN_FLIGHT; True without messages."""
        return all(message.state is MessageState.IN_FLIGHT for message in self._messages.values())

    @property
    def can_start_batch(self) -> bool:
        """Return whether a PREFETCHED message is unclaimed."""
        return any(not message.is_claimed for _, message in self._in_state(MessageState.PREFETCHED))

    def count(self, state: MessageState) -> int:
        """Return the number of messages in ``state``, claimed or not."""
        return sum(1 for _ in self._in_state(state))

    # ------------------------------------------------------------------------------------------ state changes

    def add_received(self, received: Iterable[ReceivedMessage], now_ms: int) -> None:
        """Add messages, in order, as PREFETCHED and count them; their invisible duration begins at ``now_ms``."""
        for handle, record, record_format in received:
            self._add(_UnackedMessage(handle, record, record_format, Lease.starting_at(now_ms, self._invisible_ms)))
            self.counts.received += 1

    def add_exhausted(self, received: Iterable[ReceivedMessage], now_ms: int) -> None:
        """Add messages, in order, as RETRIES_EXHAUSTED and count them; their duration begins at ``now_ms``."""
        for handle, record, record_format in received:
            lease = Lease.starting_at(now_ms, self._invisible_ms)
            self._add(_UnackedMessage(handle, record, record_format, lease, MessageState.RETRIES_EXHAUSTED))
            self.counts.received += 1

    def start_batch(self, batch: int, max_messages: int, max_bytes: int | None = None) -> tuple[ReceivedMessage, ...]:
        """Change the oldest unclaimed PREFETCHED messages to IN_FLIGHT, in ``batch``, and return them in order; ()
        without any. At most ``max_messages``, and records of ``max_bytes`` (None: no limit) or one larger message."""
        free = [number for number, message in self._in_state(MessageState.PREFETCHED) if not message.is_claimed][
            :max_messages
        ]
        if max_bytes is not None:
            ends = accumulate(len(self._messages[number].record) for number in free)
            free = free[: max(1, sum(end <= max_bytes for end in ends))]
        for number in free:
            self._apply(MessageEvent.BATCH_STARTED, number)
            self._messages[number].batch = batch
        return tuple(self._messages[number].received for number in free)

    def replay_batch(self, messages: Iterable[ReceivedMessage], now_ms: int, epoch_ms: int) -> None:
        """Add messages of an earlier start's batch, logged and not in the sink, as IN_FLIGHT in batch REPLAYED (0), the
        lowest; ``counts`` exclude them. Duration: see ``_lease_of``. ``epoch_ms``: ``now_ms`` in Unix ms."""
        for handle, record, record_format in messages:
            lease = self._lease_of(handle, now_ms, epoch_ms)
            self._add(_UnackedMessage(handle, record, record_format, lease, MessageState.IN_FLIGHT, REPLAYED))

    def _lease_of(self, handle: ReceiptHandle, now_ms: int, epoch_ms: int) -> Lease:
        """Return the lease of an earlier start's message: with a broker's handle the handle's duration from its pop
        time, at the latest from now. Without one it is half over, so that an extension is due now."""
        if not isinstance(handle, BrokerHandle):
            return Lease.starting_at(now_ms - self._invisible_ms // 2, self._invisible_ms)
        age_ms = max(0, epoch_ms - handle.pop_check_point.pop_time_ms)
        return Lease.starting_at(now_ms - age_ms, handle.pop_check_point.invisible_ms)

    def add_completed(self, handles: Iterable[ReceiptHandle]) -> None:
        """Add messages, without records, of an earlier start's batch that is in the sink, as COMPLETED: to be
        acknowledged. Do not count them as received."""
        for handle in handles:
            lease = Lease(self._invisible_ms, 0, 0)
            self._add(_UnackedMessage(handle, memoryview(b""), RecordFormat.STORED, lease, MessageState.COMPLETED))

    def abandon(self, handles: Iterable[ReceiptHandle]) -> None:
        """Add messages, without records, of an earlier start's batch that is not in the sink, as ABANDONED: to be
        released. Skip handles that are ABANDONED already. Do not count them as received."""
        abandoned = {message.handle for _, message in self._in_state(MessageState.ABANDONED)}
        for handle in handles:
            if handle not in abandoned:
                lease = Lease(self._invisible_ms, 0, 0)
                self._add(_UnackedMessage(handle, memoryview(b""), RecordFormat.STORED, lease, MessageState.ABANDONED))

    def mark_completed(self, batch: int) -> None:
        """Change the IN_FLIGHT messages of all batches up to and including ``batch``, claimed or not, to COMPLETED."""
        for number, message in self._in_state(MessageState.IN_FLIGHT):
            if message.batch <= batch:
                self._apply(MessageEvent.BATCH_COMPLETED, number)

    def brokers_due(self, now_ms: int) -> set[str]:
        """Return the names of brokers with unclaimed messages that are COMPLETED, ABANDONED or due for an extension. It
        is due from half of the invisible duration, or the end of the pause after a failed one, until the message
        expires."""
        due = (
            message
            for message in self._messages.values()
            if _is_urgent(message) or (_needs_extension(message) and message.lease.is_due(now_ms))
        )
        return {message.handle.broker_name for message in due if not message.is_claimed}

    def brokers_due_at_stop(self) -> set[str]:
        """Return the names of brokers to which a stopping query sends requests: they have unclaimed messages that are
        COMPLETED (acknowledge), PREFETCHED or RETRIES_EXHAUSTED (release)."""
        states_at_stop = _IN_NO_BATCH | {MessageState.COMPLETED}
        return {
            message.handle.broker_name
            for message in self._messages.values()
            if message.state in states_at_stop and not message.is_claimed
        }

    def brokers_with(self, state: MessageState) -> set[str]:
        """Return the names of the brokers of all messages in ``state``, claimed or not."""
        return {message.handle.broker_name for _, message in self._in_state(state)}

    # ------------------------------------------------------------------------------------------ requests

    def claim_due(self, now_ms: int, max_messages: int, broker_name: str) -> list[Claimed]:
        """Claim and return up to ``max_messages`` unclaimed messages of ``broker_name`` whose extension is due at
        ``now_ms`` (``brokers_due``), none of them COMPLETED or ABANDONED."""
        due = (
            number
            for number, message in self._messages.items()
            if _needs_extension(message) and message.lease.is_due(now_ms)
        )
        return self._claim(due, max_messages, broker_name)

    def mark_extended(self, number: int, handle: ReceiptHandle, now_ms: int) -> None:
        """Replace the handle, unclaim the message, count the extension, and start its invisible duration at ``now_ms``:
        when the request was sent."""
        message = self._messages[number]
        message.handle, message.lease, message.is_claimed = handle, Lease.starting_at(now_ms, self._invisible_ms), False
        self.counts.extended += 1

    def mark_extension_failed(self, number: int, now_ms: int) -> None:
        """Unclaim the message, keep its handle, and make its next extension due after a pause, see
        ``Lease.retry_later``: the broker may have processed the request."""
        message = self._messages[number]
        message.lease, message.is_claimed = message.lease.retry_later(now_ms), False

    def expire(self, now_ms: int) -> int:
        """Count each expired message once, unless it is claimed, COMPLETED or ABANDONED. Remove PREFETCHED and
        RETRIES_EXHAUSTED ones, which brokers redeliver; return how many it removes. IN_FLIGHT ones stay."""
        dropped_count = 0
        expired_numbers = [
            number
            for number, message in self._messages.items()
            if _needs_extension(message) and message.lease.is_expired(now_ms)
        ]
        for number in expired_numbers:
            message = self._messages[number]
            if message.is_claimed or message.is_expiry_counted:
                continue
            self._apply(MessageEvent.EXPIRED, number)
            self._count_expired(message)
            dropped_count += number not in self._messages
        return dropped_count

    def claim_exhausted(self, max_messages: int, broker_name: str) -> list[tuple[int, ReceivedMessage]]:
        """Claim up to ``max_messages`` unclaimed RETRIES_EXHAUSTED messages of ``broker_name``, to move them to the
        dead-letter topic. Return (number, message) of each."""
        claimed = self._claim(
            (number for number, _ in self._in_state(MessageState.RETRIES_EXHAUSTED)), max_messages, broker_name
        )
        return [(number, self._messages[number].received) for number, _ in claimed]

    def record_moves(self, moves: Iterable[tuple[int, MoveOutcome]]) -> None:
        """Record the outcomes of moves, by message number, and unclaim these messages. MOVED ones become COMPLETED and
        are counted as dead letters, REJECTED ones become PREFETCHED, RETRY ones stay RETRIES_EXHAUSTED."""
        for number, outcome in moves:
            if outcome is not MoveOutcome.RETRY:
                self._apply(_MOVE_EVENTS[outcome], number)
            self.counts.dead_letters += outcome is MoveOutcome.MOVED
            self._messages[number].is_claimed = False

    def claim_completed(self, max_messages: int, broker_name: str) -> list[Claimed]:
        """Claim and return unclaimed COMPLETED messages of ``broker_name``, at most ``max_messages``."""
        return self._claim((number for number, _ in self._in_state(MessageState.COMPLETED)), max_messages, broker_name)

    def mark_acknowledged(self, numbers: Iterable[int]) -> None:
        """Remove COMPLETED messages whose acknowledgement the broker accepted, and count them as acknowledged."""
        for number in numbers:
            self._apply(MessageEvent.ACKNOWLEDGED, number)
            self.counts.acknowledged += 1

    def mark_expired(self, numbers: Iterable[int]) -> None:
        """Remove COMPLETED messages whose acknowledgement the server rejected because they had expired: it redelivers
        them. Count each as expired, unless ``expire`` has counted it."""
        for number in numbers:
            message = self._messages[number]
            self._apply(MessageEvent.EXPIRED, number)
            if not message.is_expiry_counted:
                self._count_expired(message)

    def claim_outside_batches(self, max_messages: int, broker_name: str) -> list[Claimed]:
        """Claim and return, for their release, unclaimed PREFETCHED and RETRIES_EXHAUSTED messages of ``broker_name``,
        at most ``max_messages``."""
        outside = (number for number, message in self._messages.items() if message.state in _IN_NO_BATCH)
        return self._claim(outside, max_messages, broker_name)

    def claim_abandoned(self, max_messages: int, broker_name: str) -> list[Claimed]:
        """Claim and return unclaimed ABANDONED messages of ``broker_name``, at most ``max_messages``."""
        return self._claim((number for number, _ in self._in_state(MessageState.ABANDONED)), max_messages, broker_name)

    def mark_released(self, numbers: Iterable[int], *, are_confirmed: bool = True) -> None:
        """Remove messages that their broker redelivers. Count them as released if it has confirmed the release."""
        for number in numbers:
            self._apply(MessageEvent.RELEASED, number)
            self.counts.released += are_confirmed

    def unclaim(self, numbers: Collection[int]) -> None:
        """Unclaim messages whose request failed, for a retry; their state stays."""
        for number in numbers:
            self._messages[number].is_claimed = False

    # ------------------------------------------------------------------------------------------ private

    def _count_expired(self, message: _UnackedMessage) -> None:
        """Count the message as expired, in total and for its broker, and mark it as counted."""
        message.is_expiry_counted = True
        self.counts.expired += 1
        self.expired[message.handle.broker_name] += 1

    def _add(self, message: _UnackedMessage) -> None:
        """Store the message under the next number; add it to the prefetched totals if it is PREFETCHED."""
        self._messages[self._next] = message
        self._next += 1
        self._count_if_prefetched(message, 1)

    def _in_state(self, state: MessageState) -> Iterator[tuple[int, _UnackedMessage]]:
        return ((number, message) for number, message in self._messages.items() if message.state is state)

    def _claim(self, numbers: Iterable[int], max_messages: int, broker_name: str) -> list[Claimed]:
        """Claim and return up to ``max_messages`` unclaimed messages of ``numbers`` at ``broker_name``."""
        claimed: list[Claimed] = []
        for number in numbers:
            message = self._messages[number]
            is_claimable = message.handle.broker_name == broker_name and not message.is_claimed
            if is_claimable and len(claimed) < max_messages:
                message.is_claimed = True
                claimed.append(Claimed(number, message.handle))
        return claimed

    def _apply(self, event: MessageEvent, number: int) -> None:
        """Set the next state by ``TRANSITIONS``. Remove the message if the state is None, drop its record if it is
        COMPLETED. Raises ValueError, without a change, for an event that the present state does not allow."""
        message = self._messages[number]
        after = transition_of(TRANSITIONS, message.state, event, message.handle)
        self._count_if_prefetched(message, -1)
        if after is None:
            del self._messages[number]
            return
        message.state = after
        self._count_if_prefetched(message, 1)
        if after is MessageState.COMPLETED:
            message.record = memoryview(b"")

    def _count_if_prefetched(self, message: _UnackedMessage, change: int) -> None:
        """For a PREFETCHED message add ``change`` (1, -1) to the count, and ``change`` times its size to the bytes."""
        if message.state is MessageState.PREFETCHED:
            self._prefetched_count += change
            self._prefetched_bytes += change * len(message.record)


_URGENT: Final = frozenset({MessageState.COMPLETED, MessageState.ABANDONED})
_IN_NO_BATCH: Final = frozenset({MessageState.PREFETCHED, MessageState.RETRIES_EXHAUSTED})
_MOVE_EVENTS: Final = {MoveOutcome.MOVED: MessageEvent.MOVED, MoveOutcome.REJECTED: MessageEvent.MOVE_REJECTED}


def _is_urgent(message: _UnackedMessage) -> bool:
    """Return whether the message is COMPLETED or ABANDONED: it is kept only until a request to its broker succeeds."""
    return message.state in _URGENT


def _needs_extension(message: _UnackedMessage) -> bool:
    """Return whether messages in this state are extended, due or not: all but COMPLETED and ABANDONED ones."""
    return message.state not in _URGENT
