from __future__ import annotations

from pathlib import Path

import pytest

from rocketmq_spark.embedded.jars import rocketmq_class_path
from rocketmq_spark.embedded.jvm import ChildJvm
from rocketmq_spark.errors import EmbeddedBrokerError

pytestmark = pytest.mark.broker


@pytest.mark.timeout(60)
def test_a_java_object_that_goes_while_its_jvm_stands_still_holds_no_thread(tmp_path: Path) -> None:
    """py4j tells the JVM of each object that Python collects, in whatever thread the collector runs: a test hung."""
    jvm = ChildJvm("paused", rocketmq_class_path(), ("-Xmx64m",), tmp_path)
    try:
        kept, collected = jvm.java.java.lang.Object(), jvm.java.java.lang.Object()
        jvm.pause()
        del collected
        with pytest.raises(EmbeddedBrokerError), jvm.failing_clearly():
            kept.hashCode()
        jvm.resume()
        assert isinstance(kept.hashCode(), int)
    finally:
        jvm.kill()
