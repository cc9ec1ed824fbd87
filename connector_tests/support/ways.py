"""Ways to the messages of a cluster, for tests that take each: brokers themselves, and a proxy's gRPC."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pytest

from connector_tests.support.desk import SHORTEST
from rocketmq_spark.embedded import EmbeddedCluster

WAYS = ("remoting", "grpc")


@dataclass(frozen=True)
class Way:
    """To the messages of a cluster."""

    cluster: EmbeddedCluster
    server: Mapping[str, str]


def way_of(request: pytest.FixtureRequest) -> Iterator[Way]:
    """What a fixture yields whose params are ``WAYS``."""
    if request.param == "remoting":
        brokers: EmbeddedCluster = request.getfixturevalue("rocketmq_cluster")
        yield Way(brokers, {"namesrvAddr": brokers.namesrv_addr, "startingOffsets": "earliest"})
        return
    request.getfixturevalue("grpc_library")
    with EmbeddedCluster(proxy=True, proxy_config=SHORTEST) as proxied:
        yield Way(proxied, {"endpoints": proxied.endpoints})
