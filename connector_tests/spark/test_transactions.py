"""Messages that RocketMQ's own producer sends in transactions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from connector_tests.spark.conftest import StreamOf
from connector_tests.support.java_program import java_program
from connector_tests.support.streams import Topic, eventually
from rocketmq_spark.embedded import EmbeddedCluster
from rocketmq_spark.embedded.jars import rocketmq_class_path

SOURCES = Path(__file__).parents[1] / "support" / "java_transactions"
COMMIT, ROLLBACK, UNKNOWN = "COMMIT_MESSAGE", "ROLLBACK_MESSAGE", "UNKNOW"

SendInTransactions = Callable[[list[str], str], None]


@pytest.fixture
def send(cluster: EmbeddedCluster, topic: str) -> Iterator[SendInTransactions]:
    """Sends bodies to the test's topic, each in a transaction that ends as is said."""
    with java_program("transactions", SOURCES.glob("*.java"), rocketmq_class_path(), ["-Xmx128m"]) as jvm:
        send = partial(jvm.connect().TransactionSender.send, cluster.namesrv_addr, topic)
        yield lambda bodies, outcome: send("\n".join(bodies), outcome)


def test_only_what_was_committed_is_read(
    spark: SparkSession,
    cluster: EmbeddedCluster,
    send: SendInTransactions,
    messages: Topic,
    stream: StreamOf,
    group: str,
) -> None:
    """By a stream and by a batch read."""
    committed = [f"committed-{number}" for number in range(5)]
    send(["rolled-back-1", "rolled-back-2"], ROLLBACK)
    send(committed[:3], COMMIT)
    send(["undecided-1", "undecided-2"], UNKNOWN)
    send(committed[3:], COMMIT)
    eventually(lambda: messages.lag(group) == len(committed), "the committed messages in their queues")
    stream().run_to_end()
    assert stream().bodies() == committed
    assert messages.lag(group) == 0
    reader = spark.read.format("rocketmq").option("namesrvAddr", cluster.namesrv_addr)
    rows = reader.option("subscribe", messages.name).load().selectExpr("CAST(body AS STRING) AS text")
    assert sorted(row.text for row in rows.collect()) == committed
