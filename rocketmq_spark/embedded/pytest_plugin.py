"""Fixtures for a user's own tests; servers start when a test first requests one.

* ``rocketmq_cluster``: an ``EmbeddedCluster`` with one broker, shared by the whole session.
* ``rocketmq_topic``: the name of a new topic with four queues, for one test.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from uuid import uuid4

import pytest

from rocketmq_spark.embedded.cluster import EmbeddedCluster


@pytest.fixture(scope="session")
def rocketmq_cluster() -> Iterator[EmbeddedCluster]:
    """Start a name server and a broker for all tests of the session, and stop them at its end."""
    with EmbeddedCluster() as cluster:
        yield cluster


@pytest.fixture
def rocketmq_topic(rocketmq_cluster: EmbeddedCluster, request: pytest.FixtureRequest) -> str:
    """Create a topic with four queues, named after the test, and return its name. It is not deleted."""
    return rocketmq_cluster.create_topic(unique_name(request.node.name))


def unique_name(base: str) -> str:
    """Return a new unique name for a topic or group: the first 60 characters of ``base``, then ``_`` and 8 random hex
    digits. In ``base``, ``_`` replaces all but ASCII letters and digits."""
    return f"{re.sub(r'[^A-Za-z0-9_]', '_', base)[:60]}_{uuid4().hex[:8]}"
