"""What a row of the table of conditions has, see ``conditions``."""

from __future__ import annotations

from dataclasses import dataclass
from string import Formatter


@dataclass(frozen=True, slots=True)
class Condition:
    """One row of the table: ``what`` is a format string over the error's context, ``advice`` tells what to do."""

    what: str
    advice: str

    @property
    def parameters(self) -> frozenset[str]:
        """Names that ``what`` and ``advice`` expect in the context."""
        fields = (*Formatter().parse(self.what), *Formatter().parse(self.advice))
        return frozenset(name for _, name, _, _ in fields if name)
