"""The calls that Spark makes to a source, without Spark: for tests to which a whole query adds nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import StructType

from rocketmq_spark.options import ReadOptions
from rocketmq_spark.source.schema import default_schema
from rocketmq_spark.source.stream.stream_reader import RocketMQStreamReader


class SourceCalls:
    """One query's source: each ``next_batch`` completes the batch before. ``start``: the ``end`` of an earlier one."""

    def __init__(
        self, options: Mapping[str, str], schema: StructType | None = None, start: dict[str, Any] | None = None
    ) -> None:
        self._reader = RocketMQStreamReader(ReadOptions.parse(options), schema or default_schema())
        self._end = self._reader.initialOffset() if start is None else start

    @property
    def end(self) -> dict[str, Any]:
        return self._end

    def next_batch(self) -> list[dict[str, Any]]:
        """The rows of the next batch; none where nothing is new."""
        start, self._end = self._end, self._reader.latestOffset(self._end, ReadAllAvailable())
        if self._end == start:
            return []
        parts = self._reader.partitions(start, self._end)
        return [row for part in parts for batch in self._reader.read(part) for row in batch.to_pylist()]

    def stop(self) -> None:
        self._reader.stop()


@contextmanager
def source_calls(
    options: Mapping[str, str], schema: StructType | None = None, start: dict[str, Any] | None = None
) -> Iterator[SourceCalls]:
    """A source that is stopped at the end of the block."""
    calls = SourceCalls(options, schema, start)
    try:
        yield calls
    finally:
        calls.stop()
