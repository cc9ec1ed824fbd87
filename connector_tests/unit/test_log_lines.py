"""Lines as a user sees them, from processes of their own: logging is a process's."""

from __future__ import annotations

import logging
import re
import subprocess
import sys

import pytest

from rocketmq_spark.source.log_lines import LineFormatter

PROGRAM = """
import logging
from rocketmq_spark.source.log_lines import speak_as
log = logging.getLogger("rocketmq_spark.consumer.outages")
speak_as({level!r}, group="g", clientId="10.0.0.5@77#1")
log.debug("a request failed")
log.info("joining the group")
log.warning("waiting for broker %s", "a")
speak_as({level!r}, group="h", clientId="10.0.0.5@78#1", query="0f3a", batch="3", task="0.1")
log.error("it is gone")
"""
EARLIER = "import logging; logging.basicConfig(format='THEIRS %(message)s')"


def test_a_traceback_follows_its_line() -> None:
    try:
        raise ValueError("no")
    except ValueError:
        record = logging.LogRecord("rocketmq_spark.x", logging.CRITICAL, "x.py", 1, "failed", (), sys.exc_info())
    lines = LineFormatter().format(record).splitlines()
    assert lines[0].endswith(" ERROR rocketmq_spark []: failed")
    assert lines[-1] == "ValueError: no"


def lines_of(program: str) -> list[str]:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == ""
    return done.stderr.splitlines()


def test_each_line_has_time_level_and_who_says_it_as_sparks_own_lines_have() -> None:
    lines = lines_of(PROGRAM.format(level="INFO"))
    time_and_rest = [re.fullmatch(r"(\d\d/\d\d/\d\d \d\d:\d\d:\d\d) (.*)", line) for line in lines]
    assert [found[2] for found in time_and_rest if found is not None] == [
        "INFO rocketmq_spark [group=g clientId=10.0.0.5@77#1]: joining the group",
        "WARN rocketmq_spark [group=g clientId=10.0.0.5@77#1]: waiting for broker a",
        "ERROR rocketmq_spark [group=h clientId=10.0.0.5@78#1 query=0f3a batch=3 task=0.1]: it is gone",
    ]


@pytest.mark.parametrize(("level", "count"), [("DEBUG", 4), ("INFO", 3), ("WARN", 2), ("ERROR", 1)])
def test_what_is_below_the_level_is_not_said(level: str, count: int) -> None:
    assert len(lines_of(PROGRAM.format(level=level))) == count


@pytest.mark.parametrize("level", ["DEBUG", "ERROR"])
def test_who_has_set_up_logging_gets_the_lines_with_a_level_and_look_of_his_own(level: str) -> None:
    assert lines_of(EARLIER + PROGRAM.format(level=level)) == ["THEIRS waiting for broker a", "THEIRS it is gone"]
