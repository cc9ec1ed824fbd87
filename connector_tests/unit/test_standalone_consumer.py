"""A consumer of assigned queues: it owns them whatever happens in the group, and nobody hears of it."""

from __future__ import annotations

import pytest

from connector_tests.support.one_broker_group import QUEUES, Group
from connector_tests.support.simulated_cluster import Reach, SimulatedClusterClient
from rocketmq_spark.consumer.membership import Membership
from rocketmq_spark.consumer.standalone_consumer import StandaloneConsumer
from rocketmq_spark.consumer.subscribed_topics import warn_of_batch_queues
from rocketmq_spark.errors import BrokerError, OptionError
from rocketmq_spark.model import MessageFilter, MessageQueue
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.remoting.retry import REQUEST_PAUSES
from rocketmq_spark.source.stream.offsets import QueueProgress, SourceOffset
from rocketmq_spark.source.stream.start_positions import check_assigned

ASSIGNED = '{"orders":{"broker-a":[1,3]}}'


def consumer(group: Group, assigned: str = ASSIGNED, **given: str) -> Membership:
    required = {"namesrvAddr": "n:9876", "consumerGroup": "g", "assign": assigned}
    client = SimulatedClusterClient(group.cluster, "our connection")
    return Membership(ReadOptions.parse(required | given), "me", client, group.clock, group.clock, started_ms=1)


def test_consumer_owns_the_assigned_queues_beside_any_members() -> None:
    group = Group("you", "me", subscriptions={"you": {"payments": "*"}})
    group.broker.ignores_heartbeats = True
    subject = consumer(group)
    snapshot = subject.refresh_metadata()
    assert snapshot.owned == snapshot.bounds.keys() == {QUEUES[1], QUEUES[3]}
    assert snapshot.is_complete
    assert isinstance(subject.members, StandaloneConsumer)
    assert subject.members.next_heartbeats().addresses == ()


def test_consumer_is_in_no_list_and_commits_for_the_group() -> None:
    group = Group()
    subject = consumer(group)
    subject.refresh_metadata()
    subject.mark_in_flight({QUEUES[1]: (0, 5)})
    subject.mark_completed({QUEUES[1]: 5}, {})
    assert group.broker.offsets == {QUEUES[1]: 5}
    subject.leave()
    assert group.broker.consumer_ids() == []


def test_group_is_checked_once_because_a_pull_creates_it() -> None:
    """A broker rejected the offsets of a group that no heartbeat had created."""
    group = Group()
    subject = consumer(group)
    subject.refresh_metadata()
    subject.refresh_metadata()
    assert group.cluster.group_list_requests == ["orders"]
    group.broker.group_refusal = BrokerError(
        "GROUP_NOT_FOUND.BROKER", address="a:1", request="PULL_MESSAGE", code=26, remark="there is no g"
    )
    with pytest.raises(BrokerError, match=r"GROUP_NOT_FOUND\.BROKER.*there is no g"):
        consumer(group).refresh_metadata()


def test_brokers_of_assigned_queues_compile_sql92_once() -> None:
    group = Group(brokers=2)
    subject = consumer(group, subExpression="price > 5", expressionType="SQL92", commitOffsets="false")
    for _ in range(2):
        assert subject.refresh_metadata().owned == {QUEUES[1], QUEUES[3]}
    assert group.broker.checked_filters == [MessageFilter("price > 5", "SQL92")]
    assert group.cluster.brokers["broker-b"].checked_filters == []
    assert group.broker.connections == {}


def test_filter_on_batch_consume_queues_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    group = Group()
    group.cluster.topics_with_batch_queues.add("orders")
    warn_of_batch_queues.cache_clear()
    subject = consumer(group, subExpression="TagA")
    for _ in range(2):
        subject.refresh_metadata()
    assert [line.startswith("BATCHES_FILTERED") for line in caplog.messages].count(True) == 1


def test_batch_queues_are_logged_once_a_master_responds(caplog: pytest.LogCaptureFixture) -> None:
    group = Group()
    group.cluster.topics_with_batch_queues.add("orders")
    warn_of_batch_queues.cache_clear()
    group.broker.reach = Reach.UNAVAILABLE
    subject = consumer(group, subExpression="TagA")
    subject.refresh_metadata()
    group.broker.reach = Reach.UP
    group.clock.advance(REQUEST_PAUSES.longest_ms)
    subject.refresh_metadata()
    assert [line.startswith("BATCHES_FILTERED") for line in caplog.messages].count(True) == 1


def test_broker_without_an_assigned_queue_may_be_unresponsive() -> None:
    group = Group(brokers=2)
    group.cluster.brokers["broker-b"].reach = Reach.UNRESPONSIVE
    snapshot = consumer(group).refresh_metadata()
    assert snapshot.owned == {QUEUES[1], QUEUES[3]}
    assert snapshot.is_complete


@pytest.mark.parametrize("reach", [Reach.UNRESPONSIVE, Reach.UNAVAILABLE])
def test_assigned_queue_of_a_lost_broker_is_owned_again(reach: Reach) -> None:
    group = Group(brokers=2)
    subject = consumer(group, '{"orders":{"broker-a":[1],"broker-b":[0]}}')
    at_b = MessageQueue("orders", "broker-b", 0)
    assert subject.refresh_metadata().owned == {QUEUES[1], at_b}
    group.cluster.brokers["broker-b"].reach = reach
    snapshot = subject.refresh_metadata([QUEUES[1], at_b, QUEUES[0]])
    assert QUEUES[1] in snapshot.owned
    assert at_b not in snapshot.bounds
    assert set(snapshot.unavailable) == ({at_b} if reach is Reach.UNAVAILABLE else set()), "not those left out"
    group.cluster.brokers["broker-b"].reach = Reach.UP
    group.clock.advance(60_000)
    snapshot = subject.refresh_metadata([QUEUES[1], at_b, QUEUES[0]])
    assert snapshot.owned == snapshot.bounds.keys() == {QUEUES[1], at_b}


@pytest.mark.parametrize(("group_offsets", "has_others"), [("resume", False), ("ignore", True)])
def test_members_are_requested_where_their_offsets_would_be_reset(group_offsets: str, has_others: bool) -> None:
    subject = consumer(Group("you"), groupOffsets=group_offsets, startingOffsets="earliest")
    assert subject.refresh_metadata().owned == {QUEUES[1], QUEUES[3]}
    assert subject.members.record_other_members() == has_others


def test_assigned_queues_that_nothing_has_are_an_error_that_lists_them() -> None:
    assigned = (QUEUES[1], *(MessageQueue("orders", "broker-a", number) for number in (7, 8, 9)))
    snapshot = consumer(Group()).refresh_metadata()
    with pytest.raises(OptionError, match=r"ASSIGNED_QUEUES_NOT_FOUND\] 2 queues .*: orders@broker-a:7, \S+:9\."):
        check_assigned(assigned, SourceOffset({assigned[2]: QueueProgress(0, 5)}), snapshot)
    check_assigned(assigned[:1], SourceOffset(), snapshot)
    check_assigned((), SourceOffset(), snapshot)
