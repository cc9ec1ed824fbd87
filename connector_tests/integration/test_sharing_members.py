"""Several queries that share the messages of a group: who gets how many, and what comes twice."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from connector_tests.support.cluster_pool import ClusterPool
from connector_tests.support.message_member import MessageMember, message_members
from connector_tests.support.streams import Topic, eventually, steady_messages
from rocketmq_spark.embedded import EmbeddedCluster
from rocketmq_spark.embedded.pytest_plugin import unique_name

pytestmark = [pytest.mark.broker, pytest.mark.full]

IDLE_S = 3
UNDER_LOAD_S = 10
FAIR = 0.2
ATTEMPTS = 3


@dataclass(frozen=True)
class Way:
    """To the messages of a cluster."""

    cluster: EmbeddedCluster
    server: Mapping[str, str]


@pytest.fixture(scope="module", params=["namesrvAddr", "endpoints"])
def way(request: pytest.FixtureRequest, clusters: ClusterPool) -> Way:
    """To the brokers, or to a proxy."""
    cluster = clusters.get(proxy=True)
    if request.param == "endpoints":
        return Way(cluster, {"endpoints": cluster.endpoints})
    return Way(cluster, {"namesrvAddr": cluster.namesrv_addr, "startingOffsets": "earliest"})


def steady(topic: Topic) -> list[str]:
    with steady_messages(topic) as sent:
        time.sleep(UNDER_LOAD_S)
    return sent


def burst(topic: Topic) -> list[str]:
    return topic.send_batches(6_000)


@pytest.mark.parametrize("load", [steady, burst])
def test_three_members_of_one_queue_get_a_fair_share_each(
    way: Way, load: Callable[[Topic], list[str]], group: str, tmp_path: Path
) -> None:
    """From the first seconds on that follow idle ones: each had been waiting for a message. A member that a busy
    machine does not run for these seconds has less, but not each time."""
    shares: list[float] = []
    while not shares or (max(shares) < FAIR and len(shares) < ATTEMPTS):
        attempt = f"{group}-{len(shares)}"
        shares.append(smallest_share(way, load, attempt, tmp_path / attempt))
    assert max(shares) >= FAIR, f"smallest shares {shares}"


def smallest_share(way: Way, load: Callable[[Topic], list[str]], group: str, folder: Path) -> float:
    """Of three members, of all messages; nothing comes twice but what expired."""
    folder.mkdir()
    cluster = way.cluster
    topic = Topic(cluster, cluster.create_topic(unique_name("one_queue"), queues=1))
    with message_members(folder, "abc", consumerGroup=group, subscribe=topic.name, **way.server) as members:
        for member in members:
            member.start()
        eventually(lambda: all(member.has_begun for member in members), "members that wait for messages")
        time.sleep(IDLE_S)
        sent = load(topic)
        eventually(lambda: seen_by(members).keys() == set(sent), "all messages")
        shares = [len(member.bodies()) for member in members]
        expired = sum(member.printed("expired") for member in members)
    topic.close()
    assert seen_by(members).total() - len(sent) <= expired
    return min(shares) / len(sent)


def seen_by(members: Sequence[MessageMember]) -> Counter[str]:
    return Counter(body for member in members for body in member.bodies())
