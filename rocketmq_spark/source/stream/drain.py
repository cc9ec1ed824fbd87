"""Drain: handshake of a graceful stop, between a requester and a source runner. Pure: one table, represented by files.

The two processes share only a folder. A file in it shows the state, and a file can be renamed only once. If a runner
claims a request while its requester withdraws it, one of them succeeds.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import Enum
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

CONTROL: Final = "control"
"""Key of the source runner's control folder in the query progress."""


class Control(NamedTuple):
    """Control folder of a source runner. ``host``: the name of the machine that has ``folder``."""

    host: str
    folder: str

    @property
    def path(self) -> Path:
        return Path(self.folder)

    @classmethod
    def shown_in(cls, report: Any) -> Control | None:
        """Return the control folder in the progress fields of a source. Return None for another connector, or any other
        value."""
        try:
            host, folder = report[CONTROL]["host"], report[CONTROL]["folder"]
        except (TypeError, KeyError):
            return None
        return cls(host, folder) if isinstance(host, str) and isinstance(folder, str) else None


class DrainState(Enum):
    """State of a source runner that is requested to end its query."""

    RUNNING = "no request to end the query, or it was withdrawn"
    REQUESTED = "no batch is planned; the runner waits until the brokers have confirmed all completed offsets"
    DRAINING = "the runner releases its queues, which is irreversible"
    DRAINED = "the runner has released its queues: nothing is left uncompleted, and it reads no more"


class DrainEvent(Enum):
    """Actions of the requester or the runner."""

    REQUEST = "the requester creates `drain`, repeatedly, because a cleanup may delete the folder"
    WITHDRAW = "the requester, or a cleanup of the folder, deletes `drain`; without effect after CLAIM"
    CLAIM = "the runner renames `drain` to `draining`"
    FINISH = "the runner creates `drained`; it may repeat that"


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
"""All possible transitions."""

IRREVERSIBLE: Final = frozenset({_DRAINING, _DRAINED})

FILES: Final[Mapping[DrainState, str]] = MappingProxyType(
    {_DRAINED: "drained", _DRAINING: "draining", _REQUESTED: "drain"}
)
"""File of each state but the first, the last state first; files of earlier states may still exist."""


def shown_by(files: Collection[str]) -> DrainState:
    """Return the state of a runner whose folder has ``files``: the last state with a file among them; RUNNING without
    any."""
    return next((state for state, file in FILES.items() if file in files), _RUNNING)
