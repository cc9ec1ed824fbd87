"""Metrics of all queries, from the progress of each. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from rocketmq_spark.metrics.metric_table import IS_ACTIVE, METRICS, ROWS, TIMESTAMP
from rocketmq_spark.source.stream.shown_progress import progress_of


class Sample(NamedTuple):
    """One value. ``labels``: values of the common labels, then of the metric's own."""

    name: str
    labels: tuple[str, ...]
    value: float


@dataclass(frozen=True)
class Source:
    """One source of a query: its latest fields, {} before it showed any, and its rows in all micro-batches."""

    shown: Mapping[str, Any] = field(default_factory=dict)
    row_count: int = 0


@dataclass(frozen=True)
class Query:
    """A query as of its latest progress, with its sources. ``is_active``: False after a failure."""

    run_id: str
    name: str
    timestamp: str
    sources: tuple[Source, ...]
    is_active: bool = True

    def samples(self, query_id: str) -> Iterator[Sample]:
        """Yield a sample for each value of each metric of each source. A source that has shown no fields, such as
        another connector's, has none. The common labels are ``query_id``, the query's name, and the source's number
        from 0."""
        of_query = {IS_ACTIVE: self.is_active, TIMESTAMP: self.timestamp}
        for number, source in enumerate(self.sources):
            if source.shown:
                fields = {**source.shown, **of_query, ROWS: source.row_count}
                for name, metric in METRICS.items():
                    for labels, value in metric.values(fields):
                        yield Sample(name, (query_id, self.name, str(number), *labels), value)


class QueryMetrics:
    """Latest progress of each query, from which the values of its metrics follow. Not thread-safe: the caller holds a
    lock."""

    def __init__(self) -> None:
        self._queries: dict[str, Query] = {}

    def update(self, progress: Mapping[str, Any], *, is_new_batch: bool) -> None:
        """Replace the query's progress by ``progress``, and mark the query as active. Add its rows to the sources' row
        counts only if ``is_new_batch``. The progress of an idle query may repeat a batch whose rows were counted
        before.

        If a source shows no fields, it keeps the fields of the last progress of the same run. Its row count continues
        in later runs of the query.
        """
        query_id, run_id = str(progress["id"]), str(progress["runId"])
        before = self._queries.get(query_id)
        is_same_run = before is not None and before.run_id == run_id
        sources = dict(enumerate(before.sources)) if before is not None else {}
        self._queries[query_id] = Query(
            run_id,
            str(progress["name"] or ""),
            str(progress["timestamp"]),
            tuple(
                _updated(
                    sources.get(number, Source()),
                    shown,
                    int(of_source["numInputRows"]) if is_new_batch else 0,
                    is_same_run=is_same_run,
                )
                for number, (shown, of_source) in enumerate(
                    zip(progress_of(dict(progress)), progress["sources"], strict=True)
                )
            ),
        )

    def end(self, query_id: str, *, has_failed: bool) -> None:
        """Remove a query that was stopped. If it failed, keep its last values, as not active, until its next progress.
        Do nothing for a query without progress."""
        query = self._queries.pop(query_id, None)
        if query is not None and has_failed:
            self._queries[query_id] = replace(query, is_active=False)

    def samples(self) -> dict[str, list[Sample]]:
        """Return all samples of all queries by the metric's name; a metric without samples is missing."""
        found: dict[str, list[Sample]] = {}
        for query_id, query in self._queries.items():
            for sample in query.samples(query_id):
                found.setdefault(sample.name, []).append(sample)
        return found


def _updated(before: Source, shown: Mapping[str, Any], row_count: int, *, is_same_run: bool) -> Source:
    """Return ``before`` with ``row_count`` more rows and the fields ``shown``. If these are empty, keep the fields of
    ``before`` in the same run, none in another one."""
    return Source(shown or (before.shown if is_same_run else {}), before.row_count + row_count)
