"""Clusters that test modules share: one of each shape in a session, replaced when a test has broken it."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from functools import partial
from typing import Any, Final

from connector_tests.support.admin_broker import AdminBroker
from connector_tests.support.jvm_options import rocketmq_options
from connector_tests.support.timeouts import TIMEOUT_FACTOR
from connector_tests.support.timer_slack import lazy_timers
from rocketmq_spark.embedded import EmbeddedCluster
from rocketmq_spark.errors import EmbeddedBrokerError, RocketMQError
from rocketmq_spark.remoting.error_kinds import is_timed_out
from rocketmq_spark.remoting.namesrv import NameServers
from rocketmq_spark.remoting.pool import ConnectionPool

KEPT_S: Final = 60.0
"""How long a cluster is kept that no module uses. Its processes are paused meanwhile: an idle broker takes 5 % of a
core. A name server removes a broker that sends nothing for 120 s, and each sends something every 30 s."""

RARELY_FLUSHED: Final = {
    "timerFlushIntervalMs": "60000",
    "timerWheelSnapshotFlush": "true",
    "timerWheelSnapshotIntervalMs": str(2**31 - 1),
}
"""An idle broker takes 4 % of a core for flushing its timer wheel every 5 s, and 0.15 s for a first flush at its start:
each compares 38 MB byte by byte. With snapshots, which 5.5.0 has, it need not, and none is due: a restarted broker
rebuilds the wheel from its timer log. After a kill it may deliver the delayed messages of a minute again."""

SHORTEST: Final = {"minInvisibleTimeMillsForRecv": 1_000}
SYSTEM_TOPIC: Final = "SELF_TEST_TOPIC"
PROBE_TIMEOUT_MS: Final = int(3_000 * TIMEOUT_FACTOR)
REPEATS: Final = 2
UNANSWERED: Final = re.compile(r"Remoting(Timeout|Connect|SendRequest)Exception")


Starting = Callable[[], AbstractContextManager[None]]
"""Makes a block in which whatever starts may outlive the test."""


class PatientCluster(EmbeddedCluster):
    """A cluster of any version, some of whose commands are repeated where a server of a busy machine was late."""

    def create_topic(self, *arguments: Any, **more: Any) -> str:
        return _repeated(partial(super().create_topic, *arguments, **more))

    def mqadmin(self, *arguments: str) -> str:
        """The tool waits for some seconds."""
        return _repeated(partial(super().mqadmin, *arguments))


def _repeated(command: Callable[[], str]) -> str:
    for _ in range(REPEATS):
        try:
            return command()
        except (subprocess.TimeoutExpired, RocketMQError) as error:
            if not _is_late(error):
                raise
    return command()


def _is_late(error: subprocess.TimeoutExpired | RocketMQError) -> bool:
    if isinstance(error, subprocess.TimeoutExpired):
        return True
    return is_timed_out(error) or (isinstance(error, EmbeddedBrokerError) and bool(UNANSWERED.search(str(error))))


class RestingCluster(PatientCluster):
    """A cluster of 5.5.0 that takes less of the processor: to start, and while nothing is asked of it."""

    def __init__(self, *, java_options: Sequence[str] = (), **shape: Any) -> None:
        super().__init__(java_options=(*rocketmq_options(), *java_options), **configured(shape))

    def start(self) -> None:
        with lazy_timers():
            super().start()

    def start_broker(self, name: str = "broker-a") -> None:
        with lazy_timers():
            super().start_broker(name)

    def start_name_server(self) -> None:
        with lazy_timers():
            super().start_name_server()

    def start_proxy(self) -> None:
        with lazy_timers():
            super().start_proxy()


class PooledCluster(RestingCluster):
    """A cluster whose servers outlive the test that starts them again."""

    def __init__(self, starting: Starting, **shape: Any) -> None:
        super().__init__(**shape)
        self._starting = starting

    def start_broker(self, name: str = "broker-a") -> None:
        with self._starting():
            super().start_broker(name)

    def start_name_server(self) -> None:
        with self._starting():
            super().start_name_server()

    def start_proxy(self) -> None:
        with self._starting():
            super().start_proxy()


class ClusterPool:
    """Running clusters by their shape, which is what ``EmbeddedCluster`` was called with.

    Tests that share a cluster keep apart by the names of their topics and groups. A test may kill, pause and restart
    servers of a cluster, but not change its configuration. Starts happen in ``starting``, so that a check for leaks
    knows that what they start outlives the test.
    """

    def __init__(self, starting: Starting) -> None:
        self._starting = starting
        self._clusters: dict[str, EmbeddedCluster] = {}
        self._paused_s: dict[str, float] = {}

    def get(self, **shape: Any) -> EmbeddedCluster:
        """A running cluster of that shape: the one of an earlier call if all of its servers still answer. It is the
        caller's until its ``module`` ends."""
        key = key_of(shape)
        self._wake(key)
        cluster = self._clusters.get(key)
        if cluster is None or not is_whole(cluster, has_proxy=bool(shape.get("proxy"))):
            self._close(key)
            with self._starting():  # its folder is there before it starts
                self._clusters[key] = cluster = PooledCluster(self._starting, **shape).__enter__()
        return cluster

    @contextmanager
    def module(self) -> Iterator[None]:
        """A block that uses clusters. After it they are paused, and closed when no module has used them for
        ``KEPT_S``."""
        yield
        for key in self._clusters.keys() - self._paused_s.keys():
            self._rest(key)
        self._close_the_old()

    @contextmanager
    def using(self, **shape: Any) -> Iterator[EmbeddedCluster]:
        """``get`` it for a block, after which it is paused: for one of several shapes of a module."""
        yield self.get(**shape)
        self._rest(key_of(shape))

    def _rest(self, key: str) -> None:
        self._clusters[key].pause()
        self._paused_s[key] = time.monotonic()

    def _wake(self, key: str) -> None:
        self._close_the_old()
        if self._paused_s.pop(key, None) is not None:
            self._clusters[key].resume()

    def _close_the_old(self) -> None:
        now_s = time.monotonic()
        for key in [key for key, paused_s in self._paused_s.items() if now_s - paused_s > KEPT_S]:
            self._close(key)

    def _close(self, key: str) -> None:
        self._paused_s.pop(key, None)
        cluster = self._clusters.pop(key, None)
        if cluster is not None:
            cluster.close()

    def close(self) -> None:
        for key in list(self._clusters):
            self._close(key)


def key_of(shape: Mapping[str, Any]) -> str:
    return json.dumps(shape, sort_keys=True)


def configured(shape: Mapping[str, Any]) -> Mapping[str, Any]:
    """The shape, where brokers rest and a proxy accepts the short invisible durations of tests."""
    brokers = {**shape, "broker_config": RARELY_FLUSHED | shape.get("broker_config", {})}
    return {**brokers, "proxy_config": SHORTEST} if shape.get("proxy") else brokers


def is_whole(cluster: EmbeddedCluster, *, has_proxy: bool) -> bool:
    """Whether each server of the cluster runs and answers."""
    try:
        cluster.check()
        with closing(ConnectionPool(PROBE_TIMEOUT_MS, security=cluster.security)) as pool:
            route = NameServers((cluster.namesrv_addr,), pool, PROBE_TIMEOUT_MS).query_topic_route(SYSTEM_TOPIC)
            for name in cluster.broker_names:
                address = route.master_address(name)
                if address is None:
                    return False
                AdminBroker(address, pool, PROBE_TIMEOUT_MS).query_topic_stats(SYSTEM_TOPIC)
            if has_proxy:
                NameServers((cluster.proxy_addr,), pool, PROBE_TIMEOUT_MS).query_topic_route(SYSTEM_TOPIC)
    except RocketMQError:
        return False
    return True
