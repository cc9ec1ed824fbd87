"""Queries with a pattern, in a simulated cluster: topics appear and vanish while they run, and between two runs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from connector_tests.support.delivery_checker import MessageDeliveryChecker
from connector_tests.support.one_broker_group import QUEUES, Group
from connector_tests.support.simulated_cluster import Connection, Reach
from connector_tests.support.simulated_group import SimulatedGroup
from connector_tests.support.simulated_query import SimulatedQuery, SourceRunner
from rocketmq_spark.consumer.member import list_topics
from rocketmq_spark.consumer.membership import Membership
from rocketmq_spark.errors import TransportError
from rocketmq_spark.model import MessageQueue
from rocketmq_spark.source.stream.offsets import SourceOffset

PATTERN = {"subscribePattern": "[tuv]"}
T, U = MessageQueue("t", "a", 0), MessageQueue("u", "a", 0)


@contextmanager
def group_of(*topics: str, starting_offsets: str = "latest", **options: str) -> Iterator[SimulatedGroup]:
    layout = {topic: {"a": 1} for topic in topics} or {"other": {"a": 1}}
    with SimulatedGroup(
        layout, starting_offsets=starting_offsets, options=PATTERN | options, checker=MessageDeliveryChecker
    ) as group:
        yield group


def begun(group: SimulatedGroup, query: SimulatedQuery) -> SourceRunner:
    runner = group.start(query)
    read_on(group, runner)
    return runner


def killed(group: SimulatedGroup, runner: SourceRunner) -> None:
    """And the brokers have noticed."""
    runner.kill()
    group.cluster.lose_connections(runner)


def read_on(group: SimulatedGroup, *runners: SourceRunner) -> None:
    """Timers fire, and Spark asks, until nothing more comes of it."""
    for _ in range(3):
        group.pass_time(20_000)
        for runner in runners:
            runner.resume()
    group.check()


def create(group: SimulatedGroup, queue: MessageQueue, count: int) -> None:
    group.cluster.create_topic(queue.topic, {queue.broker_name: 1})
    group.cluster.produce(queue, count)


def read(query: SimulatedQuery) -> list[tuple[str, int, int]]:
    """Topic and offsets of all ranges in the batches of ``query``."""
    ends = (SourceOffset.from_json(json.loads(text)) for text in query.checkpoint.offsets)
    return [(one.queue.topic, one.begin_offset, one.end_offset) for end in ends for one in end.ranges()]


def positions(query: SimulatedQuery) -> Mapping[MessageQueue, int]:
    end = SourceOffset.from_json(json.loads(query.checkpoint.last))
    return {queue: progress.end_offset for queue, progress in end.queues.items()}


def test_topic_that_appears_later_is_read_from_its_first_message() -> None:
    with group_of("t") as group:
        group.cluster.produce(T, 2)
        query = group.query("A")
        runner = begun(group, query)
        create(group, U, 3)
        group.cluster.produce(T, 1)
        read_on(group, runner)
        assert sorted(read(query)) == [("t", 2, 3), ("u", 0, 3)]


def test_topic_that_appears_while_no_query_runs_is_read_from_its_first_message() -> None:
    with group_of("t") as group:
        query = group.query("A")
        killed(group, begun(group, query))
        create(group, U, 3)
        begun(group, query)
        assert read(query) == [("u", 0, 3)]


def test_new_member_reads_what_the_group_has_not_from_the_first_message() -> None:
    """The group has begun: what no member knows yet would be lost, if it started where a new group does."""
    with group_of("t") as group:
        killed(group, begun(group, group.query("A")))
        create(group, U, 3)
        query = group.query("B")
        begun(group, query)
        assert read(query) == [("u", 0, 3)]


def test_topic_that_appears_is_no_error_where_the_group_must_have_offsets() -> None:
    with group_of("t", startingOffsets="group") as group:
        group.cluster.brokers["a"].offsets[T] = 0
        query = group.query("A")
        runner = begun(group, query)
        create(group, U, 3)
        read_on(group, runner)
        assert read(query) == [("u", 0, 3)]


def test_pattern_that_matches_nothing_waits_and_starts_at_first_messages() -> None:
    with group_of() as group:
        query = group.query("A")
        runner = begun(group, query)
        assert runner.is_alive
        assert positions(query) == {}
        create(group, U, 3)
        read_on(group, runner)
        assert read(query) == [("u", 0, 3)]


def test_query_that_had_no_topic_before_has_begun_after_a_restart() -> None:
    with group_of() as group:
        query = group.query("A")
        killed(group, begun(group, query))
        create(group, U, 3)
        begun(group, query)
        assert read(query) == [("u", 0, 3)]


def test_available_now_without_a_topic_ends() -> None:
    with group_of() as group:
        runner = group.start(group.query("A"), available_now=True)
        for _ in range(2):
            runner.resume()
        assert (runner.is_alive, runner.error) == (False, None)


def test_deleted_topic_keeps_its_position_and_ends_no_query() -> None:
    with group_of("t", "u", starting_offsets="earliest") as group:
        group.cluster.produce(U, 3)
        query = group.query("A")
        runner = begun(group, query)
        group.cluster.delete_topic("u")
        for _ in range(30):
            read_on(group, runner)
        group.cluster.produce(T, 1)
        read_on(group, runner)
        assert (runner.is_alive, positions(query)) == (True, {T: 1, U: 3})


def test_deleted_topic_that_comes_back_as_another_is_treated_as_any_recreated_one() -> None:
    with group_of("t", "u", starting_offsets="earliest", failOnDataLoss="false") as group:
        group.cluster.produce(U, 3)
        query = group.query("A")
        runner = begun(group, query)
        group.cluster.delete_topic("u")
        read_on(group, runner)
        create(group, U, 5)
        read_on(group, runner)
        assert read(query) == [("u", 0, 3), ("u", 0, 5)]
        assert group.cluster.group_offset(U) == 5


def test_topic_whose_broker_comes_back_resumes_where_it_was() -> None:
    layout = {"t": {"a": 1}, "u": {"b": 1}}
    with SimulatedGroup(layout, options=PATTERN) as group:
        other = MessageQueue("u", "b", 0)
        group.cluster.produce(other, 3)
        query = group.query("A")
        runner = begun(group, query)
        group.cluster.brokers["b"].reach = Reach.UNAVAILABLE
        read_on(group, runner)
        assert [outage["resource"] for outage in runner.progress()["outages"]] != []
        group.cluster.brokers["b"].reach = Reach.UP
        group.cluster.produce(other, 2)
        read_on(group, runner)
        assert read(query) == [("u", 0, 3), ("u", 3, 5)]


def test_topic_deleted_in_an_available_now_run_is_not_waited_for() -> None:
    with group_of("t", "u", starting_offsets="earliest", maxOffsetsPerTrigger="1") as group:
        group.cluster.produce(U, 3)
        query = group.query("A")
        runner = group.start(query, available_now=True)
        runner.resume(stops=("the batch",))
        group.cluster.delete_topic("u")
        group.pass_time(20_000)
        for _ in range(5):
            runner.resume()
        assert (runner.is_alive, runner.error) == (False, None)
        assert read(query)[0] == ("u", 0, 1)


def test_members_with_different_topics_read_on_and_converge() -> None:
    with group_of("t", starting_offsets="earliest") as group:
        first, second = (group.query(name, instanceName=name) for name in "AB")
        runners = [begun(group, first), begun(group, second)]
        group.cluster.create_topic("u", {"a": 2})
        queues = [MessageQueue("u", "a", number) for number in range(2)]
        for queue in queues:
            group.cluster.produce(queue, 3)
        with runners[0].member.group_lock():
            list_topics(runners[0].membership)
        runners[0].resume()
        assert read(first) == [("u", 0, 3)], "its share; the other does not know the topic yet"
        read_on(group, *runners)
        assert [runner.error for runner in runners] == [None, None]
        assert sorted(read(first) + read(second)) == [("u", 0, 3), ("u", 0, 3)]
        assert [group.cluster.group_offset(queue) for queue in queues] == [3, 3]


# ------------------------------------------------------------------------------------------ heartbeats


def subscribed_at(group: Group) -> tuple[dict[str, int], int]:
    """The versions of the subscriptions in the last heartbeat, by topic, and how many heartbeats there were."""
    ours: list[Connection] = [one for one in group.broker.connections.values() if one.heartbeat is not None]
    assert ours[-1].heartbeat is not None
    (consumer,) = ours[-1].heartbeat.consumers
    return {one.topic: one.version_ms for one in consumer.subscriptions}, len(ours)


def member_of(group: Group, **given: str) -> Membership:
    return group.member(**{"subscribePattern": "orders.*", **given})


def test_changed_topics_are_in_new_heartbeats_of_a_higher_version() -> None:
    group = Group()
    member = member_of(group)
    member.refresh_metadata()
    before, _ = subscribed_at(group)
    group.cluster.create_topic("orders-b", {"broker-a": 1})
    list_topics(member)
    after, _ = subscribed_at(group)
    assert before.keys() == {"orders", "%RETRY%g"}
    assert after.keys() == {"orders", "orders-b", "%RETRY%g"}
    assert min(after.values()) > max(before.values())
    assert {one.topic for one in member.log_and_snapshot().view.consumer.subscriptions} == {"orders", "orders-b"}


def test_earlier_heartbeat_that_arrives_late_is_repeated_with_the_current_topics() -> None:
    group = Group()
    member = member_of(group)
    member.refresh_metadata()
    outdated = member.members.next_heartbeats()
    group.cluster.create_topic("orders-b", {"broker-a": 1})
    list_topics(member)
    member.members.record_acknowledged(outdated, member.client.send(outdated))
    assert "orders-b" not in subscribed_at(group)[0]
    member.rebalance()
    assert "orders-b" in subscribed_at(group)[0]


def test_deleted_topic_is_dropped_without_a_commit() -> None:
    group = Group()
    group.cluster.create_topic("orders-b", {"broker-a": 1})
    member = member_of(group, consumeOrderly="true")
    later = MessageQueue("orders-b", "broker-a", 0)
    assert member.refresh_metadata().owned == {*QUEUES, later}
    member.mark_in_flight({later: (0, 5)})
    group.cluster.delete_topic("orders-b")
    list_topics(member)
    member.mark_completed({later: 5}, {})
    snapshot = member.refresh_metadata([later])
    assert snapshot.owned == set(QUEUES)
    assert snapshot.topics == {"orders"}
    assert snapshot.is_complete
    assert later not in group.broker.offsets
    assert member.offsets.unconfirmed == {}


def test_member_without_a_topic_owns_nothing_and_is_complete() -> None:
    group = Group()
    member = member_of(group, subscribePattern="none")
    snapshot = member.refresh_metadata()
    assert not snapshot.owned
    assert snapshot.is_complete


def test_topics_that_cannot_be_listed_make_no_complete_snapshot() -> None:
    group = Group()
    group.cluster.name_server_error = TransportError("CONNECT_FAILED", address="n:9876", reason="refused")
    snapshot = member_of(group).refresh_metadata()
    assert not snapshot.is_complete
