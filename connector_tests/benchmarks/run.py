"""What was measured once, the record that everything else is made of. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

Figures: TypeAlias = Mapping[str, float]
Contestant: TypeAlias = Callable[[], Figures]


@dataclass(frozen=True, slots=True)
class Run:
    """What was measured once.

    Parameters
    ----------
    part : of the benchmark: ``reading``
    case : what was to be done: ``100 B, 4 queues``
    contestant : who did it
    figures : by name, with the unit in it
    """

    part: str
    case: str
    contestant: str
    round: int
    figures: Figures


@dataclass(frozen=True, slots=True)
class Failure:
    """Who could not take part, and why."""

    name: str
    problem: str


Outcome: TypeAlias = Run | Failure


def failure_of(name: str, error: Exception) -> Failure:
    """The first line of what went wrong."""
    text = str(error).strip() or type(error).__name__
    return Failure(name, text.splitlines()[0])
