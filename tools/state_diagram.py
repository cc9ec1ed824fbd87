"""A state machine as a picture and two tables."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import TypeVar

from markdown_table import table

State = TypeVar("State", bound=Enum)
Event = TypeVar("Event", bound=Enum)


def state_diagram(
    transitions: Mapping[tuple[State, Event], State], meaning: str, states: type[State], events: type[Event]
) -> str:
    """The picture, then the words."""
    arrows = (f"    {before.name} --> {after.name}: {event.name}\n" for (before, event), after in transitions.items())
    of_states = table(("state", meaning), ((state.name, state.value) for state in states))
    of_events = table(("event", "which means"), ((event.name, event.value) for event in events))
    first = next(iter(states)).name
    return f"```mermaid\nstateDiagram-v2\n    [*] --> {first}\n{''.join(arrows)}```\n\n{of_states}\n{of_events}"
