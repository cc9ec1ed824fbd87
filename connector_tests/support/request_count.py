"""What clients ask a broker, counted on the way."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Final

from connector_tests.support.fault_proxy import Direction, FaultProxy
from rocketmq_spark.embedded import EmbeddedCluster
from rocketmq_spark.wire.remoting.codes import RequestCode
from rocketmq_spark.wire.remoting.command import RemotingCommand, decode
from rocketmq_spark.wire.remoting.frame import FrameBuffer

HOST: Final = "127.0.0.2"


class RequestCount:
    """Counts the requests that pass a proxy, by their code.

    ``held_ms``: how long the broker may hold the last pull of each queue (topic, queue id). ``last_s``: when the last
    request came, by ``monotonic``.
    """

    def __init__(self, proxy: FaultProxy) -> None:
        self.by_code: Counter[str] = Counter()
        self.held_ms: dict[tuple[str, str], int] = {}
        self.last_s = monotonic()
        self._frames: dict[int, FrameBuffer] = {}
        proxy.observe(self._see)

    def _see(self, data: bytes, direction: Direction) -> None:
        if direction is not Direction.TO_SERVER:
            return
        frames = self._frames.setdefault(threading.get_ident(), FrameBuffer("client"))
        frames.feed(data)
        while (frame := frames.next_frame()) is not None:
            self._note(decode(frame))

    def _note(self, request: RemotingCommand) -> None:
        self.last_s = monotonic()
        self.by_code[RequestCode(request.code).name] += 1
        if request.code == RequestCode.PULL_MESSAGE:
            queue = request.fields["topic"], request.fields["queueId"]
            self.held_ms[queue] = int(request.fields["suspendTimeoutMillis"])

    def clear(self) -> None:
        """Begin to count again."""
        self.by_code.clear()


@contextmanager
def counted_cluster() -> Iterator[tuple[EmbeddedCluster, RequestCount]]:
    """A cluster whose broker is reached through a counting proxy."""
    with EmbeddedCluster(advertised_host=HOST) as cluster:
        port = int(cluster.broker_addr().rpartition(":")[2])
        with FaultProxy(cluster.broker_addr(), host=HOST, port=port) as proxy:
            yield cluster, RequestCount(proxy)
