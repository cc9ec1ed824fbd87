"""Fixtures for modules whose queries know nothing but a proxy's remoting port; what tests send goes to the brokers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from connector_tests.spark.conftest import StreamOf
from connector_tests.support.streams import Stream
from rocketmq_spark.embedded import EmbeddedCluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    """With a JVM for each server alone, which stories kill."""
    with EmbeddedCluster(separate_jvms=True, proxy=True) as cluster:
        yield cluster


@pytest.fixture
def stream(stream: StreamOf, cluster: EmbeddedCluster) -> StreamOf:
    """Makes queries that know the proxy only."""

    def make(name: str = "query", schema: str | None = None, **options: str) -> Stream:
        return stream(name, schema, namesrvAddr=cluster.proxy_addr, **options)

    return make
