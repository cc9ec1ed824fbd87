"""Part ``idle``: what a query asks its broker while there is nothing to read.

Every queue has a pull that the broker holds for a long time, and the more queues, the longer. All are asked again at
about the same moment, perhaps minutes apart, so it is not their count that is shown. The time for which each may be
held states how often it comes, and none may come more often.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from functools import partial
from time import monotonic
from typing import Final

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from connector_tests.benchmarks.figures import HELD, idle_figures
from connector_tests.benchmarks.names import OURS
from connector_tests.benchmarks.race import alternate
from connector_tests.benchmarks.run import Figures, Outcome
from connector_tests.benchmarks.small_batches import await_first_batch, check
from connector_tests.benchmarks.spark import RECOMMENDED_SETTINGS, checkpoint, spark_session
from connector_tests.support.request_count import RequestCount, counted_cluster
from rocketmq_spark.embedded import EmbeddedCluster

PART: Final = "idle"
QUEUES: Final = 4
TIMEOUT_S: Final = 60
REST_S: Final = 3


def run_idle(topic_counts: Sequence[int], seconds: int) -> Iterator[Outcome]:
    with spark_session(RECOMMENDED_SETTINGS, []) as spark:
        for topics in topic_counts:
            racing = {OURS: partial(requests_of_idle, spark, topics, seconds)}
            yield from alternate(PART, f"topics of {QUEUES} queues: {topics}", racing, rounds=1, warm_up=False)


def requests_of_idle(spark: SparkSession, topics: int, seconds: int) -> Figures:
    """Of a query on so many empty topics of one broker, in the ``seconds`` after it has come to rest."""
    with counted_cluster() as (cluster, requests), checkpoint() as folder:
        names = [cluster.create_topic(f"idle-{number}", QUEUES) for number in range(topics)]
        query = start(spark, cluster, names, folder)
        try:
            await_first_batch(query)
            await_rest(query, requests, topics * QUEUES)
            requests.clear()
            time.sleep(seconds)
            counted = requests.by_code.copy()
        finally:
            query.stop()
    held_ms = list(requests.held_ms.values())
    most_requests = sum(1 + seconds * 1000 // each_ms for each_ms in held_ms)
    assert counted[HELD] <= most_requests, (
        f"{counted[HELD]} pulls instead of {most_requests}: they are not held as long as they may be"
    )
    return {"topics": topics, **idle_figures(counted, held_ms, seconds)}


def start(spark: SparkSession, cluster: EmbeddedCluster, topics: Sequence[str], folder: str) -> StreamingQuery:
    reader = spark.readStream.format("rocketmq").option("namesrvAddr", cluster.namesrv_addr)
    stream = reader.option("consumerGroup", "benchmark-idle").option("subscribe", ",".join(topics)).load()
    return stream.writeStream.format("noop").option("checkpointLocation", folder).start()


def await_rest(query: StreamingQuery, requests: RequestCount, queues: int) -> None:
    """The broker then holds a pull of every queue, and was asked nothing for some seconds."""
    deadline = monotonic() + TIMEOUT_S
    while len(requests.held_ms) < queues or monotonic() - requests.last_s < REST_S:
        check(query, deadline)
