"""State machines, each as a picture and two tables."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import TypeVar

from markdown_table import table

from rocketmq_spark.consumer import membership_state, rebalance
from rocketmq_spark.pull import server_choice
from rocketmq_spark.remoting.replicas import FIRST_SERVERS, ServerKind
from rocketmq_spark.source.stream import drain

State = TypeVar("State", bound=Enum)
Event = TypeVar("Event", bound=Enum)


def state_diagram(
    transitions: Mapping[tuple[State, Event], State],
    meaning: str,
    states: type[State],
    events: type[Event],
    starts: Mapping[str, State] | None = None,
) -> str:
    """The picture, then the words. ``starts``: by their labels, the states that may be the first; None: the first of
    ``states``, without a label."""
    arrows = (f"    {before.name} --> {after.name}: {event.name}\n" for (before, event), after in transitions.items())
    of_states = table(("state", meaning), ((state.name, state.value) for state in states))
    of_events = table(("event", "which means"), ((event.name, event.value) for event in events))
    labelled = [(f": {label}", first) for label, first in (starts or {}).items()] or [("", next(iter(states)))]
    firsts = (f"    [*] --> {first.name}{label}\n" for label, first in labelled)
    return f"```mermaid\nstateDiagram-v2\n{''.join(firsts)}{''.join(arrows)}```\n\n{of_states}\n{of_events}"


def server_choice_diagram() -> str:
    """For docs/dev/pulling.md."""
    starts = {f"readFrom={read_from}": server.kind for read_from, server in FIRST_SERVERS.items()}
    return state_diagram(server_choice.TRANSITIONS, "pull from", ServerKind, server_choice.ServerEvent, starts)


def queue_life_diagram() -> str:
    """For docs/dev/orderly.md."""
    return state_diagram(rebalance.TRANSITIONS, "a queue that is", rebalance.QueueState, rebalance.QueueEvent)


def standing_diagram() -> str:
    """For docs/dev/group-members.md."""
    transitions = {reported: step.next_state for reported, step in membership_state.MEMBERSHIP_TRANSITIONS.items()}
    return state_diagram(
        transitions, "a member that is", membership_state.MembershipState, membership_state.MembershipEvent
    )


def drain_diagram() -> str:
    """For docs/dev/processes-threads-locks.md."""
    return state_diagram(drain.TRANSITIONS, "which means", drain.DrainState, drain.DrainEvent)
