"""Spark Connect: a process without a JVM reads, stops gracefully and writes; a declarative pipeline does too. What is
secret in their options is nowhere to be found."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq
import pytest

from connector_tests.support.cluster_pool import ClusterPool
from connector_tests.support.connect_environment import connect_python, without_java
from connector_tests.support.connect_job import END
from connector_tests.support.secret_search import KEY_PASSWORD, TOKEN, encrypted_certificate, files_below, places_of
from connector_tests.support.secret_statements import INSERTED_COUNT, REDACTED, REJECTED
from connector_tests.support.spark_daemons import REPOSITORY, connect_server, spark_environment, spark_home
from connector_tests.support.streams import Topic, eventually
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

dp.create_sink("copies", "rocketmq", {{**{connection}, "topic": "{copies}"}})


@dp.table
def {table}():
    messages = spark.readStream.format("rocketmq").options(**{connection})
    messages = messages.option("consumerGroup", "{group}").option("subscribe", "{topic}")
    return messages.option("startingOffsets", "earliest").load()


@dp.append_flow(target="copies")
def copy():
    return spark.readStream.table("{table}").select("body")
"""
LAST_COMMAND: Final = "start_run"
"""Of a pipeline, which has defined all of its parts before."""
CONF: Final = REPOSITORY / "conf"
"""Settings that we recommend: without them a server shows options as clients have given them."""


@pytest.fixture(scope="module")
def cluster(clusters: ClusterPool) -> EmbeddedCluster:
    """Instead of the session's: whoever connects to it has secrets."""
    return clusters.get(acl=True, tls=True)


@pytest.fixture(scope="module")
def connection(cluster: EmbeddedCluster, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Options of readers and writers."""
    certificate = encrypted_certificate(tmp_path_factory.mktemp("certificate"))
    server = {"namesrvAddr": cluster.namesrv_addr, "securityToken": TOKEN}
    return server | cluster.security_options | certificate


@pytest.fixture(scope="module")
def secrets(connection: Mapping[str, str]) -> list[str]:
    return [connection["secretKey"], TOKEN, KEY_PASSWORD]


@pytest.fixture(scope="module")
def python() -> str:
    return connect_python()


@pytest.fixture(scope="module")
def server_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("connect")


@pytest.fixture(scope="module")
def server(server_folder: Path) -> Iterator[str]:
    """Its log has more than that of our settings: nothing else at INFO may show options."""
    log_settings = server_folder / "log4j2.properties"
    recommended = (CONF / log_settings.name).read_text(encoding="utf-8")
    log_settings.write_text(recommended.replace("rootLogger.level = warn", "rootLogger.level = info"), encoding="utf-8")
    java_options = f"-Dlog4j2.configurationFile={log_settings.as_uri()}"
    settings = ("--properties-file", str(CONF / "spark-defaults.conf"), "--driver-java-options", java_options)
    with connect_server(server_folder, *settings) as server:
        yield server


@pytest.fixture
def copies(cluster: EmbeddedCluster) -> Iterator[Topic]:
    """A topic that is written to."""
    with new_topic(cluster, "copies") as topic:
        yield topic


def new_topic(cluster: EmbeddedCluster, name: str) -> closing[Topic]:
    return closing(Topic(cluster, cluster.create_topic(unique_name(name))))


@dataclass(frozen=True)
class ClientRun:
    """What the job of a client was given, and has left."""

    group: str
    messages: Topic
    copies: Topic
    folder: Path
    sent: list[str]
    output: str

    def seen(self) -> dict[str, Any]:
        return dict(json.loads(self.output.splitlines()[-1]))


@pytest.fixture(scope="module")
def client_run(
    cluster: EmbeddedCluster,
    connection: Mapping[str, str],
    python: str,
    server: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[ClientRun]:
    """One run for all tests of it."""
    folder, group = tmp_path_factory.mktemp("client"), unique_name("clients")
    with new_topic(cluster, "messages") as messages, new_topic(cluster, "copies") as copies:
        sent = sorted(messages.send(MESSAGE_COUNT))
        job = (python, "-m", "connector_tests.support.connect_job", server, messages.name, group, copies.name)
        environment = without_java() | {"PYTHONPATH": str(REPOSITORY)}
        done = run(*job, str(folder), environment=environment, folder=folder, stdin=json.dumps(connection))
        yield ClientRun(group, messages, copies, folder, sent, done.stderr + done.stdout)


def run(
    *command: str, environment: Mapping[str, str], folder: Path, stdin: str | None = None
) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        command,
        env=environment,
        cwd=folder,
        timeout=PROCESS_S,
        capture_output=True,
        text=True,
        check=False,
        input=stdin,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-5000:]
    return done


def table_bodies(folder: Path) -> list[str]:
    return sorted(body.decode() for body in pq.read_table(folder, columns=["body"])["body"].to_pylist())


def stored_count(topic: Topic) -> int:
    topic.await_dispatch()
    return sum(bounds.max_offset for bounds in topic.bounds().values())


def requests_with(text: str, server_folder: Path) -> list[str]:
    """Events of requests that state ``text``, from the event log of the server, which runs."""
    (events,) = (server_folder / "events").glob("*/events_*")
    lines = events.read_text(encoding="utf-8").splitlines()
    return [line for line in lines if "SparkListenerConnectOperationStarted" in line and text in line]


def test_a_client_without_a_jvm_reads_each_message_once_stops_and_writes(client_run: ClientRun) -> None:
    seen = client_run.seen()
    by_queue = seen["lagByQueue"][client_run.messages.name]["broker-a"]
    assert {queue: one["messages"] for queue, one in by_queue.items()} == {str(queue): 0 for queue in range(4)}
    assert (seen["rows"], seen["isActive"], sorted(seen["batch"])) == (MESSAGE_COUNT, False, client_run.sent)
    assert table_bodies(client_run.folder / "table") == client_run.sent
    messages, group = client_run.messages, client_run.group
    assert seen["drawn"] == [messages.name]
    assert (messages.lag(group), messages.members(group)) == (INSERTED_COUNT, [])
    assert stored_count(client_run.copies) == MESSAGE_COUNT


def test_nothing_that_client_or_server_show_has_what_is_secret_in_options(
    client_run: ClientRun, secrets: list[str], server_folder: Path
) -> None:
    eventually(lambda: bool(requests_with(END, server_folder)), "the event of the last statement")
    shown = {"output": client_run.output.encode()} | files_below(server_folder) | files_below(client_run.folder)
    assert places_of(secrets, shown) == {}
    for words in ("== Optimized Logical Plan ==", '"numInputRows"', REJECTED, *(f"SQL {one}" for one in REDACTED)):
        assert words in client_run.output
    for operation in ("write_stream_operation_start", "write_operation {", "CREATE TEMPORARY VIEW", "CREATE TABLE"):
        requests = [event for event in requests_with(operation, server_folder) if "(redacted)" in event]
        assert requests, f"else {operation} has shown nothing that a secret could be in"


def test_a_declarative_pipeline_reads_each_message_once_and_writes_it(
    connection: Mapping[str, str],
    secrets: list[str],
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
        TRANSFORMATION.format(connection=connection, copies=copies.name, table=table, group=group, topic=messages.name),
        encoding="utf-8",
    )
    spec = tmp_path / "spark-pipeline.yml"
    spec.write_text(SPEC.format(storage=(tmp_path / "storage").as_uri()), encoding="utf-8")
    environment = spark_environment(tmp_path) | {"PYSPARK_PYTHON": python, "PYSPARK_DRIVER_PYTHON": python}
    command = (str(spark_home() / "bin" / "spark-pipelines"), "run", "--remote", server, "--spec", str(spec))
    sent = sorted(messages.send(MESSAGE_COUNT))
    done = run(*command, environment=environment, folder=tmp_path)
    assert table_bodies(server_folder / "warehouse" / table) == sent
    assert messages.lag(group) == 0
    assert stored_count(copies) == MESSAGE_COUNT
    eventually(lambda: bool(requests_with(LAST_COMMAND, server_folder)), "the event of the last command")
    shown = {"output": (done.stdout + done.stderr).encode()} | files_below(server_folder)
    assert places_of(secrets, shown) == {}
