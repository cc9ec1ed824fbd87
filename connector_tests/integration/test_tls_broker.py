"""The same requests over TLS."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from rocketmq_spark.embedded import EmbeddedCluster
from rocketmq_spark.errors import TransportError
from rocketmq_spark.model import Message
from rocketmq_spark.remoting.broker import Broker
from rocketmq_spark.remoting.namesrv import NameServers
from rocketmq_spark.remoting.pool import ConnectionPool
from rocketmq_spark.remoting.producer import Producer
from rocketmq_spark.remoting.tcp import connect_tcp

pytestmark = pytest.mark.broker

TIMEOUT_MS = 10_000
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
    with EmbeddedCluster(java_options=[f"-D{name}={value}" for name, value in settings.items()]) as cluster:
        yield cluster


def test_routes_sends_and_pulls_go_over_tls(secured: EmbeddedCluster) -> None:
    trusting = ssl.create_default_context(cafile=str(CERTIFICATE))
    pool = ConnectionPool(TIMEOUT_MS, connect=partial(connect_tcp, ssl_context=trusting))
    topic = secured.create_topic("secured", 1)
    name_servers = NameServers((secured.namesrv_addr,), pool, TIMEOUT_MS)
    producer = Producer(name_servers, pool, group="P", timeout_ms=TIMEOUT_MS)
    body = bytes(range(256)) * 4_000
    queue = producer.send(Message(topic, body)).queue
    assert body in bytes(Broker(secured.broker_addr(), pool, TIMEOUT_MS).pull("G", queue, 0, 1).body)
    pool.close()


def test_a_certificate_that_nobody_vouches_for_is_refused(secured: EmbeddedCluster) -> None:
    pool = ConnectionPool(TIMEOUT_MS, connect=partial(connect_tcp, ssl_context=ssl.create_default_context()))
    with pytest.raises(TransportError, match=r"CONNECT_FAILED.*CERTIFICATE_VERIFY_FAILED"):
        pool.get(secured.broker_addr())
    pool.close()
