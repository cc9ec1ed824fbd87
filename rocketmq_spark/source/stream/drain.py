"""Drain: the handshake of a graceful stop, between whoever asks and a source runner. Pure: one table, shown by files.

The two are processes that share a folder and nothing else. A file in it says how far they are, and a file can be
renamed only once: of a runner that takes a request and an asker who withdraws it, one succeeds.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import Enum
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

CONTROL: Final = "control"
"""Under this name the query progress shows where the source runner can be asked."""


class Control(NamedTuple):
    """Where a source runner can be asked. ``host``: the name of the machine that has ``folder``."""

    host: str
    folder: str

    @property
    def path(self) -> Path:
        return Path(self.folder)

    @classmethod
    def shown_in(cls, report: Any) -> Control | None:
        """The one in what a source shows; None for a source that is not ours."""
        try:
            host, folder = report[CONTROL]["host"], report[CONTROL]["folder"]
        except (TypeError, KeyError):
            return None
        return cls(host, folder) if isinstance(host, str) and isinstance(folder, str) else None


class DrainState(Enum):
    """How far a source runner is with ending its query."""

    RUNNING = "no request to end the query, or it was withdrawn"
    REQUESTED = "nothing new is planned; what is proven is being confirmed by the brokers"
    DRAINING = "its queues are on their way to others: there is no way back"
    DRAINED = "nothing of the query is left unproven, and it reads nothing any more"


class DrainEvent(Enum):
    """What the asker does, or the runner."""

    REQUEST = "the asker makes `drain`, again and again: the folder may be cleaned"
    WITHDRAW = "the requester, or a cleanup of the folder, deletes `drain`; it may come too late"
    CLAIM = "the runner renames `drain` to `draining`"
    FINISH = "the runner makes `drained`, again and again"


_RUNNING, _REQUESTED, _DRAINING, _DRAINED = DrainState

TRANSITIONS: Final[Mapping[tuple[DrainState, DrainEvent], DrainState]] = MappingProxyType(
    {
        (_RUNNING, DrainEvent.REQUEST): _REQUESTED,
        (_RUNNING, DrainEvent.WITHDRAW): _RUNNING,
        (_REQUESTED, DrainEvent.REQUEST): _REQUESTED,
        (_REQUESTED, DrainEvent.WITHDRAW): _RUNNING,
        (_REQUESTED, DrainEvent.CLAIM): _DRAINING,
        (_DRAINING, DrainEvent.REQUEST): _DRAINING,
        (_DRAINING, DrainEvent.WITHDRAW): _DRAINING,
        (_DRAINING, DrainEvent.FINISH): _DRAINED,
        (_DRAINED, DrainEvent.REQUEST): _DRAINED,
        (_DRAINED, DrainEvent.WITHDRAW): _DRAINED,
        (_DRAINED, DrainEvent.FINISH): _DRAINED,
    }
)
"""What is not in here cannot happen."""

IRREVERSIBLE: Final = frozenset({_DRAINING, _DRAINED})

FILES: Final[Mapping[DrainState, str]] = MappingProxyType(
    {_DRAINED: "drained", _DRAINING: "draining", _REQUESTED: "drain"}
)
"""The file that shows each state but the first, the furthest one first; earlier ones may still be there."""


def after(state: DrainState, event: DrainEvent) -> DrainState:
    """Raises ValueError where that cannot happen."""
    if (state, event) not in TRANSITIONS:
        raise ValueError(f"a source runner that is {state.name} cannot {event.name}")
    return TRANSITIONS[state, event]


def shown_by(files: Collection[str]) -> DrainState:
    """The state of a runner in whose folder ``files`` are."""
    return next((state for state, file in FILES.items() if file in files), _RUNNING)
