"""``rocketmq-spark dlq`` on a broker that runs."""

from __future__ import annotations

import json
import re
from contextlib import closing
from dataclasses import replace

import pytest

from connector_tests.integration.test_broker_operations import member, pulled, send_back
from connector_tests.support.admin_broker import AdminBroker
from connector_tests.support.streams import Topic, eventually
from connector_tests.support.timeouts import PATIENT, PATIENT_MS
from rocketmq_spark.cli.arguments import cluster_at
from rocketmq_spark.cli.dlq import read_dead_letters
from rocketmq_spark.cli.main import main
from rocketmq_spark.cli.message_lines import message_of
from rocketmq_spark.embedded import EmbeddedCluster
from rocketmq_spark.embedded.pytest_plugin import unique_name
from rocketmq_spark.model import BrokerAddress, Message, MessageExt, MessageQueue
from rocketmq_spark.remoting.pool import ConnectionPool
from rocketmq_spark.wire.message.compression import compress
from rocketmq_spark.wire.message.sys_flag import MessageSysFlag

pytestmark = [pytest.mark.broker, pytest.mark.usefixtures("namesrv_addr")]

COMPRESSED = int(MessageSysFlag.COMPRESSED)


def dead_letters(cluster: EmbeddedCluster, group: str) -> list[MessageExt]:
    with cluster_at(cluster.namesrv_addr, PATIENT) as client:
        return [message_of(letter) for letter in read_dead_letters(client, group)]


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


def test_group_without_dead_letters_lists_none(
    cluster: EmbeddedCluster, group: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with closing(ConnectionPool(PATIENT_MS)) as pool:
        AdminBroker(BrokerAddress(cluster.broker_addr()), pool, PATIENT_MS).ensure_group(group)
    assert main(["dlq", "list", "--group", group]) == 0
    assert main(["dlq", "redrive", "--group", group, "--all"]) == 0
    assert capsys.readouterr() == ("", f"Group '{group}' has no dead letters.\n" * 2)


@pytest.mark.parametrize("arguments", [["list"], ["redrive", "--all"]])
def test_unknown_group_is_an_error(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dlq", *arguments, "--group", "no-such-group"]) == 1
    assert re.search(r"GROUP_NOT_FOUND\.CLUSTER.*'no-such-group'", capsys.readouterr().err)


def test_dead_letters_are_listed(
    messages: Topic, dead: list[MessageExt], group: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["dlq", "list", "--group", group]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [
        re.search(rf"offset (\d+) target={messages.name} (\S+) tags=books keys=key-(\w+) body=\3$", line) is not None
        for line in lines
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
    with closing(ConnectionPool(PATIENT_MS)) as pool:
        broker = AdminBroker(BrokerAddress(cluster.broker_addr()), pool, PATIENT_MS)
        again = pulled(broker, "TOOLS_CONSUMER", grown[0], before[grown[0]].max_offset)[0]
    assert (again.body, again.tags, again.keys) == (second.body, "books", second.keys)
    assert again.properties["region"] == "eu"
    assert again.reconsume_times == 0
    assert again.msg_id not in {first.msg_id, second.msg_id}
    assert main(["dlq", "redrive", "--group", group, "--all"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2
    assert len(dead_letters(cluster, group)) == 2


@pytest.fixture
def poison(cluster: EmbeddedCluster, dead: list[MessageExt], group: str) -> str:
    """The ID of a third dead letter, which is marked as compressed and is not."""
    return store_dead_letter(cluster, group, Message(dead[0].topic, b"plain"), COMPRESSED)


def store_dead_letter(cluster: EmbeddedCluster, group: str, message: Message, sys_flag: int = 0) -> str:
    """Store ``message`` in the dead-letter topic, which exists, as a hostile producer may; return its ID."""
    queue = MessageQueue(f"%DLQ%{group}", "broker-a", 0)
    stored = replace(message, topic=queue.topic, properties={"UNIQ_KEY": unique_name("ID"), **message.properties})
    with closing(ConnectionPool(PATIENT_MS)) as pool:
        broker = AdminBroker(BrokerAddress(cluster.broker_addr()), pool, PATIENT_MS)
        before = broker.max_offset(queue)
        broker.send(stored, queue, "tests", sys_flag)
        eventually(lambda: broker.max_offset(queue) > before, "one dead letter more")
    return stored.properties["UNIQ_KEY"]


def held(topic: Topic) -> int:
    return sum(bounds.max_offset for bounds in topic.bounds().values())


def test_undecodable_dead_letter_is_listed_beside_the_others(
    dead: list[MessageExt], poison: str, group: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["dlq", "list", "--group", group]) == 0
    *good, broken = capsys.readouterr().out.splitlines()
    assert [line.rpartition("body=")[2] for line in good] == ["first", "second"]
    assert re.search(rf"@broker-a:0 offset 2 target=\? {poison} undecodable=its ZLIB body is damaged", broken)
    assert main(["dlq", "list", "--group", group, "--json"]) == 0
    *_, listed = map(json.loads, capsys.readouterr().out.splitlines())
    assert listed["problem"].startswith("its ZLIB body is damaged")
    assert main(["tail", f"%DLQ%{group}"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 3


def test_undecodable_dead_letter_is_left_and_the_others_are_sent(
    messages: Topic, dead: list[MessageExt], poison: str, group: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["dlq", "redrive", "--group", group, "--message-id", dead[0].msg_id]) == 0
    capsys.readouterr()
    assert main(["dlq", "redrive", "--group", group, "--all"]) == 1
    printed = capsys.readouterr()
    assert [line.partition(" -> ")[0] for line in printed.out.splitlines()] == [one.msg_id for one in dead]
    assert re.fullmatch(
        rf"%DLQ%{group}@broker-a:0 offset 2 {poison} is not sent: it is undecodable: its ZLIB .*", printed.err.strip()
    )
    assert main(["dlq", "redrive", "--group", group, "--message-id", poison, "--to", messages.name]) == 1
    assert "is not sent" in capsys.readouterr().err
    eventually(lambda: held(messages) == 5, "three messages more")


@pytest.mark.parametrize(
    "target",
    ["no-such-topic", "TBW102", "%DLQ%other", None, "a\x1b[2J\nb", "x" * 20_000],
    ids=["missing", "the system's", "a group's", "none", "no name", "long"],
)
def test_dead_letter_for_an_unusable_topic_holds_nothing_up(
    cluster: EmbeddedCluster,
    messages: Topic,
    dead: list[MessageExt],
    group: str,
    target: str | None,
    capsys: pytest.CaptureFixture[str],
) -> None:
    properties = {} if target is None else {"RETRY_TOPIC": target}
    stored = store_dead_letter(cluster, group, Message("", b"x", properties=properties))
    store_dead_letter(cluster, group, Message("", b"last", properties={"RETRY_TOPIC": messages.name}))
    assert main(["dlq", "redrive", "--group", group, "--all"]) == 1
    printed = capsys.readouterr()
    assert len(printed.out.splitlines()) == 3
    (line,) = printed.err.splitlines()
    assert line.startswith(f"%DLQ%{group}@broker-a:0 offset 2 {stored} is not sent: ")
    assert line.isprintable()
    assert "retries" not in printed.err
    eventually(lambda: held(messages) == 5, "three messages more")


def test_dead_letter_that_a_broker_rejects_holds_nothing_up(
    cluster: EmbeddedCluster, messages: Topic, dead: list[MessageExt], group: str, capsys: pytest.CaptureFixture[str]
) -> None:
    body = compress(bytes(5 * 2**20), MessageSysFlag.ZLIB)
    properties = {"RETRY_TOPIC": messages.name}
    stored = store_dead_letter(cluster, group, Message("", body, properties=properties), COMPRESSED)
    store_dead_letter(cluster, group, Message("", b"last", properties=properties))
    assert main(["dlq", "redrive", "--group", group, "--all"]) == 1
    printed = capsys.readouterr()
    assert len(printed.out.splitlines()) == 3
    assert re.match(rf"%DLQ%{group}@broker-a:0 offset 2 {stored} is not sent: \[ROCKETMQ_BROKER_ERROR\]", printed.err)


def test_id_of_several_dead_letters_needs_a_place(
    cluster: EmbeddedCluster, messages: Topic, dead: list[MessageExt], group: str, capsys: pytest.CaptureFixture[str]
) -> None:
    properties = {"UNIQ_KEY": dead[0].msg_id, "RETRY_TOPIC": messages.name}
    store_dead_letter(cluster, group, Message("", b"copy", properties=properties))
    chosen = ["dlq", "redrive", "--group", group]
    assert main([*chosen, "--message-id", dead[0].msg_id]) == 1
    error = capsys.readouterr().err
    assert "DEAD_LETTERS_AMBIGUOUS" in error
    assert "broker-a:0:0, broker-a:0:2." in error
    assert held(messages) == 2
    assert main([*chosen, "--offset", "broker-a:0:7"]) == 1
    assert re.search(r"DEAD_LETTERS_NOT_FOUND.*: broker-a:0:7", capsys.readouterr().err)
    assert main([*chosen, "--offset", "broker-a:0:0"]) == 0
    eventually(lambda: held(messages) == 3, "the message")


def test_dry_run_names_targets_and_sends_nothing(
    messages: Topic, dead: list[MessageExt], group: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["dlq", "redrive", "--group", group, "--all", "--dry-run"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines == [f"{one.msg_id} -> {messages.name} (dry run)" for one in dead]
    assert held(messages) == 2


def test_dead_letter_of_an_undecodable_message_is_sent_only_if_chosen(
    cluster: EmbeddedCluster, messages: Topic, dead: list[MessageExt], group: str, capsys: pytest.CaptureFixture[str]
) -> None:
    properties = {"RETRY_TOPIC": messages.name, "BAD_MESSAGE_PROBLEM": "its ZLIB body is damaged"}
    stored = store_dead_letter(cluster, group, Message("", b"damaged", properties=properties))
    assert main(["dlq", "redrive", "--group", group, "--all"]) == 1
    printed = capsys.readouterr()
    assert len(printed.out.splitlines()) == 2
    assert re.match(rf"\S+ offset 2 {stored} is not sent: .*badMessages=deadLetter", printed.err)
    assert main(["dlq", "redrive", "--group", group, "--message-id", stored]) == 0
    eventually(lambda: held(messages) == 5, "three messages more")


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
    with closing(ConnectionPool(PATIENT_MS)) as pool:
        broker = AdminBroker(BrokerAddress(cluster.broker_addr()), pool, PATIENT_MS)
        broker.ensure_group(group)
        broker.send_dead_letter(group, Message(messages.name, b"x"), "broker-a")
    eventually(lambda: len(dead_letters(cluster, group)) == 1, "a dead letter")
    assert main(["dlq", "redrive", "--group", group, "--all"]) == 1
    assert "name one with '--to'" in capsys.readouterr().err
    assert main(["dlq", "redrive", "--group", group, "--all", "--to", f"%DLQ%{group}"]) == 1
    assert f"is not sent: topic '%DLQ%{group}' is one of a group" in capsys.readouterr().err
    assert main(["dlq", "redrive", "--group", group, "--all", "--to", messages.name]) == 0
    eventually(lambda: sum(held.max_offset for held in messages.bounds().values()) == 1, "the message")


@pytest.mark.parametrize(
    "arguments", [["list"], ["redrive", "--group", "g"], ["redrive", "--group", "g", "--to", "t"], []]
)
def test_wrong_arguments_are_a_usage_error(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["dlq", *arguments])
    assert ended.value.code == 2
