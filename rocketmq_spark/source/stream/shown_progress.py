"""Fields of its sources that a query's progress shows: how an end offset carries them before Spark 4.2, and how they
are read where the query runs."""

from __future__ import annotations

import ast
import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from rocketmq_spark.source.stream.drain import CONTROL

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql.streaming.listener import StreamingQueryProgress
    from pyspark.sql.streaming.query import StreamingQuery


PROGRESS: Final = "shown"
"""Key in an end offset for the fields of the query progress: before Spark 4.2 the progress has no other field from a
source. It is not part of the position, and all readers of offsets ignore it, on every Spark version."""

SIZED_BY_QUEUES: Final = frozenset({"maxOffsets", "lagByQueue", "outages"})
"""Fields that an offset does not contain: each has an entry per queue, and the checkpoint keeps every offset."""


def with_progress(end: dict[str, Any], report: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of ``end`` with the fields of ``report`` under the key PROGRESS. ``report`` is as from
    ``reportLatestOffset`` on Spark 4.2; fields with an entry per queue (``SIZED_BY_QUEUES``) are left out."""
    return {**end, PROGRESS: {name: value for name, value in report.items() if name not in SIZED_BY_QUEUES}}


def is_source_offset(value: Any) -> bool:
    """Return whether ``value`` is an offset of this source, with queue-based or message-based load balancing."""
    return isinstance(value, dict) and "v" in value and ("queues" in value or "loadBalance" in value)


def without_progress(value: Any) -> Any:
    """Return a copy of an offset of any Spark version without the progress fields; a value that is no dict
    unchanged."""
    return {name: part for name, part in value.items() if name != PROGRESS} if isinstance(value, dict) else value


def progress_of(query: StreamingQuery | StreamingQueryProgress | dict[str, Any]) -> list[dict[str, Any]]:
    """Return the fields of each source in a progress, or in a query's last one, in the order of ``progress.sources``. A
    progress that was stored as JSON is accepted too.

    For the fields see ``ProgressReporter.report``. Before Spark 4.2 they are as of the last plan, possibly by an
    earlier start, without fields that have an entry per queue. {} for a source that shows none: in the progress of a
    replayed batch, and for other connectors. [] before the first progress.
    """
    return [shown if isinstance(shown, dict) and CONTROL in shown else {} for shown in latest_offsets(query)]


def latest_offsets(query: StreamingQuery | StreamingQueryProgress | dict[str, Any]) -> list[Any]:
    """Return the ``latestOffset`` of each source in a progress, or in a query's last one, as a value; [] before the
    first progress. None if it cannot be parsed, or is an offset of this connector without progress fields."""
    progress: Any = query
    if not isinstance(query, dict) and not hasattr(query, "sources"):
        progress = query.lastProgress
    return [_parsed(_field(source, "latestOffset")) for source in _sources(progress)]


def _sources(progress: Any) -> list[Any]:
    """Return the sources in ``progress``, which is an object or a dict; [] if it is None."""
    return [] if progress is None else _field(progress, "sources")


def has_advanced(progress: StreamingQueryProgress) -> bool:
    """Return whether a source of this connector has different start and end offsets in ``progress``, so had a batch."""
    ends = [
        (_value(_field(source, "startOffset")), _value(_field(source, "endOffset"))) for source in _sources(progress)
    ]
    return any(is_source_offset(end) and start != end for start, end in ends)


def progress_of_end_offsets(query: StreamingQuery) -> list[Any]:
    """Return the progress fields in the end offset of each source of this connector in the query's last progress,
    before Spark 4.2. An end offset without them gives None. [] before the first progress."""
    ends = [_value(_field(source, "endOffset")) for source in _sources(query.lastProgress)]
    return [end.get(PROGRESS) for end in ends if is_source_offset(end)]


def _field(of: Any, name: str) -> Any:
    """Return the entry of a dict, or the attribute of another object. Raises KeyError or AttributeError."""
    return of[name] if isinstance(of, dict) else getattr(of, name)


def _parsed(latest_offset: Any) -> Any:
    """Return the value of ``latestOffset``, text in JSON as of Spark 4.2. Before, it is the end offset, a Python dict
    as text: return its progress fields, None if it has none. None for other text, too."""
    value = _value(latest_offset)
    return value.get(PROGRESS) if is_source_offset(value) else value


def _value(offset: Any) -> Any:
    """Return an offset, text in JSON or as a Python literal, as a value, or None if the text is neither. A value that
    is no text is returned unchanged."""
    if not isinstance(offset, str):  # of a progress that was stored as JSON
        return offset
    value = _parse_or_none(json.loads, offset)
    return _parse_or_none(ast.literal_eval, offset) if value is None else value


def _parse_or_none(parse: Callable[[str], Any], text: str) -> Any:
    """Return ``parse(text)``, or None if the text is invalid."""
    with suppress(ValueError, SyntaxError, RecursionError):
        return parse(text)
    return None
