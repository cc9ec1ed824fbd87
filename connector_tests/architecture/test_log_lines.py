"""Each log line begins with a key, and the page of log lines has a row for each key."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import rocketmq_spark
from connector_tests.support.log_lines import KEY
from rocketmq_spark.source.data_loss import WARNINGS

PACKAGE = Path(rocketmq_spark.__file__).parent
PAGE = Path(__file__).parents[2] / "docs" / "reference" / "logs.md"
LOGGERS = {"log", "logger"}
LEVELS = {"debug", "info", "warning", "error", "exception", "critical", "log"}
BEGIN = re.compile(rf"(?P<key>{KEY.pattern}): \S")
ROW = re.compile(rf"^\| `(?P<key>{KEY.pattern})` \|", re.MULTILINE)
AFTER_A_LOG_LINE = 'log.log(line.level, "%s", line)'
"""``line`` is a ``LogLine``, which is made with its key."""

OF_LOSSES = 'log.warning("DATA_LOSS.%s: %s", condition, '
"""Begin of the call that logs the rows of ``WARNINGS``, whose conditions are the rest of the keys."""


def calls(source: str) -> Iterator[ast.Call]:
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=attr)) if name in LOGGERS and attr in LEVELS:
                yield node


def keys_of(call: ast.Call) -> set[str]:
    """None of a ``LogLine``, several of a table. AssertionError for a line without a key."""
    if ast.unparse(call) == ast.unparse(ast.parse(AFTER_A_LOG_LINE, mode="eval")):
        return set()
    if ast.unparse(call).startswith(OF_LOSSES.replace('"', "'")):
        return {f"DATA_LOSS.{condition}" for condition, _ in WARNINGS}
    assert isinstance(call.func, ast.Attribute)
    text = call.args[1 if call.func.attr == "log" else 0]
    found = BEGIN.match(text.value) if isinstance(text, ast.Constant) and isinstance(text.value, str) else None
    assert found is not None, f"line without a key: {ast.unparse(call)}"
    return {found["key"]}


def made_lines(source: str) -> Iterator[str]:
    """Keys of log lines that are logged elsewhere."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.keyword(arg="key", value=ast.Constant(value=str(key))) if KEY.fullmatch(key):
                yield key


def keys(source: str) -> set[str]:
    return set().union(*map(keys_of, calls(source)), made_lines(source))


def test_each_log_line_begins_with_a_key_and_the_page_has_a_row_for_each() -> None:
    in_code = {key for path in PACKAGE.rglob("*.py") for key in keys(path.read_text(encoding="utf-8"))}
    assert set(ROW.findall(PAGE.read_text(encoding="utf-8"))) == in_code


@pytest.mark.parametrize("text", ["left the group", "LEFT:", "Left: The group", "%s"])
def test_a_line_without_a_key_is_noticed(text: str) -> None:
    with pytest.raises(AssertionError, match="line without a key"):
        keys(f"log.info({text!r}, group)")


def test_keys_are_found_wherever_a_line_is_made() -> None:
    source = f"""
log.log(level, "HEARTBEAT_FAILED: Heartbeat failed: %s", error)
{AFTER_A_LOG_LINE}
LogLine(logging.WARNING, key="MESSAGES_EXPIRED", text=text)
Wait("2 queues", 0, None, "away", key="QUEUES_UNAVAILABLE")
"""
    assert keys(source) == {"HEARTBEAT_FAILED", "MESSAGES_EXPIRED", "QUEUES_UNAVAILABLE"}


def test_a_line_of_losses_has_the_keys_of_their_table_and_other_computed_keys_are_refused() -> None:
    assert keys(f"{OF_LOSSES}text)") == {f"DATA_LOSS.{condition}" for condition, _ in WARNINGS}
    with pytest.raises(AssertionError, match="line without a key"):
        keys(f"{OF_LOSSES.replace('condition', 'other')}text)")
