"""Rows that are sent back: the columns that say which message each is, and the error of what was not taken."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from rocketmq_spark.errors import NotSentBackError, OptionError

if TYPE_CHECKING:
    from pyspark.sql import Row

NAMED_IN_AN_ERROR: Final = 10


def check_columns(names: Sequence[str], needed: Sequence[str]) -> None:
    """In any case. Raises OptionError[MISSING_COLUMNS]."""
    there = {name.lower() for name in names}
    missing = [name for name in needed if name.lower() not in there]
    if missing:
        raise OptionError("MISSING_COLUMNS", missing=", ".join(missing), needed=", ".join(needed))


def by_names(rows: Iterable[Row], needed: Sequence[str]) -> Iterator[list[Any]]:
    """Of each row the values of the columns that are needed. Raises OptionError[MISSING_COLUMNS]."""
    for row in rows:
        check_columns(row.__fields__, needed)
        by_name = {name.lower(): value for name, value in row.asDict().items()}
        yield [by_name[name.lower()] for name in needed]


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
