"""``rocketmq-spark demo``: a real broker, a stream of orders, who counts and bills them, who comes and goes."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any, Final

from pyspark.sql import SparkSession

from rocketmq_spark.cli.demo_invoices import AUDIT, BILLING, audited, auditing, billing
from rocketmq_spark.cli.demo_orders import Shop
from rocketmq_spark.cli.demo_queries import DemoQuery, News, NewsReporter, counting, quiet_session, read_stream
from rocketmq_spark.cli.demo_report import Invoice, Ownership, Sharing, Summary, Trigger, Written
from rocketmq_spark.cli.demo_screen import DemoError, Screen, step
from rocketmq_spark.cli.group_lag import group_lag
from rocketmq_spark.embedded import EmbeddedCluster
from rocketmq_spark.errors import RocketMQError
from rocketmq_spark.remoting.namesrv import NameServers
from rocketmq_spark.remoting.pool import ConnectionPool
from rocketmq_spark.remoting.producer import Producer

TOPIC: Final = "orders"
INVOICES: Final = "invoices"
GROUP: Final = "demo"
FIRST: Final = "first"
SECOND: Final = "second"
TOLD: Final[Mapping[str, Callable[[Mapping[str, Any]], News]]] = MappingProxyType(
    {FIRST: Trigger.from_progress, SECOND: Trigger.from_progress, BILLING: Written.from_progress}
)
"""What is made of the progress of which query."""
BY_QUEUE: Final = "queue"
BY_MESSAGE: Final = "message"
QUEUES: Final = {BY_QUEUE: 4, BY_MESSAGE: 1}
"""Of the topic: a group that shares messages may have more members than there are queues."""
TIMEOUT_MS: Final = 5_000
TICK_S: Final = 0.1
LAG_POLL_S: Final = 0.5
PATIENCE_S: Final = 300.0
"""How long the demo waits for Spark's first batch, for the end of a query, and for the group to catch up."""


@dataclass(frozen=True, slots=True)
class Play:
    """What is asked for. ``load_balance`` and ``through_a_proxy`` say how the members read."""

    seconds: int
    rate_per_s: int
    load_balance: str
    through_a_proxy: bool

    def options(self, cluster: EmbeddedCluster, group: str) -> dict[str, str]:
        """Of a member of ``group`` that reads orders."""
        through_a_proxy = {"endpoints": cluster.endpoints} if self.through_a_proxy else None
        server = through_a_proxy or {"namesrvAddr": cluster.namesrv_addr, "startingOffsets": "earliest"}
        return {**server, "consumerGroup": group, "subscribe": TOPIC, "loadBalance": self.load_balance}


def main(argv: Sequence[str]) -> int:
    """Run it; 0 only if no order was lost, the group has committed all of them, and each has an invoice."""
    arguments = new_parser().parse_args(argv)
    try:
        with ExitStack() as resources:
            summary = set_up(resources, play_of(arguments)).run()
    except DemoError as failure:
        print(f"demo: {failure}", file=sys.stderr)
        return 1
    print(summary.line(), flush=True)
    return 0 if summary.is_clean else 1


def new_parser() -> argparse.ArgumentParser:
    """Of this subcommand's options."""
    parser = argparse.ArgumentParser(
        prog="rocketmq-spark demo",
        description="Stream orders through a real Apache RocketMQ into Spark, and see that every one arrives. "
        "Two queries count them; one more writes an invoice for each to another topic.",
    )
    parser.add_argument(
        "--seconds", type=positive, default=60, metavar="N", help="how long orders come in (default: %(default)s)"
    )
    parser.add_argument(
        "--rate", type=positive, default=100, metavar="N", help="orders a second (default: %(default)s)"
    )
    parser.add_argument(
        "--load-balance",
        choices=QUEUES,
        default=BY_QUEUE,
        help="what the two queries share: a topic's queues, or the messages of a single one (default: %(default)s)",
    )
    parser.add_argument(
        "--proxy",
        action="store_true",
        help="read orders through a RocketMQ 5 proxy, over gRPC; invoices go to the broker",
    )
    return parser


def play_of(arguments: argparse.Namespace) -> Play:
    """Raises DemoError for what cannot be played."""
    if arguments.proxy and arguments.load_balance != BY_MESSAGE:
        raise DemoError(f"--proxy wants --load-balance {BY_MESSAGE}")
    return Play(arguments.seconds, arguments.rate, arguments.load_balance, arguments.proxy)


def positive(text: str) -> int:
    """A whole number above 0."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


def set_up(resources: ExitStack, play: Play) -> Demo:
    """Start the broker and Spark; all files are in temporary folders that go with ``resources``."""
    folder = Path(resources.enter_context(TemporaryDirectory(prefix="rocketmq-demo-", ignore_cleanup_errors=True)))
    with step("starting Apache RocketMQ"):
        cluster = resources.enter_context(EmbeddedCluster(proxy=play.through_a_proxy))
        cluster.create_topic(TOPIC, QUEUES[play.load_balance])
        cluster.create_topic(INVOICES)
    with step("starting Spark"):
        spark = resources.enter_context(quiet_session(folder))
    pool = ConnectionPool(connect_timeout_ms=TIMEOUT_MS)
    resources.callback(pool.close)
    demo = Demo(spark, cluster, pool, folder, play)
    resources.callback(demo.close)
    return demo


@dataclass(frozen=True, slots=True)
class Queries:
    """Two members of one group that count orders, one query that writes invoices, and one that reads them back."""

    first: DemoQuery
    second: DemoQuery
    billing: DemoQuery
    audit: DemoQuery

    @staticmethod
    def of(play: Play, spark: SparkSession, cluster: EmbeddedCluster, folder: Path, news: SimpleQueue[News]) -> Queries:
        """None of them is started."""
        orders, to_bill = (read_stream(spark, play.options(cluster, group)) for group in (GROUP, BILLING))
        server = {"namesrvAddr": cluster.namesrv_addr}
        written = {**server, "consumerGroup": AUDIT, "subscribe": INVOICES, "startingOffsets": "earliest"}
        return Queries(
            counting(FIRST, orders, folder, news),
            counting(SECOND, orders, folder, news),
            billing(to_bill, {**server, "topic": INVOICES}, folder),
            auditing(read_stream(spark, written), folder),
        )


class Demo:
    """The play: a shop, and queries that read its orders.

    Threads: one plays; listeners of Spark and the shop's thread put what they have to say into ``_news``.
    """

    def __init__(
        self, spark: SparkSession, cluster: EmbeddedCluster, pool: ConnectionPool, folder: Path, play: Play
    ) -> None:
        self._spark = spark
        self._cluster = cluster
        self._seconds = play.seconds
        self._pool = pool
        self._name_servers = NameServers((cluster.namesrv_addr,), pool, TIMEOUT_MS)
        producer = Producer(self._name_servers, pool, group="shop", timeout_ms=TIMEOUT_MS)
        self._shop = Shop(producer, TOPIC, play.rate_per_s)
        queues = QUEUES[play.load_balance]
        self._screen = Screen(Sharing() if play.load_balance == BY_MESSAGE else Ownership(queues))
        self._news: SimpleQueue[News] = SimpleQueue()
        spark.streams.addListener(NewsReporter(self._news, TOLD))
        self._queries = Queries.of(play, spark, cluster, folder, self._news)

    def run(self) -> Summary:
        """Raises DemoError when a query fails, does not start or does not end, EmbeddedBrokerError when the broker has
        ended, which explains whatever else has failed then."""
        try:
            return self._perform()
        except (DemoError, RocketMQError):
            self._cluster.check()
            raise

    def _perform(self) -> Summary:
        self._begin()
        self._screen.say("orders come in")
        self._play(self._seconds / 2)
        self._screen.say("a second query joins the group")
        self._queries.second.start()
        self._play(self._seconds * 3 / 4, until=self._screen.shares.is_shared)
        self._screen.say("the second query leaves")
        self._leave(self._queries.second)
        self._play(self._seconds, until=self._screen.shares.is_settled)
        self._shop.send_due(self._seconds)
        return self._count_up()

    def close(self) -> None:
        """Stop what still runs. May be called again."""
        for query in (self._queries.second, self._queries.first, self._queries.billing, self._queries.audit):
            query.stop()

    # ---- the acts

    def _begin(self) -> None:
        with step("starting a query that counts orders, and one that writes invoices"):
            self._queries.first.start()
            self._queries.billing.start()
            self._expect(lambda: bool(self._screen.triggers), "the first query did not start reading")
            self._expect(self._queries.billing.has_begun, "the query that writes invoices did not start reading")
        self._screen.start_clock()

    def _play(self, end_s: float, until: Callable[[], bool] = lambda: True) -> None:
        """Orders come in up to ``end_s``; on a slow machine longer, until what the scene is to show was seen."""
        while (elapsed_s := self._screen.elapsed_s) < end_s or (not until() and elapsed_s < end_s + PATIENCE_S):
            self._shop.send_due(elapsed_s)
            self._listen()
            time.sleep(TICK_S)

    def _count_up(self) -> Summary:
        self._screen.say("no more orders; the group catches up")
        self._wait_until(self._has_caught_up, LAG_POLL_S)
        lag = self._group_lag()
        self._leave(self._queries.first)
        self._end(self._queries.billing, self._queries.billing.leave)
        self._screen.show_table()
        self._screen.say("the invoices are read back")
        self._end(self._queries.audit, self._queries.audit.start)
        return self._summary(lag, audited(self._spark))

    def _leave(self, member: DemoQuery) -> None:
        """Let it leave the group, and hear all that it has to say."""
        self._end(member, member.leave)
        self._screen.show_left(member.name)

    def _end(self, query: DemoQuery, cause: Callable[[], None]) -> None:
        """Do what makes it end, and hear that it has ended."""
        ended = self._screen.ended + 1
        cause()
        self._expect(lambda: self._screen.ended >= ended, f"Spark did not end the {query.name} query")

    def _has_caught_up(self) -> bool:
        """Where messages are shared the lag says only that all are handed out, and a stop gives some of them back."""
        told = [Invoice(key, key) for key in self._screen.billed]
        return self._summary(self._group_lag(), told).is_clean

    def _summary(self, lag: int, invoices: Collection[Invoice]) -> Summary:
        return Summary.of(self._shop.keys, self._screen.triggers, lag, invoices)

    def _group_lag(self) -> int:
        return group_lag(self._name_servers, self._pool, GROUP, TOPIC, TIMEOUT_MS)

    # ---- waiting

    def _expect(self, is_so: Callable[[], bool], otherwise: str) -> None:
        if not self._wait_until(is_so, TICK_S):
            raise DemoError(f"{otherwise} within {PATIENCE_S:.0f} s")

    def _wait_until(self, is_so: Callable[[], bool], poll_s: float) -> bool:
        """Show the news until ``is_so``; False when it does not come to be."""
        deadline_s = time.monotonic() + PATIENCE_S
        while not is_so():
            if time.monotonic() > deadline_s:
                return False
            time.sleep(poll_s)
            self._listen()
        return True

    def _listen(self) -> None:
        """Show all news, while the broker lives."""
        self._cluster.check()
        try:
            while True:
                self._screen.show(self._news.get_nowait())
        except Empty:
            return
