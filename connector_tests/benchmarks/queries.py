"""Queries of both connectors that read all of a topic, by who takes part."""

from __future__ import annotations

from pyspark.sql import SparkSession

from connector_tests.benchmarks.names import (
    KAFKA,
    KAFKA_HEADERS,
    KAFKA_VALUES,
    OUR_BODIES,
    OUR_LIKE_KAFKA,
    OUR_MAPS,
    OUR_RARE,
    OURS,
)
from connector_tests.benchmarks.run import Contestant
from connector_tests.benchmarks.schemas import BODY_ONLY, LIKE_KAFKA
from connector_tests.benchmarks.side import HEADED_TOPIC
from connector_tests.benchmarks.spark import stream_of
from connector_tests.benchmarks.stand import Stand
from connector_tests.benchmarks.throughput import read_all
from connector_tests.benchmarks.workload import RARE_EVERY, RARE_TAG


def connectors(spark: SparkSession, stand: Stand) -> dict[str, Contestant]:
    """Both with their default columns; ours with what Kafka's tell too."""
    ours, rows = stand.rocketmq, stand.workload.count
    racing: dict[str, Contestant] = {
        OURS: lambda: read_all(spark, ours, stream_of(spark, ours), rows),
        OUR_LIKE_KAFKA: lambda: read_all(spark, ours, stream_of(spark, ours, LIKE_KAFKA), rows),
    }
    if (kafka := stand.kafka) is not None:
        racing[KAFKA] = lambda: read_all(spark, kafka, stream_of(spark, kafka), rows)
    return racing


def narrow(spark: SparkSession, stand: Stand) -> dict[str, Contestant]:
    """Both with two columns, and with the map of properties, or headers; ours with a tag filter."""
    ours, rows = stand.rocketmq, stand.workload.count
    racing: dict[str, Contestant] = {
        OUR_MAPS: lambda: read_all(spark, ours, stream_of(spark, ours, includeProperties="true"), rows),
        OUR_BODIES: lambda: read_all(spark, ours, stream_of(spark, ours, BODY_ONLY), rows),
        OUR_RARE: lambda: read_all(
            spark, ours, stream_of(spark, ours, subExpression=RARE_TAG), rows, rows // RARE_EVERY
        ),
    }
    if (kafka := stand.kafka) is not None:
        if stand.workload.has_headers:
            headed = {"includeHeaders": "true", "subscribe": HEADED_TOPIC}
            racing[KAFKA_HEADERS] = lambda: read_all(spark, kafka, stream_of(spark, kafka, **headed), rows)
        racing[KAFKA_VALUES] = lambda: read_all(spark, kafka, stream_of(spark, kafka).select("value", "offset"), rows)
    return racing
