"""First positions: where the queues of a topic begin that neither the checkpoint nor the group knows. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from rocketmq_spark.consumer.consume_from_where import ConsumeFromWhere, StartingPoint
from rocketmq_spark.errors import OptionError
from rocketmq_spark.model import RETRY_TOPIC_PREFIX, MessageQueue, QueueBounds
from rocketmq_spark.source.stream.offsets import SourceOffset

MOST_NAMED: Final = 8
"""Queues that a line names."""

EARLIEST: Final = -2
LATEST: Final = -1
"""In ``startingOffsets``, instead of a queue's offset, as Spark's Kafka connector has them."""


def unread_queues(checkpoint: SourceOffset, stored: Mapping[MessageQueue, int | None]) -> list[MessageQueue]:
    """The queues of ``stored`` whose topic nobody has ever read: neither the checkpoint nor the group knows any of its
    queues.

    ``stored``: the group's offsets of all queues of the subscribed topics, owned or not.
    """
    started = {queue.topic for queue in checkpoint.queues}
    started |= {queue.topic for queue, offset in stored.items() if offset is not None}
    return [queue for queue in stored if queue.topic not in started]


def queues_of_the_group(checkpoint: SourceOffset, stored: Mapping[MessageQueue, int | None]) -> list[MessageQueue]:
    """The queues of ``stored`` whose topic the group has read and the checkpoint does not know."""
    in_checkpoint = {queue.topic for queue in checkpoint.queues}
    of_group = {queue.topic for queue, offset in stored.items() if offset is not None}
    return [queue for queue in stored if queue.topic in of_group - in_checkpoint]


def told_resumption(who: str, stored: Mapping[MessageQueue, int], bounds: Mapping[MessageQueue, QueueBounds]) -> str:
    """For who expects a new checkpoint to begin where the options say. ``bounds``: of these and perhaps of more."""
    left = sum(max(0, bounds[queue].max_offset - at) for queue, at in stored.items())
    held = sum(bounds[queue].max_offset - bounds[queue].min_offset for queue in stored)
    places = [
        f"{queue} at {stored[queue]} of [{bounds[queue].min_offset}, {bounds[queue].max_offset})"
        for queue in sorted(stored, key=MessageQueue.sort_key)
    ]
    return (
        f"going on where {who} is, of which the checkpoint knows nothing, wherever the options would begin; {left} of "
        f"{held} offsets are to be read: {_named(places)}"
    )


def told_forgotten(stored: Mapping[MessageQueue, int | None], checkpoint: SourceOffset) -> str | None:
    """That the group has no offsets of queues that the checkpoint has read; None where it has. A broker that was killed
    may have forgotten them; another cluster, with older messages in queues of the same names, looks just so."""
    read_to = {queue: progress.end_offset for queue, progress in checkpoint.queues.items() if progress.end_offset > 0}
    gone = [queue for queue, at in stored.items() if at is None and queue in read_to]
    if not gone:
        return None
    places = [f"{queue} at {read_to[queue]}" for queue in sorted(gone, key=MessageQueue.sort_key)]
    return (
        "the brokers know no offsets of the group any more for queues that the checkpoint has read; going on where it "
        f"is: {_named(places)}. If 'namesrvAddr' leads to another cluster now, what that has before is not read: begin "
        "with a new checkpoint location (and, for a file sink, a new path)"
    )


def ahead_of(
    checkpoint: SourceOffset, stored: Mapping[MessageQueue, int | None], bounds: Mapping[MessageQueue, QueueBounds]
) -> dict[MessageQueue, int]:
    """Where the checkpoint is, of queues of which the group has read more. It has read nothing of a queue that came to
    one of its topics later."""
    topics = {queue.topic for queue in checkpoint.queues}
    read_to = {queue: bounds[queue].min_offset for queue in stored if queue.topic in topics}
    read_to |= {queue: progress.end_offset for queue, progress in checkpoint.queues.items()}
    return {queue: read_to[queue] for queue, at in stored.items() if at is not None and at > read_to.get(queue, at)}


def told_move(moved: Mapping[MessageQueue, int], stored: Mapping[MessageQueue, int | None]) -> str:
    """Of ``groupOffsets`` ``ignore`` and ``checkpoint``."""
    in_order = sorted(moved, key=MessageQueue.sort_key)
    places = [f"{queue} from {stored[queue]} to {moved[queue]}" for queue in in_order]
    return f"the group has been moved to where this query begins, as 'groupOffsets' says: {_named(places)}"


def _named(places: Sequence[str]) -> str:
    more = f" and {len(places) - MOST_NAMED} more queues" if len(places) > MOST_NAMED else ""
    return ", ".join(places[:MOST_NAMED]) + more


def first_positions(
    start: StartingPoint, bounds: Mapping[MessageQueue, QueueBounds], found: Mapping[MessageQueue, int]
) -> dict[MessageQueue, int]:
    """Where each queue of ``bounds`` begins: all the queues of topics that nobody has ever read.

    A retry topic holds what a group has sent back, and always begins at its first message.

    ``found``: the first offset stored at ``start.timestamp_ms`` or later, of the same queues where there is such a
    time. Raises OptionError[BAD_OPTION_VALUE] for an offset that its queue does not have.

    Source of the policies: ``client/impl/consumer/RebalancePushImpl.java#computePullFromWhereWithException``; differs:
    a topic starts as a whole, so that a queue which it gains later is new and begins at its min offset instead of at
    "latest".
    """
    listed = dict(start.offsets)
    topics = {queue.topic for queue in bounds}
    for queue, offset in start.offsets:
        if queue.topic in topics and queue not in bounds:
            raise _bad_offset(queue, offset, "a readable queue of the topic")
    return {
        queue: _listed(queue, listed[queue], held) if queue in listed else _by_policy(start.where, held, found, queue)
        for queue, held in bounds.items()
    }


def _by_policy(
    where: ConsumeFromWhere, held: QueueBounds, found: Mapping[MessageQueue, int], queue: MessageQueue
) -> int:
    if queue.topic.startswith(RETRY_TOPIC_PREFIX):
        return held.min_offset
    if where is ConsumeFromWhere.TIMESTAMP:
        return max(found[queue], held.min_offset)
    return held.min_offset if where is ConsumeFromWhere.FIRST_OFFSET else held.max_offset


def _listed(queue: MessageQueue, offset: int, held: QueueBounds) -> int:
    offset_meant = {EARLIEST: held.min_offset, LATEST: held.max_offset}.get(offset, offset)
    if not held.min_offset <= offset_meant <= held.max_offset:
        raise _bad_offset(queue, offset, f"an offset from {held.min_offset} to {held.max_offset}, which the queue has")
    return offset_meant


def _bad_offset(queue: MessageQueue, offset: int, expected: str) -> OptionError:
    return OptionError("BAD_OPTION_VALUE", option="startingOffsets", value=f"{queue}: {offset}", expected=expected)
