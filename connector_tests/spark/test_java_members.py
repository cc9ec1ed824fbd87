"""Java push and lite-pull consumers and Spark queries as members of one group."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException

from connector_tests.spark.conftest import StreamOf
from connector_tests.support.java_group import JavaGroup, java_group
from connector_tests.support.member_job import member_job
from connector_tests.support.streams import TIMEOUT_S, Topic, eventually, steady_messages
from rocketmq_spark.embedded import EmbeddedCluster
from rocketmq_spark.embedded.pytest_plugin import unique_name

pytestmark = pytest.mark.full

REBALANCE_INTERVAL_MS = 5_000
QUEUES = 8
TRIGGER = "500 milliseconds"
OPTIONS = {"rebalanceIntervalMs": str(REBALANCE_INTERVAL_MS)}

Leave = Callable[[], None]
Join = Callable[[], Leave]


@pytest.fixture(scope="module")
def java_members() -> Iterator[JavaGroup]:
    with java_group(REBALANCE_INTERVAL_MS) as members:
        yield members


@pytest.fixture
def topic(cluster: EmbeddedCluster, topic: str) -> str:
    """With eight queues."""
    return cluster.create_topic(topic, QUEUES)


class Scenario:
    """Members come and go, in one group on one topic. ``seen``: where to ask what each of them has read."""

    def __init__(
        self, cluster: EmbeddedCluster, messages: Topic, group: str, java: JavaGroup, stream: StreamOf, folder: Path
    ) -> None:
        self._namesrv_addr = cluster.namesrv_addr
        self._messages = messages
        self._group = group
        self._java = java
        self._stream = stream
        self._folder = folder
        self._count = 0
        self._seen: list[Callable[[], list[str]]] = []
        self._resources = ExitStack()

    def __enter__(self) -> Scenario:
        return self

    def __exit__(self, *error: object) -> None:
        self._resources.close()

    def java(self, kind: str) -> Leave:
        """A Java consumer joins; call what is returned to let it leave."""
        make = {"push": self._java.push, "lite_pull": self._java.lite_pull}[kind]
        name = f"{kind}-{len(self._seen)}"
        member = make(self._namesrv_addr, self._group, self._messages.name, name)
        self._resources.callback(member.leave)
        self._joined(member.bodies)
        return lambda: self._leaves(member.leave)

    def query(self, **options: str) -> Leave:
        """A query of this process's session joins."""
        stream = self._stream(f"query-{len(self._seen)}", **OPTIONS, **options)
        query = stream.start(processingTime=TRIGGER)
        self._resources.callback(query.stop)
        self._joined(stream.bodies)
        return lambda: self._leaves(query.stop)

    def query_to_be_killed(self) -> Leave:
        """A query in a process of its own joins; it leaves by SIGKILL."""
        options = {
            "namesrvAddr": self._namesrv_addr,
            "consumerGroup": self._group,
            "subscribe": self._messages.name,
            "startingOffsets": "earliest",
        }
        job = self._resources.enter_context(member_job(self._folder / f"job-{len(self._seen)}", **options, **OPTIONS))
        self._joined(job.bodies)
        return lambda: self._leaves(job.kill)

    def seen(self) -> Counter[str]:
        """How often each body was seen by anybody."""
        return Counter(body for seen in self._seen for body in seen())

    def seen_by_the_first(self) -> list[str]:
        return self._seen[0]()

    def unseen(self, sent: list[str]) -> set[str]:
        return set(sent) - self.seen().keys()

    def _joined(self, seen: Callable[[], list[str]]) -> None:
        self._seen.append(seen)
        self._count += 1
        self._settles()

    def _leaves(self, leave: Callable[[], None]) -> None:
        leave()
        self._count -= 1
        self._settles()

    def _settles(self) -> None:
        """The broker lists who is there; a moment later each queue has one owner."""
        eventually(lambda: len(set(self._messages.members(self._group))) == self._count, f"{self._count} members")
        is_shared = partial(self._messages.is_shared, self._group, self._count)
        eventually(is_shared, f"{self._count} members own each queue once")


@pytest.fixture
def scenario(
    cluster: EmbeddedCluster,
    messages: Topic,
    group: str,
    java_members: JavaGroup,
    stream: StreamOf,
    tmp_path: Path,
) -> Iterator[Scenario]:
    with Scenario(cluster, messages, group, java_members, stream, tmp_path) as scenario:
        yield scenario


def come_and_go(scenario: Scenario, messages: Topic, leaver: Join, rounds: int) -> None:
    """All four join, and all but one Spark query leave again, in changing order; every message is seen by someone."""
    with steady_messages(messages) as sent:
        scenario.query()
        for number in range(rounds):
            joins: list[Join] = [partial(scenario.java, "push"), leaver, partial(scenario.java, "lite_pull")]
            leaves = [join() for join in (joins if number % 2 == 0 else reversed(joins))]
            for leave in leaves:
                leave()
    eventually(lambda: not scenario.unseen(sent), "every message is seen by someone")


@pytest.mark.long
def test_what_fails_in_a_java_member_is_redelivered_to_the_owner_of_the_retry_queue(
    scenario: Scenario, messages: Topic
) -> None:
    scenario.java("push")
    scenario.query(retryTopic="true")
    sent = messages.send(2 * QUEUES, tag="fails-once")
    eventually(lambda: not scenario.unseen(sent), "every message is seen")
    failed = scenario.seen_by_the_first()
    assert failed
    eventually(
        lambda: all(scenario.seen()[body] > 1 for body in failed), "what failed in the Java member is seen again"
    )


def test_a_query_beside_a_java_member_that_subscribes_to_something_else_fails_and_names_both(
    cluster: EmbeddedCluster, messages: Topic, group: str, java_members: JavaGroup, stream: StreamOf
) -> None:
    other_topic = cluster.create_topic(unique_name("other"))
    member = java_members.push(cluster.namesrv_addr, group, other_topic, "stranger")
    try:
        theirs = f"@stranger' subscribes to %RETRY%{group} .*, {other_topic} "
        both = rf"INCONSISTENT_SUBSCRIPTION.*to {messages.name} .*{theirs}"
        with stream().running() as query, pytest.raises(StreamingQueryException, match=both):
            query.awaitTermination(int(TIMEOUT_S))
    finally:
        member.leave()


@pytest.mark.parametrize("rounds", [1, pytest.param(10, marks=pytest.mark.long)])
def test_java_and_spark_members_that_come_and_go_share_the_queues(
    scenario: Scenario, messages: Topic, rounds: int
) -> None:
    come_and_go(scenario, messages, scenario.query, rounds)


@pytest.mark.parametrize("rounds", [1, pytest.param(10, marks=[pytest.mark.long, pytest.mark.timeout(900)])])
def test_when_a_query_is_killed_java_and_spark_members_share_its_queues(
    scenario: Scenario, messages: Topic, rounds: int
) -> None:
    come_and_go(scenario, messages, scenario.query_to_be_killed, rounds)
