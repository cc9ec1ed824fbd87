"""What a query's progress shows of its sources, read where the query runs."""

from __future__ import annotations

import ast
import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from rocketmq_spark.source.start_tracking import PROGRESS, is_source_offset
from rocketmq_spark.source.stream.drain import CONTROL

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql.streaming.listener import StreamingQueryProgress
    from pyspark.sql.streaming.query import StreamingQuery


def progress_of(query: StreamingQuery | StreamingQueryProgress | dict[str, Any]) -> list[dict[str, Any]]:
    """What each source shows in a progress, or in a query's last one, in the order of ``progress.sources``. A progress
    that was stored as JSON will do.

    ``lag``, ``lagByQueue``, ``outages``, ``lost`` and the others: see ``ProgressReporter.report``. Before Spark 4.2
    it is what was shown when the last batch was planned, by an earlier start perhaps, without what has an entry for
    each queue. Empty where a source shows nothing: in the progress of a batch that a restart has read again, and where
    it is not RocketMQ's. No sources: there is no progress yet.
    """
    return [shown if isinstance(shown, dict) and CONTROL in shown else {} for shown in latest_offsets(query)]


def latest_offsets(query: StreamingQuery | StreamingQueryProgress | dict[str, Any]) -> list[Any]:
    """What a progress has of each source as ``latestOffset``; None where that is no value, or one of ours that shows
    nothing."""
    progress: Any = query if isinstance(query, dict) else query.lastProgress
    return [_parsed(_field(source, "latestOffset")) for source in _sources(progress)]


def _sources(progress: Any) -> list[Any]:
    return [] if progress is None else _field(progress, "sources")


def has_advanced(progress: StreamingQueryProgress) -> bool:
    """Whether one of our sources has had a batch in it."""
    ends = [
        (_value(_field(source, "startOffset")), _value(_field(source, "endOffset"))) for source in _sources(progress)
    ]
    return any(is_source_offset(end) and start != end for start, end in ends)


def progress_of_end_offsets(query: StreamingQuery) -> list[Any]:
    """What the end offset of each source of ours shows, before Spark 4.2; None where one shows nothing."""
    ends = [_value(_field(source, "endOffset")) for source in _sources(query.lastProgress)]
    return [end.get(PROGRESS) for end in ends if is_source_offset(end)]


def _field(of: Any, name: str) -> Any:
    return of[name] if isinstance(of, dict) else getattr(of, name)


def _parsed(latest_offset: Any) -> Any:
    """Spark 4.2 has JSON here. Before, there is the end offset, as Python writes a dict."""
    value = _value(latest_offset)
    return value.get(PROGRESS) if is_source_offset(value) else value


def _value(offset: Any) -> Any:
    if not isinstance(offset, str):  # of a progress that was stored as JSON
        return offset
    value = _read(json.loads, offset)
    return _read(ast.literal_eval, offset) if value is None else value


def _read(parse: Callable[[str], Any], text: str) -> Any:
    with suppress(ValueError, SyntaxError, RecursionError):
        return parse(text)
    return None
