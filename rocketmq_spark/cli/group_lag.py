"""How far a consumer group is behind, as the brokers know it."""

from __future__ import annotations

from collections.abc import Mapping

from rocketmq_spark.model import MessageQueue, QueueBounds
from rocketmq_spark.remoting.broker import Broker
from rocketmq_spark.remoting.namesrv import NameServers
from rocketmq_spark.remoting.pool import ConnectionPool


def group_lag(name_servers: NameServers, pool: ConnectionPool, group: str, topic: str, timeout_ms: int) -> int:
    """Messages of ``topic`` that the group has not committed. Raises what ``NameServers`` and ``Broker`` raise."""
    lag = 0
    for data in name_servers.topic_route(topic).brokers:
        if data.master_address is not None:
            broker = Broker(data.master_address, pool, timeout_ms)
            bounds = broker.topic_stats(topic)
            lag += uncommitted(bounds, broker.query_offsets(group, bounds))
    return lag


def uncommitted(bounds: Mapping[MessageQueue, QueueBounds], committed: Mapping[MessageQueue, int | None]) -> int:
    """Sum over the queues; one without an offset counts with all that it holds."""
    starts = {queue: held.min_offset if (at := committed[queue]) is None else at for queue, held in bounds.items()}
    return sum(max(0, held.max_offset - starts[queue]) for queue, held in bounds.items())
