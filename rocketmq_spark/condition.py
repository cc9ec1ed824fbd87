"""The row type of the table ``conditions``, and functions that show foreign text safely."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

LINES: Final = "lines"
"""Format of a template value that has several lines, as in ``{log_tail:lines}``."""

CUT: Final = "cut"
"""Format of a template value that a user wrote and that may be long, as in ``{value:cut}``."""

SHOWN_CHARACTERS: Final = 200

MAX_LISTED: Final = 8
"""Default for the maximum number of parts that ``listed`` shows."""

TAB_STOPS: Final = 4
"""Width of a tab in text of several lines, such as Java stack traces."""


def one_line(text: str) -> str:
    """Return ``text`` with line breaks, control and format characters and lone surrogates as escapes, such as ``\\n``.

    Text of producers and servers may contain them; unescaped, they could forge log lines or control a terminal. Letters
    and spaces of any script are kept.
    """
    return "".join(map(_escaped, text))


def cut(text: str, max_characters: int = SHOWN_CHARACTERS) -> str:
    """Return ``text``; if it is longer than ``max_characters``, its first ones, then ``... (N characters)``."""
    if len(text) <= max_characters:
        return text
    return f"{text[:max_characters]}... ({len(text)} characters)"


def listed(
    parts: Sequence[object], limit: int = MAX_LISTED, *, separator: str = ", ", more: str = " and {} more"
) -> str:
    """Return the texts of the first ``limit`` of ``parts``, separated by ``separator``. If there are further ones,
    append ``more`` with their number in place of ``{}``."""
    hidden = len(parts) - limit
    return separator.join(map(str, parts[:limit])) + (more.format(hidden) if hidden > 0 else "")


def _escaped(char: str) -> str:
    """Return ``char`` if it is printable or a space of any script, else its escape."""
    is_shown = char.isprintable() or unicodedata.category(char) == "Zs"
    return char if is_shown else repr(char)[1:-1]


class _Shown(str):
    """A value in a template: on one line unless the format is ``LINES``, in full unless it is ``CUT``.

    Any other format is a noun to count: ``{count:offset}`` becomes "1 offset" or "2 offsets".
    """

    __slots__ = ()

    def __format__(self, layout: str) -> str:
        """Return the value in a format: ``LINES``, ``CUT``, a noun to count in the singular, or "" for none."""
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
        """Return ``what`` with the parameters in ``context`` filled in, see ``_Shown``, without blanks and colons at
        its end. Raises KeyError if ``context`` lacks a parameter."""
        return _filled(self.what, context).rstrip(" :")  # the remark of a server may be empty

    def text(self, context: Mapping[str, str | int]) -> str:
        """Return the summary, with a period if it does not end a sentence, and the advice. Raises KeyError if
        ``context`` lacks a parameter."""
        what = self.summary(context)
        end = "" if what.endswith((".", "!", "?")) else "."  # a remark may lack its period
        return f"{what}{end} {self.fix(context)}"

    def fix(self, context: Mapping[str, str | int]) -> str:
        """Return the advice with the parameters in ``context`` filled in. Raises KeyError if it lacks one."""
        return _filled(self.advice, context)


def _filled(template: str, context: Mapping[str, str | int]) -> str:
    """Return ``template`` with the values of ``context``, see ``_Shown``. Raises KeyError if ``context`` lacks one."""
    return template.format(**{name: _Shown(value) for name, value in context.items()})
