"""What ``rocketmq-spark doctor`` prints of servers."""

from __future__ import annotations

import pytest

from connector_tests.support.scripted_cluster import ScriptedCluster
from rocketmq_spark.cli.doctor import main


def test_name_of_a_broker_forges_no_line_about_a_check(capsys: pytest.CaptureFixture[str]) -> None:
    with ScriptedCluster("a\nsound: no problem found\x1b[2J\u2028\u202e") as scripted:
        main(["--namesrv", scripted.listen(), "--topic", "T", "--group", "g"])
    printed = capsys.readouterr()
    name_server, broker = printed.err.splitlines()
    assert name_server.startswith("checking name server ")
    assert broker.startswith("checking broker a\\nsound: no problem found\\x1b[2J\\u2028\\u202e at ")
    assert all(line.isprintable() for line in printed.out.splitlines())
