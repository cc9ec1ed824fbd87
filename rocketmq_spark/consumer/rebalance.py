"""Ownership of queues. RebalanceImpl computes which queues this member owns, from the group's members and the routes.
QueueStates has the state of each queue, and its valid transitions, as one table.

Source: ``client/impl/consumer/RebalanceImpl.java#updateProcessQueueTableInRebalance``. Differs: ``decide`` only
computes, ``apply`` only changes the table, and ``membership`` sends the requests in between (commits of dropped
queues). There is no pull expiry: the member's heartbeats have CONSUME_ACTIVELY, for which Java has none.

Concurrent members own a queue and drop it. Orderly ones wait for its lock first, and keep it, unplanned, until no range
is in flight or unconfirmed. ``membership`` decides on events and sends the requests that precede them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import count
from types import MappingProxyType
from typing import Final

from rocketmq_spark.consumer.allocation import Strategy, allocate_all
from rocketmq_spark.consumer.process_queue import ProcessQueue
from rocketmq_spark.model import MessageQueue
from rocketmq_spark.state_table import transition_of


@dataclass(frozen=True, slots=True)
class RebalancePlan:
    """Changes of a rebalance: first ``drop`` (commit, then remove), then ``add``. Each in Java's queue order."""

    drop: tuple[MessageQueue, ...] = ()
    add: tuple[MessageQueue, ...] = ()

    def __bool__(self) -> bool:
        """Return whether the plan changes anything."""
        return bool(self.drop or self.add)


class RebalanceImpl:
    """The queues that one member owns, each with its ProcessQueue. Not thread-safe; the group lock protects it."""

    def __init__(self, group: str, client_id: str, strategy: Strategy) -> None:
        self._group = group
        self._client_id = client_id
        self._strategy = strategy
        self._table: dict[MessageQueue, ProcessQueue] = {}
        self._generations = count(1)

    @property
    def table(self) -> Mapping[MessageQueue, ProcessQueue]:
        """Process queues of owned queues; none is dropped."""
        return self._table

    def decide(
        self, queues: Mapping[str, Sequence[MessageQueue]], client_ids: Sequence[str] | None
    ) -> RebalancePlan | None:
        """Return the changes from the owned queues to those that the strategy allocates to this member; change nothing.
        ``queues``: readable queues by subscribed topic. ``client_ids``: members as brokers list them, in any order.
        Return None if ``client_ids`` is None (no broker responded), or lacks this member, which must send another
        heartbeat. Raises what the strategy raises."""
        members = set(client_ids or ())
        if self._client_id not in members:
            return None
        assigned = set(allocate_all(self._strategy, self._group, self._client_id, queues, tuple(members)))
        held = self._table.keys()
        return RebalancePlan(drop=_ordered(held - assigned), add=_ordered(assigned - held))

    def apply(self, plan: RebalancePlan) -> None:
        """Drop the process queues of ``plan.drop`` and remove them; add a new one, with a new generation, for each
        queue of ``plan.add``. Sends nothing. Raises KeyError if a queue to drop is not in the table."""
        for queue in plan.drop:
            self._table.pop(queue).drop()
        for queue in plan.add:
            self._table[queue] = ProcessQueue(queue, next(self._generations))


def _ordered(queues: set[MessageQueue]) -> tuple[MessageQueue, ...]:
    """Return ``queues`` in the order of ``MessageQueue.sort_key``."""
    return tuple(sorted(queues, key=MessageQueue.sort_key))


class QueueState(Enum):
    """State of a queue for a member."""

    NOT_OWNED = "owned by another member or by none"
    AWAITING_LOCK = "allocated to this member, while another member still has its lock"
    OWNED = "owned by this member, and planned"
    RELEASING = "allocated to another member, but owned and not planned until no range is in flight or unconfirmed"


class QueueEvent(Enum):
    """Event that changes the state of a queue."""

    LOCK_DENIED = "its broker denies this member the lock"
    LOCK_NOT_REQUESTED = "its lock is no longer requested, or its broker does not respond"
    ADDED = "this member becomes its owner, with `consumeOrderly` once it has the lock"
    REASSIGNED = "an allocation assigns it to another member"
    RETAINED = "an allocation assigns it again before it is released"
    DROPPED = "this member is no longer its owner; with `consumeOrderly` after its release, or if the lock is denied"


_NOT_OWNED, _AWAITING_LOCK, _OWNED, _RELEASING = QueueState

TRANSITIONS: Final[Mapping[tuple[QueueState, QueueEvent], QueueState]] = MappingProxyType(
    {
        (_NOT_OWNED, QueueEvent.LOCK_DENIED): _AWAITING_LOCK,
        (_NOT_OWNED, QueueEvent.ADDED): _OWNED,
        (_AWAITING_LOCK, QueueEvent.LOCK_DENIED): _AWAITING_LOCK,
        (_AWAITING_LOCK, QueueEvent.LOCK_NOT_REQUESTED): _NOT_OWNED,
        (_AWAITING_LOCK, QueueEvent.ADDED): _OWNED,
        (_OWNED, QueueEvent.REASSIGNED): _RELEASING,
        (_OWNED, QueueEvent.DROPPED): _NOT_OWNED,
        (_RELEASING, QueueEvent.REASSIGNED): _RELEASING,
        (_RELEASING, QueueEvent.RETAINED): _OWNED,
        (_RELEASING, QueueEvent.DROPPED): _NOT_OWNED,
    }
)
"""All valid transitions."""


class QueueStates:
    """State of each queue; NOT_OWNED by default. Not thread-safe."""

    def __init__(self) -> None:
        self._states: dict[MessageQueue, QueueState] = {}

    def state(self, queue: MessageQueue) -> QueueState:
        """Return the state of ``queue``; NOT_OWNED by default."""
        return self._states.get(queue, _NOT_OWNED)

    def in_state(self, state: QueueState) -> frozenset[MessageQueue]:
        """Return all queues in ``state``; an empty set for NOT_OWNED, which is not recorded."""
        return frozenset(queue for queue, current in self._states.items() if current is state)

    def apply(self, event: QueueEvent, queues: Iterable[MessageQueue]) -> None:
        """Change the state of each of ``queues`` by ``event``. Raises ValueError, without a change of any queue, if the
        event is invalid for one of them."""
        after = {queue: transition_of(TRANSITIONS, self.state(queue), event, queue) for queue in queues}
        states = self._states | after
        self._states = {queue: state for queue, state in states.items() if state is not _NOT_OWNED}
