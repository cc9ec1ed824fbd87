"""Metrics of running queries for Prometheus. Requires the package's extra ``prometheus``."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from prometheus_client import REGISTRY, CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from pyspark.sql.streaming.listener import StreamingQueryListener

from rocketmq_spark.metrics.metric_table import COMMON_LABELS, METRICS, PREFIX, QUEUE_LABELS, MetricType
from rocketmq_spark.metrics.query_metrics import QueryMetrics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )

__all__ = ["PrometheusListener"]

_FAMILIES: Final[Mapping[MetricType, type[CounterMetricFamily | GaugeMetricFamily]]] = {
    MetricType.COUNTER: CounterMetricFamily,
    MetricType.GAUGE: GaugeMetricFamily,
}


class PrometheusListener(StreamingQueryListener, Collector):
    """A listener of ``spark.streams`` whose metrics Prometheus' client collects from ``registry``.

    The metrics are those of all queries of ``spark`` that read from RocketMQ. ``queue_metrics=False`` omits those that
    have a value for each queue. Raises ValueError if ``registry`` has a listener already.

    Threads: any.
    """

    def __init__(
        self, spark: SparkSession, registry: CollectorRegistry = REGISTRY, *, queue_metrics: bool = True
    ) -> None:
        """Register in ``registry``; the caller adds the listener to ``spark.streams``."""
        self._session: Final = spark
        self._names: Final = [name for name, row in METRICS.items() if queue_metrics or row.labels != QUEUE_LABELS]
        self._lock: Final = threading.Lock()
        self._queries: Final = QueryMetrics()
        registry.register(self)

    def describe(self) -> Iterator[Metric]:
        """Return the metrics without values, in the order of METRICS, because a registry needs their names."""
        return map(_family, self._names)

    def collect(self) -> Iterator[Metric]:
        """Yield each metric, also one without values. Its values are as of the latest progress of each query, for each
        source of this connector."""
        with self._lock:
            samples = self._queries.samples()
        for name in self._names:
            family = _family(name)
            for sample in samples.get(name, ()):
                family.add_metric(sample.labels, sample.value)
            yield family

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Do nothing. A query has metrics from its first progress on."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """Update the query's metrics, and add the batch's rows to ``rows_total``."""
        with self._lock:
            self._queries.update(event.progress, is_new_batch=True)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Update the metrics, but not ``rows_total``, from the query's last progress, which the event lacks: outages
        change without a batch. Do nothing if the query has ended or has no progress."""
        query = self._session.streams.get(str(event.id))
        progress: Any = query and query.lastProgress
        if progress:
            with self._lock:
                self._queries.update(progress, is_new_batch=False)

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Remove the query's metrics if it was stopped. If it failed, keep its last values, with ``up`` 0, until it is
        restarted and has progress."""
        query_id, has_failed = str(event.id), event.exception is not None
        with self._lock:
            self._queries.end(query_id, has_failed=has_failed)


def _family(name: str) -> CounterMetricFamily | GaugeMetricFamily:
    """Return the metric ``PREFIX`` + ``name`` without values. Raises KeyError for a name that METRICS lacks."""
    row = METRICS[name]
    return _FAMILIES[row.metric_type](PREFIX + name, row.doc, labels=(*COMMON_LABELS, *row.labels))
