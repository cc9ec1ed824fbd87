"""RocketMQViewReader: adapter between Spark's calls for a batch read and the inspection of a cluster.

One task requests all rows, each time that Spark runs it: each action on a DataFrame of a view shows the cluster of
that moment.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from rocketmq_spark.diagnostics import iterating_without_traceback, set_log_context, task_log_context
from rocketmq_spark.inspection.inspector import Inspector, raise_failure
from rocketmq_spark.options.view_read import GROUPS, QUEUES, TOPICS, ViewOptions
from rocketmq_spark.remoting.clock import monotonic_ms
from rocketmq_spark.remoting.cluster_client import ClusterClient
from rocketmq_spark.remoting.failures import Failures
from rocketmq_spark.remoting.pool import ConnectionPool
from rocketmq_spark.remoting.retry import request_policy
from rocketmq_spark.source.schema import arrow_schema_of, check_view_schema, view_columns

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")

MISSING_TOPIC_TIMEOUT_MS: Final = 0
"""A view of a topic that does not exist fails at once."""


class RocketMQViewReader(DataSourceReader):
    """Batch reader of a view. Construction opens no connection. Raises what ``check_view_schema`` does."""

    def __init__(self, options: ViewOptions, schema: StructType) -> None:
        check_view_schema(schema, options.view)
        self._options = options
        self._schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        """Return the only task."""
        return [InputPartition(self._options.view)]

    def read(self, _partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Set the log context, and return an iterator over the rows of the view: one record batch, or none without
        rows. It requests them from the cluster when Spark iterates.

        Raises TransportError[CLUSTER_TIMEOUT] if a server is unresponsive for ``clusterTimeoutMs``, OptionError
        [GROUP_NOT_FOUND.CLUSTER] and RouteError[TOPIC_NOT_FOUND] for names that the cluster does not have.
        """
        set_log_context(self._options.log_level, view=self._options.view, **task_log_context(TaskContext.get()))
        return iterating_without_traceback(self._record_batches())

    def _record_batches(self) -> Iterator[pa.RecordBatch]:
        """Request the rows of the view over new connections, close these, and yield the rows as one batch; nothing
        without rows."""
        options = self._options
        with closing(ConnectionPool(options.broker_timeout_ms, security=options.security)) as pool:
            client = ClusterClient.of(options, pool)
            rows = query_rows(Inspector(client, raise_failure, Retries(options.cluster_timeout_ms)), options)
        if rows:
            yield record_batch(rows, self._schema, options.view)


class Retries:
    """Retries of requests, for ``cluster_timeout_ms`` while servers are unresponsive. Not thread-safe."""

    def __init__(self, cluster_timeout_ms: int) -> None:
        self._failures = Failures(request_policy(cluster_timeout_ms, MISSING_TOPIC_TIMEOUT_MS), monotonic_ms)

    def __call__(self, subject: str, call: Callable[[], T]) -> T:
        """Repeat ``call``, sleeping in between, until it succeeds, and return its result. Raises
        TransportError[CLUSTER_TIMEOUT] once ``subject`` has been unresponsive for ``cluster_timeout_ms``; other errors
        at once, such as that of a missing topic."""
        return self._failures.retry_until_success(call, subject, None, time.sleep)


def query_rows(inspector: Inspector, options: ViewOptions) -> Sequence[tuple[Any, ...]]:
    """Request and return the rows of the view of ``options``, with the retries of ``inspector``. Raises what
    ``Inspector`` does."""
    if options.view == TOPICS:
        return inspector.topic_rows(options.topics)
    if options.view == QUEUES:
        return inspector.queue_rows(options.topics)
    if options.view == GROUPS:
        return inspector.group_rows(options.groups, options.topics)
    return inspector.member_rows(options.groups)


def record_batch(rows: Sequence[tuple[Any, ...]], schema: StructType, view: str) -> pa.RecordBatch:
    """Return ``rows``, the named tuples of ``view``, with the columns of a checked ``schema``."""
    import pyarrow as pa

    columns = view_columns(schema, view)
    types = arrow_schema_of(schema, columns)
    arrays = [
        pa.array([column.arrow_value(getattr(row, column.field)) for row in rows], type=field.type)
        for column, field in zip(columns, types, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=types)
