"""``rocketmq-spark dlq`` on a broker that runs."""

from __future__ import annotations

import json
import re
from contextlib import closing

import pytest

from connector_tests.integration.test_broker_operations import member, pulled, send_back
from connector_tests.support.admin_broker import AdminBroker
from connector_tests.support.streams import Topic, eventually
from rocketmq_spark.cli.dlq import read_dead_letters
from rocketmq_spark.cli.main import main
from rocketmq_spark.cli.name_server import cluster_at
from rocketmq_spark.embedded import EmbeddedCluster
from rocketmq_spark.model import BrokerAddress, Message, MessageExt
from rocketmq_spark.remoting.pool import ConnectionPool

pytestmark = [pytest.mark.broker, pytest.mark.usefixtures("namesrv_addr")]


def dead_letters(cluster: EmbeddedCluster, group: str) -> list[MessageExt]:
    with cluster_at(cluster.namesrv_addr, {}) as client:
        return read_dead_letters(client, group)


@pytest.fixture
def dead(cluster: EmbeddedCluster, messages: Topic, group: str) -> list[MessageExt]:
    """Two dead letters of the group, with a tag, keys and a user's property."""
    bodies = ("first", "second")
    messages.send_as_they_are(
        [Message(messages.name, body.encode(), "books", f"key-{body}", {"region": "eu"}) for body in bodies]
    )
    (queue,) = (queue for queue, held in messages.bounds().items() if held.max_offset)
    with member(cluster, group, messages.name) as mine:
        for failed in pulled(mine, group, queue):
            send_back(mine, group, failed, delay_level=-1)
    eventually(lambda: len(dead_letters(cluster, group)) == 2, "two dead letters")
    return dead_letters(cluster, group)


def test_group_without_dead_letters_lists_none(group: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dlq", "list", "--group", group]) == 0
    assert main(["dlq", "redrive", "--group", group, "--all"]) == 0
    assert capsys.readouterr().out == ""


def test_dead_letters_are_listed(dead: list[MessageExt], group: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dlq", "list", "--group", group]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [
        re.search(r"offset (\d+) (\S+) tags=books keys=key-(\w+) body=\3$", line) is not None for line in lines
    ] == [
        True,
        True,
    ]
    assert main(["dlq", "list", "--group", group, "--json"]) == 0
    listed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [one["msgId"] for one in listed] == [one.msg_id for one in dead]


def test_dead_letters_are_sent_to_their_topic_again(
    cluster: EmbeddedCluster,
    messages: Topic,
    dead: list[MessageExt],
    group: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    first, second = dead
    before = messages.bounds()
    assert main(["dlq", "redrive", "--group", group, "--message-id", second.msg_id]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith(f"{second.msg_id} -> {messages.name}@broker-a:")
    eventually(lambda: sum(held.max_offset for held in messages.bounds().values()) == 3, "one message more")
    grown = [queue for queue, held in messages.bounds().items() if held.max_offset > before[queue].max_offset]
    with closing(ConnectionPool(3_000)) as pool:
        broker = AdminBroker(BrokerAddress(cluster.broker_addr()), pool, 5_000)
        again = pulled(broker, "TOOLS_CONSUMER", grown[0], before[grown[0]].max_offset)[0]
    assert (again.body, again.tags, again.keys) == (second.body, "books", second.keys)
    assert again.properties["region"] == "eu"
    assert again.reconsume_times == 0
    assert again.msg_id not in {first.msg_id, second.msg_id}
    assert main(["dlq", "redrive", "--group", group, "--all"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2
    assert len(dead_letters(cluster, group)) == 2


def test_unknown_id_sends_nothing(
    messages: Topic, dead: list[MessageExt], group: str, capsys: pytest.CaptureFixture[str]
) -> None:
    ids = ["--message-id", dead[0].msg_id, "--message-id", "no-such-id"]
    assert main(["dlq", "redrive", "--group", group, *ids]) == 1
    assert re.search(rf"DEAD_LETTERS_NOT_FOUND.*1 message not among .*'{group}': no-such-id", capsys.readouterr().err)
    assert sum(held.max_offset for held in messages.bounds().values()) == 2


def test_dead_letter_without_its_topic_needs_one(
    cluster: EmbeddedCluster, messages: Topic, group: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with closing(ConnectionPool(3_000)) as pool:
        broker = AdminBroker(BrokerAddress(cluster.broker_addr()), pool, 5_000)
        broker.ensure_group(group)
        broker.send_dead_letter(group, Message(messages.name, b"x"), "broker-a")
    eventually(lambda: len(dead_letters(cluster, group)) == 1, "a dead letter")
    assert main(["dlq", "redrive", "--group", group, "--all"]) == 1
    assert "DEAD_LETTERS_WITHOUT_TOPIC" in capsys.readouterr().err
    assert main(["dlq", "redrive", "--group", group, "--all", "--to", messages.name]) == 0
    eventually(lambda: sum(held.max_offset for held in messages.bounds().values()) == 1, "the message")


@pytest.mark.parametrize(
    "arguments", [["list"], ["redrive", "--group", "g"], ["redrive", "--group", "g", "--to", "t"], []]
)
def test_wrong_arguments_are_a_usage_error(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["dlq", *arguments])
    assert ended.value.code == 2
