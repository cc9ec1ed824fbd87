"""QueueLives: what each queue is to a member, and what may happen to it then. All of it is one table.

Concurrent members own a queue and drop it. Orderly ones wait for its lock first, and keep it, unplanned, until nothing
of it is unproven. ``membership`` decides what happens; the requests that come before it are its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final

from rocketmq_spark.model import MessageQueue


class QueueState(Enum):
    """What a queue is to a member."""

    NOT_OWNED = "owned by another member or by none"
    AWAITING_LOCK = "ours by the group's lists, and its lock is another's still"
    OWNED = "ours, and planned"
    RELEASING = "another's by the group's lists; it stays, unplanned, until nothing of it is unproven or unconfirmed"


class QueueEvent(Enum):
    """What happens to a queue."""

    LOCK_DENIED = "its broker refuses a new owner the lock"
    LOCK_NOT_REQUESTED = "it is not asked for any more, or its broker does not answer"
    ADDED = "it is added, with its lock if it needs one"
    REASSIGNED = "the group's lists give it to another"
    RETAINED = "an allocation assigns it again before it is released"
    DROPPED = "it is let go: settled, refused the renewal of its lock, or concurrent"


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
"""What is not in here cannot happen."""


class QueueStates:
    """The state of each queue; those that nobody has spoken of are NOT_OURS. Not thread-safe."""

    def __init__(self) -> None:
        self._states: dict[MessageQueue, QueueState] = {}

    def state(self, queue: MessageQueue) -> QueueState:
        return self._states.get(queue, _NOT_OWNED)

    def in_state(self, state: QueueState) -> frozenset[MessageQueue]:
        """All queues in a state other than NOT_OURS."""
        return frozenset(queue for queue, current in self._states.items() if current is state)

    def apply(self, event: QueueEvent, queues: Iterable[MessageQueue]) -> None:
        """To each of ``queues``. Raises ValueError, and changes nothing, where it cannot happen to one of them."""
        after = {queue: self._after(event, queue) for queue in queues}
        states = self._states | after
        self._states = {queue: state for queue, state in states.items() if state is not _NOT_OWNED}

    def _after(self, event: QueueEvent, queue: MessageQueue) -> QueueState:
        state = self.state(queue)
        if (state, event) not in TRANSITIONS:
            raise ValueError(f"{queue} is {state.name} and cannot be {event.name}")
        return TRANSITIONS[state, event]
