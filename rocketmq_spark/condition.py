"""What a row of the table of conditions has, see ``conditions``, and how text that others wrote becomes one line."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

LINES: Final = "lines"
"""A template's format, as in ``{log_tail:lines}``, of a value that has several."""

TAB_STOPS: Final = 4
"""Where text of several lines is shown, Java's stack traces among it."""


def one_line(text: str) -> str:
    """Return ``text`` with line breaks, control characters and lone surrogates as escapes, such as ``\\n``.

    What producers and servers wrote may hold them; shown as they are, they would forge lines, or steer a terminal.
    Letters and spaces of any script stay.
    """
    return "".join(map(_escaped, text))


def _escaped(char: str) -> str:
    is_shown = char.isprintable() or unicodedata.category(char) == "Zs"
    return char if is_shown else repr(char)[1:-1]


class _Shown(str):
    """A value as a template shows it: on one line, unless its format is ``LINES``."""

    __slots__ = ()

    def __format__(self, layout: str) -> str:
        if layout == LINES:
            return "\n".join(one_line(line.expandtabs(TAB_STOPS)) for line in self.splitlines())
        return one_line(super().__format__(layout))


@dataclass(frozen=True, slots=True)
class Condition:
    """One row of the table: ``what`` is a format string over the error's context, ``advice`` tells what to do."""

    what: str
    advice: str

    def text(self, context: Mapping[str, str | int]) -> str:
        """Return both texts with the parameters in ``context`` filled in, each on one line (see ``one_line``)."""
        shown = {name: _Shown(value) for name, value in context.items()}
        return f"{self.what} {self.advice}".format(**shown)
