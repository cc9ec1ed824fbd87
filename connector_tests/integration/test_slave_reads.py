"""A broker of a master and a slave whose master is killed: with ``readFrom=auto`` a query reads on at the slave, which
proves no loss and gets no commit."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from connector_tests.support.admin_broker import AdminBroker
from connector_tests.support.cluster_pool import RestingCluster
from connector_tests.support.replica_reads import (
    bodies,
    has_replicated,
    is_master,
    options_of,
    places,
    read_for,
    read_rest,
)
from connector_tests.support.source_calls import source_calls
from connector_tests.support.streams import Topic, eventually, steady_messages
from connector_tests.support.timeouts import TIMEOUT_FACTOR
from rocketmq_spark.cli import doctor
from rocketmq_spark.embedded import EmbeddedCluster
from rocketmq_spark.embedded.admin import broker_at
from rocketmq_spark.embedded.pytest_plugin import unique_name
from rocketmq_spark.embedded.replication import Failover
from rocketmq_spark.model import BrokerAddress, QueueRange
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.pull.executor_pull_client import ExecutorPullClient
from rocketmq_spark.pull.pull_connection import PullConnection
from rocketmq_spark.pull.pull_connections import PullConnections, shared_pull_connections
from rocketmq_spark.pull.range_puller import new_range_puller
from rocketmq_spark.remoting.clock import monotonic_ms
from rocketmq_spark.remoting.pool import ConnectionPool

pytestmark = [pytest.mark.broker, pytest.mark.full]

MASTER: Final = "broker-a"
SLAVE: Final = "broker-a-2"
QUEUES: Final = 2
UNDER_LOAD_S: Final = 2.0
TIMEOUT_MS: Final = 3_000
WITHOUT_ROWS_S: Final = 3.0
PAUSED_S: Final = 60.0
SYNCHRONIZED_S: Final = 90.0
SUGGESTS_SLAVE: Final = {"accessMessageInMemoryMaxRatio": "0"}
"""A master suggests a slave for messages that are not in this share of its memory."""


@pytest.fixture(scope="module", params=["none", "acting-master"])
def pair(request: pytest.FixtureRequest) -> Iterator[EmbeddedCluster]:
    failover: Failover = request.param
    with RestingCluster(replicas=2, failover=failover, broker_config=SUGGESTS_SLAVE) as cluster:
        yield cluster


@pytest.fixture
def topic(pair: EmbeddedCluster) -> Iterator[Topic]:
    topic = Topic(pair, pair.create_topic(unique_name("slaves"), QUEUES))
    yield topic
    topic.close()


@contextmanager
def without(cluster: EmbeddedCluster, server: str) -> Iterator[None]:
    """The time from the server's SIGKILL to its restart."""
    cluster.kill_broker(server)
    try:
        yield
    finally:
        cluster.start_broker(server)


def test_a_created_topic_is_at_a_slave_that_had_no_address_of_its_master(pair: EmbeddedCluster) -> None:
    pair._brokers[SLAVE]._controller.getSlaveSynchronize().setMasterAddr(None)
    name = pair.create_topic(unique_name("copied"), QUEUES)
    with broker_at(pair.broker_addr(SLAVE)) as broker:
        assert len(broker.query_topic_stats(name)) == QUEUES


@pytest.mark.parametrize("read_from", ["auto", "slave"])
def test_a_killed_masters_messages_are_read_at_its_slave(
    pair: EmbeddedCluster, topic: Topic, group: str, read_from: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    rows: list[dict[str, Any]] = []
    with source_calls({**options_of(pair, topic, group), "readFrom": read_from}) as calls:
        with steady_messages(topic, any_broker=True) as confirmed:
            read_for(calls, rows, UNDER_LOAD_S)
            pair.kill_broker(MASTER)
        try:
            read_rest(calls, rows, confirmed)
        finally:
            pair.start_broker(MASTER)
        sent = topic.send(10)
        read_rest(calls, rows, sent)
        eventually(lambda: not calls.next_batch() and topic.lag(group) == 0, "the offsets at the master")
    assert len(places(rows)) == len(set(places(rows)))
    reported = [record.getMessage() for record in caplog.records if "READING_FROM_SLAVE" in record.getMessage()]
    assert [text.split()[1] for text in (reported[0], reported[-1])] == ["Waiting", "Recovered"]


@pytest.mark.parametrize("read_from", ["auto", "slave"])
def test_a_paused_masters_messages_are_read_at_its_slave(
    pair: EmbeddedCluster, topic: Topic, group: str, read_from: str
) -> None:
    """The route names it until the name server removes it, after up to 120 s without an acting master."""
    rows: list[dict[str, Any]] = []
    with source_calls({**options_of(pair, topic, group), "readFrom": read_from, "brokerTimeoutMs": "1000"}) as calls:
        read_rest(calls, rows, topic.send(10))
        sent = topic.send(10)
        eventually(lambda: has_replicated(pair, SLAVE, topic, 20), "the messages at the slave", SYNCHRONIZED_S)
        pair.pause_broker(MASTER)
        try:
            began_s = time.monotonic()
            read_rest(calls, rows, sent)
            assert time.monotonic() - began_s < PAUSED_S * TIMEOUT_FACTOR
        finally:
            pair.resume_broker(MASTER)
            eventually(lambda: is_master(pair, MASTER), "the resumed master in the route")
        read_rest(calls, rows, topic.send(10))
        eventually(lambda: not calls.next_batch() and topic.lag(group) == 0, "the offsets at the master")
    assert len(places(rows)) == len(set(places(rows))) == 30


def test_a_killed_master_is_awaited_by_default(pair: EmbeddedCluster, topic: Topic, group: str) -> None:
    rows: list[dict[str, Any]] = []
    with source_calls(options_of(pair, topic, group)) as calls:
        read_rest(calls, rows, topic.send(10))
        sent = topic.send(10)
        with without(pair, MASTER):
            read_for(calls, rows, WITHOUT_ROWS_S)
            assert len(rows) == 10
        read_rest(calls, rows, sent)
    assert len(rows) == 20


def test_a_slave_that_lags_behind_the_query_proves_no_loss(pair: EmbeddedCluster, topic: Topic, group: str) -> None:
    rows: list[dict[str, Any]] = []
    with source_calls({**options_of(pair, topic, group), "readFrom": "auto"}) as calls:
        read_rest(calls, rows, topic.send(10))
        pair.kill_broker(SLAVE)
        try:
            read_rest(calls, rows, topic.send(20))
            pair.kill_broker(MASTER)
        finally:
            pair.start_broker(SLAVE)
        try:
            read_for(calls, rows, WITHOUT_ROWS_S)
            assert len(rows) == 30
        finally:
            pair.start_broker(MASTER)
        read_rest(calls, rows, topic.send(5))
    assert len(places(rows)) == len(set(places(rows))) == 35
    assert bodies(rows) == {f"{topic.name}-{index}" for index in range(35)}


def diagnosed(
    cluster: EmbeddedCluster, topic: Topic, group: str, read_from: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> tuple[int, str]:
    """The exit code of ``rocketmq-spark doctor``, and the first line of its report."""
    file = folder / "job.options"
    options = {**options_of(cluster, topic, group), "readFrom": read_from}
    file.write_text("".join(f"{name}={text}\n" for name, text in options.items()), encoding="utf-8")
    code = doctor.main(["--options", str(file)])
    return code, capsys.readouterr().out.splitlines()[0]


@pytest.mark.parametrize("read_from", ["master", "slave", "auto"])
def test_doctor_finds_a_master_and_its_slave_sound(
    pair: EmbeddedCluster, topic: Topic, group: str, read_from: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sound = (0, "sound: no problem found")
    eventually(
        lambda: diagnosed(pair, topic, group, read_from, tmp_path, capsys) == sound, "a sound report", SYNCHRONIZED_S
    )


@pytest.mark.parametrize("read_from", ["slave", "auto"])
def test_doctor_reports_that_a_slave_is_read_without_its_master(
    pair: EmbeddedCluster, topic: Topic, group: str, read_from: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = (
        f"warning: Broker 'broker-a' of topic '{topic.name}' has no master in the route: readFrom={read_from} reads "
        f"what its slave {pair.advertised_addr(SLAVE)} has copied, and only queues that the query has read before."
    )
    with without(pair, MASTER):
        eventually(
            lambda: diagnosed(pair, topic, group, read_from, tmp_path, capsys) == (0, expected),
            "the report of a killed master",
        )
    eventually(lambda: is_master(pair, MASTER), "the restarted master in the route", SYNCHRONIZED_S)


@pytest.mark.parametrize(
    ("read_from", "severity", "effect"),
    [
        ("slave", "warning", "readFrom=slave reads at its master."),
        ("auto", "note", "with readFrom=auto its queues wait while the master is unavailable."),
    ],
)
def test_doctor_reports_a_broker_whose_slave_was_killed(
    pair: EmbeddedCluster,
    topic: Topic,
    group: str,
    read_from: str,
    severity: str,
    effect: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    line = f"{severity}: Broker 'broker-a' of topic '{topic.name}' has no slave in the route: {effect}"
    with without(pair, SLAVE):
        eventually(
            lambda: diagnosed(pair, topic, group, read_from, tmp_path, capsys) == (0, line),
            "the report of a killed slave",
        )


def test_doctor_reports_a_slave_that_may_not_be_read(
    pair: EmbeddedCluster, topic: Topic, group: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    address = pair.advertised_addr(SLAVE)
    with closing(ConnectionPool(TIMEOUT_MS)) as pool, ExitStack() as restoring:
        slave = AdminBroker(BrokerAddress(pair.broker_addr(SLAVE)), pool, TIMEOUT_MS)
        restoring.callback(slave.update_config, {"slaveReadEnable": "true"})
        slave.update_config({"slaveReadEnable": "false"})
        found = diagnosed(pair, topic, group, "slave", tmp_path, capsys)
    line = f"warning: Slave {address} of broker 'broker-a' rejects all pulls: its 'slaveReadEnable' is false."
    assert found == (0, line)


class RecordingClient(ExecutorPullClient):
    """Records where it has pulled."""

    def __init__(self, options: ReadOptions, pool: ConnectionPool, pull_connections: PullConnections) -> None:
        super().__init__(options, pool, pull_connections)
        self.addresses: list[str] = []

    def _connection(self, *arguments: Any) -> PullConnection:
        connection = super()._connection(*arguments)
        self.addresses.append(str(connection.address))
        return connection


@pytest.mark.parametrize(
    ("read_from", "expected"), [("master", [MASTER]), ("auto", [MASTER, SLAVE]), ("slave", [SLAVE])]
)
def test_pulls_go_to_the_server_that_the_broker_suggests_with_auto(
    pair: EmbeddedCluster, topic: Topic, group: str, read_from: str, expected: list[str]
) -> None:
    topic.send_batches(1_000)
    eventually(lambda: has_replicated(pair, SLAVE, topic, 1_000), "all messages at the slave")
    queue, (_, end, _) = next(iter(topic.bounds().items()))
    options = ReadOptions.parse({**options_of(pair, topic, group), "readFrom": read_from})
    with closing(ConnectionPool(TIMEOUT_MS)) as pool:
        client = RecordingClient(options, pool, shared_pull_connections(TIMEOUT_MS, None))
        puller = new_range_puller(QueueRange(queue, 0, end), client, options, monotonic_ms, is_filtered=False)
        assert sum(pulled.end_offset - pulled.begin_offset for pulled in puller.pull()) == end
    assert list(dict.fromkeys(client.addresses)) == [pair.advertised_addr(name) for name in expected]
