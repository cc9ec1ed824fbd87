"""Offsets that a command commits for a group: where they come from, and whether the queues have them. Pure."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final, NamedTuple

from rocketmq_spark.errors import OptionError
from rocketmq_spark.model import MessageQueue, QueueBounds
from rocketmq_spark.options.queue_positions import EARLIEST, LATEST, QueuePositions
from rocketmq_spark.options.times import parse_time
from rocketmq_spark.source.stream.offsets import SourceOffset
from rocketmq_spark.source.stream.shown_progress import is_source_offset

WORDS: Final = {"earliest": EARLIEST, "latest": LATEST}
EXPECTED_TARGET: Final = "'earliest', 'latest', an offset, or a time with its zone, such as 2026-01-05T14:05:00Z"
LOG_VERSION: Final = "v1"
HEADER_LINES: Final = 2
"""Of a file of Spark's offset log: its version, and metadata of the batch. Source:
``org/apache/spark/sql/execution/streaming/OffsetSeqLog.scala``."""


class OffsetTarget(NamedTuple):
    """Target of a group in each queue: one ``position``, which is an offset, EARLIEST or LATEST, or the first message
    stored at ``timestamp_ms`` (epoch ms) or later."""

    position: int | None = None
    timestamp_ms: int | None = None


def parse_target(text: str) -> OffsetTarget:
    """Parse ``earliest``, ``latest``, an offset in digits, or a time, see ``parse_time``. Raises ValueError for other
    text."""
    if text in WORDS:
        return OffsetTarget(WORDS[text])
    if text.isascii() and text.isdecimal():
        return OffsetTarget(int(text))
    return OffsetTarget(timestamp_ms=parse_time(text))


def selected(
    bounds: Mapping[MessageQueue, QueueBounds], broker_name: str | None, queue_id: int | None
) -> dict[MessageQueue, QueueBounds]:
    """Return the entries of ``bounds`` whose queue is on broker ``broker_name`` (None: any) and has the ID ``queue_id``
    (None: any). Raises OptionError[OFFSETS_NOT_IN_QUEUES] if there is none."""
    found = {
        queue: held
        for queue, held in bounds.items()
        if broker_name in (None, queue.broker_name) and queue_id in (None, queue.queue_id)
    }
    if not found:
        place = f"broker {broker_name or 'any'}, queue {'any' if queue_id is None else queue_id}"
        raise OptionError("OFFSETS_NOT_IN_QUEUES", count=1, offsets=f"{place} [no such queue]")
    return found


def offsets_of(positions: QueuePositions, bounds: Mapping[MessageQueue, QueueBounds]) -> dict[MessageQueue, int]:
    """Return the offset of each queue that has a position in ``positions``, by queue, else by topic, else everywhere.
    EARLIEST becomes the queue's min offset, LATEST its max offset. Raises what ``check_available`` does, also for a
    queue that is listed and not in ``bounds``."""
    words = {queue: {EARLIEST: held.min_offset, LATEST: held.max_offset} for queue, held in bounds.items()}
    listed = positions.by_queue([*bounds, *(queue for queue, _ in positions.queues)])
    offsets = {queue: words.get(queue, {}).get(position, position) for queue, position in listed.items()}
    check_available(offsets, bounds)
    return offsets


def check_available(offsets: Mapping[MessageQueue, int], bounds: Mapping[MessageQueue, QueueBounds]) -> None:
    """Raise OptionError[OFFSETS_NOT_IN_QUEUES], which lists all such queues, if a queue is not in ``bounds``, or if its
    offset is less than its min or more than its max offset."""
    problems = list(_unavailable(offsets, bounds))
    if problems:
        raise OptionError("OFFSETS_NOT_IN_QUEUES", count=len(problems), offsets=", ".join(problems))


def _unavailable(offsets: Mapping[MessageQueue, int], bounds: Mapping[MessageQueue, QueueBounds]) -> Iterator[str]:
    """Yield as text each queue, in order, that is not in ``bounds``, or whose offset is less than its min or more than
    its max offset. The text has the offset and the bounds."""
    for queue in sorted(offsets, key=MessageQueue.sort_key):
        held = bounds.get(queue)
        if held is None:
            yield f"{queue}: {offsets[queue]} [no such queue]"
        elif not held.min_offset <= offsets[queue] <= held.max_offset:
            yield f"{queue}: {offsets[queue]} [{held.min_offset}, {held.max_offset}]"


def checkpoint_offsets(text: str, path: str) -> dict[MessageQueue, int]:
    """Return the next offset of each queue after the batch in ``text``, a file of Spark's offset log, of all sources
    together. Sources of other connectors are skipped.

    Raises OptionError[CHECKPOINT_UNREADABLE] with ``path`` for a log of another version than v1, without a source of
    this connector, or with sources that have different offsets of a queue. Raises OptionError[INCOMPATIBLE_CHECKPOINT]
    for an offset of another version, [CHECKPOINT_OPTION_CHANGED] for one of message-based load balancing.
    """
    lines = text.splitlines()
    if lines[:1] != [LOG_VERSION]:
        raise OptionError("CHECKPOINT_UNREADABLE", path=path, problem="its offset log has another version than v1")
    sources = [SourceOffset.from_json(value) for value in map(_parsed, lines[HEADER_LINES:]) if is_source_offset(value)]
    if not sources:
        raise OptionError("CHECKPOINT_UNREADABLE", path=path, problem="its query reads no RocketMQ topic by queue")
    offsets: dict[MessageQueue, int] = {}
    for queue, progress in (entry for source in sources for entry in source.queues.items()):
        if offsets.setdefault(queue, progress.end_offset) != progress.end_offset:
            problem = f"its sources have different offsets of {queue}"
            raise OptionError("CHECKPOINT_UNREADABLE", path=path, problem=problem)
    return offsets


def last_committed(names: Collection[str]) -> str | None:
    """Return the name of the last batch among the files of a checkpoint's ``commits``, the largest number in digits, or
    None without a batch. Other names are ignored."""
    return max((name for name in names if name.isascii() and name.isdecimal()), key=int, default=None)


def _parsed(line: str) -> Any:
    """Return the JSON value of a line, or None if it is no JSON, such as ``-`` for a source without an offset."""
    try:
        return json.loads(line)
    except ValueError:
        return None
