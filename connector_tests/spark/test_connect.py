"""Spark Connect: a process without a JVM reads, stops gracefully and writes; a declarative pipeline does too."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import pyarrow.parquet as pq
import pytest

from connector_tests.support.connect_environment import connect_python, without_java
from connector_tests.support.spark_daemons import REPOSITORY, connect_server, spark_environment, spark_home
from connector_tests.support.streams import Topic
from connector_tests.support.timeouts import PROCESS_S
from rocketmq_spark.embedded import EmbeddedCluster
from rocketmq_spark.embedded.pytest_plugin import unique_name

pytestmark = pytest.mark.full

MESSAGE_COUNT: Final = 40
SPEC: Final = """\
name: orders
storage: {storage}
libraries:
  - glob:
      include: transformations/**
"""
TRANSFORMATION: Final = """\
from pyspark import pipelines as dp

dp.create_sink("copies", "rocketmq", {{"namesrvAddr": "{namesrv_addr}", "topic": "{copies}"}})


@dp.table
def {table}():
    messages = spark.readStream.format("rocketmq").option("namesrvAddr", "{namesrv_addr}")
    messages = messages.option("consumerGroup", "{group}").option("subscribe", "{topic}")
    return messages.option("startingOffsets", "earliest").load()


@dp.append_flow(target="copies")
def copy():
    return spark.readStream.table("{table}").select("body")
"""


@pytest.fixture(scope="module")
def python() -> str:
    return connect_python()


@pytest.fixture(scope="module")
def server_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("connect")


@pytest.fixture(scope="module")
def server(server_folder: Path) -> Iterator[str]:
    with connect_server(server_folder) as server:
        yield server


@pytest.fixture
def copies(cluster: EmbeddedCluster) -> Iterator[Topic]:
    """A topic that is written to."""
    topic = Topic(cluster, cluster.create_topic(unique_name("copies")))
    yield topic
    topic.close()


def output_of(*command: str, environment: Mapping[str, str], folder: Path) -> str:
    done = subprocess.run(
        command, env=environment, cwd=folder, timeout=PROCESS_S, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-5000:]
    return done.stdout


def table_bodies(folder: Path) -> list[str]:
    return sorted(body.decode() for body in pq.read_table(folder, columns=["body"])["body"].to_pylist())


def stored_count(topic: Topic) -> int:
    topic.await_dispatch()
    return sum(bounds.max_offset for bounds in topic.bounds().values())


def test_a_client_without_a_jvm_reads_each_message_once_stops_and_writes(
    cluster: EmbeddedCluster, messages: Topic, copies: Topic, group: str, python: str, server: str, tmp_path: Path
) -> None:
    sent = sorted(messages.send(MESSAGE_COUNT))
    arguments = (server, cluster.namesrv_addr, messages.name, group, copies.name, str(tmp_path))
    environment = without_java() | {"PYTHONPATH": str(REPOSITORY)}
    job = (python, "-m", "connector_tests.support.connect_job", *arguments)
    seen = json.loads(output_of(*job, environment=environment, folder=tmp_path))
    by_queue = seen["lagByQueue"][messages.name]["broker-a"]
    assert {queue: one["messages"] for queue, one in by_queue.items()} == {str(queue): 0 for queue in range(4)}
    assert (seen["rows"], seen["isActive"], sorted(seen["batch"])) == (MESSAGE_COUNT, False, sent)
    assert table_bodies(tmp_path / "table") == sent
    assert (messages.lag(group), messages.members(group)) == (0, [])
    assert stored_count(copies) == MESSAGE_COUNT


def test_a_declarative_pipeline_reads_each_message_once_and_writes_it(
    cluster: EmbeddedCluster,
    messages: Topic,
    copies: Topic,
    group: str,
    python: str,
    server: str,
    server_folder: Path,
    tmp_path: Path,
) -> None:
    table = unique_name("orders").lower()
    (tmp_path / "transformations").mkdir()
    (tmp_path / "transformations" / "orders.py").write_text(
        TRANSFORMATION.format(
            namesrv_addr=cluster.namesrv_addr, copies=copies.name, table=table, group=group, topic=messages.name
        ),
        encoding="utf-8",
    )
    spec = tmp_path / "spark-pipeline.yml"
    spec.write_text(SPEC.format(storage=(tmp_path / "storage").as_uri()), encoding="utf-8")
    environment = spark_environment(tmp_path) | {"PYSPARK_PYTHON": python, "PYSPARK_DRIVER_PYTHON": python}
    command = (str(spark_home() / "bin" / "spark-pipelines"), "run", "--remote", server, "--spec", str(spec))
    sent = sorted(messages.send(MESSAGE_COUNT))
    output_of(*command, environment=environment, folder=tmp_path)
    assert table_bodies(server_folder / "warehouse" / table) == sent
    assert messages.lag(group) == 0
    assert stored_count(copies) == MESSAGE_COUNT
