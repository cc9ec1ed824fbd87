"""What ``rocketmq-spark doctor`` prints of servers."""

from __future__ import annotations

from pathlib import Path

import pytest

from connector_tests.support.broken_set_ups import job, routed
from connector_tests.support.scripted_broker import ScriptedBroker
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


@pytest.mark.parametrize(("read_from", "checked"), [("master", ["0"]), ("slave", ["0", "1"]), ("auto", ["0", "1"])])
def test_the_slave_with_the_lowest_id_is_checked_if_the_job_reads_slaves(
    read_from: str, checked: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with ScriptedBroker() as master, ScriptedBroker() as first, ScriptedBroker() as second:
        addresses = {"2": second.listen(), "0": master.listen(), "1": first.listen()}
        with routed(addresses) as name_server:
            file = tmp_path / "job.options"
            options = job(name_server) | {"readFrom": read_from}
            file.write_text("".join(f"{name}={text}\n" for name, text in options.items()), encoding="utf-8")
            assert main(["--options", str(file)]) == 0
    printed = capsys.readouterr()
    titles = {"0": f"broker broker-a at {addresses['0']}", "1": f"slave of broker broker-a at {addresses['1']}"}
    assert printed.err.splitlines()[1:] == [
        f"checking {titles[one]}, up to 3000 ms for each request ..." for one in checked
    ]
    assert [line for line in printed.out.splitlines() if line.startswith(("checked: broker", "checked: slave"))] == [
        f"checked: {titles[one]}, RocketMQ 5.5.0" for one in checked
    ]
    assert second.connect_count == 0
