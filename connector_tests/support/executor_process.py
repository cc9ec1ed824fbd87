"""What an executor's Python process keeps until it ends, in a process that continues."""

from __future__ import annotations

from rocketmq_spark.pull import executor_pull_client, pull_connections
from rocketmq_spark.remoting import cluster_client, pool


def close_executor_connections() -> None:
    """For tests that read ranges in their own process: as if it had been an executor's and were over."""
    executor_pull_client.shared_pull_client.cache_clear()
    cluster_client._shared.cache_clear()
    for shared in (pool._shared, pull_connections._shared):
        while shared:
            shared.popitem()[1].close()
