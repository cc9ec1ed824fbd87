"""What it costs to share messages, beside RocketMQ's own clients of its gRPC protocol, at one broker and one proxy.

    python -m connector_tests.benchmarks.shared_messages [rounds]

All take every message of a topic of their own, in a group of their own, and acknowledge each: ours as Spark's
micro-batches drive the source's reader, columns made and batches proven, through brokers and through the proxy; the
official Python client one by one; Java's with acknowledgements that it does not wait for until the end. Measured are
messages a second, and the processor time that the client's process takes for each, once its libraries are there.
"""

from __future__ import annotations

import json
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from importlib import import_module
from statistics import median
from time import perf_counter, process_time, sleep
from typing import Any, Final

import psutil

from connector_tests.benchmarks.apart import run_apart
from connector_tests.benchmarks.java_clients import java_client
from connector_tests.benchmarks.kafka_jars import cached_jars
from connector_tests.benchmarks.side import BROKER_JVM
from connector_tests.support.admin_broker import AdminBroker
from rocketmq_spark.embedded import EmbeddedCluster
from rocketmq_spark.embedded.jars import rocketmq_class_path
from rocketmq_spark.embedded.jvm import ChildJvm, pyspark_jars
from rocketmq_spark.model import BrokerAddress
from rocketmq_spark.remoting.pool import ConnectionPool

MODULE: Final = "connector_tests.benchmarks.shared_messages"
REMOTING: Final = "rocketmq_spark, brokers"
GRPC: Final = "rocketmq_spark, proxy (gRPC)"
OFFICIAL: Final = "rocketmq-python-client 5.1.2, proxy"
JAVA: Final = "rocketmq-client-java 5.0.8, proxy"
JAVA_CLIENT: Final = ("org.apache.rocketmq:rocketmq-client-java:5.0.8",)
MESSAGES: Final[Mapping[str, int]] = {REMOTING: 200_000, GRPC: 40_000, OFFICIAL: 4_000, JAVA: 8_000}
"""Of each so many that it takes some seconds."""

QUEUES: Final = 4
BODY_BYTES: Final = 100
IN_FLIGHT: Final = 32
INVISIBLE_S: Final = 60
ROUNDS: Final = 3
ADMIN_TIMEOUT_MS: Final = 5_000
MAX_EMPTY_RECEIVES: Final = 6
RETRY_S: Final = 1


@dataclass(frozen=True)
class Received:
    """What a run came to."""

    messages: int
    seconds: float
    cpu_s: float

    @property
    def rate(self) -> float:
        return self.messages / self.seconds

    @property
    def cpu_us(self) -> float:
        """Of a message."""
        return self.cpu_s / self.messages * 1e6


@dataclass(frozen=True)
class Run:
    """One contestant's topic and group."""

    cluster: EmbeddedCluster
    topic: str
    group: str
    messages: int


# ---------------------------------------------------------------------------------------------- in a Python of its own


def receive_with_ours(options: Mapping[str, str], expected: int) -> int:
    """How many rows, once all are acknowledged."""
    from pyspark.sql.streaming.datasource import ReadAllAvailable

    from rocketmq_spark.source.datasource import RocketMQDataSource
    from rocketmq_spark.source.pop.pop_reader import RocketMQPopReader
    from rocketmq_spark.source.schema import default_schema

    reader = RocketMQDataSource(dict(options)).streamReader(default_schema())
    assert isinstance(reader, RocketMQPopReader)
    rows, end = 0, reader.initialOffset()
    while rows < expected:
        start, end = end, carried(reader.latestOffset(end, ReadAllAvailable()))
        if end != start:
            tasks = reader.partitions(start, end)
            rows += sum(batch.num_rows for task in tasks for batch in reader.read(task))
    reader.latestOffset(end, ReadAllAvailable())
    reader.stop()
    return rows


def carried(offset: dict[str, Any]) -> dict[str, Any]:
    """As Spark hands it back."""
    value: dict[str, Any] = json.loads(json.dumps(offset))
    return value


def receive_with_official_client(options: Mapping[str, str], expected: int) -> int:
    from rocketmq import ClientConfiguration, Credentials, FilterExpression, SimpleConsumer

    configuration = ClientConfiguration(options["endpoints"], Credentials())
    topics = {options["subscribe"]: FilterExpression()}
    consumer = SimpleConsumer(configuration, options["consumerGroup"], topics)
    consumer.startup()
    received_count = empty_receives = 0
    while received_count < expected and empty_receives < MAX_EMPTY_RECEIVES:
        try:
            messages = consumer.receive(IN_FLIGHT, INVISIBLE_S) or ()
        except Exception:  # noqa: BLE001  # it knows no route yet, or another of its calls has just failed
            messages = ()
            sleep(RETRY_S)
        for message in messages:
            consumer.ack(message)
        received_count += len(messages)
        empty_receives = 0 if messages else empty_receives + 1
    consumer.shutdown()
    return received_count


HOW: Final[Mapping[str, Callable[[Mapping[str, str], int], int]]] = {
    REMOTING: receive_with_ours,
    GRPC: receive_with_ours,
    OFFICIAL: receive_with_official_client,
}


def measured_here(name: str, options: str, expected: str) -> None:
    """Print what a run in this process comes to."""
    options_given = json.loads(options)
    import_libraries(name)
    began, used_s = perf_counter(), process_time()
    received_count = HOW[name](options_given, int(expected))
    sys.stdout.write(json.dumps([received_count, perf_counter() - began, process_time() - used_s]))


def import_libraries(name: str) -> None:
    ours = ("rocketmq_spark.source.pop.message_reader", "rocketmq_spark.source.pop.pop_run")
    for library in ("rocketmq",) if name == OFFICIAL else ours:
        import_module(library)


# ------------------------------------------------------------------------------------------------------- the benchmark


def options_of(name: str, run: Run) -> dict[str, str]:
    server = {"namesrvAddr": run.cluster.namesrv_addr, "startingOffsets": "earliest"}
    server = server if name == REMOTING else {"endpoints": run.cluster.endpoints}
    return {"consumerGroup": run.group, "subscribe": run.topic, "loadBalance": "message", **server}


def receive_apart(name: str, run: Run) -> Received:
    printed = run_apart(MODULE, name, json.dumps(options_of(name, run)), str(run.messages))
    return checked(Received(*json.loads(printed.splitlines()[-1])), run)


def receive_with_java(jvm: ChildJvm, run: Run) -> Received:
    process = psutil.Process(jvm.pid)
    before = process.cpu_times()
    nanos = jvm.connect().SimpleConsumerLoop.consume(run.cluster.endpoints, run.group, run.topic, run.messages)
    after = process.cpu_times()
    cpu_s = after.user + after.system - before.user - before.system
    return checked(Received(run.messages, nanos / 1e9, cpu_s), run)


def checked(received: Received, run: Run) -> Received:
    assert received.messages >= run.messages, f"{received.messages} of {run.messages} messages"
    return received


def java_class_path() -> list[str]:
    """Of Java's gRPC client, and py4j."""
    of_py4j = [file for name in ("scala-library", "py4j") for file in pyspark_jars().glob(f"{name}-*.jar")]
    return [*map(str, cached_jars(JAVA_CLIENT, transitive=True)), *map(str, of_py4j)]


@contextmanager
def filled(cluster: EmbeddedCluster, name: str, messages: int) -> Iterator[Run]:
    """A topic with so many messages, and a group that is there and has none of them."""
    own = uuid.uuid4().hex[:8]
    topic, group = cluster.create_topic(f"shared-{own}", QUEUES), f"sharers-{own}"
    with closing(ConnectionPool(ADMIN_TIMEOUT_MS)) as pool:
        AdminBroker(BrokerAddress(cluster.broker_addr()), pool, ADMIN_TIMEOUT_MS).ensure_group(group)
    with java_client("rocketmq-sender", ("Bodies.java", "RocketMQSender.java"), rocketmq_class_path()) as jvm:
        sender = jvm.connect().RocketMQSender(
            cluster.namesrv_addr, topic, cluster.broker_names[0], QUEUES, BODY_BYTES, False
        )
        sender.fill(messages)
    yield Run(cluster, topic, group, messages)


def measure(rounds: int) -> dict[str, list[Received]]:
    found: dict[str, list[Received]] = {name: [] for name in MESSAGES}
    with ExitStack() as resources:
        cluster = resources.enter_context(EmbeddedCluster(proxy=True, separate_jvms=True, java_options=BROKER_JVM))
        jvm = resources.enter_context(java_client("simple-consumer", ("SimpleConsumerLoop.java",), java_class_path()))
        for number in range(rounds):
            for name, messages in MESSAGES.items():
                with filled(cluster, name, messages) as run:
                    received = receive_with_java(jvm, run) if name == JAVA else receive_apart(name, run)
                found[name].append(received)
                sys.stderr.write(f"round {number + 1}: {name}: {received.rate:.0f}/s, {received.cpu_us:.1f} us each\n")
    return found


def table(found: Mapping[str, Sequence[Received]]) -> Iterator[str]:
    official = median(one.rate for one in found[OFFICIAL])
    yield "| client | messages a second | to the official Python client | processor time a message, us |"
    yield "| --- | ---: | ---: | ---: |"
    for name, runs in found.items():
        rates, costs = [one.rate for one in runs], [one.cpu_us for one in runs]
        shown = f"{median(rates):,.0f} ({min(rates):,.0f} to {max(rates):,.0f})"
        yield f"| {name} | {shown} | {median(rates) / official:.1f} x | {median(costs):.1f} |"


def main(*arguments: str) -> None:
    if len(arguments) == 3:
        measured_here(*arguments)
        return
    rounds = int(arguments[0]) if arguments else ROUNDS
    sys.stdout.writelines(f"{line}\n" for line in table(measure(rounds)))


if __name__ == "__main__":
    main(*sys.argv[1:])
