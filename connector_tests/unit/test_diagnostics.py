"""Lines as a user sees them, from processes of their own: logging is a process's."""

from __future__ import annotations

import logging
import re
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from connector_tests.support.timeouts import PROCESS_S
from rocketmq_spark.diagnostics import (
    LineFormatter,
    iterating_without_traceback,
    raising_without_traceback,
    set_log_context,
    task_log_context,
    without_traceback,
)
from rocketmq_spark.errors import TransportError

PROGRAM = """
import logging
from rocketmq_spark.diagnostics import set_log_context
log = logging.getLogger("rocketmq_spark.consumer.outage_tracker")
set_log_context({level!r}, group="g", clientId="10.0.0.5@77#1")
log.debug("a request failed")
log.info("joining the group")
log.warning("waiting for broker %s", "a")
set_log_context({level!r}, group="h", clientId="10.0.0.5@78#1", query="0f3a", batch="3", task="0.1")
log.error("it is gone")
"""
EARLIER = "import logging; logging.basicConfig(format='THEIRS %(message)s')"


MESSAGE_TASK = """
import logging
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.source.pop.pop_reader import MessagesPartition, RocketMQPopReader
from rocketmq_spark.source.schema import default_schema
given = {"namesrvAddr": "n:9876", "consumerGroup": "g", "subscribe": "T", "loadBalance": "message", "logLevel": "INFO"}
reader = RocketMQPopReader(ReadOptions.parse(given), default_schema())
list(reader.read(MessagesPartition((), "10.0.0.5@77#1")))
logging.getLogger("rocketmq_spark.x").info("of the task")
"""


def test_message_based_task_sets_log_context_and_level() -> None:
    done = subprocess.run(
        [sys.executable, "-c", MESSAGE_TASK], capture_output=True, text=True, timeout=PROCESS_S, check=False
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert done.stderr.endswith(" INFO rocketmq_spark [group=g clientId=10.0.0.5@77#1]: of the task\n")


def test_a_traceback_follows_its_line() -> None:
    try:
        raise ValueError("no\n\tat a.B")
    except ValueError:
        record = logging.LogRecord("rocketmq_spark.x", logging.CRITICAL, "x.py", 1, "failed", (), sys.exc_info())
    lines = LineFormatter().format(record).splitlines()
    assert lines[0].endswith(" ERROR rocketmq_spark []: failed")
    assert lines[-2:] == ["    ValueError: no", "        at a.B"]


def test_a_message_stays_one_line_whatever_a_producer_wrote() -> None:
    formatter = LineFormatter()
    formatter.log_context = {"clientId": "a\nb"}
    forged = "7F\n26/01/05 14:03:22 INFO rocketmq_spark [group=g]: all is well\x1b[2J"
    line = formatter.format(logging.LogRecord("rocketmq_spark.x", logging.WARNING, "x.py", 1, "%s", (forged,), None))
    assert line.isprintable()
    assert line.endswith(
        " WARN rocketmq_spark [clientId=a\\nb]: "
        "7F\\n26/01/05 14:03:22 INFO rocketmq_spark [group=g]: all is well\\x1b[2J"
    )


def test_a_traceback_has_no_line_that_resembles_one_of_ours() -> None:
    try:
        raise ValueError("no\n26/01/05 14:03:22 INFO rocketmq_spark [group=g]: all is well")
    except ValueError:
        record = logging.LogRecord("rocketmq_spark.x", logging.ERROR, "x.py", 1, "failed", (), sys.exc_info())
    assert [line for line in LineFormatter().format(record).splitlines()[1:] if line.startswith("26/")] == []


@pytest.mark.parametrize(
    ("level", "word"),
    [(logging.DEBUG, "DEBUG"), (logging.INFO, "INFO"), (logging.WARNING, "WARN"), (logging.CRITICAL, "ERROR")],
)
def test_a_line_has_its_time_and_level_as_spark_writes_them_and_all_contexts(level: int, word: str) -> None:
    formatter = LineFormatter()
    formatter.log_context = {"group": "g", "batch": "3"}
    line = formatter.format(logging.LogRecord("rocketmq_spark.x", level, "x.py", 1, "it is %s", ("so",), None))
    assert re.fullmatch(rf"\d\d/\d\d/\d\d \d\d:\d\d:\d\d {word} rocketmq_spark \[group=g batch=3\]: it is so", line)


@contextmanager
def own_logger(monkeypatch: pytest.MonkeyPatch) -> Iterator[logging.Logger]:
    """The package's, as in a process where nobody has set up anything. Not a fixture: pytest sets up its own after."""
    logger = logging.getLogger("rocketmq_spark")
    before = logger.level, logger.propagate, logger.handlers
    logger.propagate, logger.handlers = False, []
    monkeypatch.setattr(sys.modules[LineFormatter.__module__], "_HANDLERS", [])
    try:
        yield logger
    finally:
        logger.propagate, logger.handlers = before[1:]
        logger.setLevel(before[0])


def test_a_process_without_logging_gets_one_handler_however_often_its_context_changes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with own_logger(monkeypatch) as logger:
        set_log_context("WARN", group="g")
        logger.info("not said")
        logger.warning("first")
        set_log_context("INFO", group="h")
        logger.info("second")
        assert len(logger.handlers) == 1
    lines = [line.partition(" rocketmq_spark ")[2] for line in capsys.readouterr().err.splitlines()]
    assert lines == ["[group=g]: first", "[group=h]: second"]


def test_a_process_whose_logging_is_set_up_keeps_it(monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = logging.NullHandler()
    with own_logger(monkeypatch) as logger:
        logger.addHandler(theirs)
        logger.setLevel(logging.ERROR)
        set_log_context("DEBUG", group="g")
        assert (logger.handlers, logger.level) == ([theirs], logging.ERROR)


class Context:
    """What Spark reports the second attempt of the fourth task of a batch, where no query is streaming."""

    def __init__(self, **properties: str) -> None:
        self._properties = properties

    def getLocalProperty(self, key: str) -> str | None:
        return self._properties.get(key)

    def partitionId(self) -> int:
        return 3

    def attemptNumber(self) -> int:
        return 1


def test_a_task_is_named_as_far_as_spark_reports_it() -> None:
    assert task_log_context(None) == {}
    assert task_log_context(Context()) == {"task": "3.1"}
    streaming = {"sql.streaming.queryId": "0f3a", "streaming.sql.batchId": "7"}
    assert task_log_context(Context(**streaming)) == {"query": "0f3a", "batch": "7", "task": "3.1"}


def lines_of(program: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=PROCESS_S
    )
    assert done.stdout == ""
    return done.stderr.splitlines()


def test_each_line_has_time_level_and_context_as_sparks_own_lines_have() -> None:
    lines = lines_of(PROGRAM.format(level="INFO"))
    time_and_rest = [re.fullmatch(r"(\d\d/\d\d/\d\d \d\d:\d\d:\d\d) (.*)", line) for line in lines]
    assert [found[2] for found in time_and_rest if found is not None] == [
        "INFO rocketmq_spark [group=g clientId=10.0.0.5@77#1]: joining the group",
        "WARN rocketmq_spark [group=g clientId=10.0.0.5@77#1]: waiting for broker a",
        "ERROR rocketmq_spark [group=h clientId=10.0.0.5@78#1 query=0f3a batch=3 task=0.1]: it is gone",
    ]


@pytest.mark.parametrize(("level", "count"), [("DEBUG", 4), ("INFO", 3), ("WARN", 2), ("ERROR", 1)])
def test_what_is_below_the_level_is_not_logged(level: str, count: int) -> None:
    assert len(lines_of(PROGRAM.format(level=level))) == count


@pytest.mark.parametrize("level", ["DEBUG", "ERROR"])
def test_a_process_that_has_set_up_logging_gets_the_lines_with_a_level_and_format_of_its_own(level: str) -> None:
    assert lines_of(EARLIER + PROGRAM.format(level=level)) == ["THEIRS waiting for broker a", "THEIRS it is gone"]


REFUSED = TransportError("CONNECT_FAILED", address="n:9876", reason="refused")


def deep_down() -> int:
    try:
        raise ConnectionRefusedError(111)
    except OSError as error:
        raise TransportError("CONNECT_FAILED", address="n:9876", reason="refused") from error


def one_after_another() -> Iterator[int]:
    yield 1
    yield deep_down()


def of_a_call() -> None:
    raising_without_traceback(deep_down)()


def of_an_iteration() -> None:
    for _ in iterating_without_traceback(one_after_another()):
        pass


@pytest.mark.parametrize("action", [of_a_call, of_an_iteration])
def test_an_error_of_ours_comes_once_and_without_the_way_to_it(
    action: Callable[[], None], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "rocketmq_spark")
    with pytest.raises(TransportError) as raised:
        action()
    shown = "".join(traceback.format_exception(raised.value))
    assert shown.count(str(REFUSED)) == 1
    assert "in deep_down" not in shown
    assert "ConnectionRefusedError" not in shown
    assert "ConnectionRefusedError" in caplog.text
    assert "in deep_down" in caplog.text


def test_what_is_not_ours_arrives_as_it_is() -> None:
    def broken() -> int:
        return 1 // 0

    with pytest.raises(ZeroDivisionError) as raised:
        raising_without_traceback(broken)()
    assert "in broken" in "".join(traceback.format_exception(raised.value))
    with pytest.raises(ZeroDivisionError):
        list(iterating_without_traceback(broken() for _ in range(1)))


def test_what_works_works() -> None:
    assert raising_without_traceback(divmod)(7, 2) == (3, 1)
    assert list(iterating_without_traceback(iter((1, 2)))) == [1, 2]


def test_an_error_that_was_kept_is_raised_as_if_it_were_new() -> None:
    with pytest.raises(TransportError) as raised:
        deep_down()
    kept = without_traceback(raised.value)
    assert (kept.__traceback__, kept.__cause__, kept.__context__) == (None, None, None)
