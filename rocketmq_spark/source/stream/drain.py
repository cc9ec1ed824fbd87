"""Drain: the handshake of a graceful stop, between whoever asks and a source runner. Pure."""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

CONTROL: Final = "control"
"""Under this name the query progress shows where the source runner can be asked."""


class Control(NamedTuple):
    """Where a source runner can be asked. ``host``: the name of the machine that has ``folder``."""

    host: str
    folder: str

    @property
    def path(self) -> Path:
        return Path(self.folder)
