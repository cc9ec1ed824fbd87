"""What a query's progress shows of its sources, read where the query runs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from rocketmq_spark.source.stream.drain import CONTROL

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import StreamingQueryProgress
    from pyspark.sql.streaming.query import StreamingQuery


def progress_of(query: StreamingQuery | StreamingQueryProgress | dict[str, Any]) -> list[dict[str, Any]]:
    """What each source shows in a progress, or in a query's last one, in the order of ``progress.sources``. A progress
    that was stored as JSON will do.

    ``lag``, ``lagByQueue``, ``waitingFor``, ``lost`` and the others: see ``ProgressReporter.report``. Empty where a
    source shows nothing: in the progress of a batch that a restart has read again, before Spark 4.2, and where it is
    not RocketMQ's. No sources: there is no progress yet.
    """
    return [shown if isinstance(shown, dict) and CONTROL in shown else {} for shown in latest_offsets(query)]


def latest_offsets(query: StreamingQuery | StreamingQueryProgress | dict[str, Any]) -> list[Any]:
    """What a progress has of each source as ``latestOffset``; None where that is no JSON, or null."""
    progress: Any = query if isinstance(query, dict) else query.lastProgress
    sources = [] if progress is None else _field(progress, "sources")
    return [_parsed(_field(source, "latestOffset")) for source in sources]


def _field(of: Any, name: str) -> Any:
    return of[name] if isinstance(of, dict) else getattr(of, name)


def _parsed(latest_offset: Any) -> Any:
    if isinstance(latest_offset, dict):  # of a progress that was stored as JSON
        return latest_offset
    try:
        return json.loads(latest_offset)
    except (TypeError, ValueError):
        return None
