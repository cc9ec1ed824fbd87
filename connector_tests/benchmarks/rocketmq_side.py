"""RocketMQ's side: the embedded broker with the settings of a large one, and RocketMQ's own producer."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from time import monotonic
from typing import Final

import psutil

from connector_tests.benchmarks.java_clients import java_client
from connector_tests.benchmarks.side import BROKER_JVM, TOPIC, Side
from connector_tests.benchmarks.workload import MESSAGES_A_PULL, Workload
from rocketmq_spark.embedded import EmbeddedCluster
from rocketmq_spark.embedded.admin import broker_at
from rocketmq_spark.embedded.jars import rocketmq_class_path

TIMEOUT_S: Final = 120
POLL_S: Final = 0.1
SOURCES: Final = ("Bodies.java", "RocketMQSender.java")
SETTINGS: Final[Mapping[str, str]] = {
    "mappedFileSizeCommitLog": str(1024 * 1024 * 1024),
    "mappedFileSizeConsumeQueue": "6000000",
    # An index by key would be built while others measure.
    "messageIndexEnable": "false",
}
PULL_BYTES: Final = 2**20


@contextmanager
def rocketmq_side(workload: Workload) -> Iterator[Side]:
    """``workload`` in a topic of a broker of its own, as long as the block runs."""
    before = set(psutil.Process().children())
    with EmbeddedCluster(java_options=BROKER_JVM, broker_config=settings_for(workload)) as cluster:
        (broker_process,) = set(psutil.Process().children()) - before
        cluster.create_topic(TOPIC, workload.queues)
        with java_client("rocketmq-sender", SOURCES, rocketmq_class_path()) as jvm:
            sender = jvm.connect().RocketMQSender(
                cluster.namesrv_addr,
                TOPIC,
                cluster.broker_names[0],
                workload.queues,
                workload.body_bytes,
                workload.is_compressed,
            )
            fill_seconds = sender.fill(workload.count) / 1e9
            await_offsets(cluster, workload.count)
            yield Side(
                source="rocketmq",
                options={"namesrvAddr": cluster.namesrv_addr, "subscribe": TOPIC, "startingOffsets": "earliest"},
                stored_at="storeTimestamp",
                address=cluster.namesrv_addr,
                broker_pid=broker_process.pid,
                sender=sender,
                fill_seconds=fill_seconds,
            )


def await_offsets(cluster: EmbeddedCluster, count: int) -> None:
    """A stored message gets its offset, and can be read, a moment later; of many, that is seconds."""
    deadline = monotonic() + TIMEOUT_S
    with broker_at(cluster.broker_addr()) as broker:
        while sum(bounds.max_offset for bounds in broker.query_topic_stats(TOPIC).values()) < count:
            if monotonic() > deadline:
                raise TimeoutError(f"no offsets for {count} messages after {TIMEOUT_S} s")
            time.sleep(POLL_S)


def settings_for(workload: Workload) -> dict[str, str]:
    """With a higher limit of messages a pull the one of bytes is out of the way too. A broker takes for cold what is
    further behind the end than a share of the machine's memory; where all is to be cold there is no share."""
    pulls = {
        "maxTransferCountOnMessageInMemory": str(workload.messages_a_pull),
        "maxTransferBytesOnMessageInMemory": str(PULL_BYTES),
    }
    is_usual = workload.messages_a_pull == MESSAGES_A_PULL
    return {
        **SETTINGS,
        **({} if is_usual else pulls),
        **({"accessMessageInMemoryMaxRatio": "0"} if workload.is_cold else {}),
    }
