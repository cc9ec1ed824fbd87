"""Table of the metrics: names, units and meanings, and their values in the fields of a source. Pure.

A source's fields are those of ``progress_of``, and of its progress: ``numInputRows``, here of all micro-batches
together, ``timestamp`` and ``isActive``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from types import MappingProxyType
from typing import Any, Final

Fields = Mapping[str, Any]
Values = Iterable[tuple[tuple[str, ...], float]]
"""Values of one metric, each with those of its own labels."""

PREFIX: Final = "rocketmq_spark_"
COMMON_LABELS: Final = ("query_id", "query_name", "source")
QUEUE_LABELS: Final = ("topic", "broker", "queue")
CONDITION_LABELS: Final = ("condition",)

ROWS: Final = "numInputRows"
TIMESTAMP: Final = "timestamp"
IS_ACTIVE: Final = "isActive"


class MetricType(Enum):
    """Type of a metric, as Prometheus names it."""

    GAUGE = "gauge"
    COUNTER = "counter"


class Mode(Enum):
    """Value of the option ``loadBalance`` with which a source has the metric."""

    BOTH = "both"
    QUEUE = "queue"
    MESSAGE = "message"


@dataclass(frozen=True)
class Metric:
    """One metric of METRICS: its type, unit and help text, and ``values``, which returns its values from the fields of
    one source. ``field``: its origin in the progress, for the documentation. ``labels``: the metric's own, after
    COMMON_LABELS."""

    metric_type: MetricType
    unit: str
    mode: Mode
    field: str
    doc: str
    values: Callable[[Fields], Values]
    labels: tuple[str, ...] = ()


def _at(*path: str) -> Callable[[Fields], Values]:
    """Return a function of a source's fields that returns [((), number)] with the number at the nested keys ``path``,
    True as 1. It returns [] where a key is missing or the value is null."""

    def values(fields: Fields) -> Values:
        """Return [((), the number at ``path``)]; [] if it is missing or null."""
        value: Any = fields
        for name in path:
            value = value.get(name) if isinstance(value, Mapping) else None
        return [] if value is None else [((), float(value))]

    return values


def _by_queue(name: str, factor: float = 1) -> Callable[[Fields], Values]:
    """Return a function of a source's fields that returns ((topic, broker, queue ID), number) for each queue in
    ``lagByQueue``. The number is its field ``name`` times ``factor``. It returns [] without ``lagByQueue``."""

    def values(fields: Fields) -> Values:
        """Return ((topic, broker, queue ID), number) for each queue of ``lagByQueue``."""
        return [(queue, lag[name] * factor) for queue, lag in _queues(fields.get("lagByQueue"))]

    return values


def _by_condition(name: str) -> Callable[[Fields], Values]:
    """Return a function of a source's fields: it returns ((condition,), ``entry[name]``) for each condition and its
    entry in ``lost.byCondition``; [] without ``lost.byCondition``."""

    def values(fields: Fields) -> Values:
        """Return ((condition,), number) for each condition of ``lost.byCondition``."""
        lost: Mapping[str, Any] = fields.get("lost", {}).get("byCondition", {})
        return [((condition,), float(counts[name])) for condition, counts in lost.items()]

    return values


def _queues(nested: Mapping[str, Any] | None) -> Iterator[tuple[tuple[str, str, str], Any]]:
    """Yield ((topic, broker, queue ID), entry) for each entry of ``nested``, {topic: {broker: {queue ID: entry}}};
    nothing for None."""
    for topic, brokers in (nested or {}).items():
        for broker, queues in brokers.items():
            yield from (((topic, broker, queue), entry) for queue, entry in queues.items())


def _longest_lag(fields: Fields) -> Values:
    """Return [((), the maximum of ``ms`` in ``lagByQueue``, in seconds)]; [] without queues."""
    waiting_ms = [lag["ms"] for _, lag in _queues(fields.get("lagByQueue"))]
    return [((), max(waiting_ms) / 1000)] if waiting_ms else []


def _queue_count(fields: Fields) -> Values:
    """Return [((), the number of queues in ``maxOffsets``)]; [] if the source has no such field."""
    return [((), float(sum(1 for _ in _queues(fields["maxOffsets"]))))] if "maxOffsets" in fields else []


def _outage_count(fields: Fields) -> Values:
    """Return [((), the number of ``outages``)], 0 for an empty list; [] if the source has no such field."""
    return [((), float(len(fields["outages"])))] if "outages" in fields else []


def _earliest(name: str) -> Callable[[Fields], Values]:
    """Return a function of a source's fields that returns [((), time)] with the earliest time ``name`` of its
    ``outages``, in seconds since 1970. It returns [] if no outage has one."""

    def values(fields: Fields) -> Values:
        """Return [((), the earliest time in seconds since 1970)]; [] if no outage has one."""
        times = [_epoch_s(outage[name]) for outage in fields.get("outages", ()) if outage[name] is not None]
        return [((), min(times))] if times else []

    return values


def _timestamp(fields: Fields) -> Values:
    """Return [((), the time of the progress in seconds since 1970)]. Raises KeyError without it."""
    return [((), _epoch_s(fields[TIMESTAMP]))]


def _epoch_s(text: str) -> float:
    """Return a time in ISO 8601 with its zone as seconds since 1970. Raises ValueError for other text."""
    return datetime.fromisoformat(text).timestamp()


def _gauge(
    unit: str,
    mode: Mode,
    field: str,
    doc: str,
    values: Callable[[Fields], Values] | None = None,
    labels: tuple[str, ...] = (),
) -> Metric:
    """Return a gauge. ``values``: None: the number at ``field``, nested keys separated by dots."""
    return Metric(MetricType.GAUGE, unit, mode, field, doc, values or _at(*field.split(".")), labels)


def _counter(unit: str, mode: Mode, field: str, doc: str) -> Metric:
    """Return a counter of the number at ``field``, nested keys separated by dots."""
    return Metric(MetricType.COUNTER, unit, mode, field, doc, _at(*field.split(".")))


METRICS: Final[Mapping[str, Metric]] = MappingProxyType(
    {
        "up": _gauge(
            "1 or 0",
            Mode.BOTH,
            IS_ACTIVE,
            "1 while the query runs, 0 after it failed. A query that was stopped has no metrics.",
        ),
        "rows_total": _counter(
            "rows", Mode.BOTH, ROWS, "Rows of completed micro-batches, since the listener was added."
        ),
        "last_progress_timestamp_seconds": _gauge(
            "epoch s", Mode.BOTH, TIMESTAMP, "Start of the trigger that the progress is of.", _timestamp
        ),
        "outages": _gauge("outages", Mode.BOTH, "outages", "Unavailable servers and groups of queues.", _outage_count),
        "outage_start_timestamp_seconds": _gauge(
            "epoch s", Mode.BOTH, "outages[].since", "Start of the longest outage.", _earliest("since")
        ),
        "outage_deadline_timestamp_seconds": _gauge(
            "epoch s", Mode.BOTH, "outages[].until", "Time at which an outage fails the query.", _earliest("until")
        ),
        "assigned_queues": _gauge(
            "queues", Mode.QUEUE, "maxOffsets", "Queues that are assigned to the query.", _queue_count
        ),
        "lag_messages": _gauge(
            "messages", Mode.QUEUE, "lag", "Messages in no micro-batch yet. Missing while any queue's lag is unknown."
        ),
        "lag_seconds": _gauge(
            "s", Mode.QUEUE, "lagByQueue", "Maximum of `queue_lag_seconds` over all queues.", _longest_lag
        ),
        "queue_lag_messages": _gauge(
            "messages",
            Mode.QUEUE,
            "lagByQueue",
            "Messages of the queue in no micro-batch yet.",
            _by_queue("messages"),
            QUEUE_LABELS,
        ),
        "queue_lag_seconds": _gauge(
            "s",
            Mode.QUEUE,
            "lagByQueue",
            "Minimum time that the first of them has been waiting.",
            _by_queue("ms", factor=0.001),
            QUEUE_LABELS,
        ),
        "lost_offsets_total": _counter("offsets", Mode.QUEUE, "lost.offsets", "Lost offsets, `failOnDataLoss=false`."),
        "lost_ranges_total": _counter("ranges", Mode.QUEUE, "lost.ranges", "Lost ranges of offsets."),
        "data_loss_offsets_total": Metric(
            MetricType.COUNTER,
            "offsets",
            Mode.QUEUE,
            "lost.byCondition",
            "Lost offsets by sub-condition of `DATA_LOSS`, also those that the query had read.",
            _by_condition("offsets"),
            CONDITION_LABELS,
        ),
        "data_loss_ranges_total": Metric(
            MetricType.COUNTER,
            "ranges",
            Mode.QUEUE,
            "lost.byCondition",
            "Their ranges.",
            _by_condition("ranges"),
            CONDITION_LABELS,
        ),
        "completed_after_rebalance_total": _counter(
            "ranges",
            Mode.QUEUE,
            "completedAfterRebalance",
            "Offset ranges completed after their queue was reassigned: the next owner may have read them too.",
        ),
        "received_messages_total": _counter("messages", Mode.MESSAGE, "received", "Received messages."),
        "acknowledged_messages_total": _counter(
            "messages", Mode.MESSAGE, "acknowledged", "Acknowledged messages, including rows that were sent back."
        ),
        "invisible_duration_extensions_total": _counter(
            "extensions", Mode.MESSAGE, "extended", "Extensions of the invisible duration."
        ),
        "released_messages_total": _counter("messages", Mode.MESSAGE, "released", "Released messages."),
        "expired_messages_total": _counter(
            "messages", Mode.MESSAGE, "expired", "Messages that are redelivered: expired, or the handle was unusable."
        ),
        "dead_letter_messages_total": _counter(
            "messages", Mode.MESSAGE, "deadLetters", "Messages moved to the dead-letter topic."
        ),
        "prefetched_messages": _gauge("messages", Mode.MESSAGE, "prefetched", "Prefetched messages now."),
        "in_flight_messages": _gauge("messages", Mode.MESSAGE, "inFlight", "Messages in flight now."),
    }
)
