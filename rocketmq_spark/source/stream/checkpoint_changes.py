"""What becomes of a checkpoint whose query has other options now: decided by what it would lose. Pure.

An offset tells which topics it is of, and since version 2 the group, message model and filter that it was planned with.
The guide's table is made from this one; what is not in it may change without a word.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final

from rocketmq_spark.errors import OptionError
from rocketmq_spark.options import BROADCASTING, ReadOptions
from rocketmq_spark.source.stream.offsets import PlannedWith, SourceOffset


class Outcome(Enum):
    """What a query makes of a change, when it starts."""

    ERROR = "error"
    WARNING = "warning"


Difference = tuple[str, str]
"""What the checkpoint has, and what the options say."""


@dataclass(frozen=True, slots=True)
class Change:
    """One row. ``what``: for the guide; ``option``: that was changed; ``loses``: why the outcome is what it is."""

    what: str
    option: str
    outcome: Outcome
    loses: str
    between: Callable[[SourceOffset, PlannedWith | None, ReadOptions], Difference | None]


def planned_with(options: ReadOptions) -> PlannedWith:
    """What offsets of these options tell."""
    return PlannedWith(options.consumer_group, options.message_model, options.sub_expression)


def _topics_left_out(offset: SourceOffset, _before: object, options: ReadOptions) -> Difference | None:
    left_out = {queue.topic for queue in offset.queues} - set(options.read_topics)
    return (", ".join(sorted(left_out)), ",".join(options.topics)) if left_out else None


def _group(_offset: object, before: PlannedWith | None, options: ReadOptions) -> Difference | None:
    return None if before is None else _differing(before.consumer_group, options.consumer_group)


def _filter(_offset: object, before: PlannedWith | None, options: ReadOptions) -> Difference | None:
    return None if before is None else _differing(before.sub_expression, options.sub_expression)


def _to_clustering(_offset: object, before: PlannedWith | None, options: ReadOptions) -> Difference | None:
    return None if options.message_model == BROADCASTING else _model(before, options)


def _to_broadcasting(_offset: object, before: PlannedWith | None, options: ReadOptions) -> Difference | None:
    return _model(before, options) if options.message_model == BROADCASTING else None


def _model(before: PlannedWith | None, options: ReadOptions) -> Difference | None:
    return None if before is None else _differing(before.message_model, options.message_model)


def _differing(before: str, now: str) -> Difference | None:
    return None if before == now else (before, now)


CHANGES: Final = (
    Change(
        "another group",
        "consumerGroup",
        Outcome.ERROR,
        "The larger of the checkpoint's and the group's offsets counts: where the new group has read further, this "
        "query would skip what it has never read, and where it has not, the group what its members have never read.",
        _group,
    ),
    Change(
        "`BROADCASTING`, then `CLUSTERING`",
        "messageModel",
        Outcome.ERROR,
        "As with another group: what this query has read by itself says nothing of what the group has.",
        _to_clustering,
    ),
    Change(
        "`CLUSTERING`, then `BROADCASTING`",
        "messageModel",
        Outcome.WARNING,
        "Nothing. What other members have read of a queue since this query had it comes here too.",
        _to_broadcasting,
    ),
    Change(
        "another filter",
        "subExpression",
        Outcome.WARNING,
        "Nothing that the new filter wants of what comes. What the old one has passed over does not come again, and a "
        "batch that is read again is read with the new one: its rows may differ from those of the first attempt.",
        _filter,
    ),
    Change(
        "a topic left out",
        "subscribe",
        Outcome.WARNING,
        "Nothing yet. Its positions stay, and it is read on there when it is subscribed again; what its brokers delete "
        "until then is lost.",
        _topics_left_out,
    ),
)


def warnings_of(offset: SourceOffset, options: ReadOptions) -> list[str]:
    """What is to be said to the query that goes on from ``offset``.

    Raises OptionError[CHECKPOINT_OF_ANOTHER] for the first change that is an error. Offsets of version 1 tell only of
    topics.
    """
    told = []
    for change in CHANGES:
        difference = change.between(offset, offset.planned_with, options)
        if difference is None:
            continue
        before, now = difference
        if change.outcome is Outcome.ERROR:
            raise OptionError("CHECKPOINT_OF_ANOTHER", option=change.option, before=before, now=now, loses=change.loses)
        was_and_is = f"the checkpoint was written with '{change.option}' {before}, and now it is {now}"
        told.append(f"{was_and_is}. What that loses: {change.loses}")
    return told
