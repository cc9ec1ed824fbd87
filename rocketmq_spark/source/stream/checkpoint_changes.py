"""Options that differ from those of a checkpoint: an error if messages would be lost, else a warning. Pure.

An offset shows the topics of its positions. Since version 2 it shows the group, message model and filter of its query,
since version 3 the topics and ``readRetryTopic``. Since version 4 it shows the checkpoint's name, which does not depend
on options, and in version 5 the pattern. The table in docs/offsets.md is generated from this one; all other options may
change without a message.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from rocketmq_spark.errors import OptionError
from rocketmq_spark.model import MessageQueue
from rocketmq_spark.options import BROADCASTING, ReadOptions
from rocketmq_spark.source.stream.offsets import PlannedWith, SourceOffset


class Outcome(Enum):
    """Reaction of a query to a change, when it starts."""

    ERROR = "error"
    WARNING = "warning"


class Difference(NamedTuple):
    """Values that differ: ``before`` in the checkpoint, ``now`` in the options. ``is_recorded``: the checkpoint records
    this option; if not, it has positions that imply the value."""

    before: str
    now: str
    is_recorded: bool = True


@dataclass(frozen=True, slots=True)
class Change:
    """Row of the table. ``what``: text for docs/offsets.md; ``option``: the changed option; ``loses``: the reason.
    ``between``: returns the difference between an offset, with its recorded options, and the current options, or
    None."""

    what: str
    option: str
    outcome: Outcome
    loses: str
    between: Callable[[SourceOffset, PlannedWith | None, ReadOptions], Difference | None]


def planned_with(options: ReadOptions, checkpoint_id: str) -> PlannedWith:
    """Return the options that a query writes to its offsets: ``checkpoint_id``, its group, message model, filter,
    listed topics, sorted, whether it reads the retry topic, and its topic pattern or None."""
    return PlannedWith(
        options.consumer_group,
        options.message_model,
        str(options.message_filter),
        ",".join(sorted(options.listed_topics)),
        "true" if options.reads_retry_topic else "false",
        checkpoint_id,
        None if options.topic_pattern is None else options.topic_pattern.pattern,
    )


def _shown_topics(subscribe: str, pattern: str | None) -> str:
    """Return the topics of a subscription for a message: ``subscribe``, or, if there is one, the pattern as
    ``subscribePattern=pattern``."""
    return subscribe if pattern is None else f"subscribePattern={pattern}"


def _was_selected(before: PlannedWith, topic: str) -> bool:
    """Return whether ``before`` selected ``topic``; True if its pattern cannot be read."""
    if before.topic_pattern is None:
        return topic in (before.subscribe or "").split(",")
    try:
        return re.fullmatch(before.topic_pattern, topic) is not None
    except re.error:
        return True


def _unassigned_queues(offset: SourceOffset, _before: object, options: ReadOptions) -> Difference | None:
    """Return a difference if ``offset`` has positions of queues of a read topic that ``assign`` does not list, or
    None."""
    unassigned = [queue for queue in offset.queues if queue.topic in options.read_topics and not options.reads(queue)]
    if not unassigned:
        return None
    return Difference(_named(unassigned), _named(options.assigned or ()), is_recorded=False)


def _named(queues: Iterable[MessageQueue]) -> str:
    """Return the queues as text, separated by commas, in queue order."""
    return ",".join(map(str, sorted(queues, key=MessageQueue.sort_key)))


def _removed_topics(offset: SourceOffset, before: PlannedWith | None, options: ReadOptions) -> Difference | None:
    """Return a difference if ``offset`` has positions of topics that the options do not select, and that the
    subscription in ``before`` selected. The retry topic does not count. Without a recorded subscription any such topic
    counts. Otherwise return None."""
    topics = {queue.topic for queue in offset.queues} - {options.retry_topic}
    removed = {topic for topic in topics if not options.selects(topic)}
    now = planned_with(options, "")
    shown = _shown_topics(now.subscribe or "", now.topic_pattern)
    if before is None or before.subscribe is None:
        return Difference(",".join(sorted(removed)), shown, is_recorded=False) if removed else None
    is_change = any(_was_selected(before, topic) for topic in removed)
    return Difference(_shown_topics(before.subscribe, before.topic_pattern), shown) if is_change else None


def _removed_retry_topic(offset: SourceOffset, before: PlannedWith | None, options: ReadOptions) -> Difference | None:
    """Return a difference if the retry topic is not read now, ``offset`` has positions of it, and the query that
    planned it read it, or may have, as ``before`` or its ``retry_topic`` is None. Otherwise return None."""
    if options.retry_topic in options.read_topics or all(one.topic != options.retry_topic for one in offset.queues):
        return None
    if before is None or before.retry_topic is None:
        return Difference(options.retry_topic, "false", is_recorded=False)
    return _differing(before.retry_topic, "false")


def _changed_group(_offset: object, before: PlannedWith | None, options: ReadOptions) -> Difference | None:
    """Return a difference if the group is not that of ``before``. None if it is, or without ``before``."""
    return None if before is None else _differing(before.consumer_group, options.consumer_group)


def _changed_filter(_offset: object, before: PlannedWith | None, options: ReadOptions) -> Difference | None:
    """Return a difference if the filter is not that of ``before``. None if it is, or without ``before``."""
    return None if before is None else _differing(before.sub_expression, str(options.message_filter))


def _to_clustering(_offset: object, before: PlannedWith | None, options: ReadOptions) -> Difference | None:
    """Return a difference if the message model has changed to CLUSTERING, or None."""
    return None if options.message_model == BROADCASTING else _changed_model(before, options)


def _to_broadcasting(_offset: object, before: PlannedWith | None, options: ReadOptions) -> Difference | None:
    """Return a difference if the message model has changed to BROADCASTING, or None."""
    return _changed_model(before, options) if options.message_model == BROADCASTING else None


def _changed_model(before: PlannedWith | None, options: ReadOptions) -> Difference | None:
    """Return a difference if the message model is not that of ``before``. None if it is, or without ``before``."""
    return None if before is None else _differing(before.message_model, options.message_model)


def _differing(before: str, now: str) -> Difference | None:
    """Return the difference of two recorded values, or None if they are equal."""
    return None if before == now else Difference(before, now)


CHANGES: Final = (
    Change(
        "another group",
        "consumerGroup",
        Outcome.ERROR,
        "A query resumes from the larger of checkpoint and group offset: it would skip messages that only the new "
        "group has read, and the new group would skip those that only this query has read.",
        _changed_group,
    ),
    Change(
        "`BROADCASTING`, then `CLUSTERING`",
        "messageModel",
        Outcome.ERROR,
        "As with another group: the offsets of this query are not those of the group.",
        _to_clustering,
    ),
    Change(
        "`CLUSTERING`, then `BROADCASTING`",
        "messageModel",
        Outcome.WARNING,
        "No data loss. The query also reads messages that other members have read since it last owned their queue.",
        _to_broadcasting,
    ),
    Change(
        "another filter",
        "subExpression",
        Outcome.WARNING,
        "No later message that matches the new filter is lost. Messages that the old filter skipped are not re-read. A "
        "replayed batch is read with the new filter, so its rows may differ from those of the first attempt.",
        _changed_filter,
    ),
    Change(
        "a topic removed",
        "subscribe",
        Outcome.WARNING,
        "No data is lost yet. The checkpoint keeps the topic's offsets, and the query resumes from them when you "
        "subscribe to it again. Messages that brokers delete until then are lost.",
        _removed_topics,
    ),
    Change(
        "a queue removed",
        "assign",
        Outcome.WARNING,
        "No data is lost yet. The checkpoint keeps the queue's offsets, and the query resumes from them when you "
        "assign it again. Messages that brokers delete until then are lost.",
        _unassigned_queues,
    ),
    Change(
        "the retry topic removed",
        "retryTopic",
        Outcome.WARNING,
        "No data is lost yet. The checkpoint keeps the retry topic's offsets. Messages sent back for retry stay in "
        "it until it is read again, as long as its brokers retain them.",
        _removed_retry_topic,
    ),
)


def warnings_of(offset: SourceOffset, options: ReadOptions) -> list[str]:
    """Return the warnings for a query that resumes from ``offset``; [] without a change. Log nothing. An offset of
    version 1 shows only changes of its queues and topics. Raises OptionError[CHECKPOINT_OPTION_CHANGED] for the first
    change that is an error."""
    warnings = []
    for change in CHANGES:
        difference = change.between(offset, offset.planned_with, options)
        if difference is None:
            continue
        if change.outcome is Outcome.ERROR:
            before, now = difference.before, difference.now
            raise OptionError(
                "CHECKPOINT_OPTION_CHANGED",
                option=change.option,
                before=before,
                now=now,
            )
        warnings.append(f"{_was_and_is(change.option, difference)}. {change.loses}")
    return warnings


def _was_and_is(option: str, difference: Difference) -> str:
    """Return the first sentence of a warning, without full stop: what changed, with both values."""
    before, now, is_recorded = difference
    if is_recorded:
        return f"{option} changed from {before!r} to {now!r} since this checkpoint was written"
    return f"This checkpoint has offsets of {before!r}, but {option} is {now!r}"
