"""The demo's Spark side: a quiet session, the windowed query, and the news that queries send while they run."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Final

from pyspark.sql import DataFrame, Row, SparkSession, functions
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)
from pyspark.sql.streaming.query import StreamingQuery

from rocketmq_spark import stop
from rocketmq_spark.cli.demo_report import OBSERVED, Cell, Trigger

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


News = Trigger | Counted | Ended


@contextmanager
def quiet_session(folder: Path) -> Iterator[SparkSession]:
    """A local Spark that keeps its files in ``folder`` and writes its log to ``folder/spark.log``."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
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


def read_orders(spark: SparkSession, options: Mapping[str, str]) -> DataFrame:
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


class Member:
    """One query, and so one member of the consumer group. ``start`` and ``leave`` once each, in this order."""

    def __init__(self, name: str, orders: DataFrame, folder: Path, news: SimpleQueue[News]) -> None:
        self.name = name
        self._writer = (
            windowed_orders(orders)
            .writeStream.queryName(name)
            .outputMode("update")
            .option("checkpointLocation", str(folder / name))
            .trigger(processingTime=TRIGGER)
            .foreachBatch(self._count)
        )
        self._news = news
        self._query: StreamingQuery | None = None

    @property
    def is_running(self) -> bool:
        return self._query is not None

    def start(self) -> None:
        self._query = self._writer.start()

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

    def _count(self, changed: DataFrame, _batch_id: int) -> None:
        # One action only: each more would observe every row once more.
        self._news.put(Counted(self.name, tuple(_cell(row) for row in changed.collect())))


def _cell(row: Row) -> Cell:
    return Cell(row.window.start, row.product, row.orders, row.amount_cents)


class NewsReporter(StreamingQueryListener):
    """Puts Spark's events about queries into the queue, in Spark's order."""

    def __init__(self, news: SimpleQueue[News]) -> None:
        self._news = news

    def onQueryStarted(self, event: QueryStartedEvent) -> None: ...

    def onQueryIdle(self, event: QueryIdleEvent) -> None: ...

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        self._news.put(Trigger.from_progress(json.loads(event.progress.json)))

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        self._news.put(Ended(event.exception))
