"""A proxy that is killed and comes back, and a broker behind it that is, while a query reads over gRPC: nothing is
lost, what is waited for is said, and it goes on by itself."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Collection
from contextlib import closing

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from connector_tests.support.cluster_pool import ClusterPool
from connector_tests.support.message_group import GRPC, MessageGroup
from connector_tests.support.streams import TIMEOUT_S, steady_messages
from rocketmq_spark.embedded import EmbeddedCluster
from rocketmq_spark.source.datasource import RocketMQDataSource
from rocketmq_spark.source.pop.pop_reader import RocketMQPopReader
from rocketmq_spark.source.schema import default_schema

pytestmark = [pytest.mark.broker, pytest.mark.full]

INVISIBLE_MS = 10_000
"""What a proxy has delivered and could not state is redelivered after it."""

OUTAGE_S = 6
WAITING = re.compile(
    r"[A-Z_.]+: Waiting for (?:broker broker-a|topic \S+)(?: \(fails in \d+ s\): \[ROCKETMQ_[A-Z_.]+\] )"
)
OVER = re.compile(r"[A-Z_.]+: Recovered after [\d.]+ s: .+")


@pytest.fixture(scope="module")
def cluster(grpc_library: None, clusters: ClusterPool) -> EmbeddedCluster:
    return clusters.get(separate_jvms=True, proxy=True)


class Query:
    """Spark's calls, made one after the other; what came of them."""

    def __init__(self, desk: MessageGroup) -> None:
        options = {**desk.options, "invisibleDurationMs": str(INVISIBLE_MS)}
        reader = RocketMQDataSource(options).streamReader(default_schema())
        assert isinstance(reader, RocketMQPopReader)
        self.reader = reader
        self.bodies: list[str] = []
        self.waited_for: set[str] = set()
        self._at = reader.initialOffset()

    def close(self) -> None:
        self.reader.stop()

    def resume(self) -> None:
        """One batch, if there is one."""
        end = self.reader.latestOffset(self._at, ReadAllAvailable())
        if end != self._at:
            for partition in self.reader.partitions(self._at, end):
                for batch in self.reader.read(partition):
                    self.bodies += [body.decode() for body in batch.column("body").to_pylist()]
        self._at = end
        report = self.reader.reportLatestOffset()
        assert report is not None
        self.waited_for |= {wait["resource"] for wait in report["outages"]}

    def until(self, is_so: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + TIMEOUT_S
        while not is_so():
            assert time.monotonic() < deadline, what
            self.resume()

    def until_read(self, sent: Collection[str]) -> None:
        """Resume until all of them have been read; an AssertionError names some that have not."""
        try:
            self.until(lambda: set(sent) <= set(self.bodies), "all that was sent")
        except AssertionError as failure:
            missing = sorted(set(sent).difference(self.bodies))
            failure.add_note(f"{len(missing)} of {len(sent)} not read, {len(self.bodies)} rows read: {missing[:8]}")
            raise

    def for_s(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        self.until(lambda: time.monotonic() > deadline, "a clock that goes on")


@pytest.mark.parametrize("server", ["proxy", "broker"])
def test_it_is_waited_for_and_nothing_is_lost(
    server: str, cluster: EmbeddedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    kill, start = (
        (cluster.kill_proxy, cluster.start_proxy) if server == "proxy" else (cluster.kill_broker, cluster.start_broker)
    )
    caplog.set_level(logging.INFO, "rocketmq_spark")
    with closing(MessageGroup(cluster, GRPC)) as desk:
        query = Query(desk)
        with closing(query):
            with steady_messages(desk.messages, any_broker=True) as sent:
                query.until(lambda: len(query.bodies) > 50, "rows before")
                kill()
                query.for_s(OUTAGE_S)
                start()
                before = len(query.bodies)
                query.until(lambda: len(query.bodies) > before + 50, "rows after")
            query.until_read(sent)
            query.until(lambda: OVER.fullmatch(reported(caplog)[-1]) is not None, "a line that it is over")
        assert query.waited_for
    assert WAITING.match(reported(caplog)[0])


def reported(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Lines of what is waited for."""
    return [
        one.getMessage()
        for one in caplog.records
        if "aiting for" in one.getMessage() or "Recovered" in one.getMessage()
    ]
