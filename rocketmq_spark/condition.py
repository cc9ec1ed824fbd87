"""The row type of the table of conditions, see ``conditions``, and the conversion of foreign text to one line."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

LINES: Final = "lines"
"""A template's format, as in ``{log_tail:lines}``, of a value that has several."""

CUT: Final = "cut"
"""A template's format, as in ``{value:cut}``, of what a user wrote, which may be long."""

SHOWN_CHARACTERS: Final = 200

TAB_STOPS: Final = 4
"""Where text of several lines is shown, Java's stack traces among it."""


def one_line(text: str) -> str:
    """Return ``text`` with line breaks, control characters and lone surrogates as escapes, such as ``\\n``.

    What producers and servers wrote may hold them; shown as they are, they would forge lines, or steer a terminal.
    Letters and spaces of any script stay.
    """
    return "".join(map(_escaped, text))


def cut(text: str) -> str:
    """Return ``text``, or its first SHOWN_CHARACTERS and its length."""
    if len(text) <= SHOWN_CHARACTERS:
        return text
    return f"{text[:SHOWN_CHARACTERS]}... ({len(text)} characters)"


def _escaped(char: str) -> str:
    is_shown = char.isprintable() or unicodedata.category(char) == "Zs"
    return char if is_shown else repr(char)[1:-1]


class _Shown(str):
    """A value as a template shows it: on one line, unless its format is ``LINES``; whole, unless it is ``CUT``.

    Any other format is a noun that is counted: ``{count:offset}`` becomes "1 offset" or "2 offsets".
    """

    __slots__ = ()

    def __format__(self, layout: str) -> str:
        if layout == LINES:
            return "\n".join(one_line(line.expandtabs(TAB_STOPS)) for line in self.splitlines())
        if layout == CUT:
            return one_line(cut(self))
        shown = one_line(self)
        return f"{shown} {layout}{'' if shown == '1' else 's'}" if layout else shown


@dataclass(frozen=True, slots=True)
class Condition:
    """One row of the table: ``what`` failed and why, and the ``advice`` to fix it, as format strings over the context.

    The context has values, not sentences.
    """

    what: str
    advice: str

    def summary(self, context: Mapping[str, str | int]) -> str:
        """Return ``what`` with the parameters in ``context`` filled in, each on one line (see ``one_line``)."""
        return _filled(self.what, context).rstrip(" :")  # a server's remark may be empty

    def text(self, context: Mapping[str, str | int]) -> str:
        """Return the summary and the advice."""
        what = self.summary(context)
        end = "" if what.endswith((".", "!", "?")) else "."  # a remark may have no end
        return f"{what}{end} {_filled(self.advice, context)}"


def _filled(template: str, context: Mapping[str, str | int]) -> str:
    return template.format(**{name: _Shown(value) for name, value in context.items()})
