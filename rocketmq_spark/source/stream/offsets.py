"""The offset in Spark's checkpoint: canonical, versioned, and sufficient to read its batch.

    {"v": 4, "queues": {"orders": {"broker-a": {"0": [120, 180, 1763712000000], "1": [7, 7, 1763712000123]}}},
     "checkpoint": "6f1e8d0c2b5a4f7390d1c2e3f4a5b6c7",
     "options": {"consumerGroup": "orders-app", "messageModel": "CLUSTERING", "subExpression": "*",
                 "subscribe": "orders,payments", "retryTopic": "false"}}

Each queue has ``[begin, end, last store time in epoch ms]``. The batch reads ``[begin, end)``, so the end offset alone
defines the ranges of a batch, however it was planned. A queue that the batch does not read has ``begin == end``. Spark
compares offsets as text, so there is exactly one spelling: sorted keys, and integers only.

``waited``: number of consecutive batches that read nothing, because the query waits for other members of its group;
omitted if it is 0.

``options``: those of the query that planned the batch without which its numbers have another meaning, see
``checkpoint_changes``. ``checkpoint``: a random name, set with the first batch; copies of a checkpoint share it.
Version 1 has no options, version 2 no topics, version 3 no name; they are read, and the next batch has version 4.
Version 5 is that of a query with ``subscribePattern``, which it has among its options, with an empty ``subscribe``. An
older connector rejects a newer version by its number.

On Spark 4.0 and 4.1 an offset also has ``shown``, see ``shown_progress``; it is ignored.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from rocketmq_spark.errors import OptionError
from rocketmq_spark.model import MessageQueue, QueueRange, flat, nested
from rocketmq_spark.options.receive import BY_MESSAGE, BY_QUEUE
from rocketmq_spark.source.stream.shown_progress import without_progress
from rocketmq_spark.wire.bounds import CHECKPOINT_OFFSET, CHECKPOINT_QUEUE_ID

WITHOUT_OPTIONS: Final = 1
WITHOUT_TOPICS: Final = 2
WITHOUT_NAME: Final = 3
VERSION: Final = 4
WITH_PATTERN: Final = 5
CHECKPOINT: Final = "checkpoint"
PATTERN: Final = "subscribePattern"


class QueueProgress(NamedTuple):
    """One queue in an offset. ``last_store_timestamp_ms``: store time of the queue's newest message when the batch was
    planned; 0: unknown; 1: the queue had no message left."""

    begin_offset: int
    end_offset: int
    last_store_timestamp_ms: int = 0

    def idle(self) -> QueueProgress:
        """Return a progress at the same end offset and store time, without a range to read; itself if it has none."""
        if self.begin_offset == self.end_offset:
            return self
        return QueueProgress(self.end_offset, self.end_offset, self.last_store_timestamp_ms)


class PlannedWith(NamedTuple):
    """Options of the query that planned a batch, as the user writes them; topics sorted. ``sub_expression``: the text
    of the ``MessageFilter``, of type TAG or SQL92. ``subscribe`` and ``retry_topic`` are None in offsets of version 2.
    ``checkpoint_id``: name of the checkpoint, None before version 4. ``topic_pattern``: None without
    ``subscribePattern``."""

    consumer_group: str
    message_model: str
    sub_expression: str
    subscribe: str | None = None
    retry_topic: str | None = None
    checkpoint_id: str | None = None
    topic_pattern: str | None = None

    @property
    def version(self) -> int:
        """Return the version of an offset with these options: 5 with ``topic_pattern``, else 2 without ``subscribe``, 3
        without ``checkpoint_id``, or 4."""
        if self.topic_pattern is not None:
            return WITH_PATTERN
        if self.subscribe is None:
            return WITHOUT_TOPICS
        return WITHOUT_NAME if self.checkpoint_id is None else VERSION

    def to_json(self) -> dict[str, object]:
        """Return the entries of these options in an offset: ``options`` and, if it is set, ``checkpoint``."""
        texts = dict(zip(_OPTIONS[self.version], self, strict=False))
        if self.topic_pattern is not None:
            texts[PATTERN] = self.topic_pattern
        return {"options": texts} if self.checkpoint_id is None else {"options": texts, CHECKPOINT: self.checkpoint_id}


_OPTIONS: Final = {
    WITHOUT_TOPICS: ("consumerGroup", "messageModel", "subExpression"),
    WITHOUT_NAME: ("consumerGroup", "messageModel", "subExpression", "subscribe", "retryTopic"),
    VERSION: ("consumerGroup", "messageModel", "subExpression", "subscribe", "retryTopic"),
    WITH_PATTERN: ("consumerGroup", "messageModel", "subExpression", "subscribe", "retryTopic"),
}


@dataclass(frozen=True, slots=True)
class SourceOffset:
    """Positions of all queues that the query has ever read; none in the initial offset.

    ``waited``: consecutive batches that read nothing. ``planned_with``: None in offsets of version 1, and until a
    planned offset is written. It is not part of the position, and comparisons ignore it.
    """

    queues: Mapping[MessageQueue, QueueProgress] = field(default_factory=dict)
    planned_with: PlannedWith | None = field(default=None, compare=False)
    waited: int = 0

    @property
    def has_begun(self) -> bool:
        """Return whether the query has planned a batch, perhaps without any queue; False in the initial offset."""
        return bool(self.queues) or self.planned_with is not None

    def ranges(self) -> Iterator[QueueRange]:
        """Yield the batch's non-empty ranges, ordered by queue."""
        for queue in sorted(self.queues, key=MessageQueue.sort_key):
            progress = self.queues[queue]
            if progress.begin_offset < progress.end_offset:
                yield QueueRange(queue, progress.begin_offset, progress.end_offset)

    def advanced(self, planned: Mapping[MessageQueue, QueueProgress]) -> SourceOffset:
        """Return the next offset. The queues in ``planned`` get this progress. All other queues keep their end offset
        and get no range. It has neither ``planned_with`` nor ``waited``."""
        idle = {queue: progress.idle() for queue, progress in self.queues.items()}
        return SourceOffset(idle | dict(planned))

    def after_waiting(self) -> SourceOffset:
        """Return the next offset of a query that reads nothing now. All queues keep their end offset and get no range.
        ``planned_with`` is None, and ``waited`` one larger. It differs from this one, so Spark runs a batch without
        rows."""
        return replace(self.advanced({}), waited=self.waited + 1)

    def to_json(self) -> dict[str, Any]:
        """Return the value that Spark writes with ``json.dumps``; equal offsets give equal text."""
        numbers = {
            queue: [progress.begin_offset, progress.end_offset, progress.last_store_timestamp_ms]
            for queue, progress in self.queues.items()
        }
        waited = {"waited": self.waited} if self.waited else {}
        if self.planned_with is None:
            return {"v": WITHOUT_OPTIONS, "queues": nested(numbers), **waited}
        return {"v": self.planned_with.version, "queues": nested(numbers), **self.planned_with.to_json(), **waited}

    @classmethod
    def from_json(cls, value: object) -> SourceOffset:
        """Parse decoded JSON of version 1 to 5; ignore progress fields. Raises OptionError[INCOMPATIBLE_CHECKPOINT] for
        other versions, and for a value that ``to_json`` would not return, which is another offset to Spark. Raises
        OptionError[CHECKPOINT_OPTION_CHANGED] for a value of ``PopOffset``."""
        value = without_progress(value)
        try:
            offset = cls(dict(_queues(value)), _planned_with(value), _waited(value))
            if _canonical_json(offset.to_json()) != _canonical_json(value):
                raise ValueError("another spelling")
            return offset
        except (KeyError, TypeError, ValueError, AttributeError) as problem:
            if isinstance(problem, OptionError):
                raise
            raise OptionError("INCOMPATIBLE_CHECKPOINT", problem=f"{problem} in {str(value)[:200]}") from None


class OffsetReader:
    """Parser of the offsets that Spark passes as JSON values. It caches the last one: Spark passes it again at each
    idle call.

    Not thread-safe.
    """

    def __init__(self) -> None:
        self._offset = SourceOffset()
        self._value: object = self._offset.to_json()

    def read(self, value: object) -> SourceOffset:
        """Parse ``value``, see ``SourceOffset.from_json``, whose errors are raised. For a value equal to the last one
        read or written, return the same object."""
        if value != self._value:
            self._offset = SourceOffset.from_json(value)
            self._value = value
        return self._offset

    def write(self, offset: SourceOffset) -> dict[str, Any]:
        """Return ``offset.to_json()`` and cache it: this offset is likely to be read next."""
        value = offset.to_json()
        self._value, self._offset = value, offset
        return value


def _canonical_json(value: object) -> str:
    """Return JSON text with sorted keys: the same for equal values."""
    return json.dumps(value, sort_keys=True)


def _queues(value: Any) -> Iterator[tuple[MessageQueue, QueueProgress]]:
    """Yield the queues of an offset. Raises OptionError[CHECKPOINT_OPTION_CHANGED] for a value of ``PopOffset``. Any
    other wrong form raises one of the errors that ``SourceOffset.from_json`` converts."""
    if value.get("loadBalance") == BY_MESSAGE:
        raise OptionError(
            "CHECKPOINT_OPTION_CHANGED",
            option="loadBalance",
            before=BY_MESSAGE,
            now=BY_QUEUE,
        )
    if value["v"] not in (WITHOUT_OPTIONS, *_OPTIONS):
        raise ValueError(f"version {value['v']!r}, not {WITHOUT_OPTIONS} to {WITH_PATTERN},")
    for queue, numbers in flat(value["queues"]):
        CHECKPOINT_QUEUE_ID.check(queue.queue_id)
        yield queue, _progress(numbers)


def _waited(value: Any) -> int:
    """Return field ``waited`` of an offset in the checkpoint, the number of batches that read nothing; 0 without it.
    Raises TypeError if it is no integer."""
    waited = value.get("waited", 0)
    if type(waited) is not int:
        raise TypeError(f"not an integer: {waited}")
    return int(waited)


def _planned_with(value: Any) -> PlannedWith | None:
    """Return the options in an offset, or None in version 1. Raises KeyError or TypeError for the wrong form."""
    if value["v"] == WITHOUT_OPTIONS:
        return None
    texts = [value["options"][name] for name in _OPTIONS[value["v"]]]
    if value["v"] >= VERSION:
        texts.append(value[CHECKPOINT])
    if value["v"] == WITH_PATTERN:
        texts.append(value["options"][PATTERN])
    if not all(isinstance(text, str) for text in texts):
        raise TypeError(f"not texts: {texts}")
    return PlannedWith(*texts)


def _progress(numbers: Any) -> QueueProgress:
    """Return one queue's progress from a list of three integers, ``[begin, end, last store time]``, with 0 <= begin <=
    end. Raises TypeError or ValueError for any other value."""
    if not all(type(number) is int for number in numbers):
        raise TypeError(f"not integers: {numbers}")
    begin_offset, end_offset, last_store_timestamp_ms = numbers
    if not 0 <= begin_offset <= end_offset:
        raise ValueError(f"not a range: {numbers}")
    CHECKPOINT_OFFSET.check(end_offset)
    return QueueProgress(begin_offset, end_offset, last_store_timestamp_ms)
