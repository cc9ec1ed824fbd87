"""What a query that shares messages costs while there are none: requests to its broker or proxy, and processor time.

    python -m connector_tests.benchmarks.shared_idle [seconds]

The source's reader is driven as an idle micro-batch query drives it, in a Python of its own.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from contextlib import closing
from functools import wraps
from time import monotonic, process_time
from typing import Any, Final

from connector_tests.benchmarks.apart import run_apart
from connector_tests.benchmarks.shared_messages import GRPC, QUEUES, REMOTING, carried, options_of
from connector_tests.benchmarks.shared_messages import Run as Sharing
from connector_tests.support.admin_broker import AdminBroker
from rocketmq_spark.embedded import EmbeddedCluster
from rocketmq_spark.model import BrokerAddress
from rocketmq_spark.remoting.pool import ConnectionPool

MODULE: Final = "connector_tests.benchmarks.shared_idle"
SECONDS: Final = 60
REST_S: Final = 10
POLLING_DELAY_S: Final = 0.01
"""Spark's pause after it has found nothing: ``spark.sql.streaming.pollingDelay``."""

TIMEOUT_MS: Final = 5_000
TOPIC: Final = "idle"
GROUP: Final = "idle-sharers"


def measured_here(options: str, seconds: str) -> None:
    """Print requests and processor time, each a second, of an idle query in this process."""
    from rocketmq_spark.source.datasource import RocketMQDataSource
    from rocketmq_spark.source.schema import default_schema

    requests = counted_requests()
    reader = RocketMQDataSource(json.loads(options)).streamReader(default_schema())
    with closing(_Query(reader, reader.initialOffset())) as query:
        query.idle(REST_S)
        requests_before, used_s, began = len(requests), process_time(), monotonic()
        query.idle(float(seconds))
        took_s = monotonic() - began
        sys.stdout.write(json.dumps([(len(requests) - requests_before) / took_s, (process_time() - used_s) / took_s]))


class _Query:
    def __init__(self, reader: Any, at: dict[str, Any]) -> None:
        self._reader, self._at = reader, at

    def idle(self, for_s: float) -> None:
        from pyspark.sql.streaming.datasource import ReadAllAvailable

        until = monotonic() + for_s
        while monotonic() < until:
            self._at = carried(self._reader.latestOffset(self._at, ReadAllAvailable()))
            time.sleep(POLLING_DELAY_S)

    def close(self) -> None:
        self._reader.stop()


def counted_requests() -> list[str]:
    """Grows by one for each request of this process, over either protocol."""
    from rocketmq_spark.proxy.connection import Connection as ToProxy
    from rocketmq_spark.remoting.connection import Connection as ToBroker

    requests: list[str] = []
    for kind, name in ((ToBroker, "submit"), (ToProxy, "submit"), (ToProxy, "stream"), (ToProxy, "converse")):
        setattr(kind, name, _noted(getattr(kind, name), requests))
    return requests


def _noted(call: Callable[..., Any], requests: list[str]) -> Callable[..., Any]:
    @wraps(call)
    def noted(*configured: Any, **named: Any) -> Any:
        requests.append(call.__name__)
        return call(*configured, **named)

    return noted


def measure(seconds: int) -> None:
    with EmbeddedCluster(proxy=True, separate_jvms=True) as cluster:
        cluster.create_topic(TOPIC, QUEUES)
        with closing(ConnectionPool(TIMEOUT_MS)) as pool:
            AdminBroker(BrokerAddress(cluster.broker_addr()), pool, TIMEOUT_MS).ensure_group(GROUP)
        for name in (REMOTING, GRPC):
            options = json.dumps(options_of(name, Sharing(cluster, TOPIC, GROUP, 0)))
            requests, cores = json.loads(run_apart(MODULE, options, str(seconds)).splitlines()[-1])
            sys.stdout.write(f"{name}: {requests:.2f} requests/s, {cores:.2%} of a core\n")


def main(*arguments: str) -> None:
    if len(arguments) == 2:
        measured_here(*arguments)
    else:
        measure(int(arguments[0]) if arguments else SECONDS)


if __name__ == "__main__":
    main(*sys.argv[1:])
