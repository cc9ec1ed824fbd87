"""``rocketmq-spark offsets`` on a broker that runs."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from connector_tests.integration.test_broker_operations import member
from connector_tests.support.admin_broker import AdminBroker
from connector_tests.support.streams import Topic
from connector_tests.support.timeouts import PATIENT_MS
from rocketmq_spark.cli.main import main
from rocketmq_spark.cli.offsets import read_checkpoint
from rocketmq_spark.embedded import EmbeddedCluster
from rocketmq_spark.embedded.pytest_plugin import unique_name
from rocketmq_spark.errors import OptionError
from rocketmq_spark.model import BrokerAddress, MessageQueue
from rocketmq_spark.remoting.pool import ConnectionPool
from rocketmq_spark.source.stream.offsets import QueueProgress, SourceOffset

pytestmark = [pytest.mark.broker, pytest.mark.usefixtures("namesrv_addr")]


@pytest.fixture
def messages(cluster: EmbeddedCluster, topic: str) -> Iterator[Topic]:
    """The topic with two messages in each queue."""
    with closing(Topic(cluster, topic)) as handle:
        handle.send(8)
        yield handle


@pytest.fixture
def broker(cluster: EmbeddedCluster) -> Iterator[AdminBroker]:
    with closing(ConnectionPool(PATIENT_MS)) as pool:
        yield AdminBroker(BrokerAddress(cluster.broker_addr()), pool, PATIENT_MS)


@pytest.fixture(autouse=True)
def existing_group(broker: AdminBroker, group: str) -> None:
    broker.ensure_group(group)


def committed(messages: Topic, group: str) -> list[int | None]:
    return list(messages.committed(group).values())


def test_offsets_are_set_shown_and_moved_to_another_group(
    messages: Topic,
    broker: AdminBroker,
    group: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert main(["offsets", "set", "--group", group, "--topic", messages.name, "--to", "latest"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == ["topic", "broker", "queue", "before", "after"]
    assert lines[1:] == [[messages.name, "broker-a", str(queue_id), "-", "2"] for queue_id in range(4)]
    assert main(["offsets", "set", "--group", group, "--topic", messages.name, "--to", "1", "--queue", "3"]) == 0
    assert committed(messages, group) == [2, 2, 2, 1]
    capsys.readouterr()
    assert main(["offsets", "show", "--group", group, "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert [(row["queueId"], row["minOffset"], row["committedOffset"], row["maxOffset"]) for row in shown] == [
        (0, 0, 2, 2),
        (1, 0, 2, 2),
        (2, 0, 2, 2),
        (3, 0, 1, 2),
    ]
    assert main(["offsets", "export", "--group", group]) == 0
    exported = capsys.readouterr().out
    assert json.loads(exported) == {messages.name: {"broker-a": {"0": 2, "1": 2, "2": 2, "3": 1}}}
    other = unique_name("other")
    broker.ensure_group(other)
    monkeypatch.setattr("sys.stdin", io.StringIO(exported))
    assert main(["offsets", "import", "--group", other, "-"]) == 0
    assert committed(messages, other) == [2, 2, 2, 1]


def test_group_is_set_to_a_time(messages: Topic, group: str) -> None:
    between = datetime.now(UTC)
    messages.send(4)
    arguments = ["offsets", "set", "--group", group, "--topic", messages.name, "--to"]
    assert main([*arguments, between.isoformat()]) == 0
    assert committed(messages, group) == [2, 2, 2, 2]
    assert main([*arguments, "1970-01-01T00:00:00Z"]) == 0
    assert committed(messages, group) == [0, 0, 0, 0]


def test_dry_run_sets_nothing(messages: Topic, group: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["offsets", "set", "--group", group, "--topic", messages.name, "--to", "earliest", "--dry-run"]
    assert main(arguments) == 0
    assert len(capsys.readouterr().out.splitlines()) == 5
    assert committed(messages, group) == [None] * 4


def test_group_with_members_is_set_by_force_only(
    cluster: EmbeddedCluster, messages: Topic, group: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["offsets", "set", "--group", group, "--topic", messages.name, "--to", "2"]
    with member(cluster, group, messages.name):
        assert main(arguments) == 1
        assert re.search(rf"GROUP_IN_USE.*{group}.*1 member: 127\.0\.0\.1@test.*--force", capsys.readouterr().err)
        assert committed(messages, group) == [None] * 4
        assert main([*arguments, "--force"]) == 0
    assert committed(messages, group) == [2] * 4


def test_checkpoint_is_imported_from_its_last_completed_batch(messages: Topic, group: str, tmp_path: Path) -> None:
    for batch in ("0", "1", "2"):
        ends = {queue: QueueProgress(0, min(2, int(batch))) for queue in messages.queues}
        for folder in ("offsets", "commits"):
            (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / "offsets" / batch).write_text(f"v1\n{{}}\n{json.dumps(SourceOffset(ends).to_json())}")
    with pytest.raises(OptionError, match="it has no completed micro-batch"):
        read_checkpoint(tmp_path)
    for batch in ("0", "1"):
        (tmp_path / "commits" / batch).write_text("v1\n{}")
    assert main(["offsets", "import", "--group", group, "--checkpoint", str(tmp_path)]) == 0
    assert committed(messages, group) == [1] * 4


def test_offset_that_a_queue_does_not_have_sets_nothing(
    messages: Topic, group: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "offsets.json"
    file.write_text(json.dumps({messages.name: {"broker-a": {"0": 1, "1": 3, "9": 0}}}))
    assert main(["offsets", "import", "--group", group, str(file)]) == 1
    (error,) = capsys.readouterr().err.splitlines()
    places = [MessageQueue(messages.name, "broker-a", queue_id) for queue_id in (1, 9)]
    assert f"2 offsets not in the queues: {places[0]}: 3 [0, 2], {places[1]}: 0 [no such queue]" in error
    assert committed(messages, group) == [None] * 4


@pytest.mark.parametrize(
    ("arguments", "code", "reports"),
    [
        (["show", "--group", "no-such-group"], 1, r"GROUP_NOT_FOUND\.CLUSTER"),
        (["set", "--group", "g", "--topic", "nowhere", "--to", "latest"], 1, "TOPIC_NOT_FOUND"),
        (["import", "--group", "g", "--checkpoint", "/nowhere"], 1, "CHECKPOINT_UNREADABLE.*/nowhere"),
        (["import", "--group", "g", "/nowhere"], 2, "argument file: .*No such file"),
        (["import", "--group", "g"], 2, "one of the arguments file --checkpoint is required"),
        (
            ["set", "--group", "g", "--topic", "t", "--to", "2026-01-05"],
            2,
            "--to: '2026-01-05' is not .* with its zone",
        ),
        (["set", "--group", "g", "--to", "latest"], 2, "the following arguments are required: --topic"),
        (["show"], 2, "the following arguments are required: --group"),
    ],
)
def test_what_cannot_be_is_reported(
    arguments: list[str], code: int, reports: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        found = main(["offsets", *arguments])
    except SystemExit as ended:
        found = int(ended.code or 0)
    shown = capsys.readouterr()
    assert (found, shown.out) == (code, "")
    assert re.search(reports, shown.err)


@pytest.mark.parametrize("text", ["earliest", "[]", '{"t":{}}', '{"t":-3}', "no JSON"])
def test_file_without_offsets_is_a_usage_error(text: str, tmp_path: Path, group: str) -> None:
    file = tmp_path / "offsets.json"
    file.write_text(text)
    with pytest.raises(SystemExit) as ended:
        main(["offsets", "import", "--group", group, str(file)])
    assert ended.value.code == 2
