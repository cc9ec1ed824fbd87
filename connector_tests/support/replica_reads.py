"""Reads of a topic whose broker loses servers: what is read meanwhile, and all the rest."""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import Any

from connector_tests.support.source_calls import SourceCalls
from connector_tests.support.streams import Topic, eventually
from rocketmq_spark.embedded import EmbeddedCluster
from rocketmq_spark.embedded.admin import broker_at
from rocketmq_spark.errors import EmbeddedBrokerError, RocketMQError


def options_of(cluster: EmbeddedCluster, topic: Topic, group: str) -> dict[str, str]:
    return {
        "namesrvAddr": cluster.namesrv_addr,
        "consumerGroup": group,
        "subscribe": topic.name,
        "startingOffsets": "earliest",
    }


def is_master(cluster: EmbeddedCluster, server: str) -> bool:
    """Whether the route names it as its broker's master now."""
    try:
        return cluster.master() == server
    except EmbeddedBrokerError:
        return False


def has_replicated(cluster: EmbeddedCluster, server: str, topic: Topic, count: int) -> bool:
    """Whether a slave knows the topic, and has so many messages of it. It copies topics once a minute."""
    try:
        with broker_at(cluster.broker_addr(server)) as broker:
            held = broker.query_topic_stats(topic.name)
    except RocketMQError:
        return False
    return sum(bounds.max_offset for bounds in held.values()) == count


def read_for(calls: SourceCalls, rows: list[dict[str, Any]], duration_s: float) -> None:
    end_s = time.monotonic() + duration_s
    while time.monotonic() < end_s:
        rows += calls.next_batch()


def read_rest(calls: SourceCalls, rows: list[dict[str, Any]], sent: Collection[str]) -> None:
    """Read until all that was ``sent`` has been read, and nothing is left."""

    def is_all_read() -> bool:
        batch = calls.next_batch()
        rows.extend(batch)
        return not batch and bodies(rows).issuperset(sent)

    eventually(is_all_read, "all confirmed messages")


def bodies(rows: list[dict[str, Any]]) -> set[str]:
    return {row["body"].decode() for row in rows}


def places(rows: list[dict[str, Any]]) -> list[tuple[int, int]]:
    return [(row["queueId"], row["queueOffset"]) for row in rows]
