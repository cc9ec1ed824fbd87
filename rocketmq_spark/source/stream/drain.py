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

    GOING_ON = "nobody wants the query to end, or not any more"
    ASKED = "nothing new is planned; what is proven is being confirmed by the brokers"
    HANDING_OVER = "its queues are on their way to others: there is no way back"
    HANDED_OVER = "nothing of the query is left unproven, and it reads nothing any more"


class DrainEvent(Enum):
    """What the asker does, or the runner."""

    ASK = "the asker makes `drain`, again and again: the folder may be cleaned"
    WITHDRAW = "the asker deletes `drain`, or somebody cleans the folder; it may come too late"
    CLAIM = "the runner renames `drain` to `draining`"
    ANSWER = "the runner makes `drained`, again and again"


_GOING_ON, _ASKED, _HANDING_OVER, _HANDED_OVER = DrainState

TRANSITIONS: Final[Mapping[tuple[DrainState, DrainEvent], DrainState]] = MappingProxyType(
    {
        (_GOING_ON, DrainEvent.ASK): _ASKED,
        (_GOING_ON, DrainEvent.WITHDRAW): _GOING_ON,
        (_ASKED, DrainEvent.ASK): _ASKED,
        (_ASKED, DrainEvent.WITHDRAW): _GOING_ON,
        (_ASKED, DrainEvent.CLAIM): _HANDING_OVER,
        (_HANDING_OVER, DrainEvent.ASK): _HANDING_OVER,
        (_HANDING_OVER, DrainEvent.WITHDRAW): _HANDING_OVER,
        (_HANDING_OVER, DrainEvent.ANSWER): _HANDED_OVER,
        (_HANDED_OVER, DrainEvent.ASK): _HANDED_OVER,
        (_HANDED_OVER, DrainEvent.WITHDRAW): _HANDED_OVER,
        (_HANDED_OVER, DrainEvent.ANSWER): _HANDED_OVER,
    }
)
"""What is not in here cannot happen."""

NO_WAY_BACK: Final = frozenset({_HANDING_OVER, _HANDED_OVER})

FILES: Final[Mapping[DrainState, str]] = MappingProxyType(
    {_HANDED_OVER: "drained", _HANDING_OVER: "draining", _ASKED: "drain"}
)
"""The file that shows each state but the first, the furthest one first; earlier ones may still be there."""


def after(state: DrainState, event: DrainEvent) -> DrainState:
    """Raises ValueError where that cannot happen."""
    if (state, event) not in TRANSITIONS:
        raise ValueError(f"a source runner that is {state.name} cannot {event.name}")
    return TRANSITIONS[state, event]


def shown_by(files: Collection[str]) -> DrainState:
    """The state of a runner in whose folder ``files`` are."""
    return next((state for state, file in FILES.items() if file in files), _GOING_ON)
