"""A broker behind a proxy: some things are asked in another way, because proxies pass on only what they know."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final, NamedTuple

from rocketmq_spark.errors import BrokerError
from rocketmq_spark.model import BrokerAddress, MessageQueue, QueueBounds
from rocketmq_spark.remoting.broker import Broker
from rocketmq_spark.remoting.future import Future
from rocketmq_spark.remoting.message_probes import probe_store_times
from rocketmq_spark.remoting.pool import ConnectionPool
from rocketmq_spark.remoting.prober import Prober
from rocketmq_spark.remoting.remoting_client import RemotingClient, ResponseFuture, Rpc
from rocketmq_spark.remoting.retry import is_broker_error
from rocketmq_spark.wire.remoting.codes import RequestCode, ResponseCode
from rocketmq_spark.wire.remoting.command import RemotingCommand
from rocketmq_spark.wire.remoting.headers import GetMaxOffsetRequest, GetMinOffsetRequest, OffsetResponse

NO_SUCH_QUEUE: Final = ResponseCode.INVALID_PARAMETER
NOT_READABLE: Final = ResponseCode.NO_PERMISSION


class ProxiedBroker(Broker):
    """``queues_of``: those of a topic that may be read, of all brokers. ``prober``: for whom messages are looked at."""

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
        """Of the queues that may be read. No proxy passes on the request for statistics; they are put together from
        what it does: smallest and largest offsets, and then looks at the last messages."""
        queues = [queue for queue in self._queues_of(topic) if queue.broker_name == self.address.broker_name]
        return ProxiedStatsFuture(self, submit_queue_bounds(self, queues), self._prober)


class QueueBoundsFuture(NamedTuple):
    """The answer to ``submit_queue_bounds``."""

    futures: Mapping[MessageQueue, tuple[ResponseFuture[int], ResponseFuture[int]]]

    def result(self) -> dict[MessageQueue, tuple[int, int]]:
        return {queue: (first.result(), end.result()) for queue, (first, end) in self.futures.items()}


def submit_queue_bounds(broker: RemotingClient, queues: Collection[MessageQueue]) -> QueueBoundsFuture:
    """Offsets ``[first, end)`` that each queue has, all in flight at once; ``(0, 0)`` where the broker has no such
    queue or topic, which it does not say."""
    return QueueBoundsFuture(
        {queue: (broker.submit(_min_offset_rpc(queue)), broker.submit(_max_offset_rpc(queue))) for queue in queues}
    )


class ProxiedStatsFuture(NamedTuple):
    """The answer to ``ProxiedBroker.submit_topic_stats``."""

    broker: RemotingClient
    bounds: QueueBoundsFuture
    prober: Prober

    def result(self) -> dict[MessageQueue, QueueBounds]:
        """One look at each queue, also at an empty one: that is what tells of a topic that is gone."""
        bounds = self.bounds.result()
        last = {queue: max(end - 1, 0) for queue, (_, end) in bounds.items()}
        stored = self._probe_last_messages(last)
        return {queue: QueueBounds(*bounds[queue], stored_ms or 0) for queue, stored_ms in stored.items()}

    def _probe_last_messages(self, last: Mapping[MessageQueue, int]) -> dict[MessageQueue, int | None]:
        try:
            return probe_store_times(self.broker, last, self.prober)
        except BrokerError as error:
            if not is_broker_error(error) or error.code not in (NO_SUCH_QUEUE, NOT_READABLE):
                raise
            return self._probe_one_by_one(last)

    def _probe_one_by_one(self, last: Mapping[MessageQueue, int]) -> dict[MessageQueue, int | None]:
        """Without queues that the topic has no more; of one that nobody may read now the time is not known."""
        stored: dict[MessageQueue, int | None] = {}
        for queue, offset in last.items():
            try:
                stored |= probe_store_times(self.broker, {queue: offset}, self.prober)
            except BrokerError as error:
                if error.code == NOT_READABLE:
                    stored[queue] = None
                elif error.code != NO_SUCH_QUEUE:
                    raise
        return stored


def _min_offset_rpc(queue: MessageQueue) -> Rpc[int]:
    header = GetMinOffsetRequest(topic=queue.topic, queue_id=queue.queue_id)
    return Rpc(RemotingCommand(RequestCode.GET_MIN_OFFSET, fields=header.to_fields()), _decode_offset)


def _max_offset_rpc(queue: MessageQueue) -> Rpc[int]:
    header = GetMaxOffsetRequest(topic=queue.topic, queue_id=queue.queue_id)
    return Rpc(RemotingCommand(RequestCode.GET_MAX_OFFSET, fields=header.to_fields()), _decode_offset)


def _decode_offset(response: RemotingCommand) -> int:
    return OffsetResponse.from_fields(response.fields).offset
