"""RocketMQ's own proxy beside the embedded cluster: both of its ports answer, and nothing of it is left."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import psutil
import pytest

from connector_tests.support.cluster_pool import ClusterPool, RestingCluster
from connector_tests.support.fault_proxy import FaultProxy
from connector_tests.support.java import java_oracle
from connector_tests.support.java_grpc import grpc_stub, route
from connector_tests.support.jvm_options import rocketmq_options
from connector_tests.support.timeouts import TIMEOUT_FACTOR
from rocketmq_spark.embedded import EmbeddedCluster, Right
from rocketmq_spark.embedded.acl import new_credentials
from rocketmq_spark.embedded.cluster import NO_TLS, SYNC_TOPIC
from rocketmq_spark.embedded.jars import rocketmq_class_path
from rocketmq_spark.embedded.jvm import ChildJvm
from rocketmq_spark.embedded.proxy import ProxyServer
from rocketmq_spark.errors import BrokerError, EmbeddedBrokerError, TransportError
from rocketmq_spark.model import BrokerAddress
from rocketmq_spark.remoting.namesrv import NameServers
from rocketmq_spark.remoting.pool import ConnectionPool
from rocketmq_spark.security import UNSECURED, Security

pytestmark = [pytest.mark.broker, pytest.mark.full]

TIMEOUT_MS = int(15_000 * TIMEOUT_FACTOR)
TOPIC = "orders"
QUEUES = ["broker-a:0", "broker-a:1"]


@pytest.fixture(scope="module")
def grpc_java(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with java_oracle(tmp_path_factory.mktemp("grpc"), proxy=True) as java:
        yield java


@pytest.fixture
def plain(clusters: ClusterPool) -> Iterator[EmbeddedCluster]:
    with clusters.using(proxy=True) as cluster:
        cluster.create_topic(TOPIC, 2)
        yield cluster


@pytest.fixture(scope="module")
def guarded(clusters: ClusterPool) -> Iterator[EmbeddedCluster]:
    """Without TLS: test_message_ports.py."""
    with clusters.using(proxy=True, acl=True, tls=True) as cluster:
        cluster.create_topic(TOPIC, 2)
        yield cluster


def requested_by_remoting(cluster: EmbeddedCluster, security: Security) -> list[str]:
    """Queues of the topic, all of which the proxy states to have."""
    with closing(ConnectionPool(TIMEOUT_MS, security=security)) as pool:
        responded = NameServers((cluster.proxy_addr,), pool, TIMEOUT_MS).query_topic_route(TOPIC)
        assert [broker.master_address for broker in responded.brokers] == [
            BrokerAddress(cluster.proxy_addr, "broker-a")
        ]
        return [f"{queue.broker_name}:{queue.queue_id}" for queue in responded.read_queues()]


def requested_by_grpc(java: Any, cluster: EmbeddedCluster, security: Security) -> tuple[str, list[str]]:
    with grpc_stub(java, cluster.endpoints, security) as stub:
        return route(java, stub, TOPIC)


def test_both_ports_have_the_brokers_queues(plain: EmbeddedCluster, grpc_java: Any) -> None:
    assert requested_by_remoting(plain, UNSECURED) == QUEUES
    assert requested_by_grpc(grpc_java, plain, UNSECURED) == ("OK", QUEUES)


def test_it_is_killed_paused_and_started_alone(plain: EmbeddedCluster, grpc_java: Any) -> None:
    before = (plain.endpoints, plain.proxy_addr)
    plain.kill_proxy()
    with pytest.raises(TransportError, match="CONNECT_FAILED"):
        requested_by_remoting(plain, UNSECURED)
    plain.start_proxy()
    assert (plain.endpoints, plain.proxy_addr) == before
    plain.pause_proxy()
    with pytest.raises(TransportError, match="RESPONSE_TIMED_OUT"):
        requested_by_remoting(plain, UNSECURED)
    plain.resume_proxy()
    assert requested_by_grpc(grpc_java, plain, UNSECURED) == ("OK", QUEUES)
    assert requested_by_remoting(plain, UNSECURED) == QUEUES


class Watched(RestingCluster):
    """It looks what there is when the proxy starts."""

    has_what_the_proxy_makes = False

    def start_proxy(self) -> None:
        with closing(ConnectionPool(TIMEOUT_MS)) as pool:
            route = NameServers((self.namesrv_addr,), pool, TIMEOUT_MS).query_topic_route(SYNC_TOPIC)
        self.has_what_the_proxy_makes = bool(route.read_queues())
        super().start_proxy()


def test_it_starts_after_its_topic_and_goes_with_its_cluster() -> None:
    """What it would make, and wait for too briefly, is there. On a slow machine it used to end its JVM: ``create system
    broadcast topic ... failed on cluster``."""
    before = {child.pid for child in psutil.Process().children()}
    with Watched(proxy=True) as cluster:
        assert cluster.has_what_the_proxy_makes
        ports = {int(address.rpartition(":")[2]) for address in (cluster.endpoints, cluster.proxy_addr)}
        started = [child for child in psutil.Process().children() if child.pid not in before]
        (proxy,) = [child for child in started if ports <= listening(child)]
        assert len(started) == 2
    assert not any(child.is_running() for child in (*started, proxy))


def listening(process: psutil.Process) -> set[int]:
    return {one.laddr.port for one in process.net_connections("tcp") if one.status == psutil.CONN_LISTEN}


def test_a_client_with_access_to_brokers_has_it_at_both_ports(guarded: EmbeddedCluster, grpc_java: Any) -> None:
    assert requested_by_remoting(guarded, guarded.security) == QUEUES
    assert requested_by_grpc(grpc_java, guarded, guarded.security) == ("OK", QUEUES)


def test_a_client_without_access_is_at_neither(guarded: EmbeddedCluster, grpc_java: Any) -> None:
    stranger = Security(new_credentials("nobody"), guarded.security.tls)
    with pytest.raises(BrokerError, match="CREDENTIALS_REJECTED"):
        requested_by_remoting(guarded, stranger)
    assert requested_by_grpc(grpc_java, guarded, stranger) == ("UNAUTHORIZED", [])


def test_a_caller_that_has_no_tls_is_not_served_where_it_is_required(guarded: EmbeddedCluster, grpc_java: Any) -> None:
    unencrypted = Security(guarded.security.credentials)
    with pytest.raises(TransportError):
        requested_by_remoting(guarded, unencrypted)
    assert requested_by_grpc(grpc_java, guarded, unencrypted) == ("UNAVAILABLE", [])


def test_a_user_has_the_same_rights_there(guarded: EmbeddedCluster, grpc_java: Any) -> None:
    reader = Security(guarded.create_user("reader", Right(f"Topic:{TOPIC}", ("SUB",))), guarded.security.tls)
    other = Security(guarded.create_user("other", Right("Topic:another", ("SUB",))), guarded.security.tls)
    assert requested_by_remoting(guarded, reader) == QUEUES
    assert requested_by_grpc(grpc_java, guarded, reader) == ("OK", QUEUES)
    with pytest.raises(BrokerError, match="TOPIC_DENIED"):
        requested_by_remoting(guarded, other)
    assert requested_by_grpc(grpc_java, guarded, other) == ("UNAUTHORIZED", [])


def test_a_proxy_is_started_again_when_the_name_server_was_slow(plain: EmbeddedCluster, tmp_path: Path) -> None:
    """It ends its JVM when a lookup takes 3 s, as on a machine that is busy with something else."""
    plain.create_topic(SYNC_TOPIC, 1)
    proxy = ProxyServer(tmp_path / "home", None, None, {})
    with ExitStack() as resources:
        name_server = resources.enter_context(FaultProxy(plain.namesrv_addr))
        name_server.stall()

        def launch() -> ChildJvm:
            if launched:
                name_server.pass_through()
            launched.append(ChildJvm("proxy", rocketmq_class_path(proxy=True), (*rocketmq_options(), NO_TLS), tmp_path))
            resources.callback(launched[-1].kill)
            return launched[-1]

        launched: list[ChildJvm] = []
        proxy.start(launch, name_server.address)
        host, _, port = proxy.endpoints.rpartition(":")
        socket.create_connection((host, int(port)), TIMEOUT_MS / 1000).close()
        *ended, last = launched
        assert last.is_running
        assert [jvm.is_running for jvm in ended] == [False] * len(ended)
        assert ended


def test_without_one_there_is_none_to_request() -> None:
    with closing(EmbeddedCluster()) as cluster, pytest.raises(EmbeddedBrokerError, match=r"no proxy.*proxy=True"):
        _ = cluster.endpoints
