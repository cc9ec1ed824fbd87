"""The demo's Spark side: a quiet session, the windowed query, and the news that queries send while they run."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Final

from pyspark.sql import DataFrame, Row, SparkSession, functions
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

import rocketmq_spark_python
from rocketmq_spark import stop
from rocketmq_spark.cli.demo_report import OBSERVED, Cell, Trigger, Written

TRIGGER: Final = "2 seconds"
WINDOW: Final = "10 seconds"
WATERMARK: Final = "20 seconds"


@dataclass(frozen=True, slots=True)
class Counted:
    """What a trigger changed in its query's windows."""

    member: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class Ended:
    """A query has ended, and all its other news came before. ``failure`` is Spark's text, None after a stop."""

    failure: str | None


News = Trigger | Written | Counted | Ended


@contextmanager
def quiet_session(folder: Path) -> Iterator[SparkSession]:
    """A local Spark that keeps its files in ``folder`` and writes its log to ``folder/spark.log``."""
    os.environ.setdefault("PYSPARK_PYTHON", rocketmq_spark_python.command())
    builder = SparkSession.builder.master("local[2]").appName("rocketmq-spark demo")
    for name, value in _settings(folder).items():
        builder = builder.config(name, value)
    with interrupts_deferred(), standard_error_to(folder / "spark.log"):
        session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    try:
        yield session
    finally:
        session.stop()


def _settings(folder: Path) -> dict[str, str]:
    return {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": f"-Djava.io.tmpdir={folder}",
        "spark.driver.host": "127.0.0.1",
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }


@contextmanager
def interrupts_deferred() -> Iterator[None]:
    """Let Ctrl-C take effect at the end: PySpark leaves a JVM behind that was interrupted while it starts."""
    came: list[int] = []
    usual = signal.signal(signal.SIGINT, lambda number, _frame: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, usual)
    if came:
        raise KeyboardInterrupt


@contextmanager
def standard_error_to(file: Path) -> Iterator[None]:
    """Child processes that are started inside keep writing their standard error to ``file``."""
    sys.stderr.flush()
    terminal = os.dup(2)
    try:
        with file.open("ab") as log:
            os.dup2(log.fileno(), 2)
        yield
    finally:
        os.dup2(terminal, 2)
        os.close(terminal)


def read_stream(spark: SparkSession, options: Mapping[str, str]) -> DataFrame:
    """The stream. Each query that is started over it is a member of the group that ``options`` name."""
    return spark.readStream.format("rocketmq").options(**options).load()


def windowed_orders(orders: DataFrame) -> DataFrame:
    """Orders by window of their store time and by product; every row's key goes into the query's progress."""
    cents = functions.get_json_object(functions.col("body").cast("string"), "$.amount_cents").cast("long")
    return (
        orders.observe(OBSERVED, functions.collect_list("keys").alias("keys"))
        .withWatermark("storeTimestamp", WATERMARK)
        .groupBy(functions.window("storeTimestamp", WINDOW), functions.col("tags").alias("product"))
        .agg(functions.count("*").alias("orders"), functions.sum(cents).alias("amount_cents"))
    )


class DemoQuery:
    """One query of the demo. ``start`` and ``leave`` once each, in this order."""

    def __init__(self, name: str, output: DataStreamWriter, folder: Path) -> None:
        self.name = name
        self._writer = output.option("checkpointLocation", str(folder / name))
        self._query: StreamingQuery | None = None

    def start(self) -> None:
        self._query = self._writer.start()

    def has_begun(self) -> bool:
        """Its group has its place in each queue: what comes from now on it reads."""
        return self._query is not None and self._query.lastProgress is not None

    def leave(self) -> None:
        """Finish the running batch, hand over what the group shares, and stop."""
        if self._query is not None:
            stop(self._query)
            self._query = None

    def stop(self) -> None:
        """Stop at once, as a crash would. May be called again."""
        if self._query is not None:
            self._query.stop()
            self._query = None


def counting(name: str, orders: DataFrame, folder: Path, news: SimpleQueue[News]) -> DemoQuery:
    """A member of the consumer group of ``orders``, which puts what it counts into ``news``."""

    def count(changed: DataFrame, _batch_id: int) -> None:
        # One action only: each more would observe every row once more.
        news.put(Counted(name, tuple(_cell(row) for row in changed.collect())))

    output = windowed_orders(orders).writeStream.outputMode("update").trigger(processingTime=TRIGGER)
    return DemoQuery(name, output.queryName(name).foreachBatch(count), folder)


def _cell(row: Row) -> Cell:
    return Cell(row.window.start, row.product, row.orders, row.amount_cents)


class NewsReporter(StreamingQueryListener):
    """Puts Spark's events about queries into the queue, in Spark's order; ``tell`` makes them, by query's name."""

    def __init__(self, news: SimpleQueue[News], tell: Mapping[str, Callable[[Mapping[str, Any]], News]]) -> None:
        self._news = news
        self._tell = tell

    def onQueryStarted(self, event: QueryStartedEvent) -> None: ...

    def onQueryIdle(self, event: QueryIdleEvent) -> None: ...

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """Of a query that ``tell`` does not know nothing is told."""
        progress = json.loads(event.progress.json)
        if (name := progress.get("name")) in self._tell:
            self._news.put(self._tell[name](progress))

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        self._news.put(Ended(event.exception))
