"""Queues and bounds of a batch read, requested from the real broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing

import pytest

from connector_tests.support.streams import Topic
from rocketmq_spark.embedded import EmbeddedCluster
from rocketmq_spark.errors import RouteError, TransportError
from rocketmq_spark.model import MessageQueue
from rocketmq_spark.options import BatchReadOptions
from rocketmq_spark.remoting.pool import ConnectionPool
from rocketmq_spark.source.batch.queue_lookup import QueueLookup

pytestmark = pytest.mark.broker
LookupOf = Callable[..., QueueLookup]


@pytest.fixture
def lookup_of(cluster: EmbeddedCluster) -> Iterator[LookupOf]:
    with ExitStack() as pools:

        def make(**options: str) -> QueueLookup:
            given = {"namesrvAddr": cluster.namesrv_addr, "subscribe": "orders"} | options
            pool = pools.enter_context(closing(ConnectionPool(5_000)))
            return QueueLookup(BatchReadOptions.parse(given), pool)

        yield make


@pytest.fixture
def messages(cluster: EmbeddedCluster, topic: str) -> Iterator[Topic]:
    with closing(Topic(cluster, topic)) as handle:
        yield handle


def test_bounds_are_those_of_every_queue_in_order(lookup_of: LookupOf, messages: Topic) -> None:
    messages.send(9)
    lookup = lookup_of()
    found = lookup.query_bounds([messages.name])
    assert list(found) == list(messages.queues)
    assert found == messages.bounds()
    assert lookup.masters({messages.queues[0].broker_name, "other"}).keys() == {messages.queues[0].broker_name}


def test_offsets_at_a_time_are_those_of_the_first_later_messages(lookup_of: LookupOf, messages: Topic) -> None:
    messages.send(8)
    bounds, queues = messages.bounds(), messages.queues
    lookup = lookup_of()
    lookup.query_bounds([messages.name])
    first: dict[MessageQueue, int] = lookup.search_offsets(dict.fromkeys(queues, 0))
    last = lookup.search_offsets(dict.fromkeys(queues, 2**62))
    assert (first, last) == (
        {queue: bounds[queue].min_offset for queue in queues},
        {queue: bounds[queue].max_offset for queue in queues},
    )


def test_missing_topic_is_an_error_after_its_timeout(lookup_of: LookupOf) -> None:
    with pytest.raises(RouteError, match=r"TOPIC_NOT_FOUND.*no-such-topic"):
        lookup_of(missingTopicTimeoutMs="0").query_bounds(["no-such-topic"])


def test_unreachable_name_server_is_an_error_after_its_timeout(lookup_of: LookupOf) -> None:
    with pytest.raises(TransportError, match=r"CLUSTER_TIMEOUT.*name servers"):
        lookup_of(namesrvAddr="127.0.0.1:1", clusterTimeoutMs="0").query_bounds(["orders"])
