"""What RocketMQ's own tool reports an operator about a group of Spark queries, and what it does to a running one."""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Mapping
from typing import Final

import pytest

from connector_tests.spark.conftest import StreamOf
from connector_tests.support.consumer_offset_file import NAME, read_offsets
from connector_tests.support.streams import TIMEOUT_S, Topic, eventually
from connector_tests.support.timeouts import TIMEOUT_FACTOR
from rocketmq_spark.embedded import EmbeddedCluster

pytestmark = pytest.mark.full

TRIGGER_S: Final = 2
FLUSH_S: Final = 60 * TIMEOUT_FACTOR
"""A broker writes the groups' offsets to its file every 5 s."""


class Gate:
    """Holds a micro-batch that is planned and has pulled nothing yet."""

    def __init__(self) -> None:
        self._open = threading.Event()
        self._open.set()
        self._reached = threading.Event()

    def pass_by(self) -> None:
        self._reached.set()
        assert self._open.wait(TIMEOUT_S), "nobody opened the gate"

    def close(self) -> None:
        self._reached.clear()
        self._open.clear()

    def await_batch(self) -> None:
        assert self._reached.wait(TIMEOUT_S), "no batch came to the gate"

    def open(self) -> None:
        self._open.set()


def diff_total(consumer_progress: str) -> int:
    found = re.search(r"Consume Diff Total: (\d+)", consumer_progress)
    assert found is not None, consumer_progress
    return int(found[1])


def process_queues(consumer_status: str) -> dict[int, dict[str, str]]:
    """What ``consumerStatus`` shows of each queue in its "MQ Detail", by queue id."""
    found = re.findall(r"broker-a +(\d+) +ProcessQueueInfo \[(.*?)\]", consumer_status)
    return {int(queue_id): dict(re.findall(r"(\w+)=(\w+)", fields)) for queue_id, fields in found}


def offsets_on_disk(cluster: EmbeddedCluster, topic: str, group: str) -> dict[int, int]:
    """The group's offsets in the broker's file; {} while that is replaced."""
    try:
        offsets = read_offsets(cluster.store_dir() / "config" / NAME)
    except FileNotFoundError:
        return {}
    return offsets.get(f"{topic}@{group}", {})


def places_below(ends: Mapping[int, int]) -> Counter[tuple[int, int]]:
    """(queue id, queue offset) of everything below these ends."""
    return Counter((queue_id, offset) for queue_id, end in ends.items() for offset in range(end))


def test_rocketmqs_own_tool_reports_the_facts_and_is_obeyed(
    cluster: EmbeddedCluster, messages: Topic, stream: StreamOf, group: str
) -> None:
    sent = messages.send(12)
    stream().run_to_end()
    assert diff_total(cluster.mqadmin("consumerProgress", "-g", group)) == 0
    gate, operated = Gate(), stream()
    operated.before_each_batch = gate.pass_by
    with operated.running(processingTime=f"{TRIGGER_S} seconds"):
        sent += messages.send(20)
        eventually(lambda: operated.bodies() == sorted(sent), "all rows")
        eventually(lambda: messages.lag(group) == 0, "lag 0 within two triggers")
        assert diff_total(cluster.mqadmin("consumerProgress", "-g", group)) == 0
        (client_id,) = messages.members(group)

        connection = cluster.mqadmin("consumerConnection", "-g", group)
        assert re.search(rf"^{re.escape(client_id)} +127\.0\.0\.1:\d+ +PYTHON ", connection, re.MULTILINE), connection
        assert re.search(rf"^{messages.name} +\*$", connection, re.MULTILINE), connection
        assert "ConsumeType: CONSUME_ACTIVELY" in connection
        assert "MessageModel: CLUSTERING" in connection

        gate.close()
        sent += messages.send(8)
        gate.await_batch()
        held = process_queues(cluster.mqadmin("consumerStatus", "-g", group, "-i", client_id))
        assert {queue_id: one["commitOffset"] for queue_id, one in held.items()} == dict.fromkeys(range(4), "8")
        in_flight = {queue_id: one for queue_id, one in held.items() if one["cachedMsgCount"] != "0"}
        assert in_flight
        assert {one["cachedMsgMinOffset"] for one in in_flight.values()} == {"8"}
        # The batch may have begun while messages were still being sent, so it holds some or all of the last ones.
        planned_to = dict.fromkeys(range(4), 8)
        planned_to |= {queue_id: int(one["cachedMsgMaxOffset"]) + 1 for queue_id, one in in_flight.items()}
        assert set(planned_to.values()) <= {8, 9, 10}

        cluster.mqadmin("resetOffsetByTime", "-g", group, "-t", messages.name, "-s", "0")
        gate.open()
        as_reported = places_below(planned_to) + places_below(dict.fromkeys(range(4), 10))
        eventually(lambda: Counter(operated.places()) == as_reported, "everything once more")
        eventually(lambda: messages.lag(group) == 0, "and committed")
        at_max = {queue.queue_id: held.max_offset for queue, held in messages.bounds().items()}
        eventually(lambda: offsets_on_disk(cluster, messages.name, group) == at_max, "on disk", FLUSH_S)
        assert Counter(operated.places()) == as_reported
        assert sorted(set(operated.bodies())) == sorted(sent)
