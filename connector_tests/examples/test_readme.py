"""What the README tells a reader to type works as it stands there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from connector_tests.examples.conftest import ROOT, Run
from connector_tests.support.streams import Topic
from rocketmq_spark.cli import broker, demo, main
from rocketmq_spark.embedded import EmbeddedCluster

README = (ROOT / "README.md").read_text(encoding="utf-8")
CALL_THE_TEST = """
from rocketmq_spark.embedded.pytest_plugin import unique_name
with EmbeddedCluster() as own:
    test_my_job_reads_its_topic(own, own.create_topic(unique_name("readme")))
print(spark.read.parquet("orders-table").count(), "rows")
"""
# Shown to be typed, and run by other tests or by no test for what they would do to the machine.
RUN_ELSEWHERE = {"pip install .", "SPARK_CONF_DIR=conf spark-submit examples/04_spark_submit_job.py"}
PARSERS = {"broker": broker.new_parser, "demo": demo.new_parser}


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def commands() -> list[str]:
    return [line for block in blocks("sh") for line in block.splitlines() if line]


def test_the_python_blocks_run_one_after_another(
    run: Run, cluster: EmbeddedCluster, messages: Topic, group: str, tmp_path: Path
) -> None:
    messages.send(3)
    code = "\n".join((*blocks("python"), CALL_THE_TEST))
    for shown, own in (
        ("127.0.0.1:9876", cluster.namesrv_addr),
        ("my-group", group),
        ('"orders"', f'"{messages.name}"'),
    ):
        assert shown in code
        code = code.replace(shown, own)
    (tmp_path / "blocks.py").write_text(code, encoding="utf-8")
    assert "3 rows" in run(sys.executable, "blocks.py")
    assert messages.lag(group) == 0


@pytest.mark.parametrize("command", commands())
def test_a_shell_command_is_one_that_there_is(command: str) -> None:
    match command.split():
        case ["make", target]:
            subprocess.run(["make", "--dry-run", target], cwd=ROOT, check=True, capture_output=True)
        case ["rocketmq-spark", name, *options]:
            assert name in main.COMMANDS
            PARSERS[name]().parse_args(options)
        case _:
            assert command in RUN_ELSEWHERE


def test_links_lead_to_files() -> None:
    targets = re.findall(r"\]\((?!https?:)([^)#]+)", README)
    assert [target for target in targets if not (ROOT / target).exists()] == []
