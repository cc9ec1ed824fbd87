"""``rocketmq-spark topic`` and ``send`` on a broker that runs, as a newcomer types them."""

from __future__ import annotations

import io
import re

import pytest

import rocketmq_spark
from connector_tests.support.streams import Topic, eventually
from connector_tests.support.timeouts import PATIENT_MS
from rocketmq_spark.cli.main import main
from rocketmq_spark.embedded import EmbeddedCluster
from rocketmq_spark.embedded.pytest_plugin import unique_name
from rocketmq_spark.errors import LocalProtocolError, RouteError
from rocketmq_spark.model import BrokerAddress
from rocketmq_spark.remoting.broker import Broker
from rocketmq_spark.remoting.pool import ConnectionPool
from rocketmq_spark.wire.message.stored_message import decode_messages

pytestmark = [pytest.mark.broker, pytest.mark.usefixtures("namesrv_addr")]


def test_a_topic_is_created_described_and_deleted(capsys: pytest.CaptureFixture[str]) -> None:
    name = unique_name("made")
    assert main(["topic", "create", name, "--queues", "2"]) == 0
    assert capsys.readouterr().out == f"{name}: 2 queues on broker-a\n"
    assert main(["send", "--topic", name, "one", "two", "three"]) == 0
    capsys.readouterr()
    begun_at_either = ([["0", "0", "2", "2"], ["1", "0", "1", "1"]], [["0", "0", "1", "1"], ["1", "0", "2", "2"]])
    eventually(lambda: described(name, capsys) in begun_at_either, "3 messages in queues")
    assert main(["topic", "delete", name]) == 0
    assert main(["topic", "describe", name]) == 1
    assert "TOPIC_NOT_FOUND" in capsys.readouterr().err


def described(name: str, capsys: pytest.CaptureFixture[str]) -> list[list[str]]:
    """Queue, first offset, next offset and messages of each line that is a queue's."""
    assert main(["topic", "describe", name]) == 0
    lines = capsys.readouterr().out.splitlines()
    return [line.split()[1:] for line in lines if line.startswith("broker-a")]


def test_a_topic_that_is_there_is_left_as_it_is(topic: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topic", "create", topic, "--queues", "9"]) == 1
    assert re.search(r"TOPIC_EXISTS.*with 4 queues", capsys.readouterr().err)
    assert len(described(topic, capsys)) == 4


def test_what_is_sent_has_what_the_command_line_has(
    cluster: EmbeddedCluster, topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ("--tag", "T1", "--key", "k1 k2", "--property", "a=b=c", "--property", "d=e")
    assert main(["send", "--topic", topic, *options, "hello"]) == 0
    (sent_id,) = capsys.readouterr().out.split()
    ((body, properties),) = stored(cluster, topic, 1)
    assert body == b"hello"
    assert properties["UNIQ_KEY"] == sent_id
    assert {name: properties[name] for name in ("TAGS", "KEYS", "a", "d")} == {
        "TAGS": "T1",
        "KEYS": "k1 k2",
        "a": "b=c",
        "d": "e",
    }


def test_a_dash_sends_the_lines_of_standard_input(
    cluster: EmbeddedCluster, topic: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("first\n\nsecond\r\nlast"))
    assert main(["send", "--topic", topic, "-"]) == 0
    assert len(capsys.readouterr().out.split()) == 3
    assert {body for body, _ in stored(cluster, topic, 3)} == {b"first", b"second", b"last"}


def stored(cluster: EmbeddedCluster, topic: str, count: int) -> list[tuple[bytes, dict[str, str]]]:
    """Bodies and properties of the first message of each queue, once ``count`` have one."""
    handle, pool = Topic(cluster, topic), ConnectionPool(PATIENT_MS)
    try:
        eventually(lambda: sum(held.max_offset for held in handle.bounds().values()) == count, f"{count} messages")
        broker = Broker(BrokerAddress(cluster.broker_addr()), pool, PATIENT_MS)
        pulls = (broker.pull("g", queue, 0, 32) for queue, held in handle.bounds().items() if held.max_offset)
        messages = (message for pull in pulls for message in decode_messages(pull.body, broker_name="broker-a"))
        return [(message.body, dict(message.properties)) for message in messages]
    finally:
        pool.close()
        handle.close()


@pytest.mark.parametrize(
    ("arguments", "code", "reports"),
    [
        (["send", "--topic", "nowhere", "x"], 1, "TOPIC_NOT_FOUND.*rocketmq-spark topic create nowhere"),
        (["topic", "delete", "nowhere"], 1, "TOPIC_NOT_FOUND"),
        (["topic", "create", "what?"], 1, "illegal characters"),
        (["send", "--namesrv", "here", "--topic", "t", "x"], 1, "Invalid value 'here' for 'namesrvAddr'"),
        (["send", "--namesrv", "127.0.0.1:1", "--topic", "t", "x"], 1, "Cannot connect to 127.0.0.1:1"),
        (["send", "--topic", "t", ""], 1, "INVALID_MESSAGE.*a body is empty"),
    ],
)
def test_what_cannot_be_is_one_sentence(
    arguments: list[str], code: int, reports: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == code
    shown = capsys.readouterr()
    assert re.search(reports, shown.err)
    assert (len(shown.err.splitlines()), shown.out) == (1, "")


@pytest.mark.parametrize(
    "arguments",
    [["send", "x"], ["send", "--topic", "t"], ["send", "--topic", "t", "--property", "a", "x"],
     ["topic", "create", "t", "--queues", "0"], ["topic", "create", "t", "--queues", "x"], ["topic"]],
)  # fmt: skip
def test_what_is_no_command_is_a_usage_error(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert "usage: rocketmq-spark" in capsys.readouterr().err


def test_send_reports_the_ids_and_sends_nothing_of_what_holds_a_message_that_cannot_travel(
    cluster: EmbeddedCluster, topic: str
) -> None:
    with pytest.raises(LocalProtocolError, match="a body is empty"):
        rocketmq_spark.send(cluster.namesrv_addr, topic, ["good", ""])
    ids = rocketmq_spark.send(cluster.namesrv_addr, topic, ["a", b"b"], keys=["k1", "k2"])
    assert {(body, properties["UNIQ_KEY"], properties["KEYS"]) for body, properties in stored(cluster, topic, 2)} == {
        (b"a", ids[0], "k1"),
        (b"b", ids[1], "k2"),
    }


def test_send_to_a_topic_that_is_not_there_reports_it(cluster: EmbeddedCluster) -> None:
    with pytest.raises(RouteError, match="TOPIC_NOT_FOUND"):
        rocketmq_spark.send(cluster.namesrv_addr, "nowhere", "x")
