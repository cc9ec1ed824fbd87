"""A group at a simulated cluster of one broker, and one member of it without a thread, a socket or a clock."""

from __future__ import annotations

from connector_tests.support.manual_clock import ManualClock
from connector_tests.support.simulated_cluster import (
    SimulatedBroker,
    SimulatedCluster,
    SimulatedClusterClient,
)
from rocketmq_spark.consumer.membership import Membership
from rocketmq_spark.model import MessageQueue
from rocketmq_spark.options import ReadOptions

QUEUES = tuple(MessageQueue("orders", "broker-a", queue_id) for queue_id in range(4))


class Group:
    """A cluster of one broker, with a topic of four queues, and one member of whatever is in its group. Each of
    more ``brokers`` has as many queues."""

    def __init__(self, *others: str, subscriptions: dict[str, dict[str, str]] | None = None, brokers: int = 1) -> None:
        self.clock = ManualClock()
        names = [f"broker-{letter}" for letter in "ab"[:brokers]]
        self.cluster = SimulatedCluster(names, self.clock)
        self.cluster.create_topic("orders", {name: len(QUEUES) for name in names})
        self.cluster.subscriptions = subscriptions or {}
        self.cluster.set_others(*others)

    @property
    def broker(self) -> SimulatedBroker:
        return self.cluster.brokers["broker-a"]

    @property
    def locked(self) -> set[MessageQueue]:
        """By our member."""
        return {queue for queue, (client_id, _) in self.broker.locks.items() if client_id == "me"}

    def lock_for_another(self, queue: MessageQueue) -> None:
        self.broker.locks[queue] = ("you", self.clock())

    def member(self, **given: str) -> Membership:
        selected = {} if "subscribePattern" in given else {"subscribe": "orders"}
        required = {"namesrvAddr": "n:9876", "consumerGroup": "g", **selected}
        options, client = (
            ReadOptions.parse({**required, **given}),
            SimulatedClusterClient(self.cluster, "our connection"),
        )
        return Membership(options, "me", client, self.clock, self.clock, started_ms=1)


def committed_to(group: Group, offset: int) -> Membership:
    """A member whose first queue has been read and committed so far, and whose next batch of it is planned."""
    member = group.member()
    member.refresh_metadata()
    member.mark_in_flight({QUEUES[0]: (0, offset)})
    member.mark_completed({QUEUES[0]: offset}, {})
    member.mark_in_flight({QUEUES[0]: (offset, 2 * offset)})
    return member


def refreshes_per_minute(group: Group, member: Membership) -> int:
    """Return how often the member refreshes metadata in a minute, if always when it is due. Advance the clock."""
    refresh_count = 0
    for _ in range(60 * 80):
        if member.log_and_snapshot().is_due(group.clock()):
            member.refresh_metadata()
            refresh_count += 1
        group.clock.advance(12)
    return refresh_count
