"""What tests of state tables share."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from itertools import product
from typing import TypeVar

S = TypeVar("S", bound=Enum)
E = TypeVar("E", bound=Enum)


def connected_states(transitions: Mapping[tuple[S, E], S]) -> set[tuple[S, S]]:
    """Pairs of states, the second of which is reached from the first by one transition or more."""
    reached = {(before, after) for (before, _), after in transitions.items()}
    while (further := {(a, d) for (a, b), (c, d) in product(reached, reached) if b is c}) - reached:
        reached |= further
    return reached
