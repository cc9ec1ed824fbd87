"""Ways to the messages of a cluster, for tests that take each: brokers themselves, and a proxy's gRPC."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pytest

from connector_tests.support.cluster_pool import ClusterPool
from rocketmq_spark.embedded import EmbeddedCluster

WAYS = ("remoting", "grpc")


@dataclass(frozen=True)
class Way:
    """To the messages of a cluster."""

    cluster: EmbeddedCluster
    server: Mapping[str, str]


def way_of(request: pytest.FixtureRequest, clusters: ClusterPool) -> Way:
    """The value of a fixture whose params are ``WAYS``."""
    request.getfixturevalue("grpc_library")
    cluster = clusters.get(proxy=True)
    if request.param == "remoting":
        return Way(cluster, {"namesrvAddr": cluster.namesrv_addr, "startingOffsets": "earliest"})
    return Way(cluster, {"endpoints": cluster.endpoints})
