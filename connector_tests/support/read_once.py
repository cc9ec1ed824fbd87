"""Queries that read what was written and drop what is repeated: that of docs/writing.md, and what else might do."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame, Row
from pyspark.sql.functions import current_timestamp
from pyspark.sql.streaming.query import StreamingQuery

from connector_tests.support.streams import TIMEOUT_S


def by_store_time(rows: DataFrame, window: str = "10 minutes") -> DataFrame:
    """Drop copies that were stored within ``window``; and rows that were stored longer before others, copies or not."""
    return rows.withWatermark("storeTimestamp", window).dropDuplicatesWithinWatermark(["msgId"])


def by_time_of_reading(rows: DataFrame, window: str = "10 minutes") -> DataFrame:
    """Drop copies that are read within ``window``; all rows of a batch have one time. As in docs/writing.md."""
    read = rows.withColumn("readTimestamp", current_timestamp()).withWatermark("readTimestamp", window)
    return read.dropDuplicatesWithinWatermark(["msgId"])


def by_all_ids(rows: DataFrame) -> DataFrame:
    """Drop all copies. The state keeps every ID for ever."""
    return rows.dropDuplicates(["msgId"])


def write_to_end(rows: DataFrame, folder: Path) -> StreamingQuery:
    """Write what is there now to files below ``folder``, which may be those of a run before; return the ended query."""
    writer = rows.writeStream.format("parquet").option("path", str(folder / "rows"))
    query = writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True).start()
    assert query.awaitTermination(int(TIMEOUT_S))
    assert query.exception() is None
    return query


def written(rows: DataFrame, folder: Path) -> list[Row]:
    """What queries have written there; ``rows`` is of their session."""
    return rows.sparkSession.read.parquet(str(folder / "rows")).collect()
