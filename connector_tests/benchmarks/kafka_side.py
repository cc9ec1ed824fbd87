"""Kafka's side: one node that is broker and controller, in a child JVM, and Kafka's own producer."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from connector_tests.benchmarks.java_clients import java_client
from connector_tests.benchmarks.kafka_jars import broker_jars
from connector_tests.benchmarks.side import BROKER_JVM, HEADED_TOPIC, TOPIC, Side
from connector_tests.benchmarks.workload import Workload
from rocketmq_spark.embedded.jvm import ChildJvm, pyspark_jars

LOOPBACK: Final = "127.0.0.1"
SOURCES: Final = ("Bodies.java", "KafkaSender.java")
CLUSTER_ID: Final = "benchmark-cluster-0001"
SETTINGS: Final[Mapping[str, str]] = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "offsets.topic.replication.factor": "1",
    "log.message.timestamp.type": "LogAppendTime",
}


@contextmanager
def kafka_side(workload: Workload) -> Iterator[Side]:
    """``workload`` in a topic of a broker of its own, as long as the block runs. Raises IvyError without jars."""
    class_path = kafka_class_path()
    with TemporaryDirectory(prefix="benchmark-kafka-") as name, ExitStack() as resources:
        folder = Path(name)
        jvm = ChildJvm("kafka", class_path, (*BROKER_JVM, f"-Djava.io.tmpdir={folder}"), folder)
        resources.callback(jvm.kill)
        resources.enter_context(jvm.raising_embedded_errors())
        address = start_broker(jvm, folder)
        for topic in (TOPIC, *([HEADED_TOPIC] if workload.has_headers else [])):
            create_topic(jvm, address, topic, workload.queues)
        client = resources.enter_context(java_client("kafka-sender", SOURCES, class_path))
        of_all = (workload.queues, workload.body_bytes, workload.is_compressed)
        sender = client.connect().KafkaSender(address, TOPIC, *of_all, False)
        if workload.has_headers:
            client.connect().KafkaSender(address, HEADED_TOPIC, *of_all, True).fill(workload.count)
        yield Side(
            source="kafka",
            options={"kafka.bootstrap.servers": address, "subscribe": TOPIC, "startingOffsets": "earliest"},
            stored_at="timestamp",
            address=address,
            broker_pid=jvm.pid,
            sender=sender,
            fill_seconds=sender.fill(workload.count) / 1e9,
        )


def kafka_class_path() -> list[str]:
    """Of broker and producer, and py4j."""
    from_pyspark = [file for name in ("scala-library", "py4j") for file in pyspark_jars().glob(f"{name}-*.jar")]
    return [*map(str, broker_jars()), *map(str, from_pyspark)]


def start_broker(jvm: ChildJvm, folder: Path) -> str:
    """Its address."""
    port, controller_port = free_ports(2)
    settings = {
        **SETTINGS,
        "listeners": f"PLAINTEXT://{LOOPBACK}:{port},CONTROLLER://{LOOPBACK}:{controller_port}",
        "controller.quorum.voters": f"1@{LOOPBACK}:{controller_port}",
        "log.dirs": str(folder / "log"),
    }
    file = folder / "server.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()), encoding="utf-8")
    format_storage(jvm, file)
    properties = jvm.connect().java.util.Properties()
    properties.putAll(settings)
    config = jvm.connect().kafka.server.KafkaConfig.fromProps(properties)
    jvm.connect().kafka.server.KafkaRaftServer(
        config, jvm.connect().org.apache.kafka.common.utils.Time.SYSTEM
    ).startup()
    return f"{LOOPBACK}:{port}"


def format_storage(jvm: ChildJvm, settings: Path) -> None:
    """What ``kafka-storage.sh format`` does."""
    arguments = java_strings(jvm, ["format", "-t", CLUSTER_ID, "-c", str(settings)])
    exit_code = jvm.connect().kafka.tools.StorageTool.execute(arguments, jvm.connect().java.lang.System.err)
    if exit_code:
        raise RuntimeError(f"Kafka's storage could not be formatted: {jvm.log_tail()}")


def java_strings(jvm: ChildJvm, texts: Sequence[str]) -> object:
    """A ``String[]``; py4j's view of a JVM makes lists only."""
    return jvm.connect().java.util.regex.Pattern.compile("\n").split("\n".join(texts))


def create_topic(jvm: ChildJvm, address: str, name: str, partitions: int) -> None:
    clients = jvm.connect().org.apache.kafka.clients.admin
    properties = jvm.connect().java.util.Properties()
    properties.put("bootstrap.servers", address)
    admin = clients.Admin.create(properties)
    admin.createTopics([clients.NewTopic(name, partitions, 1)]).all().get()
    admin.close()


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on now."""
    sockets = [socket.create_server((LOOPBACK, 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports
