"""``rocketmq-spark demo``: a real broker, a stream of orders, and queries that count and bill them, join and leave."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

import rocketmq_spark_python
from rocketmq_spark import stop
from rocketmq_spark.cli import demo_report as report
from rocketmq_spark.cli.arguments import cluster_at, integer_argument
from rocketmq_spark.embedded import EmbeddedCluster
from rocketmq_spark.errors import RocketMQError
from rocketmq_spark.model import BrokerAddress
from rocketmq_spark.remoting.producer import Producer

TOPIC, INVOICES, GROUP = "orders", "invoices", "demo"
FIRST, SECOND, BILLING, AUDIT = "first", "second", "billing", "audit"
BY_QUEUE, BY_MESSAGE = "queue", "message"
QUEUES: Final = {BY_QUEUE: 4, BY_MESSAGE: 1}
"""Queues of the topic: with message-based load balancing a group may have more members than queues."""
TRIGGER: Final = "2 seconds"
INVOICE: Final = "to_json(named_struct('invoice', keys, 'due_cents', get_json_object(string(body), '$.amount_cents')))"
BATCH_LIMIT: Final = 100
TICK_S: Final = 0.2
WAIT_LIMIT_S: Final = 300.0
"""Maximum wait for Spark's first batches, and for the group to divide its work and to catch up."""


class DemoError(Exception):
    """The demo cannot continue; the text is the reason."""


def main(argv: Sequence[str]) -> int:
    """Run the demo, and print its counts. Return 0 if ``report.is_clean`` accepts them (no order is lost, the group has
    committed all, each order has an invoice), else 1. After a DemoError, print it to standard error and return 1.
    Raises EmbeddedBrokerError. Wrong arguments raise SystemExit."""
    arguments = new_parser().parse_args(argv)
    try:
        with ExitStack() as resources:
            counts = Demo(resources, arguments).run()
    except DemoError as failure:
        print(f"demo: {failure}", file=sys.stderr)
        return 1
    print("demo:", *(f"{name}={count}" for name, count in counts.items()), flush=True)
    return 0 if report.is_clean(counts) else 1


def new_parser() -> argparse.ArgumentParser:
    """Return the parser of this subcommand's options."""
    parser = argparse.ArgumentParser(
        prog="rocketmq-spark demo",
        description="Stream orders through a real Apache RocketMQ into Spark, and check that each one arrives. "
        "Two queries count them; one more writes an invoice for each to another topic.",
    )
    seconds = "duration of the orders in seconds (default: %(default)s)"
    parser.add_argument("--seconds", type=integer_argument(1), default=30, metavar="N", help=seconds)
    rate = "orders per second (default: %(default)s)"
    parser.add_argument("--rate", type=integer_argument(1), default=100, metavar="N", help=rate)
    share = "load balancing of the two queries: by queue, or by message of a single queue (default: %(default)s)"
    parser.add_argument("--load-balance", choices=QUEUES, default=BY_QUEUE, help=share)
    proxy = "read orders through a RocketMQ 5 proxy, over gRPC; invoices go to the broker"
    parser.add_argument("--proxy", action="store_true", help=proxy)
    return parser


class Demo:
    """Orders, two members of a group that count them, a query that writes invoices, and one that reads the invoices.

    All started processes, and the folder with their files, end with ``resources``.
    """

    def __init__(self, resources: ExitStack, arguments: argparse.Namespace) -> None:
        """Start the cluster, create both topics and start Spark; no query. Before, raises DemoError for ``--proxy``
        without ``--load-balance message``. Raises EmbeddedBrokerError."""
        if arguments.proxy and arguments.load_balance != BY_MESSAGE:
            raise DemoError(f"--proxy requires --load-balance {BY_MESSAGE}")
        self._arguments = arguments
        self._queries: dict[str, StreamingQuery] = {}
        self._last_shown: dict[str, str] = {}
        self._progress_in_phase: dict[str, report.Progress] = {}
        self._started_s = time.monotonic()
        folder = Path(resources.enter_context(TemporaryDirectory(prefix="rocketmq-demo-", ignore_cleanup_errors=True)))
        self._print("starting Apache RocketMQ")
        self._cluster = resources.enter_context(EmbeddedCluster(proxy=arguments.proxy))
        self._cluster.create_topic(TOPIC, QUEUES[arguments.load_balance])
        self._cluster.create_topic(INVOICES)
        self._print("starting Spark")
        self._spark = resources.enter_context(quiet_session(folder))
        self._name_servers = {"namesrvAddr": self._cluster.namesrv_addr, "startingOffsets": "earliest"}
        servers = resources.enter_context(cluster_at(self._cluster.namesrv_addr, {}))
        self._broker = servers.broker(BrokerAddress(self._cluster.broker_addr()))
        self._producer = Producer(servers, group="shop")
        self._sent_count = 0

    def run(self) -> dict[str, int]:
        """Start the queries, send orders for ``--seconds``, stop the queries, and return the counts of
        ``report.audit``. Waits up to 300 s in each of its steps.

        Raises EmbeddedBrokerError if the broker has ended, whatever failed first. Otherwise raises DemoError if a query
        fails or does not start, or a request fails. Queries that still run then end with ``resources``.
        """
        try:
            self._start_queries()
            self._run_phases()
            return self._audit()
        except (DemoError, RocketMQError, StreamingQueryException) as failure:
            self._cluster.check()
            raise DemoError(report.cause_of(str(failure))) from failure

    # ---- phases

    def _start_queries(self) -> None:
        """Start the queries FIRST, which counts orders, and BILLING, which writes invoices, and wait up to 300 s until
        each has reported its first progress. Raises DemoError after that time, and what ``_poll`` does."""
        self._print("starting a query that counts orders, and one that writes invoices")
        self._queries[FIRST] = collecting(self._orders(GROUP), FIRST).start()
        target = {"namesrvAddr": self._cluster.namesrv_addr, "topic": INVOICES}
        self._queries[BILLING] = billing(self._orders(BILLING), target).start()
        if not self._wait_until(lambda: self._last_shown.keys() == self._queries.keys()):
            raise DemoError(f"the queries did not start reading within {WAIT_LIMIT_S:.0f} s")

    def _run_phases(self) -> None:
        """Send orders for ``--seconds``. SECOND joins after half of the time, and is stopped after three quarters. Then
        start AUDIT, which reads the invoices, and wait until the counts are clean, 300 s at most. Stop all queries, and
        print the number of orders by tag. Raises what ``_poll`` and ``Producer.send_batch`` do."""
        start_s, seconds = time.monotonic(), self._arguments.seconds
        self._send_orders("orders come in", start_s, start_s + seconds / 2, FIRST)
        self._queries[SECOND] = collecting(self._orders(GROUP), SECOND).start()
        self._send_orders("a second query has joined the group", start_s, start_s + seconds * 3 / 4, FIRST, SECOND)
        self._stop_query(SECOND)
        self._send_orders("the second query has left", start_s, start_s + seconds, FIRST)
        self._print("no more orders; waiting until the group has committed all, and reading the invoices")
        invoices = self._stream(self._name_servers, consumerGroup=AUDIT, subscribe=INVOICES)
        self._queries[AUDIT] = collecting(invoices, AUDIT).start()
        self._wait_until(lambda: report.is_clean(self._audit()))
        for name in (FIRST, BILLING, AUDIT):
            self._stop_query(name)
        self._spark.table(FIRST).union(self._spark.table(SECOND)).groupBy("tags").count().orderBy("tags").show()

    def _send_orders(self, title: str, start_s: float, end_s: float, *members: str) -> None:
        """Print ``title``, send orders and show progress until ``end_s``. Continue until ``members`` have divided the
        work, 300 s at most, and return in any case. ``start_s``: time from which the rate counts; both times as
        ``time.monotonic``. Raises what ``_poll`` and ``Producer.send_batch`` do."""
        self._print(title)
        self._progress_in_phase.clear()
        while (now_s := time.monotonic()) < end_s or (now_s < end_s + WAIT_LIMIT_S and not self._is_divided(members)):
            self._send_due(now_s - start_s)
            self._poll()
        self._send_due(end_s - start_s)

    def _send_due(self, elapsed_s: float) -> None:
        """Send the orders that are due ``elapsed_s`` after the start by ``--rate``, and were not sent, in batches of up
        to 100. Wait for each batch. Raises what ``Producer.send_batch`` does."""
        due = int(elapsed_s * self._arguments.rate)
        while self._sent_count < due:
            end = min(due, self._sent_count + BATCH_LIMIT)
            self._producer.send_batch([report.order_message(TOPIC, number) for number in range(self._sent_count, end)])
            self._sent_count = end

    def _is_divided(self, members: tuple[str, ...]) -> bool:
        """Return whether each of ``members`` has read orders since ``_send_orders`` began and, with queue-based load
        balancing, each queue is assigned to exactly one of them."""
        read = [self._progress_in_phase[name] for name in members if name in self._progress_in_phase]
        queue_count = QUEUES[BY_QUEUE] if self._arguments.load_balance == BY_QUEUE else 0
        return len(read) == len(members) and report.is_divided(read, queue_count)

    def _audit(self) -> dict[str, int]:
        """Request the offsets of the topic and of the group from the broker, and collect the rows of the tables FIRST,
        SECOND and AUDIT. Return the counts of ``report.audit``. Stop nothing. Raises the errors of ``Broker``."""
        held = self._broker.query_topic_stats(TOPIC)
        lag = report.group_lag(held, self._broker.query_offsets(GROUP, held))
        read = [row["keys"] for member in (FIRST, SECOND) for row in self._spark.table(member).collect()]
        invoices = [(row["msgId"], row["keys"]) for row in self._spark.table(AUDIT).collect()]
        return report.audit(set(map(report.order_key, range(self._sent_count))), read, lag, invoices)

    # ---- queries

    def _orders(self, group: str) -> DataFrame:
        """Return a streaming DataFrame of the orders, read by ``group``: over the proxy with ``--proxy``."""
        server = {"endpoints": self._cluster.endpoints} if self._arguments.proxy else self._name_servers
        return self._stream(server, consumerGroup=group, subscribe=TOPIC, loadBalance=self._arguments.load_balance)

    def _stream(self, server: Mapping[str, str], **options: str) -> DataFrame:
        """Return a streaming DataFrame of the source with these options; ``server``: those with its addresses."""
        return self._spark.readStream.format("rocketmq").options(**server, **options).load()

    def _stop_query(self, name: str) -> None:
        """Stop the query after its running batch, wait until it has left its group, print its last progress, and remove
        it from the running queries. Raises what ``progress_since`` does."""
        stop(self._queries[name])
        self._show_progress()
        del self._queries[name]

    # ---- output

    def _wait_until(self, is_met: Callable[[], bool]) -> bool:
        """Call ``is_met`` every 0.2 s and print the queries' progress, until it returns True; return False after 300 s.
        Raises what ``_poll`` does."""
        end_s = time.monotonic() + WAIT_LIMIT_S
        while not (was_met := is_met()) and time.monotonic() < end_s:
            self._poll()
        return was_met

    def _poll(self) -> None:
        """Raise EmbeddedBrokerError[EMBEDDED_JVM_FAILED] if the broker has ended. Else print new progress as
        ``_show_progress`` does, which raises the error of a failed query, and sleep for 0.2 s."""
        self._cluster.check()
        self._show_progress()
        time.sleep(TICK_S)

    def _show_progress(self) -> None:
        """Print a line for each new progress with rows of each running query. Keep the latest progress of a query for
        ``_is_divided``. Raises what ``progress_since`` does."""
        for name, query in self._queries.items():
            for progress in progress_since(query, self._last_shown.get(name, "")):
                self._last_shown[name] = progress["timestamp"]
                if progress["numInputRows"]:
                    self._progress_in_phase[name] = progress
                    self._print(report.line_of(progress))

    def _print(self, line: str) -> None:
        """Print ``line`` to standard output, after the seconds since the constructor began."""
        print(f"{time.monotonic() - self._started_s:5.1f} s  {line}", flush=True)


@contextmanager
def quiet_session(folder: Path) -> Iterator[SparkSession]:
    """Start a local Spark session that keeps its files in ``folder`` and writes its log to ``folder/spark.log``, and
    yield it. After the block stop all its queries and the session. Sets PYSPARK_PYTHON in the environment, for good,
    unless it is set."""
    os.environ.setdefault("PYSPARK_PYTHON", rocketmq_spark_python.command())
    settings: dict[str, bool | float | int | str | None] = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": f"-Djava.io.tmpdir={folder}",
        "spark.driver.host": "127.0.0.1",
        "spark.local.dir": str(folder / "local"),
        "spark.sql.streaming.checkpointLocation": str(folder / "checkpoints"),
        "spark.sql.streaming.numRecentProgressUpdates": 10,
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.ui.enabled": False,
        "spark.ui.showConsoleProgress": False,
    }
    builder = SparkSession.builder.master("local[2]").appName("rocketmq-spark demo").config(map=settings)
    with quiet_start(folder / "spark.log"):
        session = builder.getOrCreate()
    try:
        session.sparkContext.setLogLevel("ERROR")
        yield session
    finally:
        for query in session.streams.active:
            query.stop()
        session.stop()


@contextmanager
def quiet_start(log: Path) -> Iterator[None]:
    """Append to ``log`` the standard error of child processes that start in the block, also after the block. The
    standard error of this process is redirected in the block only.

    Ctrl-C in the block raises KeyboardInterrupt at its end: PySpark does not end a JVM whose start was interrupted.
    """
    interrupts: list[int] = []
    previous_handler = signal.signal(signal.SIGINT, lambda number, _frame: interrupts.append(number))
    sys.stderr.flush()
    terminal = os.dup(2)
    try:
        with log.open("ab") as file:
            os.dup2(file.fileno(), 2)
        yield
    finally:
        os.dup2(terminal, 2)
        os.close(terminal)
        signal.signal(signal.SIGINT, previous_handler)
    if interrupts:
        raise KeyboardInterrupt


def collecting(messages: DataFrame, name: str) -> DataStreamWriter:
    """Return the writer of a query, not started, which collects IDs, keys and tags every 2 s into an in-memory table
    ``name``. This is the query's name too."""
    output = messages.select("msgId", "keys", "tags").writeStream.queryName(name)
    return output.format("memory").trigger(processingTime=TRIGGER)


def billing(orders: DataFrame, options: Mapping[str, str]) -> DataStreamWriter:
    """Return the writer of the query BILLING, not started, that writes an invoice for each order to RocketMQ every 2 s.
    ``options``: of the sink. Invoices of a redelivered order have the same ID."""
    output = orders.selectExpr(f"{INVOICE} AS body", "tags", "keys").writeStream.queryName(BILLING)
    return output.format("rocketmq").options(**options, messageIdColumns="keys").trigger(processingTime=TRIGGER)


def progress_since(query: StreamingQuery, shown: str) -> list[report.Progress]:
    """If the query has failed, raise its error, and return no events. Else return those of the query's last 10 progress
    events whose timestamp is after ``shown``, in their order."""
    if (failure := query.exception()) is not None:
        raise failure
    return [json.loads(progress.json) for progress in query.recentProgress if progress.timestamp > shown]
