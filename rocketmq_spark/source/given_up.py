"""Ranges of a logged batch that an operator gives up, by name, because nobody can read them any more. Pure.

A logged batch is read in full, or the query cannot go on. Where a broker is gone for good that would be for ever.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Sequence
from typing import Final

from rocketmq_spark.errors import OptionError
from rocketmq_spark.model import QueueRange

log = logging.getLogger(__name__)

MOST_NAMED: Final = 50
"""Ranges of a broker that one error names together; they may all have to be given up."""


def check_skipped(logged: Sequence[QueueRange], skipped: Collection[QueueRange]) -> None:
    """Raise OptionError[INVALID_OPTION_VALUE] for a range that shares offsets with one of ``logged`` and is not the
    same.

    A range that shares none is of another batch, which has been read. Log what of ``logged`` is skipped.
    """
    for one in skipped:
        for other in logged:
            if one != other and _overlap(one, other):
                expected = f"exactly what the logged batch has of this queue: {other}"
                raise OptionError("INVALID_OPTION_VALUE", option="giveUp", value=str(one), expected=expected)
    found = [one for one in logged if one in skipped]
    if found:
        log.warning(
            "giving up ranges=%s offsets=%d, as 'giveUp' says: their messages are in no output",
            as_option(found),
            sum(map(len, found)),
        )


def without_skipped(
    tasks: Iterable[tuple[QueueRange, ...]], skipped: Collection[QueueRange]
) -> list[tuple[QueueRange, ...]]:
    """Return ``tasks`` without what is ``skipped``; each keeps its number, and so do the IDs of the rows in it."""
    return [tuple(piece for piece in task if not any(_overlap(piece, one) for one in skipped)) for task in tasks]


def _overlap(one: QueueRange, other: QueueRange) -> bool:
    return one.queue == other.queue and max(one.begin_offset, other.begin_offset) < min(
        one.end_offset, other.end_offset
    )


def named_together(logged: Collection[QueueRange], task: Collection[QueueRange]) -> tuple[QueueRange, ...]:
    """Ranges of ``logged`` that an error of a task names as what can be given up: all of each of its brokers where they
    are few, else those of its own queues."""
    names = {one.queue.broker_name for one in task}
    of_brokers = [one for one in logged if one.queue.broker_name in names]
    if len(of_brokers) > MOST_NAMED:
        queues = {one.queue for one in task}
        return tuple(one for one in of_brokers if one.queue in queues)
    return tuple(of_brokers)


def as_option(ranges: Iterable[QueueRange]) -> str:
    """As the option ``giveUp`` takes it."""
    return ",".join(map(str, ranges))
