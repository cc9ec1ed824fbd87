"""One of two brokers, or the name server, goes away under load and comes back: nothing is lost, nothing is read twice.

All tests share one cluster, each server of which has a JVM of its own; each has a topic and a group of its own.
"""

from __future__ import annotations

import re
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming.query import StreamingQuery

from connector_tests.spark.conftest import StreamOf
from connector_tests.support.cluster_pool import ClusterPool
from connector_tests.support.streams import TIMEOUT_S, Stream, Topic, eventually, steady_messages
from rocketmq_spark.embedded import EmbeddedCluster

pytestmark = pytest.mark.full

VICTIM = "broker-b"
SHORT_S = 2.0
BROKER_LONG_S = 150.0
"""A name server takes a broker out of its routes when it has not heard of it for 120 s."""

NAME_SERVER_LONG_S = 60.0
SOON = {"rebalanceIntervalMs": "1000"}


@pytest.fixture(scope="module")
def cluster(clusters: ClusterPool) -> EmbeddedCluster:
    """Instead of the session's: these tests break it."""
    return clusters.get(brokers=2, separate_jvms=True)


@dataclass(frozen=True)
class Failure:
    """What happens to a server, and what ends it."""

    name: str
    begin: Callable[[EmbeddedCluster], None]
    end: Callable[[EmbeddedCluster], None]


KILLED = Failure("broker killed", lambda c: c.kill_broker(VICTIM), lambda c: c.start_broker(VICTIM))
STOPPED = Failure("broker stopped", lambda c: c.stop_broker(VICTIM), lambda c: c.start_broker(VICTIM))
IN_BATCH = Failure("broker frozen", lambda c: c.pause_broker(VICTIM), lambda c: c.resume_broker(VICTIM))
NO_NAME_SERVER = Failure("name server killed", lambda c: c.kill_name_server(), lambda c: c.start_name_server())


def assert_each_stored_message_once(stream: Stream, messages: Topic, confirmed: list[str]) -> None:
    """The rows are the queues: every offset once, and every message that a broker had confirmed among them."""
    read: dict[object, list[int]] = defaultdict(list)
    rows = stream.places_and_bodies()
    for queue, offset, _ in rows:
        read[queue].append(offset)
    for queue, held in messages.bounds().items():
        assert sorted(read[queue]) == list(range(held.max_offset)), f"{queue}: lost, or read twice"
    assert set(confirmed) <= {body for _, _, body in rows}


def outlive(failure: Failure, for_s: float, cluster: EmbeddedCluster, messages: Topic, stream: Stream) -> None:
    with stream.running() as query:
        with steady_messages(messages, any_broker=True) as confirmed:
            eventually(lambda: rows_of_victim(stream) > 0, "the first rows")
            failure.begin(cluster)
            try:
                wait_while_it_runs(query, for_s)
            finally:
                failure.end(cluster)
            stored = stored_at_victim(messages)
            eventually(lambda: rows_of_victim(stream) > stored, "rows that were sent after the failure")
        messages.await_dispatch()
        eventually(lambda: messages.lag(stream.group) == 0, "everything read and committed")
        assert query.isActive
    assert_each_stored_message_once(stream, messages, confirmed)


def rows_of_victim(stream: Stream) -> int:
    return sum(queue.broker_name == VICTIM for queue, _, _ in stream.places_and_bodies())


def stored_at_victim(messages: Topic) -> int:
    return sum(bounds.max_offset for queue, bounds in messages.bounds().items() if queue.broker_name == VICTIM)


def wait_while_it_runs(query: StreamingQuery, for_s: float) -> None:
    until = time.monotonic() + for_s
    while time.monotonic() < until:
        assert query.isActive, query.exception()
        time.sleep(0.1)


@pytest.mark.parametrize("failure", [KILLED, IN_BATCH, NO_NAME_SERVER], ids=lambda failure: failure.name)
def test_a_server_that_sends_goaway_under_load_costs_nothing(
    cluster: EmbeddedCluster, messages: Topic, stream: StreamOf, failure: Failure
) -> None:
    outlive(failure, SHORT_S, cluster, messages, stream(**SOON))


DELETED_FOR_GOOD: Final = {"missingQueues": "drop", "missingQueuesTimeoutMs": "15000", "clusterTimeoutMs": "15000"}


def test_a_batch_whose_broker_is_killed_for_good_is_skipped_by_name_and_the_rest_read_once(
    cluster: EmbeddedCluster, messages: Topic, stream: StreamOf
) -> None:
    """No restart once got past it. The broker is killed when the batch is logged, before anything of it was pulled."""
    sent = messages.send(40)
    query = stream(**DELETED_FOR_GOOD)
    query.before_each_batch = lambda: cluster.kill_broker(VICTIM)
    failed = query.start(availableNow=True)
    with pytest.raises(StreamingQueryException) as raised:
        failed.awaitTermination(int(TIMEOUT_S))
    query.before_each_batch = lambda: None
    try:
        named = re.search(r"messages are then lost: (\S+)", str(raised.value))
        assert named is not None, raised.value
        assert set(re.findall("@([^:]+):", named[1])) == {VICTIM}
        resumed = stream(**DELETED_FOR_GOOD, skipRanges=named[1])
        resumed.run_to_end()
        more = messages.send(10)
        resumed.run_to_end()
        kept = resumed.places_and_bodies()
        assert set(more) <= {body for _, _, body in kept} <= {*sent, *more}
        held = messages.bounds()
        assert {queue.broker_name for queue in held} == {"broker-a"}
        places = {(queue, offset) for queue, bounds in held.items() for offset in range(bounds.max_offset)}
        assert Counter((queue, offset) for queue, offset, _ in kept) == Counter(places)
        assert messages.lag(resumed.group) == 0
    finally:
        cluster.start_broker(VICTIM)


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("failure", "for_s"),
    [
        (KILLED, BROKER_LONG_S),
        (STOPPED, BROKER_LONG_S),
        (IN_BATCH, BROKER_LONG_S),
        (NO_NAME_SERVER, NAME_SERVER_LONG_S),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_a_server_that_is_unavailable_for_minutes_costs_nothing(
    cluster: EmbeddedCluster, messages: Topic, stream: StreamOf, failure: Failure, for_s: float
) -> None:
    outlive(failure, for_s, cluster, messages, stream())
