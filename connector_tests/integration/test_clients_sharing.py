"""Three kinds of clients share the messages of one group: a Java consumer to which brokers deliver them, the official
Python client behind a proxy, and queries of both kinds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Protocol

import pytest

from connector_tests.support.cluster_pool import ClusterPool
from connector_tests.support.java_group import JavaGroup, java_group
from connector_tests.support.message_member import message_members
from connector_tests.support.official_member import official_member
from connector_tests.support.streams import Topic, eventually, steady_messages
from rocketmq_spark.embedded import EmbeddedCluster

pytestmark = [pytest.mark.broker, pytest.mark.full]

REBALANCE_INTERVAL_MS = 2_000
ENOUGH = 50
"""Messages of each, before their shares are compared."""
SOME = 0.05
"""Of all messages, that each gets at least."""


@pytest.fixture(scope="module")
def cluster(clusters: ClusterPool) -> EmbeddedCluster:
    return clusters.get(proxy=True)


@pytest.fixture(scope="module")
def java() -> Iterator[JavaGroup]:
    with java_group(REBALANCE_INTERVAL_MS) as java:
        yield java


class Member(Protocol):
    def bodies(self) -> list[str]: ...


def seen(members: Mapping[str, Member]) -> Counter[str]:
    return Counter(body for one in members.values() for body in one.bodies())


def smallest_count(members: Mapping[str, Member]) -> int:
    return min(len(one.bodies()) for one in members.values())


def test_each_message_reaches_one_of_them(
    cluster: EmbeddedCluster, messages: Topic, group: str, java: JavaGroup, tmp_path: Path
) -> None:
    broker = cluster.broker_addr()
    cluster.mqadmin("updateSubGroup", "-b", broker, "-g", group)
    cluster.mqadmin("setConsumeMode", "-b", broker, "-t", messages.name, "-g", group, "-m", "POP", "-q", "0")
    of_group = {"consumerGroup": group, "subscribe": messages.name}
    with (
        message_members(tmp_path / "direct", "a", namesrvAddr=cluster.namesrv_addr, **of_group) as (direct,),
        message_members(tmp_path / "proxied", "b", endpoints=cluster.endpoints, **of_group) as (proxied,),
        official_member(tmp_path / "official", cluster.endpoints, group, messages.name) as official,
    ):
        member = java.pop(cluster.namesrv_addr, group, messages.name, "java")
        members: dict[str, Member] = {"direct": direct, "proxied": proxied, "official": official, "java": member}
        for query in (direct, proxied):
            query.start()
        first = messages.send(1)  # a poll of a group's empty queue may skip what arrives meanwhile
        eventually(lambda: seen(members).keys() == set(first), "the first message")
        with steady_messages(messages) as sent:
            eventually(lambda: all(one.bodies() for one in members.values()), "messages of each")
            eventually(lambda: smallest_count(members) >= max(ENOUGH, SOME * len(sent)), "a share for each")
        eventually(lambda: seen(members).keys() == {*first, *sent}, "all messages")
        member.leave()
    assert seen(members) == Counter([*first, *sent])
