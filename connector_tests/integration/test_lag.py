"""``rocketmq-spark lag`` on a broker that runs, beside RocketMQ's own tool."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from connector_tests.integration.test_broker_operations import member
from connector_tests.support.admin_broker import AdminBroker
from connector_tests.support.streams import Topic
from connector_tests.support.timeouts import PATIENT, PATIENT_MS
from rocketmq_spark.cli.arguments import cluster_at
from rocketmq_spark.cli.lag import LAGS, query_lag
from rocketmq_spark.cli.main import main
from rocketmq_spark.embedded import EmbeddedCluster
from rocketmq_spark.embedded.pytest_plugin import unique_name
from rocketmq_spark.model import BrokerAddress, MessageQueue
from rocketmq_spark.remoting.pool import ConnectionPool

pytestmark = [pytest.mark.broker, pytest.mark.usefixtures("namesrv_addr")]

OLDEST_S = 0.3


@pytest.fixture
def broker(cluster: EmbeddedCluster) -> Iterator[AdminBroker]:
    with closing(ConnectionPool(PATIENT_MS)) as pool:
        yield AdminBroker(BrokerAddress(cluster.broker_addr()), pool, PATIENT_MS)


@pytest.fixture
def behind(cluster: EmbeddedCluster, broker: AdminBroker, messages: Topic, group: str) -> dict[MessageQueue, int]:
    """The lag of the group by queue: it has committed all, some and none of three queues, and nothing in the last."""
    messages.send(12)
    with member(cluster, group, messages.name):
        """The group's retry topic is created, without which RocketMQ's tool finds no group."""
    lag = dict(zip(messages.queues, (0, 1, 3, 3), strict=True))
    for queue, count in list(lag.items())[:3]:
        broker.update_offset(group, queue, 3 - count)
    return lag


def test_lag_is_that_of_rocketmqs_tool(
    cluster: EmbeddedCluster, messages: Topic, group: str, behind: dict[MessageQueue, int]
) -> None:
    with cluster_at(cluster.namesrv_addr, PATIENT) as client:
        report = query_lag(client, [group], [])
    assert {row.queue: row.lag for row in report.rows} == behind
    offsets = {row.queue: row.committed_offset for row in report.rows}
    assert list(offsets.values()) == [3, 2, 0, None]
    printed = cluster.mqadmin("consumerProgress", "-g", group)
    theirs = re.findall(rf"^{messages.name} +(\S+) +(\d+) +(\d+) +(\d+) .*", printed, re.MULTILINE)
    assert theirs == [
        (row.broker_name, str(row.queue_id), str(row.max_offset), str(row.committed_offset or 0)) for row in report.rows
    ]
    assert re.search(rf"Consume Diff Total: {report.max_lag()}\b", printed)


def test_age_is_that_of_the_oldest_message(
    cluster: EmbeddedCluster, messages: Topic, group: str, behind: dict[MessageQueue, int]
) -> None:
    time.sleep(OLDEST_S)
    before_ms = time.time() * 1000
    messages.send(4)
    with cluster_at(cluster.namesrv_addr, PATIENT) as client:
        rows = query_lag(client, [group], [messages.name]).rows
    at_the_end, *others = rows
    assert [row.lag for row in rows] == [count + 1 for count in behind.values()]
    assert at_the_end.oldest_store_ms is not None
    assert at_the_end.oldest_store_ms >= before_ms - 1
    for row in others:
        assert row.oldest_store_ms is not None
        assert row.lag_ms is not None
        assert row.oldest_store_ms <= before_ms - OLDEST_S * 1000 + 1
        assert row.lag_ms >= OLDEST_S * 1000 - 1


def test_command_prints_a_table_json_and_an_exit_code(
    group: str, behind: dict[MessageQueue, int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["lag", "--group", group]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["topic", "broker", "queue", "committed", "next", "lag", "oldest"]
    assert [line.split()[3:6] for line in lines[1:5]] == [
        ["3", "3", "0"],
        ["2", "3", "1"],
        ["0", "3", "3"],
        ["-", "3", "3"],
    ]
    assert re.fullmatch(rf"{group}: lag 7 messages, oldest .*", lines[5])
    assert main(["lag", "--group", group, "--json", "--max-lag", "7"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["groups"]
    assert (found["consumerGroup"], found["lag"]) == (group, sum(behind.values()))
    assert main(["lag", "--group", group, "--max-lag", "6"]) == LAGS
    capsys.readouterr()
    assert main(["lag", "--json"]) == 0
    assert group in {one["consumerGroup"] for one in json.loads(capsys.readouterr().out)["groups"]}


@pytest.mark.parametrize(
    ("arguments", "reports"),
    [
        (["--group", "no-such-group"], r"GROUP_NOT_FOUND\.CLUSTER.*no-such-group"),
        (["--group", "no-such-group", "--watch", "0.1"], r"GROUP_NOT_FOUND\.CLUSTER.*no-such-group"),
        (["--namesrv", "127.0.0.1:1"], "Cannot connect to 127.0.0.1:1"),
    ],
)
def test_failure_is_one_sentence(arguments: list[str], reports: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lag", *arguments]) == 1
    shown = capsys.readouterr()
    assert re.search(reports, shown.err)
    assert (len(shown.err.splitlines()), shown.out) == (1, "")


@pytest.mark.parametrize(
    "arguments",
    [["--max-lag", "-1"], ["--max-lag", "x"], ["--watch", "0"], ["--watch", "nan"], ["--watch", "x"], ["g"]],
)
def test_wrong_arguments_are_a_usage_error(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["lag", *arguments])
    assert caught.value.code == 2
    assert "usage: rocketmq-spark lag" in capsys.readouterr().err


@pytest.mark.parametrize("seconds", ["inf", "1e10", "86401"])
def test_interval_above_a_day_is_a_usage_error(seconds: str, capsys: pytest.CaptureFixture[str]) -> None:
    """``time.sleep`` raises OverflowError for the first two."""
    with pytest.raises(SystemExit) as caught:
        main(["lag", "--namesrv", "127.0.0.1:1", "--watch", seconds])
    assert caught.value.code == 2
    assert capsys.readouterr().err.endswith(f"argument --watch: '{seconds}' is not a number from 0.1 to 86400\n")


def test_group_without_offsets_is_named(broker: AdminBroker, capsys: pytest.CaptureFixture[str]) -> None:
    group = unique_name("idle")
    broker.ensure_group(group)
    assert main(["lag", "--group", group]) == 0
    assert capsys.readouterr().out == f"{group}: no committed offsets and no subscriptions\n"
