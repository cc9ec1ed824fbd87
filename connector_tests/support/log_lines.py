"""Log lines as the connector writes them: a key, a colon, the text."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

KEY: Final = re.compile(r"[A-Z][A-Z_.]*[A-Z]")
"""Upper case; a point is between a condition and what it is a part of."""

_CONDITION: Final = re.compile(r".*?\[ROCKETMQ_(?P<condition>[A-Z_.]+)\] ")


def text_of(line: str) -> str:
    """Return the text behind the key. AssertionError for a line that has none."""
    key, colon, text = line.partition(": ")
    assert colon and KEY.fullmatch(key), f"no key: {line}"
    return text


def texts_of(lines: Iterable[str]) -> list[str]:
    return [text_of(line) for line in lines]


def outage_text(line: str) -> str:
    """The same of a line that begins an outage, whose key is the condition of the error that it quotes."""
    text, error = text_of(line), _CONDITION.match(line)
    assert error is not None, f"no error: {line}"
    assert line.startswith(f"{error['condition']}: ")
    return text
