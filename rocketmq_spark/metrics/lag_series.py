"""Lag over the last progress events of a query, by topic or by queue. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from heapq import nlargest
from typing import Any, Final, Literal, NamedTuple

from rocketmq_spark.model import MessageQueue
from rocketmq_spark.source.stream.shown_progress import progress_of

By = Literal["topic", "queue"]
"""What a series is of."""

ALL_QUEUES: Final = "all queues"
"""Label of a source whose progress has no lag by queue, as before Spark 4.2."""

_Key = tuple[int, str, str, int]
"""Number of the source, topic, broker and queue ID; these sort as the series do. Without a queue: "" and -1; without a
topic: "", "" and -1."""


class LagSeries(NamedTuple):
    """Lag of one topic or queue. ``messages``: one value for each time of the history, None if it is unknown there, or
    if the query does not own the queue."""

    label: str
    messages: tuple[int | None, ...]


class LagHistory(NamedTuple):
    """``times``: of each progress event, with a time zone, in the order given. ``series``: those with any value."""

    times: tuple[datetime, ...]
    series: tuple[LagSeries, ...]


def lag_history(progresses: Iterable[Any], by: By) -> LagHistory:
    """Return the lag in messages that the sources of this connector show in ``progresses``: dicts, also as stored in
    JSON, or PySpark's objects.

    A topic's lag is the sum over the query's queues, None while the offsets of any queue of the source are unknown.
    Without a lag by queue, as before Spark 4.2, the source is one series, ALL_QUEUES. If several sources have lag, the
    labels contain the source's number from 0. Raises KeyError or AttributeError for another object than a progress.
    """
    events = list(progresses)
    found: dict[_Key, dict[int, int]] = defaultdict(dict)
    for number, event in enumerate(events):
        for key, messages in _lags(event, by):
            found[key][number] = messages
    has_several_sources = len({source for source, *_ in found}) > 1
    series = (
        LagSeries(
            _label(key, has_source=has_several_sources),
            tuple(found[key].get(number) for number in range(len(events))),
        )
        for key in sorted(found)
    )
    return LagHistory(tuple(map(_time, events)), tuple(series))


def largest(series: Sequence[LagSeries], count: int) -> list[LagSeries]:
    """Return the ``count`` series with the largest lag at any time, all if there are fewer, in the order of
    ``series``."""
    numbers = nlargest(count, range(len(series)), key=lambda number: _peak(series[number]))
    return [series[number] for number in sorted(numbers)]


def _peak(series: LagSeries) -> int:
    """Return the series' largest known value; 0 without one."""
    return max((messages for messages in series.messages if messages is not None), default=0)


def _lags(event: Any, by: By) -> Iterator[tuple[_Key, int]]:
    """Yield the key and the lag of each series that has a known one in ``event``."""
    for source, fields in enumerate(progress_of(event)):
        if (nested := fields.get("lagByQueue")) is not None:
            yield from _nested_lags(source, nested, by, is_complete=fields.get("lag") is not None)
        elif (total := fields.get("lag")) is not None:
            yield (source, "", "", -1), total


def _nested_lags(source: int, nested: Mapping[str, Any], by: By, *, is_complete: bool) -> Iterator[tuple[_Key, int]]:
    """Yield key and lag of each queue in ``nested``, {topic: {broker: {queue ID: entry}}}, or the sums by topic. No
    sums without ``is_complete``: an offset of the source is unknown."""
    for topic, brokers in nested.items():
        queues = {
            (source, topic, broker, int(queue_id)): int(entry["messages"])
            for broker, entries in brokers.items()
            for queue_id, entry in entries.items()
        }
        if by == "queue":
            yield from queues.items()
        elif is_complete and queues:
            yield (source, topic, "", -1), sum(queues.values())


def _label(key: _Key, *, has_source: bool) -> str:
    """Return the label of a series: its queue, its topic or ALL_QUEUES, with the number of its source if
    ``has_source``."""
    source, topic, broker, queue_id = key
    label = str(MessageQueue(topic, broker, queue_id)) if broker else topic or ALL_QUEUES
    return f"{label} (source {source})" if has_source else label


def _time(event: Any) -> datetime:
    """Return the time of a progress event. Raises ValueError if its text is no time in ISO 8601."""
    return datetime.fromisoformat(event["timestamp"] if isinstance(event, dict) else event.timestamp)
