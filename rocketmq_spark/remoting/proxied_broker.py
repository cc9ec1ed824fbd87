"""Client of a broker behind a proxy, with substitutes for requests that proxies do not forward."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple

from rocketmq_spark.errors import BrokerError
from rocketmq_spark.model import BrokerAddress, MessageQueue, QueueBounds
from rocketmq_spark.remoting.broker import Broker
from rocketmq_spark.remoting.error_kinds import is_pull_forbidden, is_queue_missing
from rocketmq_spark.remoting.future import Future
from rocketmq_spark.remoting.message_probes import probe_store_times
from rocketmq_spark.remoting.pool import ConnectionPool
from rocketmq_spark.remoting.prober import Prober
from rocketmq_spark.remoting.remoting_client import RemotingClient, ResponseFuture, Rpc
from rocketmq_spark.wire.remoting.codes import RequestCode
from rocketmq_spark.wire.remoting.command import RemotingCommand
from rocketmq_spark.wire.remoting.headers import GetMaxOffsetRequest, GetMinOffsetRequest, OffsetResponse


class ProxiedBroker(Broker):
    """Client of one broker behind a proxy. ``queues_of``: returns the readable queues of a topic on all brokers.
    ``prober``: group with which messages are probed."""

    def __init__(
        self,
        address: BrokerAddress,
        pool: ConnectionPool,
        timeout_ms: int,
        queues_of: Callable[[str], Iterable[MessageQueue]],
        prober: Prober,
    ) -> None:
        super().__init__(address, pool, timeout_ms)
        self._queues_of = queues_of
        self._prober = prober

    def submit_topic_stats(self, topic: str) -> Future[dict[MessageQueue, QueueBounds]]:
        """Request the min and max offsets of the topic's readable queues on this broker, which ``queues_of`` lists;
        wait for no response. Proxies do not forward requests for topic statistics: the future derives these from the
        offsets and from probes of the last messages, which ``result`` sends. Without a listed queue its result is
        empty."""
        queues = [queue for queue in self._queues_of(topic) if queue.broker_name == self.address.broker_name]
        return ProxiedStatsFuture(self, submit_queue_bounds(self, queues), self._prober)


class QueueBoundsFuture(NamedTuple):
    """Future of ``submit_queue_bounds``."""

    futures: Mapping[MessageQueue, tuple[ResponseFuture[int], ResponseFuture[int]]]

    def result(self) -> dict[MessageQueue, tuple[int, int]]:
        """Wait for all, and return the offsets ``(first, end)`` by queue. The first error is raised."""
        return {queue: (first.result(), end.result()) for queue, (first, end) in self.futures.items()}


def submit_queue_bounds(broker: RemotingClient, queues: Collection[MessageQueue]) -> QueueBoundsFuture:
    """Request the min and max offset of each queue, all at once, without waiting for responses. The result is
    ``(0, 0)`` for a queue or topic that the broker does not have."""
    return QueueBoundsFuture(
        {queue: (broker.submit(_min_offset_rpc(queue)), broker.submit(_max_offset_rpc(queue))) for queue in queues}
    )


class ProxiedStatsFuture(NamedTuple):
    """Future of ``ProxiedBroker.submit_topic_stats``."""

    broker: RemotingClient
    bounds: QueueBoundsFuture
    prober: Prober

    def result(self) -> dict[MessageQueue, QueueBounds]:
        """Wait for the offsets, probe the last message of each queue, and return the bounds by queue. Queues that the
        topic no longer has are missing; empty and unreadable queues have store time 0. Empty queues are probed too,
        because only a probe shows that a topic was deleted. Raises the BrokerError of that probe, as
        ``query_topic_stats`` does."""
        bounds = self.bounds.result()
        last = {queue: max(end - 1, 0) for queue, (_, end) in bounds.items()}
        stored = self._probe_last_messages(last)
        return {queue: QueueBounds(*bounds[queue], stored_ms or 0) for queue, stored_ms in stored.items()}

    def _probe_last_messages(self, last: Mapping[MessageQueue, int]) -> dict[MessageQueue, int | None]:
        """Probe one offset of each queue, many at once, and return the store times. If the broker refuses a probe,
        because a queue is missing or not readable, return ``_probe_one_by_one``. Raise other errors."""
        try:
            return probe_store_times(self.broker, last, self.prober)
        except BrokerError as error:
            if not is_queue_missing(error) and not is_pull_forbidden(error):
                raise
            return self._probe_one_by_one(last)

    def _probe_one_by_one(self, last: Mapping[MessageQueue, int]) -> dict[MessageQueue, int | None]:
        """Probe one queue after another, and return store times in ms. Omit queues that the topic no longer has. None
        for a queue that is not readable, or has no message at the offset. Raise other errors."""
        stored: dict[MessageQueue, int | None] = {}
        for queue, offset in last.items():
            try:
                stored |= probe_store_times(self.broker, {queue: offset}, self.prober)
            except BrokerError as error:
                if is_pull_forbidden(error):
                    stored[queue] = None
                elif not is_queue_missing(error):
                    raise
        return stored


def _min_offset_rpc(queue: MessageQueue) -> Rpc[int]:
    """Return the RPC for the offset of a queue's first message."""
    header = GetMinOffsetRequest(topic=queue.topic, queue_id=queue.queue_id)
    return Rpc(RemotingCommand(RequestCode.GET_MIN_OFFSET, fields=header.to_fields()), _decode_offset)


def _max_offset_rpc(queue: MessageQueue) -> Rpc[int]:
    """Return the RPC for the offset after a queue's last message."""
    header = GetMaxOffsetRequest(topic=queue.topic, queue_id=queue.queue_id)
    return Rpc(RemotingCommand(RequestCode.GET_MAX_OFFSET, fields=header.to_fields()), _decode_offset)


def _decode_offset(response: RemotingCommand) -> int:
    return OffsetResponse.from_fields(response.fields).offset
