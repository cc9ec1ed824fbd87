"""How tests start Spark, without one."""

from __future__ import annotations

import sys
from subprocess import PIPE, Popen

import pytest
from pyspark.errors import PySparkRuntimeError

from connector_tests.support.spark_session import JVM_ENDED, JVM_STARTS, from_started_jvm


class Starts:
    """A process that ends ``times`` at its start, with its pipe open, as PySpark leaves it."""

    def __init__(self, times: int, condition: str = JVM_ENDED) -> None:
        self.failures = [PySparkRuntimeError(errorClass=condition, messageParameters={}) for _ in range(times)]
        self.count = 0

    def __call__(self) -> str:
        self.count += 1
        if self.failures:
            proc = Popen([sys.executable, "-c", ""], stdin=PIPE)  # so PySpark calls the JVM
            assert proc.wait() == 0
            raise self.failures.pop()
        return "session"


@pytest.mark.parametrize("times", range(JVM_STARTS))
def test_jvm_that_ended_at_its_start_is_started_again(times: int, capsys: pytest.CaptureFixture[str]) -> None:
    starts = Starts(times)
    assert from_started_jvm(starts) == "session"
    assert starts.count == times + 1
    assert capsys.readouterr().err.count("starting another one") == times


def test_jvm_that_always_ends_is_an_error() -> None:
    starts = Starts(JVM_STARTS)
    with pytest.raises(PySparkRuntimeError, match=JVM_ENDED):
        from_started_jvm(starts)
    assert starts.count == JVM_STARTS


def test_other_errors_are_raised_at_once() -> None:
    starts = Starts(1, "SESSION_ALREADY_EXIST")
    with pytest.raises(PySparkRuntimeError, match="SESSION_ALREADY_EXIST"):
        from_started_jvm(starts)
    assert starts.count == 1
