"""What a query's progress shows of its sources, read where the query runs."""

from __future__ import annotations

import ast
import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from rocketmq_spark.source.start_tracking import SHOWN, is_place
from rocketmq_spark.source.stream.drain import CONTROL

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql.streaming.listener import StreamingQueryProgress
    from pyspark.sql.streaming.query import StreamingQuery


def progress_of(query: StreamingQuery | StreamingQueryProgress | dict[str, Any]) -> list[dict[str, Any]]:
    """What each source shows in a progress, or in a query's last one, in the order of ``progress.sources``. A progress
    that was stored as JSON will do.

    ``lag``, ``lagByQueue``, ``waitingFor``, ``lost`` and the others: see ``ProgressReporter.report``. Before Spark 4.2
    it is what was shown when the last batch was planned, by an earlier start perhaps, without what has an entry for
    each queue. Empty where a source shows nothing: in the progress of a batch that a restart has read again, and where
    it is not RocketMQ's. No sources: there is no progress yet.
    """
    return [shown if isinstance(shown, dict) and CONTROL in shown else {} for shown in latest_offsets(query)]


def latest_offsets(query: StreamingQuery | StreamingQueryProgress | dict[str, Any]) -> list[Any]:
    """What a progress has of each source as ``latestOffset``; None where that is no value, or one of ours that shows
    nothing."""
    progress: Any = query if isinstance(query, dict) else query.lastProgress
    sources = [] if progress is None else _field(progress, "sources")
    return [_parsed(_field(source, "latestOffset")) for source in sources]


def _field(of: Any, name: str) -> Any:
    return of[name] if isinstance(of, dict) else getattr(of, name)


def _parsed(latest_offset: Any) -> Any:
    """Spark 4.2 has JSON here. Before, there is the end offset, as Python writes a dict."""
    value = latest_offset  # of a progress that was stored as JSON
    if isinstance(latest_offset, str):
        value = _read(json.loads, latest_offset)
        value = _read(ast.literal_eval, latest_offset) if value is None else value
    return value.get(SHOWN) if is_place(value) else value


def _read(parse: Callable[[str], Any], text: str) -> Any:
    with suppress(ValueError, SyntaxError, RecursionError):
        return parse(text)
    return None
