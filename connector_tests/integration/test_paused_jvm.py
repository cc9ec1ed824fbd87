"""A child JVM whose calls are disturbed: it is paused, ends, or shares its process with a Spark."""

from __future__ import annotations

import logging
from pathlib import Path

import psutil
import py4j.java_gateway
import pytest
from pyspark.errors.exceptions.captured import install_exception_handler

from connector_tests.support.timeouts import PROCESS_S
from rocketmq_spark.embedded.jars import rocketmq_class_path
from rocketmq_spark.embedded.jvm import ChildJvm
from rocketmq_spark.errors import EmbeddedBrokerError

pytestmark = [pytest.mark.broker, pytest.mark.full]


@pytest.mark.timeout(PROCESS_S)
def test_a_java_object_that_goes_while_its_jvm_stands_still_holds_no_thread(tmp_path: Path) -> None:
    """py4j reports the JVM of each object that Python collects, in whatever thread the collector runs: a test hung."""
    jvm = ChildJvm("paused", rocketmq_class_path(), ("-Xmx64m",), tmp_path)
    try:
        kept, collected = jvm.connect().java.lang.Object(), jvm.connect().java.lang.Object()
        jvm.pause()
        del collected
        with pytest.raises(EmbeddedBrokerError), jvm.raising_embedded_errors():
            kept.hashCode()
        jvm.resume()
        assert isinstance(kept.hashCode(), int)
    finally:
        jvm.kill()


@pytest.mark.timeout(PROCESS_S)
def test_a_second_pause_waits_for_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system reports a stop once: pausing a cluster with a paused broker hung."""
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\nexec sleep 1000\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    jvm = ChildJvm("paused twice", [], (), tmp_path)
    process = psutil.Process(jvm.pid)
    try:
        for _ in range(2):
            jvm.pause()
            jvm.pause()
            assert process.status() == psutil.STATUS_STOPPED
            jvm.resume()
            assert process.status() != psutil.STATUS_STOPPED
    finally:
        jvm.kill()


def test_one_that_ends_while_it_is_called_is_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """py4j used to log tracebacks of its own: ``rocketmq-spark broker`` showed them."""
    jvm = ChildJvm("ended", rocketmq_class_path(), ("-Xmx64m",), tmp_path)
    try:
        of_java = jvm.connect().java
        for _ in range(2):
            reported = r"EMBEDDED_JVM_FAILED.*: Java ended with exit code 3"
            with pytest.raises(EmbeddedBrokerError, match=reported), jvm.raising_embedded_errors():
                of_java.lang.System.exit(3)
    finally:
        jvm.kill()
    assert [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING] == []


def test_a_spark_in_the_same_process_interprets_no_exception_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PySpark has py4j ask Spark's JVM what each Java exception is, by a number that means another object there: an end
    of a Java list raised the last error of a query, and a missing jar was a failure of the JVM."""
    monkeypatch.setattr(py4j.java_gateway, "get_return_value", py4j.java_gateway.get_return_value)
    install_exception_handler()
    jvm = ChildJvm("beside Spark", rocketmq_class_path(), ("-Xmx64m",), tmp_path)
    try:
        java = jvm.connect().java
        two = java.util.ArrayList()
        two.extend([1, 2])
        assert list(two.iterator()) == [1, 2]
        reported = r"EMBEDDED_SERVER_FAILED.*by the test"
        with pytest.raises(EmbeddedBrokerError, match=reported), jvm.raising_embedded_errors():
            java.util.Objects.requireNonNull(None, "by the test")
    finally:
        jvm.kill()
