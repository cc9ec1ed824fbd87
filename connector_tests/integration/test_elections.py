"""A broker of two replicas, whose master is killed while a query reads or writes: the other one is elected, and nothing
that was confirmed is lost, nor read twice."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import closing
from typing import Any, Final

import pyarrow as pa
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from connector_tests.support.cluster_pool import RestingCluster
from connector_tests.support.replica_reads import options_of, places, read_for, read_rest
from connector_tests.support.source_calls import SourceCalls, source_calls
from connector_tests.support.streams import Topic, eventually, steady_messages
from connector_tests.support.written_rows import arrow, write
from rocketmq_spark.embedded import EmbeddedCluster
from rocketmq_spark.embedded.admin import broker_at
from rocketmq_spark.embedded.pytest_plugin import unique_name
from rocketmq_spark.embedded.servers import BrokerServer
from rocketmq_spark.errors import EmbeddedBrokerError
from rocketmq_spark.remoting.pool import ConnectionPool
from rocketmq_spark.sink.write_task import WriteTask
from rocketmq_spark.source.datasource import RocketMQDataSource
from rocketmq_spark.source.pop.pop_reader import RocketMQPopReader
from rocketmq_spark.source.schema import default_schema

pytestmark = [pytest.mark.broker, pytest.mark.full]

QUEUES: Final = 2
UNDER_LOAD_S: Final = 3.0
ROWS: Final = 60
TIMEOUT_MS: Final = 3_000
INVISIBLE_MS: Final = "5000"


@pytest.fixture(scope="module")
def replicated() -> Iterator[EmbeddedCluster]:
    with RestingCluster(replicas=2) as cluster:
        yield cluster


@pytest.fixture
def replicated_topic(replicated: EmbeddedCluster) -> Iterator[Topic]:
    topic = Topic(replicated, replicated.create_topic(unique_name("elections"), QUEUES))
    yield topic
    topic.close()


def kill_master(cluster: EmbeddedCluster) -> str:
    """Kill it, wait until the other replica is elected, and return the name of the dead server."""
    dead = cluster.master()
    cluster.kill_broker(dead)
    eventually(lambda: has_other_master(cluster, dead), "the election of the other replica")
    return dead


def has_other_master(cluster: EmbeddedCluster, dead: str) -> bool:
    try:
        return cluster.master() != dead
    except EmbeddedBrokerError:
        return False


def is_idle(calls: SourceCalls, rows: list[dict[str, Any]], messages: Topic, group: str) -> bool:
    """Whether the next batch has no rows, and all before it are committed at the master."""
    batch = calls.next_batch()
    rows += batch
    return not batch and messages.lag(group) == 0


def place_of(row: dict[str, Any]) -> tuple[int, int]:
    return row["queueId"], row["queueOffset"]


@pytest.mark.parametrize("kill", [False, True], ids=["stopped", "killed"])
def test_a_master_is_elected_after_the_name_server_was_started_again(replicated: EmbeddedCluster, kill: bool) -> None:
    """The controller is in the name server's JVM: it runs on when only the name server stops."""
    replicated.kill_name_server() if kill else replicated.stop_name_server()
    replicated.start_name_server()
    dead = kill_master(replicated)
    replicated.start_broker(dead)
    assert replicated.master() != dead


def test_topic_that_an_elected_master_lacks_is_created_there(replicated: EmbeddedCluster) -> None:
    """As of a master that was paused until another one was elected: it returns success for what it then drops."""
    topic, created = unique_name("elected"), list[str]()

    def create(server: BrokerServer) -> None:
        created.append(server.name)
        with broker_at(server.address, replicated.security) as broker:
            broker.create_topic(topic, QUEUES)

    servers = list(replicated._brokers.values())
    replicated._registration.copy_topic(topic, QUEUES, servers, create)
    assert created == [replicated.master()]
    assert [server.read_queue_count(topic) for server in servers] == [QUEUES, QUEUES]


def test_masters_killed_one_after_the_other_under_load_lose_no_confirmed_message(
    replicated: EmbeddedCluster, replicated_topic: Topic, group: str
) -> None:
    rows: list[dict[str, Any]] = []
    with source_calls(options_of(replicated, replicated_topic, group)) as calls:
        with steady_messages(replicated_topic, any_broker=True) as confirmed:
            for _ in range(2):
                read_for(calls, rows, UNDER_LOAD_S)
                dead = kill_master(replicated)
                read_for(calls, rows, UNDER_LOAD_S)
                replicated.start_broker(dead)
        read_rest(calls, rows, confirmed)
        eventually(lambda: is_idle(calls, rows, replicated_topic, group), "the offsets at the master")
    assert len(places(rows)) == len(set(places(rows)))


def test_offsets_that_an_idle_query_has_committed_are_committed_again(
    replicated: EmbeddedCluster, replicated_topic: Topic, group: str
) -> None:
    """A replica copies the group's offsets every 10 s, so the elected master may have older ones: here it has."""
    sent = replicated_topic.send(20)
    rows: list[dict[str, Any]] = []
    with source_calls(options_of(replicated, replicated_topic, group)) as calls:
        read_rest(calls, rows, sent)
        eventually(lambda: is_idle(calls, rows, replicated_topic, group), "the offsets at the master")
        dead = kill_master(replicated)
        replicated_topic.commit(group, dict.fromkeys(replicated_topic.queues, 0))
        assert replicated_topic.lag(group) > 0
        eventually(lambda: is_idle(calls, rows, replicated_topic, group), "the offsets at the new master")
        replicated.start_broker(dead)
    assert len(rows) == len(sent)


def test_master_that_was_paused_until_another_one_was_elected_delivers_nothing_twice(
    replicated: EmbeddedCluster, replicated_topic: Topic, group: str
) -> None:
    rows: list[dict[str, Any]] = []
    with source_calls(options_of(replicated, replicated_topic, group)) as calls:
        with steady_messages(replicated_topic, any_broker=True) as confirmed:
            read_for(calls, rows, UNDER_LOAD_S)
            paused = replicated.master()
            replicated.pause_broker(paused)
            try:
                eventually(lambda: has_other_master(replicated, paused), "the election of the other replica")
                read_for(calls, rows, UNDER_LOAD_S)
            finally:
                replicated.resume_broker(paused)
            read_for(calls, rows, UNDER_LOAD_S)
        read_rest(calls, rows, confirmed)
    assert len(places(rows)) == len(set(places(rows)))


def test_rows_are_written_in_their_order_while_the_master_is_killed(
    replicated: EmbeddedCluster, replicated_topic: Topic, group: str
) -> None:
    """Only what a dead master has not answered is sent again, so only that may be stored twice."""
    dead: list[str] = []

    def batches() -> Iterator[pa.RecordBatch]:
        for number in range(ROWS):
            if number == ROWS // 2:
                dead.append(kill_master(replicated))
            key = f"key-{number % 3}"
            yield arrow([{"body": f"{number}".encode(), "shardingKey": key, "tags": key}])

    with closing(ConnectionPool(TIMEOUT_MS)) as pool:
        assert write(replicated.namesrv_addr, replicated_topic.name, batches(), WriteTask("election", 1), pool) == ROWS
    replicated.start_broker(*dead)
    rows: list[dict[str, Any]] = []
    with source_calls(options_of(replicated, replicated_topic, group)) as calls:
        read_rest(calls, rows, [f"{number}" for number in range(ROWS)])
    for key in ("key-0", "key-1", "key-2"):
        numbers = [int(row["body"]) for row in sorted(rows, key=place_of) if row["tags"] == key]
        assert list(dict.fromkeys(numbers)) == sorted(set(numbers))
    assert len({row["msgId"] for row in rows}) == ROWS


def test_messages_delivered_one_by_one_survive_a_killed_master(
    replicated: EmbeddedCluster, replicated_topic: Topic, group: str
) -> None:
    """At least once: the elected master may deliver again what the dead one has seen acknowledged."""
    options = options_of(replicated, replicated_topic, group) | {
        "loadBalance": "message",
        "invisibleDurationMs": INVISIBLE_MS,
    }
    reader = RocketMQDataSource(options).streamReader(default_schema())
    assert isinstance(reader, RocketMQPopReader)
    found: set[str] = set()
    end = reader.initialOffset()

    def read_batch() -> None:
        nonlocal end
        start, end = end, reader.latestOffset(end, ReadAllAvailable())
        if end != start:
            parts = reader.partitions(start, end)
            found.update(
                body.decode() for part in parts for batch in reader.read(part) for body in batch["body"].to_pylist()
            )

    def has_read(confirmed: Collection[str]) -> bool:
        read_batch()
        return found.issuperset(confirmed)

    try:
        with steady_messages(replicated_topic, any_broker=True) as confirmed:
            eventually(lambda: has_read(confirmed[:50]) and len(confirmed) >= 50, "the first messages")
            dead = kill_master(replicated)
            before = len(confirmed)
            eventually(lambda: has_read(confirmed[: before + 50]) and len(confirmed) >= before + 50, "later messages")
            replicated.start_broker(dead)
        eventually(lambda: has_read(confirmed), "all confirmed messages")
    finally:
        reader.stop()
