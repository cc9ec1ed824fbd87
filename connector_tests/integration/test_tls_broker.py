"""The same requests over TLS."""

from __future__ import annotations

import ssl
import subprocess
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from connector_tests.support.cluster_pool import RestingCluster
from connector_tests.support.jvm_options import SHORT_LIVED
from connector_tests.support.timeouts import REQUEST_TIMEOUT_MS
from rocketmq_spark.embedded import EmbeddedCluster
from rocketmq_spark.embedded.certificate import ServerCertificate
from rocketmq_spark.embedded.jvm import ChildJvm, pyspark_jars
from rocketmq_spark.errors import OptionError, TransportError
from rocketmq_spark.model import BrokerAddress, Message
from rocketmq_spark.options.connection import connection_options
from rocketmq_spark.remoting.broker import Broker
from rocketmq_spark.remoting.cluster_client import ClusterClient
from rocketmq_spark.remoting.namesrv import NameServers
from rocketmq_spark.remoting.pool import ConnectionPool
from rocketmq_spark.remoting.producer import Producer
from rocketmq_spark.remoting.tcp import connect_tcp

pytestmark = [pytest.mark.broker, pytest.mark.full]

CERTIFICATE = Path(__file__).parent.parent / "support" / "tls" / "localhost.crt"


@pytest.fixture(scope="module")
def secured() -> Iterator[EmbeddedCluster]:
    """Servers that speak TLS to who wants it, with the certificate of the unit tests."""
    settings = {
        "tls.server.mode": "permissive",
        "tls.test.mode.enable": "false",
        "tls.server.certPath": str(CERTIFICATE),
        "tls.server.keyPath": str(CERTIFICATE.with_suffix(".key")),
    }
    with RestingCluster(java_options=[f"-D{name}={value}" for name, value in settings.items()]) as cluster:
        yield cluster


def test_routes_sends_and_pulls_go_over_tls(secured: EmbeddedCluster) -> None:
    trusting = ssl.create_default_context(cafile=str(CERTIFICATE))
    pool = ConnectionPool(REQUEST_TIMEOUT_MS, connect=partial(connect_tcp, ssl_context=trusting))
    topic = secured.create_topic("secured", 1)
    producer = Producer(
        ClusterClient((secured.namesrv_addr,), pool, REQUEST_TIMEOUT_MS), group="P", initial_queue_index=lambda: 0
    )
    body = bytes(range(256)) * 4_000
    queue = producer.send(Message(topic, body)).queue
    assert body in bytes(
        Broker(BrokerAddress(secured.broker_addr()), pool, REQUEST_TIMEOUT_MS).pull("G", queue, 0, 1).body
    )
    pool.close()


def test_an_untrusted_certificate_is_refused(secured: EmbeddedCluster) -> None:
    pool = ConnectionPool(REQUEST_TIMEOUT_MS, connect=partial(connect_tcp, ssl_context=ssl.create_default_context()))
    with pytest.raises(TransportError, match="TLS_CERTIFICATE_UNTRUSTED"):
        pool.get(secured.broker_addr())
    pool.close()


# ------------------------------------------------------------------------------------------------ a broker of options


@pytest.fixture(scope="module")
def mutual() -> Iterator[EmbeddedCluster]:
    """Servers that ask for a client's certificate too: the brokers, which are clients of name servers, have one."""
    settings = {
        "tls.server.need.client.auth": "require",
        "tls.server.authClient": "true",
        "tls.server.trustCertPath": str(CERTIFICATE),
        "tls.client.certPath": str(CERTIFICATE),
        "tls.client.keyPath": str(CERTIFICATE.with_suffix(".key")),
    }
    java_options = [f"-D{name}={value}" for name, value in settings.items()]
    with RestingCluster(tls=True, java_options=java_options) as cluster:
        yield cluster


def brokers_known(cluster: EmbeddedCluster, **more: str) -> set[str]:
    """What a name server answers to who connects with these options."""
    options = connection_options({"namesrvAddr": cluster.namesrv_addr, **cluster.security_options, **more})
    with closing(ConnectionPool(REQUEST_TIMEOUT_MS, security=options.security)) as pool:
        return set(NameServers(options.name_servers, pool, REQUEST_TIMEOUT_MS).cluster_info().brokers)


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    """Servers whose certificate names another host."""
    folder = tmp_path_factory.mktemp("elsewhere")
    certificate = ServerCertificate(folder / "tls", "dns:elsewhere.example")
    jvm = ChildJvm("certificate", [f"{pyspark_jars()}/*"], SHORT_LIVED, folder)
    try:
        certificate.write(jvm)
    finally:
        jvm.kill()
    with RestingCluster(java_options=certificate.java_options()) as cluster:
        yield cluster


def trusted(cluster: EmbeddedCluster) -> str:
    """Of the servers, whatever the cluster itself knows of TLS."""
    host, _, port = cluster.namesrv_addr.rpartition(":")
    return ssl.get_server_certificate((host, int(port)))


def test_a_host_name_is_checked_unless_tls_check_host_name_is_false(elsewhere: EmbeddedCluster, tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    file.write_text(trusted(elsewhere))
    trusting = {"useTLS": "true", "tlsTrustCertPath": str(file)}
    assert brokers_known(elsewhere, **trusting, tlsCheckHostName="false") == {"broker-a"}
    with pytest.raises(TransportError) as raised:
        brokers_known(elsewhere, **trusting)
    assert str(raised.value) == (
        f"[ROCKETMQ_TLS_HOSTNAME_MISMATCH] The certificate of {elsewhere.namesrv_addr} is trusted, but not valid "
        "for this host: IP address mismatch, certificate is not valid for '127.0.0.1'. Use a host name from the "
        "certificate in 'namesrvAddr' or 'endpoints', or correct the broker's 'brokerIP1'. To accept any host "
        "with a trusted certificate, set 'tlsCheckHostName' to false."
    )


def test_a_certificate_is_checked_unless_tls_auth_server_is_false(elsewhere: EmbeddedCluster) -> None:
    assert brokers_known(elsewhere, useTLS="true", tlsAuthServer="false") == {"broker-a"}
    with pytest.raises(TransportError) as raised:
        brokers_known(elsewhere, useTLS="true")
    assert str(raised.value) == (
        f"[ROCKETMQ_TLS_CERTIFICATE_UNTRUSTED] The certificate of {elsewhere.namesrv_addr} is not trusted: "
        "self-signed certificate. Set 'tlsTrustCertPath' to a PEM file with this certificate, or with the "
        "certificate that signed it."
    )


def reported_reason(cluster: EmbeddedCluster) -> str:
    """Once a connection has not been reset before it said why: until then it is tried again, as members do."""
    for _ in range(50):
        with pytest.raises(TransportError) as raised:
            brokers_known(cluster)
        if raised.value.condition != "CONNECTION_LOST":
            break
    return str(raised.value)


def test_a_client_authenticates_with_tls_cert_path_and_tls_key_path(mutual: EmbeddedCluster) -> None:
    mine = {"tlsCertPath": str(CERTIFICATE), "tlsKeyPath": str(CERTIFICATE.with_suffix(".key"))}
    assert brokers_known(mutual, **mine) == {"broker-a"}
    assert reported_reason(mutual) == (
        f"[ROCKETMQ_TLS_CLIENT_CERTIFICATE_REJECTED] {mutual.namesrv_addr} requires a client certificate, and "
        "rejected this client: SSLV3_ALERT_BAD_CERTIFICATE. Set 'tlsCertPath' and 'tlsKeyPath' to a certificate "
        "that the server trusts."
    )


def test_a_key_that_is_encrypted_is_opened_with_tls_key_password(mutual: EmbeddedCluster, tmp_path: Path) -> None:
    key = tmp_path / "client.key"
    command = ["openssl", "pkcs8", "-topk8", "-in", str(CERTIFICATE.with_suffix(".key")), "-passout", "pass:hunter2"]
    subprocess.run([*command, "-out", str(key)], check=True, capture_output=True)
    mine = {"tlsCertPath": str(CERTIFICATE), "tlsKeyPath": str(key)}
    assert brokers_known(mutual, **mine, tlsKeyPassword="hunter2") == {"broker-a"}
    with pytest.raises(OptionError, match="TLS_FILE_UNUSABLE"):
        brokers_known(mutual, **mine, tlsKeyPassword="guessed")
    with pytest.raises(OptionError, match="TLS_FILE_UNUSABLE"):
        brokers_known(mutual, **mine)
