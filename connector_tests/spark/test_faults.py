"""What breaks around a query: it continues, or it ends with one clear error and a restart reads every message once."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from connector_tests.support.cluster_pool import RestingCluster
from connector_tests.support.fault_proxy import FaultProxy
from connector_tests.support.hostile_server import HostileServer
from connector_tests.support.pull_gate import shut_gate
from connector_tests.support.streams import Stream, Topic, eventually
from connector_tests.support.timeouts import END_TO_END_S
from rocketmq_spark.embedded import EmbeddedCluster
from rocketmq_spark.embedded.pytest_plugin import unique_name

pytestmark = pytest.mark.full

PROXY_HOST = "127.0.0.2"
LIMIT_MS = "1500"
"""How long the queries of this module may continue without a server, where they are to fail."""

FAILURE_TIMEOUT_S = int(END_TO_END_S)
LONG_ENOUGH_FOR_A_BATCH_S = 8
FREE_PULLS = 24
"""Some batches pass before the one in which something happens, and some are left."""

BATCH_COUNT = 5
SEVERAL_BATCHES = {"maxOffsetsPerTrigger": "400"}


@dataclass(frozen=True)
class Network:
    """A cluster, and the proxies that stand in front of its name server and its broker."""

    cluster: EmbeddedCluster
    name_server: FaultProxy
    broker: FaultProxy

    def heal(self) -> None:
        self.name_server.pass_through()
        self.broker.pass_through()


@pytest.fixture(scope="module")
def network() -> Iterator[Network]:
    files = {"mappedFileSizeCommitLog": str(64 * 1024)}
    with (
        RestingCluster(separate_jvms=True, advertised_host=PROXY_HOST, broker_config=files) as cluster,
        FaultProxy(cluster.namesrv_addr, PROXY_HOST) as name_server,
        FaultProxy(cluster.broker_addr(), PROXY_HOST, int(cluster.broker_addr().rpartition(":")[2])) as broker,
    ):
        yield Network(cluster, name_server, broker)


@pytest.fixture(scope="module")
def cluster(network: Network) -> EmbeddedCluster:
    """Instead of the session's: these tests break it."""
    return network.cluster


@pytest.fixture(autouse=True)
def healed(network: Network) -> Iterator[None]:
    yield
    network.heal()


class Faulty:
    """Makes this test's queries, which reach the cluster through the proxies."""

    def __init__(self, spark: SparkSession, network: Network, group: str, folder: Path) -> None:
        self._spark = spark
        self._network = network
        self._group = group
        self._folder = folder

    def __call__(self, topic: str, **options: str) -> Stream:
        options = {"namesrvAddr": self._network.name_server.address} | options
        return Stream(self._spark, self._network.cluster, topic, self._group, self._folder, options)


@pytest.fixture
def stream_of(spark: SparkSession, network: Network, group: str, tmp_path: Path) -> Faulty:
    return Faulty(spark, network, group, tmp_path)


def failure_of(query: StreamingQuery) -> str:
    """What the query fails with, in bounded time."""
    try:
        with pytest.raises(StreamingQueryException) as raised:
            query.awaitTermination(FAILURE_TIMEOUT_S)
    finally:
        query.stop()
    return str(raised.value)


def assert_reads_once(stream: Stream, sent: list[str], messages: Topic, group: str) -> None:
    """A run to the end: every message is there once, and the group has committed all of them."""
    stream.run_to_end()
    assert stream.bodies() == sorted(sent)
    assert messages.lag(group) == 0


# ------------------------------------------------------------------------------------------- at the start


@pytest.mark.parametrize("address", ["127.0.0.1:1", "no-such-host.invalid:9876"])
def test_a_wrong_address_is_an_error_that_names_it(stream_of: Faulty, address: str) -> None:
    reported = failure_of(stream_of("any", namesrvAddr=address, clusterTimeoutMs=LIMIT_MS).start())
    assert "ROCKETMQ_CLUSTER_TIMEOUT" in reported
    assert address in reported


def test_a_name_server_that_comes_late_is_waited_for(
    network: Network, messages: Topic, stream_of: Faulty, group: str
) -> None:
    sent = messages.send(10)
    network.name_server.refuse()
    late = stream_of(messages.name)
    query = late.start(availableNow=True)
    eventually(lambda: source_runner_age_s() > 2, "a source runner that looks for the name server")
    assert query.isActive
    network.name_server.pass_through()
    assert query.awaitTermination(FAILURE_TIMEOUT_S)
    assert late.bodies() == sorted(sent)
    assert messages.lag(group) == 0


def test_latest_has_begun_when_the_first_batch_is_there(
    network: Network, messages: Topic, stream_of: Faulty, group: str
) -> None:
    """An empty batch used to pass before a name server had answered; what was sent after it was before the start."""
    messages.send(10)
    network.name_server.refuse()
    latest = stream_of(messages.name, startingOffsets="latest")
    with latest.running() as query:
        eventually(lambda: source_runner_age_s() > LONG_ENOUGH_FOR_A_BATCH_S, "a source runner that looks for it")
        assert query.lastProgress is None
        network.name_server.pass_through()
        eventually(lambda: query.lastProgress is not None, "the first batch")
        new = messages.send(10)
        eventually(lambda: latest.bodies() == sorted(new), "the new messages")


def test_a_missing_topic_is_an_error_that_names_it(stream_of: Faulty) -> None:
    reported = failure_of(stream_of("no_such_topic", missingTopicTimeoutMs=LIMIT_MS).start())
    assert "ROCKETMQ_TOPIC_NOT_FOUND" in reported
    assert "'no_such_topic'" in reported
    assert "missingTopicTimeoutMs" in reported


def test_a_topic_that_is_created_while_the_query_waits_is_read(
    cluster: EmbeddedCluster, stream_of: Faulty, group: str
) -> None:
    name = unique_name("created_later")
    later = stream_of(name)
    query = later.start(availableNow=True)
    eventually(lambda: source_runner_age_s() > 2, "a source runner that looks for the topic")
    cluster.create_topic(name)
    with closing(Topic(cluster, name)) as topic:
        assert query.awaitTermination(FAILURE_TIMEOUT_S)  # it ends with what the topic had when it was found
        assert_reads_once(later, topic.send(10), topic, group)


# ------------------------------------------------------------------------------------------- no RocketMQ server


def test_unresponsive_server_is_an_error_that_names_it(stream_of: Faulty) -> None:
    """``faults/test_hostile_servers`` has what other servers may answer."""
    with HostileServer() as unresponsive:
        limits = {"brokerTimeoutMs": "500", "clusterTimeoutMs": LIMIT_MS}
        reported = failure_of(stream_of("any", namesrvAddr=unresponsive.address, **limits).start())
    assert "ROCKETMQ_RESPONSE_TIMED_OUT" in reported
    assert unresponsive.address in reported


# ------------------------------------------------------------------------------------------- in the middle


@pytest.mark.parametrize(
    "clean", [pytest.param(True, id="stopped", marks=pytest.mark.long), pytest.param(False, id="killed")]
)
def test_a_broker_that_restarts_in_the_middle_of_a_batch_costs_nothing(
    network: Network, messages: Topic, stream_of: Faulty, group: str, clean: bool
) -> None:
    sent = messages.send_batches(2_000)
    several = stream_of(messages.name, **SEVERAL_BATCHES)
    with shut_gate(network.broker, free_pulls=FREE_PULLS) as gate:
        query = several.start(availableNow=True)
        gate.await_pull()
        assert 0 < several.batches_done() < BATCH_COUNT - 1
        network.cluster.restart_broker(clean=clean)
    assert query.awaitTermination(FAILURE_TIMEOUT_S)
    assert several.bodies() == sorted(sent)
    assert messages.lag(group) == 0


def test_a_connection_that_is_cut_in_mid_frame_costs_nothing(
    network: Network, messages: Topic, stream_of: Faulty, group: str
) -> None:
    sent = messages.send_batches(1_000)
    cut = stream_of(messages.name)
    with shut_gate(network.broker) as gate:
        query = cut.start(availableNow=True)
        gate.await_pull()
        network.broker.cut_after(5_000)
        gate.open()
        eventually(lambda: network.broker.cut_count > 0, "a cut")
    assert query.awaitTermination(FAILURE_TIMEOUT_S)
    assert cut.bodies() == sorted(sent)
    assert messages.lag(group) == 0


def test_a_frame_that_arrives_corrupt_ends_the_query_and_a_restart_reads_every_message_once(
    network: Network, messages: Topic, stream_of: Faulty, group: str
) -> None:
    sent = messages.send_batches(1_000)
    corrupted = stream_of(messages.name)
    with shut_gate(network.broker) as gate:
        query = corrupted.start(availableNow=True)
        gate.await_pull()
        network.broker.corrupt(0)
        gate.open()
        reported = failure_of(query)
    assert network.cluster.advertised_addr() in reported
    assert_reads_once(corrupted, sent, messages, group)


def test_a_broker_that_stops_answering_in_the_middle_ends_the_query_and_a_restart_reads_every_message_once(
    network: Network, messages: Topic, stream_of: Faulty, group: str
) -> None:
    sent = messages.send_batches(1_000)
    stalled = stream_of(messages.name, brokerTimeoutMs="3000", clusterTimeoutMs="10000")
    with shut_gate(network.broker) as gate:
        query = stalled.start(availableNow=True)
        gate.await_pull()
        reported = failure_of(query)
    assert "ROCKETMQ_CLUSTER_TIMEOUT" in reported
    assert network.cluster.advertised_addr() in reported
    assert_reads_once(stream_of(messages.name), sent, messages, group)


def test_after_an_executor_was_killed_a_restart_reads_every_message_once(
    network: Network, messages: Topic, stream_of: Faulty, group: str
) -> None:
    sent = messages.send_batches(2_000)
    several = stream_of(messages.name, **SEVERAL_BATCHES)
    with shut_gate(network.broker, free_pulls=FREE_PULLS) as gate:
        query = several.start(availableNow=True)
        gate.await_pull()
        assert 0 < several.batches_done() < BATCH_COUNT - 1
        assert kill_executor_workers(network.broker.address) > 0
        failure_of(query)
    assert_reads_once(several, sent, messages, group)


def test_a_running_query_needs_no_name_server(network: Network, messages: Topic, stream_of: Faulty, group: str) -> None:
    steady = stream_of(messages.name)
    sent = messages.send(10)
    with steady.running() as query:
        eventually(lambda: len(steady.bodies()) == 10, "the first rows")
        network.name_server.refuse()
        sent += messages.send(10)
        eventually(lambda: steady.bodies() == sorted(sent), "what was sent while no name server was there")
        assert query.isActive


# ------------------------------------------------------------------------------------------- retention


def test_messages_that_were_deleted_unread_end_the_query_unless_it_may_lose_them(
    network: Network, stream_of: Faulty, group: str
) -> None:
    name = network.cluster.create_topic(unique_name("retention"), 1)
    with closing(Topic(network.cluster, name)) as topic:
        read = topic.send(10)
        strict = stream_of(name)
        strict.run_to_end()
        unread = topic.send_batches(1_000, size_bytes=200)
        network.cluster.expire_messages()
        (bounds,) = topic.bounds().values()
        assert 10 < bounds.min_offset < 1_010, "nothing was deleted, or everything"
        reported = failure_of(strict.start(availableNow=True))
        assert f"[10, {bounds.min_offset}) of {name}" in reported
        left = unread[bounds.min_offset - 10 :]
        assert_reads_once(stream_of(name, failOnDataLoss="false"), read + left, topic, group)


# ------------------------------------------------------------------------------------------- processes


def source_runner_age_s() -> float:
    """How long the youngest source runner has been there; 0 without one."""
    ages = [time.time() - process.create_time() for process in children("python_streaming_source_runner")]
    return min(ages, default=0)


def kill_executor_workers(broker_address: str) -> int:
    """SIGKILL the Python workers that are connected to the broker; returns how many."""
    readers = [process for process in children("pyspark.daemon") if is_connected(process, broker_address)]
    for process in readers:
        process.kill()
    return len(readers)


def children(part_of_command: str) -> Iterator[psutil.Process]:
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):  # a zombie is one, too
            if part_of_command in " ".join(process.cmdline()):
                yield process


def is_connected(process: psutil.Process, address: str) -> bool:
    with suppress(psutil.NoSuchProcess):
        return any(f"{':'.join(map(str, one.raddr))}" == address for one in process.net_connections("tcp") if one.raddr)
    return False
