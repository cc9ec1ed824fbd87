"""The embedded cluster itself: it is quick, it can be broken in every way that it offers, and it leaves nothing."""

from __future__ import annotations

import gc
import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from connector_tests.support.admin_broker import AdminBroker
from connector_tests.support.cluster_pool import SYSTEM_TOPIC, ClusterPool, RestingCluster
from connector_tests.support.timeouts import PATIENT_MS, WAIT_S
from rocketmq_spark.embedded import EmbeddedCluster, jvm
from rocketmq_spark.embedded.pytest_plugin import unique_name
from rocketmq_spark.errors import EmbeddedBrokerError, RouteError, TransportError
from rocketmq_spark.model import BrokerAddress, Message, MessageQueue
from rocketmq_spark.remoting.cluster_client import ClusterClient
from rocketmq_spark.remoting.pool import ConnectionPool
from rocketmq_spark.remoting.producer import Producer

pytestmark = [pytest.mark.broker, pytest.mark.full]

TIMEOUT_MS = PATIENT_MS
START_LIMIT_S = 10
MEMORY_LIMIT_MIB = 512


class Client:
    """Sends and counts, over connections that end with it."""

    def __init__(self, cluster: EmbeddedCluster, pool: ConnectionPool) -> None:
        client = ClusterClient([cluster.namesrv_addr], pool, TIMEOUT_MS)
        self.name_servers = client.name_servers
        self._producer = Producer(client, group="test", initial_queue_index=lambda: 0)
        self._broker: Callable[[BrokerAddress], AdminBroker] = lambda address: AdminBroker(address, pool, TIMEOUT_MS)

    def send(self, topic: str, count: int) -> None:
        for index in range(count):
            self._producer.send(Message(topic, b"%d" % index))

    def stored(self, topic: str) -> int:
        brokers = [self._broker(address) for address in self.masters(topic).values() if address]
        return sum(bounds.max_offset for broker in brokers for bounds in broker.query_topic_stats(topic).values())

    def masters(self, topic: str) -> dict[str, BrokerAddress | None]:
        return {data.broker_name: data.master_address for data in self.name_servers.query_topic_route(topic).brokers}

    def max_offset(self, address: str, topic: str) -> int:
        return self._broker(BrokerAddress(address)).max_offset(MessageQueue(topic, "broker-a", 0))


@contextmanager
def client_of(cluster: EmbeddedCluster) -> Iterator[Client]:
    with closing(ConnectionPool(TIMEOUT_MS)) as pool:
        yield Client(cluster, pool)


def eventually(is_so: Callable[[], bool], within_s: float = WAIT_S) -> None:
    deadline = time.monotonic() + within_s
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.fixture
def pair(clusters: ClusterPool) -> Iterator[EmbeddedCluster]:
    """Two brokers and a name server that can be broken one by one; every test leaves them running."""
    with clusters.using(brokers=2, separate_jvms=True) as cluster:
        yield cluster


def test_it_starts_in_time_and_memory_serves_and_leaves_nothing(own_temp: Path) -> None:
    before = remains(own_temp)
    with EmbeddedCluster() as cluster:
        process = next(process for process in child_jvms() if ("process", process.pid) not in before)
        # Not the time on the wall: other tests may run on this machine at the same time.
        cpu = process.cpu_times()
        assert cpu.user + cpu.system < START_LIMIT_S
        with client_of(cluster) as client:
            client.send(cluster.create_topic("T"), 10)
            eventually(lambda: client.stored("T") == 10)
        assert process.memory_info().rss < MEMORY_LIMIT_MIB * 2**20
        assert left_since(before, own_temp)
    gc.collect()
    assert left_since(before, own_temp) == set()


def test_nothing_is_left_when_it_cannot_start(cluster: EmbeddedCluster, own_temp: Path) -> None:
    gc.collect()
    before = remains(own_temp)
    occupied = int(cluster.namesrv_addr.rpartition(":")[2])
    with (
        pytest.raises(EmbeddedBrokerError, match=r"EMBEDDED_SERVER_FAILED.*[Ii]n use"),
        EmbeddedCluster(namesrv_port=occupied),
    ):
        pass
    gc.collect()
    assert left_since(before, own_temp) == set()


def test_ctrl_c_in_the_terminal_does_not_reach_the_broker(cluster: EmbeddedCluster) -> None:
    groups = [os.getpgid(process.pid) for process in child_jvms()]
    assert groups
    assert os.getpgid(os.getpid()) not in groups


def test_a_clean_restart_keeps_addresses_messages_and_topics(pair: EmbeddedCluster) -> None:
    check_restart(pair, clean=True)


def test_a_kill_keeps_addresses_messages_and_topics(pair: EmbeddedCluster) -> None:
    check_restart(pair, clean=False)


def check_restart(pair: EmbeddedCluster, *, clean: bool) -> None:
    topic = pair.create_topic(unique_name("restart"))
    addresses = [pair.broker_addr(name) for name in pair.broker_names]
    with client_of(pair) as client:
        client.send(topic, 20)
        pids = {process.pid for process in child_jvms()}
        pair.restart_broker("broker-b", clean=clean)
        assert clean == (pids == {process.pid for process in child_jvms()})
        eventually(lambda: client.stored(topic) == 20)
        client.send(topic, 20)
        eventually(lambda: client.stored(topic) == 40)
    assert addresses == [pair.broker_addr(name) for name in pair.broker_names]


def test_a_killed_broker_leaves_the_route_until_it_is_back(pair: EmbeddedCluster) -> None:
    topic = pair.create_topic(unique_name("killed"))
    with client_of(pair) as client:
        pair.kill_broker("broker-b")
        assert set(client.masters(topic)) == {"broker-a"}
        pair.start_broker("broker-b")
        assert set(client.masters(topic)) == {"broker-a", "broker-b"}


def test_a_paused_broker_stays_connected_and_reports_nothing(pair: EmbeddedCluster) -> None:
    topic = pair.create_topic(unique_name("paused"))
    with closing(ConnectionPool(TIMEOUT_MS)) as pool:
        patient, hasty = (AdminBroker(BrokerAddress(pair.broker_addr()), pool, limit) for limit in (TIMEOUT_MS, 300))
        patient.query_topic_stats(topic)
        pair.pause_broker()
        try:
            with pytest.raises(TransportError, match="RESPONSE_TIMED_OUT"):
                hasty.query_topic_stats(topic)
        finally:
            pair.resume_broker()
        assert len(patient.query_topic_stats(topic)) == 4


def test_paused_cluster_responds_again_after_it_is_resumed(pair: EmbeddedCluster) -> None:
    with closing(ConnectionPool(300)) as pool:
        pair.pause()
        try:
            with pytest.raises(TransportError):
                ClusterClient([pair.namesrv_addr], pool, 300).name_servers.query_topic_route(SYSTEM_TOPIC)
            for name in pair.broker_names:
                with pytest.raises(TransportError):
                    AdminBroker(BrokerAddress(pair.broker_addr(name)), pool, 300).query_topic_stats(SYSTEM_TOPIC)
        finally:
            pair.resume()
    with client_of(pair) as client:
        assert set(client.masters(SYSTEM_TOPIC)) == set(pair.broker_names)
        client.send(topic := pair.create_topic(unique_name("resumed")), 20)
        eventually(lambda: client.stored(topic) == 20)


@pytest.mark.parametrize("kill", [False, True], ids=["stopped", "killed"])
def test_a_name_server_comes_back_with_all_routes(pair: EmbeddedCluster, kill: bool) -> None:
    topic = pair.create_topic(unique_name("namesrv"))
    address = pair.namesrv_addr
    pair.kill_name_server() if kill else pair.stop_name_server()
    with client_of(pair) as client, pytest.raises(TransportError):
        client.name_servers.query_topic_route(topic)
    pair.start_name_server()
    with client_of(pair) as client:
        assert set(client.masters(topic)) == {"broker-a", "broker-b"}
    assert pair.namesrv_addr == address


def test_topics_can_be_created_changed_and_deleted(pair: EmbeddedCluster) -> None:
    topic = unique_name("changing")
    with client_of(pair) as client:
        for queues in (2, 5, 3):
            pair.create_topic(topic, queues)
            assert len(client.name_servers.query_topic_route(topic).read_queues()) == 2 * queues
        pair.delete_topic(topic)
        with pytest.raises(RouteError, match="TOPIC_NOT_FOUND"):
            client.name_servers.query_topic_route(topic)


def test_a_broker_in_a_shared_jvm_cannot_be_killed_alone(cluster: EmbeddedCluster) -> None:
    with pytest.raises(EmbeddedBrokerError, match=r"EMBEDDED_CLUSTER_INVALID_STATE.*separate_jvms"):
        cluster.kill_broker()


def test_the_advertised_host_is_in_the_route_and_free_for_a_proxy() -> None:
    with RestingCluster(advertised_host="127.0.0.2") as cluster, client_of(cluster) as client:
        cluster.create_topic("T")
        assert client.masters("T") == {"broker-a": BrokerAddress(cluster.advertised_addr())}
        assert cluster.advertised_addr() == cluster.broker_addr().replace("127.0.0.1", "127.0.0.2")
        assert client.max_offset(cluster.broker_addr(), "T") == 0
        with pytest.raises(TransportError, match="CONNECT_FAILED"):
            client.max_offset(cluster.advertised_addr(), "T")


def test_a_kept_store_outlives_the_cluster_and_broker_config_reaches_the_broker(tmp_path: Path) -> None:
    for run in (1, 2):
        kept = RestingCluster(store_dir=tmp_path, broker_config={"autoCreateTopicEnable": "false"})
        with kept as cluster, client_of(cluster) as client:
            client.send(cluster.create_topic("T"), 5)
            eventually(lambda: client.stored("T") == 5 * run)  # noqa: B023  # called before the next run
            with pytest.raises(RouteError, match="TOPIC_NOT_FOUND"):
                client.name_servers.query_topic_route("TBW102")


def test_mqadmin_is_rocketmqs_own(cluster: EmbeddedCluster, topic: str) -> None:
    assert '"queueDatas"' in cluster.mqadmin("topicRoute", "-t", topic)
    with pytest.raises(EmbeddedBrokerError, match="Missing required option: t"):
        cluster.mqadmin("topicRoute")


def fake_java(home: Path, script: str) -> str:
    (home / "bin").mkdir()
    java = home / "bin" / "java"
    java.write_text(f"#!/bin/sh\n{script}\n")
    java.chmod(0o755)
    return str(home)


def test_mqadmin_has_no_argument_on_its_command_line(cluster: EmbeddedCluster, topic: str) -> None:
    """One of ACL 1.0's is a secret, and every user of the machine may read command lines."""
    seen: set[str] = set()
    is_over = threading.Event()

    def watch() -> None:
        while not is_over.is_set():
            for child in psutil.Process().children(recursive=True):
                with suppress(psutil.Error):
                    seen.add(" ".join(child.cmdline()))

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        assert '"queueDatas"' in cluster.mqadmin("topicRoute", "-t", topic)
    finally:
        is_over.set()
        watching.join()
    assert [line for line in seen if topic in line] == []
    assert any("/arguments" in line for line in seen), "it has been seen"


def test_an_old_java_is_refused_in_one_sentence(own_temp: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = remains(own_temp)
    monkeypatch.setattr(jvm, "MINIMUM_JAVA", 1000)
    with pytest.raises(EmbeddedBrokerError, match=r"JAVA_NOT_FOUND.* is Java \d+.*Install Java 17"), EmbeddedCluster():
        pass
    gc.collect()
    assert left_since(before, own_temp) == set()


def test_a_java_that_does_not_start_is_quoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", fake_java(tmp_path, "echo out of order >&2; exit 3"))
    with (
        pytest.raises(EmbeddedBrokerError, match=r"(?s)EMBEDDED_JVM_FAILED.*exit code 3.*out of order"),
        EmbeddedCluster(),
    ):
        pass


@pytest.mark.parametrize(
    ("returncode", "reported"),
    [
        (3, "Java ended with exit code 3"),
        (-signal.SIGTERM, "Java was ended by SIGTERM"),
        (-signal.SIGKILL, "Java was ended by SIGKILL, as the system does when memory runs out"),
        (-77, "Java was ended by signal 77"),
    ],
)
def test_how_a_jvm_has_ended_is_described_in_words(returncode: int, reported: str) -> None:
    assert jvm.describe_exit(returncode) == reported


@pytest.fixture
def own_temp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for temporary files that nobody else uses."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def child_jvms() -> list[psutil.Process]:
    """Ours, and not Spark's."""
    children = [child for child in psutil.Process().children() if child.name() == "java"]
    return [child for child in children if "py4j.GatewayServer" in child.cmdline()]


def remains(temp: Path) -> set[tuple[str, object]]:
    """What a cluster could leave behind."""
    return {
        *(("process", child.pid) for child in psutil.Process().children(recursive=True)),
        *(("thread", thread.ident) for thread in threading.enumerate()),
        *(("file", str(fd.readlink())) for fd in Path("/proc/self/fd").iterdir() if fd.is_symlink()),
        *(("folder", folder) for folder in temp.iterdir()),
    }


def left_since(before: set[tuple[str, object]], temp: Path) -> set[tuple[str, object]]:
    """What is new. Workers of a Spark in the same process may have ended meanwhile."""
    return remains(temp) - before
