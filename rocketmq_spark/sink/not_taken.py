"""Rows that are sent back: the columns that say which message each is, and the error of what was not taken."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from rocketmq_spark.errors import NotSentBackError, OptionError
from rocketmq_spark.sink.columns import position_of

if TYPE_CHECKING:
    from pyspark.sql import Row

NAMED_IN_AN_ERROR: Final = 10


def spellings_of(names: Sequence[str], needed: Sequence[str]) -> list[str]:
    """Return the columns that are ``needed`` as ``names`` spell them; the exact spelling before another case.

    Raises OptionError[MISSING_COLUMNS | AMBIGUOUS_COLUMN].
    """
    positions = [position_of(name, names) for name in needed]
    missing = [name for name, position in zip(needed, positions, strict=True) if position is None]
    if missing:
        raise OptionError("MISSING_COLUMNS", missing=", ".join(missing), needed=", ".join(needed))
    return [names[position] for position in positions if position is not None]


def by_names(rows: Iterable[Row], needed: Sequence[str]) -> Iterator[list[Any]]:
    """Of each row the values of the columns that are needed. Raises what ``spellings_of`` does."""
    for row in rows:
        values = row.asDict()
        yield [values[name] for name in spellings_of(row.__fields__, needed)]


def check_all_taken(refused: Sequence[tuple[str, str]], group: str) -> None:
    """``refused``: messages, and why. Raises NotSentBackError[NOT_SENT_BACK] if there are any."""
    if refused:
        named = [message for message, _ in refused[:NAMED_IN_AN_ERROR]]
        raise NotSentBackError(
            "NOT_SENT_BACK",
            count=len(refused),
            group=group,
            messages=", ".join(named + ["..."] * (len(refused) > NAMED_IN_AN_ERROR)),
            cause=refused[0][1],
        )
