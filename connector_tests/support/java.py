"""The Java oracle: RocketMQ's own client classes in a JVM without a broker.

``java.org.apache.rocketmq...`` are its classes, ``java.java.util.ArrayList`` those of Java. py4j turns Python's bytes
into byte[] and back, lists and dicts into Java's on the way in, and reads Java's as sequences and mappings.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from connector_tests.support.jvm_options import SHORT_LIVED
from rocketmq_spark.embedded.jars import rocketmq_class_path
from rocketmq_spark.embedded.jvm import ChildJvm


@contextmanager
def java_oracle(work_dir: Path, *, proxy: bool = False) -> Iterator[Any]:
    """py4j's view of the JVM, as long as the block runs; with ``proxy``, gRPC's classes are there too."""
    options = ("-Xmx128m", *SHORT_LIVED, f"-Duser.home={work_dir}", f"-Djava.io.tmpdir={work_dir}")
    jvm = ChildJvm("oracle", rocketmq_class_path(proxy=proxy), options, work_dir)
    try:
        yield jvm.connect()
    finally:
        jvm.kill()
