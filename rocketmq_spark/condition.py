"""What a row of the table of conditions has, see ``conditions``."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Condition:
    """One row of the table: ``what`` is a format string over the error's context, ``advice`` tells what to do."""

    what: str
    advice: str
