"""Offset ranges of a logged batch that option ``skipRanges`` skips. Pure.

A query that restarts reads its logged batch in full before it plans another one. A permanently lost broker would block
it for ever.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Sequence
from typing import Final

from rocketmq_spark.errors import OptionError
from rocketmq_spark.model import QueueRange

log = logging.getLogger(__name__)

MOST_NAMED: Final = 50
"""Maximum number of ranges of a broker that one error names together: the user may have to skip all of them."""


def check_skipped(logged: Sequence[QueueRange], skipped: Collection[QueueRange]) -> None:
    """Log one warning with the ranges of ``logged`` that are in ``skipped``, nothing if none is. A skipped range that
    overlaps none has no effect: it is of another batch, which has been read. Raises OptionError[INVALID_OPTION_VALUE],
    and logs nothing, for a skipped range that overlaps a logged one and differs from it.
    """
    for one in skipped:
        for other in logged:
            if one != other and _overlap(one, other):
                expected = f"exactly the range of this queue in the logged batch: {other}"
                raise OptionError("INVALID_OPTION_VALUE", option="skipRanges", value=str(one), expected=expected)
    found = [one for one in logged if one in skipped]
    if found:
        log.warning(
            "OFFSETS_SKIPPED: Skipping %d offsets as configured by 'skipRanges'; their messages are in no output: %s",
            sum(map(len, found)),
            as_skip_ranges(found),
        )


def without_skipped(
    tasks: Iterable[tuple[QueueRange, ...]], skipped: Collection[QueueRange]
) -> list[tuple[QueueRange, ...]]:
    """Return ``tasks`` without the pieces that overlap a ``skipped`` range. A task that loses all its pieces stays,
    empty: so each task keeps its number, and the rows in it keep their IDs."""
    return [tuple(piece for piece in task if not any(_overlap(piece, one) for one in skipped)) for task in tasks]


def _overlap(one: QueueRange, other: QueueRange) -> bool:
    """Return whether both ranges have an offset of the same queue in common."""
    return one.queue == other.queue and max(one.begin_offset, other.begin_offset) < min(
        one.end_offset, other.end_offset
    )


def skippable_ranges(logged: Collection[QueueRange], task: Collection[QueueRange]) -> tuple[QueueRange, ...]:
    """Return the ranges of ``logged``, the whole batch, that the error of a task offers to skip, each in full. They are
    all ranges at the brokers of ``task`` or, if they are more than ``MOST_NAMED``, those of its own queues."""
    names = {one.queue.broker_name for one in task}
    of_brokers = [one for one in logged if one.queue.broker_name in names]
    if len(of_brokers) > MOST_NAMED:
        queues = {one.queue for one in task}
        return tuple(one for one in of_brokers if one.queue in queues)
    return tuple(of_brokers)


def as_skip_ranges(ranges: Iterable[QueueRange]) -> str:
    """Return ``ranges``, in order and separated by commas, as a value of option ``skipRanges``; "" without any."""
    return ",".join(map(str, ranges))
