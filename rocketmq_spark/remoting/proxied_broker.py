"""A broker behind a proxy: some things are asked in another way, because proxies pass on only what they know."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final, NamedTuple

from rocketmq_spark.errors import BrokerError
from rocketmq_spark.model import BrokerAddress, MessageQueue, QueueBounds
from rocketmq_spark.remoting.answer import Answer
from rocketmq_spark.remoting.broker import Broker
from rocketmq_spark.remoting.looker import Looker
from rocketmq_spark.remoting.looks import stored_times
from rocketmq_spark.remoting.peer import Peer, Question, ResponseFuture
from rocketmq_spark.remoting.pool import ConnectionPool
from rocketmq_spark.remoting.retry import is_refusal
from rocketmq_spark.wire.remoting.codes import RequestCode, ResponseCode
from rocketmq_spark.wire.remoting.command import RemotingCommand
from rocketmq_spark.wire.remoting.headers import GetMaxOffsetRequest, GetMinOffsetRequest, OffsetResponse

NO_SUCH_QUEUE: Final = ResponseCode.INVALID_PARAMETER
NOT_TO_BE_READ: Final = ResponseCode.NO_PERMISSION


class ProxiedBroker(Broker):
    """``queues_of``: those of a topic that may be read, of all brokers. ``looker``: for whom messages are looked at."""

    def __init__(
        self,
        address: BrokerAddress,
        pool: ConnectionPool,
        timeout_ms: int,
        queues_of: Callable[[str], Iterable[MessageQueue]],
        looker: Looker,
    ) -> None:
        super().__init__(address, pool, timeout_ms)
        self._queues_of = queues_of
        self._looker = looker

    def submit_topic_stats(self, topic: str) -> Answer[dict[MessageQueue, QueueBounds]]:
        """Of the queues that may be read. No proxy passes on the request for statistics; they are put together from
        what it does: smallest and largest offsets, and then looks at the last messages."""
        queues = [queue for queue in self._queues_of(topic) if queue.broker_name == self.address.broker_name]
        return ProxiedStats(self, submit_ends(self, queues), self._looker)


class Ends(NamedTuple):
    """The answer to ``submit_ends``."""

    answers: Mapping[MessageQueue, tuple[ResponseFuture[int], ResponseFuture[int]]]

    def result(self) -> dict[MessageQueue, tuple[int, int]]:
        return {queue: (first.result(), end.result()) for queue, (first, end) in self.answers.items()}


def submit_ends(broker: Peer, queues: Collection[MessageQueue]) -> Ends:
    """Offsets ``[first, end)`` that each queue has, all in flight at once; ``(0, 0)`` where the broker has no such
    queue or topic, which it does not say."""
    return Ends({queue: (broker.submit(_first_offset(queue)), broker.submit(_end_offset(queue))) for queue in queues})


class ProxiedStats(NamedTuple):
    """The answer to ``ProxiedBroker.submit_topic_stats``."""

    broker: Peer
    ends: Ends
    looker: Looker

    def result(self) -> dict[MessageQueue, QueueBounds]:
        """One look at each queue, also at an empty one: that is what tells of a topic that is gone."""
        ends = self.ends.result()
        last = {queue: max(end - 1, 0) for queue, (_, end) in ends.items()}
        stored = self._stored(last)
        return {queue: QueueBounds(*ends[queue], stored_ms or 0) for queue, stored_ms in stored.items()}

    def _stored(self, last: Mapping[MessageQueue, int]) -> dict[MessageQueue, int | None]:
        try:
            return stored_times(self.broker, last, self.looker)
        except BrokerError as error:
            if not is_refusal(error) or error.code not in (NO_SUCH_QUEUE, NOT_TO_BE_READ):
                raise
            return self._stored_one_by_one(last)

    def _stored_one_by_one(self, last: Mapping[MessageQueue, int]) -> dict[MessageQueue, int | None]:
        """Without queues that the topic has no more; of one that nobody may read now the time is not known."""
        stored: dict[MessageQueue, int | None] = {}
        for queue, offset in last.items():
            try:
                stored |= stored_times(self.broker, {queue: offset}, self.looker)
            except BrokerError as error:
                if error.code == NOT_TO_BE_READ:
                    stored[queue] = None
                elif error.code != NO_SUCH_QUEUE:
                    raise
        return stored


def _first_offset(queue: MessageQueue) -> Question[int]:
    header = GetMinOffsetRequest(topic=queue.topic, queue_id=queue.queue_id)
    return Question(RemotingCommand(RequestCode.GET_MIN_OFFSET, fields=header.to_fields()), _offset)


def _end_offset(queue: MessageQueue) -> Question[int]:
    header = GetMaxOffsetRequest(topic=queue.topic, queue_id=queue.queue_id)
    return Question(RemotingCommand(RequestCode.GET_MAX_OFFSET, fields=header.to_fields()), _offset)


def _offset(answer: RemotingCommand) -> int:
    return OffsetResponse.from_fields(answer.fields).offset
