"""The main story with clusters that ask for keys, for TLS, and for both."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from connector_tests.spark.conftest import StreamOf
from connector_tests.support.streams import Topic
from rocketmq_spark.embedded import EmbeddedCluster


@pytest.fixture(scope="module", params=[(True, False), (False, True), (True, True)], ids=["ACL", "TLS", "ACL+TLS"])
def cluster(request: pytest.FixtureRequest) -> Iterator[EmbeddedCluster]:
    acl, tls = request.param
    with EmbeddedCluster(acl=acl, tls=tls) as cluster:
        yield cluster


def test_a_query_reads_restarts_and_commits(messages: Topic, stream: StreamOf, group: str) -> None:
    sent: list[str] = []
    for count in (25, 40, 7):
        sent += messages.send(count)
        stream().run_to_end()
        assert stream().bodies() == sorted(sent)
        assert messages.lag(group) == 0
