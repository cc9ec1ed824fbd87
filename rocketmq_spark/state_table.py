"""Look-up in the tables of state machines."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import TypeVar

S = TypeVar("S", bound=Enum)
E = TypeVar("E", bound=Enum)
T = TypeVar("T")


def transition_of(transitions: Mapping[tuple[S, E], T], state: S, event: E, subject: object) -> T:
    """Return the entry of ``transitions`` for ``event`` in ``state``. Raises ValueError, which names ``subject``, if
    there is none."""
    if (state, event) not in transitions:
        raise ValueError(f"{subject} is {state.name}, which has no event {event.name}")
    return transitions[state, event]
