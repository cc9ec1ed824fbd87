from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from connector_tests.support.orphan import BETWEEN_CALLS, IN_A_CALL, PARENT
from connector_tests.support.process_tree import has_ended
from connector_tests.support.streams import Topic, eventually
from rocketmq_spark.consumer.member import Member
from rocketmq_spark.embedded import EmbeddedCluster
from rocketmq_spark.options import ReadOptions

pytestmark = pytest.mark.broker

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture
def idler(cluster: EmbeddedCluster, topic: str, group: str) -> Iterator[Member]:
    """A member that owns its part of the queues and reads nothing."""
    given = {"namesrvAddr": cluster.namesrv_addr, "consumerGroup": group, "subscribe": topic}
    member = Member(ReadOptions.parse(given))
    member.start()
    yield member
    member.stop()


@pytest.fixture
def parent(
    cluster: EmbeddedCluster, topic: str, group: str, idler: Member, place: str
) -> Iterator[subprocess.Popen[bytes]]:
    given = (cluster.namesrv_addr, topic, group, place)
    command = [sys.executable, "-m", "connector_tests.support.orphan", PARENT, *given]
    process = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(REPOSITORY)})
    yield process
    process.kill()
    process.wait()


@pytest.mark.parametrize(("place", "there"), [(IN_A_CALL, ["0", "0", "2", "2"]), (BETWEEN_CALLS, ["0", "0", "0", "0"])])
def test_a_source_runner_whose_parent_died_leaves_wherever_it_is_held_up(
    there: list[str], messages: Topic, group: str, idler: Member, parent: subprocess.Popen[bytes]
) -> None:
    messages.send(8)
    eventually(lambda: len(messages.members(group)) == 2, "the source run joins")
    eventually(lambda: sorted(map(str, messages.committed(group).values())) == there, "it is held up there")
    (runner,) = psutil.Process(parent.pid).children()
    try:
        parent.send_signal(signal.SIGKILL)
        parent.wait()
        eventually(lambda: messages.members(group) == [idler.client_id], "it leaves the group")
        eventually(lambda: has_ended(runner), "it ends")
    finally:
        with suppress(psutil.NoSuchProcess):
            runner.kill()
