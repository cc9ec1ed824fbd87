"""Queues and bounds of a batch read, requested from the real broker."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing

import pytest

from connector_tests.support.streams import Topic
from connector_tests.support.timeouts import PATIENT_MS
from rocketmq_spark.embedded import EmbeddedCluster
from rocketmq_spark.embedded.pytest_plugin import unique_name
from rocketmq_spark.errors import OptionError, RouteError, TransportError
from rocketmq_spark.model import MessageQueue
from rocketmq_spark.options import BatchReadOptions
from rocketmq_spark.remoting.pool import ConnectionPool
from rocketmq_spark.source.batch.batch_plan import QueueLookup

pytestmark = pytest.mark.broker
LookupOf = Callable[..., QueueLookup]


@pytest.fixture
def lookup_of(cluster: EmbeddedCluster) -> Iterator[LookupOf]:
    with ExitStack() as pools:

        def make(**options: str) -> QueueLookup:
            given = {"namesrvAddr": cluster.namesrv_addr} | (options or {"subscribe": "orders"})
            pool = pools.enter_context(closing(ConnectionPool(PATIENT_MS)))
            return QueueLookup(BatchReadOptions.parse(given), pool)

        yield make


@pytest.fixture
def messages(cluster: EmbeddedCluster, topic: str) -> Iterator[Topic]:
    with closing(Topic(cluster, topic)) as handle:
        yield handle


def test_bounds_are_those_of_every_queue_in_order(lookup_of: LookupOf, messages: Topic) -> None:
    messages.send(9)
    lookup = lookup_of()
    found = lookup.query_bounds(lookup.query_queues([messages.name]))
    assert list(found) == list(messages.queues)
    assert found == messages.bounds()
    assert lookup.masters({messages.queues[0].broker_name, "other"}).keys() == {messages.queues[0].broker_name}


def test_offsets_at_a_time_are_those_of_the_first_later_messages(lookup_of: LookupOf, messages: Topic) -> None:
    messages.send(8)
    bounds, queues = messages.bounds(), messages.queues
    lookup = lookup_of()
    lookup.query_queues([messages.name])
    first: dict[MessageQueue, int] = lookup.search_offsets(dict.fromkeys(queues, 0))
    last = lookup.search_offsets(dict.fromkeys(queues, 2**62))
    assert (first, last) == (
        {queue: bounds[queue].min_offset for queue in queues},
        {queue: bounds[queue].max_offset for queue in queues},
    )


def test_missing_topic_is_an_error_after_its_timeout(lookup_of: LookupOf) -> None:
    with pytest.raises(RouteError, match=r"TOPIC_NOT_FOUND.*no-such-topic"):
        lookup_of(subscribe="no-such-topic", missingTopicTimeoutMs="0").query_selected_bounds()


def test_unreachable_name_server_is_an_error_after_its_timeout(lookup_of: LookupOf) -> None:
    unreachable = {"namesrvAddr": "127.0.0.1:1", "clusterTimeoutMs": "0"}
    for selection in ({"subscribe": "orders"}, {"subscribePattern": ".*"}, {"assign": '{"orders":{"b":[0]}}'}):
        with pytest.raises(TransportError, match=r"CLUSTER_TIMEOUT.*name servers"):
            lookup_of(**unreachable, **selection).query_selected_bounds()


def test_assigned_queues_alone_have_bounds(lookup_of: LookupOf, messages: Topic) -> None:
    messages.send(9)
    (broker_name,) = {queue.broker_name for queue in messages.queues}
    found = lookup_of(assign=json.dumps({messages.name: {broker_name: [3, 1]}})).query_selected_bounds()
    assert found == {queue: held for queue, held in messages.bounds().items() if queue.queue_id in (1, 3)}


def test_assigned_queues_that_are_missing_are_listed(lookup_of: LookupOf, messages: Topic) -> None:
    (broker_name,) = {queue.broker_name for queue in messages.queues}
    lookup = lookup_of(assign=json.dumps({messages.name: {broker_name: [0, 4, 9], "no-broker": [0]}}))
    with pytest.raises(OptionError) as raised:
        lookup.query_selected_bounds()
    name = messages.name
    assert str(raised.value) == (
        "[ROCKETMQ_ASSIGNED_QUEUES_NOT_FOUND] 3 queues of 'assign' not found, or not readable: "
        f"{name}@{broker_name}:4, {name}@{broker_name}:9, {name}@no-broker:0. Correct the list. If a broker is "
        "unavailable, start it, or remove its queues."
    )


def test_pattern_matches_whole_names_of_users_topics(
    cluster: EmbeddedCluster, lookup_of: LookupOf, caplog: pytest.LogCaptureFixture
) -> None:
    prefix = unique_name("pattern")
    names = [cluster.create_topic(f"{prefix}{end}", 1) for end in ("-a", "-b", "-b2", "x")]
    cluster.create_topic(f"%DLQ%{prefix}-a", 1)
    found = lookup_of(subscribePattern=f"{prefix}-[ab]|nothing").query_selected_bounds()
    assert [queue.topic for queue in found] == names[:2]
    assert {queue.topic for queue in lookup_of(subscribePattern=f".*{prefix}.*").query_selected_bounds()} == set(names)
    system_topics = lookup_of(subscribePattern="TBW102|SELF_TEST_TOPIC|broker-.*|.*Cluster.*|.*_REPLY_TOPIC|rmq_sys_.*")
    assert system_topics.query_selected_bounds() == {}
    assert "NO_TOPIC_MATCHES" in caplog.text
