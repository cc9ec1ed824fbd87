"""A broker that was killed and has lost its last messages: what it stores at their offsets from then on is read."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from connector_tests.support.cluster_pool import RestingCluster
from connector_tests.support.source_calls import SourceCalls, source_calls
from connector_tests.support.streams import Topic, eventually
from rocketmq_spark.consumer import member
from rocketmq_spark.embedded import EmbeddedCluster
from rocketmq_spark.embedded.pytest_plugin import unique_name
from rocketmq_spark.remoting import tail_watch

pytestmark = pytest.mark.full

MESSAGE_FILES: Final = ("commitlog", "consumequeue", "index", "checkpoint", "abort")
SUSPEND_MS: Final = 500
HELD_S: Final = 8.0
"""A broker looks every 5 s at which pulls it has held for long enough (``PullRequestHoldService``)."""


@pytest.fixture(scope="module")
def fragile() -> Iterator[EmbeddedCluster]:
    with RestingCluster(separate_jvms=True) as cluster:
        yield cluster


@pytest.fixture
def single_queue(fragile: EmbeddedCluster) -> Iterator[Topic]:
    fragile.check()  # the test before may have killed the broker for good
    topic = Topic(fragile, fragile.create_topic(unique_name("tail"), 1))
    yield topic
    topic.close()


def copy_messages(source: Path, target: Path) -> None:
    """Copy what a broker has stored, as a machine without power would find it; the group's offsets are kept."""
    for name in MESSAGE_FILES:
        before, after = source / name, target / name
        if after.is_dir():
            shutil.rmtree(after)
        if before.is_dir():
            shutil.copytree(before, after)
        elif before.exists():
            shutil.copy2(before, after)


def lose_tail(cluster: EmbeddedCluster, kept: Path) -> None:
    """Kill the broker, and start it with the messages in ``kept`` only."""
    cluster.kill_broker()
    copy_messages(kept, cluster.store_dir())
    cluster.start_broker()


def bodies_of_next(calls: SourceCalls) -> list[str]:
    """The bodies of the next batch; of batches without rows, those of the one after."""
    found: list[str] = []

    def has_found() -> bool:
        found.extend(row["body"].decode() for row in calls.next_batch())
        return bool(found)

    eventually(has_found, "a batch with rows")
    return found


def is_idle(calls: SourceCalls, messages: Topic, group: str) -> bool:
    """After a call without rows. A commit that timed out is due again at the next call."""
    assert calls.next_batch() == []
    return messages.lag(group) == 0


@pytest.mark.parametrize("moment", ["during a batch", "idle", "idle, not watched"])
def test_message_stored_over_a_lost_one_is_read(
    fragile: EmbeddedCluster,
    single_queue: Topic,
    group: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    moment: str,
) -> None:
    """The queue is as long as before. Not watched: the long poll is over, as while another source of the query is read,
    and the broker has the query's heartbeat again before the next call."""
    options = {"namesrvAddr": fragile.namesrv_addr, "consumerGroup": group, "subscribe": single_queue.name}
    options |= {"startingOffsets": "earliest", "failOnDataLoss": "false"}
    is_watched = moment != "idle, not watched"
    if not is_watched:
        monkeypatch.setattr(member, "HEARTBEAT_INTERVAL_MS", SUSPEND_MS)
        monkeypatch.setattr(tail_watch, "SHORTEST_SUSPEND_MS", SUSPEND_MS)
        monkeypatch.setattr(tail_watch, "SUSPEND_MS_PER_QUEUE", SUSPEND_MS)
    sent = single_queue.send(4)
    with source_calls(options) as calls:
        assert bodies_of_next(calls) == sent
        kept = tmp_path / "kept"
        kept.mkdir()
        copy_messages(fragile.store_dir(), kept)
        (lost,) = single_queue.send(1)
        assert bodies_of_next(calls) == [lost]
        if moment != "during a batch":
            eventually(lambda: is_idle(calls, single_queue, group), "an idle query with all committed")
        time.sleep(0 if is_watched else HELD_S)
        lose_tail(fragile, kept)
        assert [held.max_offset for held in single_queue.bounds().values()] == [len(sent)]
        (other,) = single_queue.send(1)
        assert other != lost
        if not is_watched:
            eventually(lambda: len(single_queue.members(group)) == 1, "the member at the broker again")
        assert bodies_of_next(calls) == [other]
        eventually(lambda: is_idle(calls, single_queue, group), "an idle query with all committed")
