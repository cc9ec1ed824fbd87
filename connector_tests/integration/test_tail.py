"""``rocketmq-spark tail`` on a broker that runs."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from contextlib import closing

import pytest

from connector_tests.support.streams import Topic, await_resumed_dispatch, eventually
from connector_tests.support.timeouts import PATIENT, PROCESS_S
from rocketmq_spark.cli.arguments import cluster_at
from rocketmq_spark.cli.main import main
from rocketmq_spark.cli.message_lines import message_of
from rocketmq_spark.cli.message_reading import PULLED_MESSAGES, read_messages
from rocketmq_spark.cli.tail import last_ranges
from rocketmq_spark.embedded import EmbeddedCluster
from rocketmq_spark.embedded.pytest_plugin import unique_name
from rocketmq_spark.model import Message, MessageQueue, QueueBounds
from rocketmq_spark.remoting.producer import Producer
from rocketmq_spark.wire.message.sys_flag import MessageSysFlag

pytestmark = [pytest.mark.broker, pytest.mark.usefixtures("namesrv_addr")]

VACANT = 1_100

Q0, Q1 = (MessageQueue("orders", "broker-a", queue_id) for queue_id in range(2))


def test_last_messages_are_printed_in_the_order_of_their_times(
    messages: Topic, capsys: pytest.CaptureFixture[str]
) -> None:
    messages.send(7)
    stored_ms = time.time_ns() // 1_000_000
    eventually(lambda: time.time_ns() // 1_000_000 > stored_ms, "the next millisecond")
    sent = messages.send(5)
    assert main(["tail", messages.name, "-n", "5", "--json"]) == 0
    printed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert sorted(one["body"] for one in printed) == sorted(sent)
    assert main(["tail", messages.name]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 10
    assert main(["tail", messages.name, "-n", "0"]) == 0
    assert capsys.readouterr().out == ""


def test_undecodable_message_is_one_line_among_the_others(
    cluster: EmbeddedCluster, messages: Topic, capsys: pytest.CaptureFixture[str]
) -> None:
    sent = messages.send(2)
    with cluster_at(cluster.namesrv_addr, PATIENT) as client:
        Producer(client, group="tests").send(Message(messages.name, b"plain"), sys_flag=MessageSysFlag.COMPRESSED)
    eventually(lambda: sum(held.max_offset for held in messages.bounds().values()) == 3, "three messages")
    assert main(["tail", messages.name, "--json"]) == 0
    printed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert sorted(one["body"] for one in printed if "body" in one) == sorted(sent)
    assert [one["problem"][:23] for one in printed if "problem" in one] == ["its ZLIB body is damage"]


def test_messages_behind_made_up_ipv6_flags_are_all_printed(
    cluster: EmbeddedCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    """The broker stores such a message at an offset, and later ones at stored offsets beyond the queue's end."""
    with closing(Topic(cluster, cluster.create_topic(unique_name("flags"), 1))) as messages:
        sent = messages.send(1)
        with cluster_at(cluster.namesrv_addr, PATIENT) as client:
            lie, producer = Message(messages.name, b"lie"), Producer(client, group="tests")
            for _ in range(2):
                producer.send(lie, sys_flag=MessageSysFlag.BORNHOST_V6)
                await_resumed_dispatch(cluster)
        sent += messages.send(4)
        eventually(lambda: sum(held.max_offset for held in messages.bounds().values()) == len(sent), "all dispatched")
        assert main(["tail", messages.name, "--json"]) == 0
    printed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(one["queueOffset"], one["body"]) for one in printed] == list(enumerate(sent))


def test_messages_behind_offsets_without_a_message_are_all_printed_once(
    cluster: EmbeddedCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    """A pull there returns the message before them, and no later offset: the rest of the queue was omitted."""
    topic = cluster.create_topic(unique_name("vacant"), 1, attributes={"queue.type": "BatchCQ"})
    with closing(Topic(cluster, topic)) as messages:
        sent = messages.send(1)
        with cluster_at(cluster.namesrv_addr, PATIENT) as client:
            lie = Message(topic, b"lie", properties={"INNER_NUM": str(VACANT)})
            flags = MessageSysFlag.INNER_BATCH | MessageSysFlag.BORNHOST_V6
            Producer(client, group="tests").send(lie, sys_flag=flags)
        await_resumed_dispatch(cluster)
        sent += messages.send(4)
        eventually(lambda: sum(one.max_offset for one in messages.bounds().values()) == VACANT + 5, "all dispatched")
        for count, expected in ((VACANT + 5, sent), (10, sent[1:])):
            assert main(["tail", topic, "--json", "-n", str(count)]) == 0
            assert [json.loads(line)["body"] for line in capsys.readouterr().out.splitlines()] == expected


def test_later_messages_follow(cluster: EmbeddedCluster, messages: Topic) -> None:
    sent = messages.send(1)
    command = (sys.executable, "-m", "rocketmq_spark.cli.main", "tail", messages.name, "--follow", "--json")
    with subprocess.Popen([*command, "--namesrv", cluster.namesrv_addr], stdout=subprocess.PIPE, text=True) as followed:
        assert followed.stdout is not None
        try:
            assert json.loads(followed.stdout.readline())["body"] == sent[0]
            later = messages.send(3)
            bodies = [json.loads(followed.stdout.readline())["body"] for _ in later]
        finally:
            followed.terminate()
            followed.wait(PROCESS_S)
    assert sorted(bodies) == sorted(later)


def test_missing_topic_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tail", "no-such-topic"]) == 1
    assert "TOPIC_NOT_FOUND" in capsys.readouterr().err


def test_ranges_are_read_to_their_ends(cluster: EmbeddedCluster, messages: Topic) -> None:
    messages.send_batches(PULLED_MESSAGES * 3)
    (queue,) = (queue for queue, held in messages.bounds().items() if held.max_offset)
    with cluster_at(cluster.namesrv_addr, PATIENT) as client:
        found = list(read_messages(client, {queue: QueueBounds(2, PULLED_MESSAGES * 2)}))
    assert [message_of(stored).queue_offset for stored in found] == list(range(2, PULLED_MESSAGES * 2))


def test_last_offsets_are_those_that_a_queue_has() -> None:
    bounds = {Q0: QueueBounds(2, 9), Q1: QueueBounds(4, 5)}
    assert last_ranges(bounds, 3) == {Q0: QueueBounds(6, 9), Q1: QueueBounds(4, 5)}
