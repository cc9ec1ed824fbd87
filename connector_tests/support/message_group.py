"""A desk: one topic, and one group that shares its messages over one protocol; what its members do, and see of each
other."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from typing import Any, Final

from connector_tests.support.admin_broker import AdminBroker
from connector_tests.support.streams import Topic, eventually
from connector_tests.support.timeouts import PATIENT, PATIENT_MS, TIMEOUT_FACTOR
from rocketmq_spark.embedded import EmbeddedCluster, Right
from rocketmq_spark.embedded.pytest_plugin import unique_name
from rocketmq_spark.errors import RocketMQError
from rocketmq_spark.model import BrokerAddress, dead_letter_topic
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.options.connection import options_of
from rocketmq_spark.pop.receipt_handles import ReceivedMessage
from rocketmq_spark.pop.receive_scheduler import ReceiveRequest
from rocketmq_spark.pop.receiver import Receiver
from rocketmq_spark.pop.transport import IncompleteResponse, ReceiveOutcome, Transport
from rocketmq_spark.pop.transports import transport_of
from rocketmq_spark.pop.unacked_messages import MessageState
from rocketmq_spark.remoting.pool import ConnectionPool
from rocketmq_spark.remoting.retry import Retryability, retryability_of_pull
from rocketmq_spark.security import Security
from rocketmq_spark.source.pop.message_reader import read_parts
from rocketmq_spark.source.pop.message_tasks import tasks_of
from rocketmq_spark.source.schema import default_schema

REMOTING: Final = "remoting"
GRPC: Final = "gRPC"
WAYS: Final = (REMOTING, GRPC)

SHORT_MS: Final = int(10_000 * TIMEOUT_FACTOR)
LONG_MS: Final = 300_000
MOMENT_S: Final = 2.0 * TIMEOUT_FACTOR
POLL_MS: Final = 500
AT_ONCE_MS: Final = 1

Row = dict[str, Any]


class MessageGroup:
    """See the module. Its user has the rights that docs/security.md lists, and no others.

    Threads: ``__init__`` is the cluster's one; after it, any one.
    """

    def __init__(self, cluster: EmbeddedCluster, way: str) -> None:
        self.topic = cluster.create_topic(unique_name("desk"), queues=1)  # what comes together is known together
        self.group = unique_name("group_desk")
        self.way = way
        self._cluster = cluster
        self.messages = Topic(cluster, self.topic)
        self._resources = ExitStack()
        self._resources.callback(self.messages.close)
        self.servers: Mapping[str, Mapping[str, str]] = {
            REMOTING: {"namesrvAddr": cluster.namesrv_addr, "startingOffsets": "earliest"},
            GRPC: {"endpoints": cluster.endpoints},
        }
        own = {"consumerGroup": self.group, "subscribe": self.topic, "loadBalance": "message", **PATIENT}
        self._without_server = {**cluster.security_options, **self._user_options(cluster), **own}
        self.options = self.options_over(way)

    def options_over(self, way: str) -> dict[str, str]:
        """The options of a member over that protocol."""
        return {**self._without_server, **self.servers[way]}

    def _user_options(self, cluster: EmbeddedCluster) -> Mapping[str, str]:
        """Return the credentials of a new user with the rights of a member; {} where the cluster has no users."""
        if cluster.security.credentials is None:
            return {}
        rights = [Right(f"Topic:{self.topic}", ("SUB",)), Right(f"Group:{self.group}", ("SUB",))]
        if self.way == REMOTING:
            rights[1] = Right(f"Group:{self.group}", ("SUB", "GET"))
            rights.append(Right(f"Group:{self.group}_{self.topic}", ("SUB",)))
        return options_of(Security(cluster.create_user(unique_name("user"), *rights)))

    def close(self) -> None:
        self._resources.close()

    def read_options(self, invisible_ms: int) -> ReadOptions:
        return ReadOptions.parse({**self.options, "invisibleDurationMs": str(invisible_ms)})

    def member(self, invisible_ms: int = SHORT_MS) -> Receiver:
        """One that receives from now on."""
        options = self.read_options(invisible_ms)
        one = Receiver(options, transport_of(options))
        self._resources.callback(one.stop)
        one.start()
        return one

    def rows(self, received: Sequence[ReceivedMessage]) -> list[Row]:
        """Return the rows of these messages as executors make them."""
        options = self.read_options(LONG_MS)
        parts = tasks_of(received, None)
        batches = (batch for some in parts for batch in read_parts(some, options, default_schema()))
        return [row for batch in batches for row in batch.to_pylist()]

    def leave_unacknowledged(self, invisible_ms: int = SHORT_MS) -> Row:
        """Send a message, and receive it as somebody who then states nothing more. It is redelivered when its time is
        over, and so has, before it, whatever was received before for no longer and is not done."""
        (body,) = self.messages.send(1)
        with closing(transport_of(self.read_options(invisible_ms))) as transport:
            (row,) = self.rows(poll_messages(transport, 1))
        assert row["body"].decode() == body
        return row

    def fail_attempt(self, count: int) -> list[Row]:
        """Receive so many messages, and let them come again at once: that was one attempt of each."""
        with closing(transport_of(self.read_options(LONG_MS))) as transport:
            received = poll_messages(transport, count)
            changed = transport.change_invisible_duration([one.handle for one in received], AT_ONCE_MS, suspend=False)
        assert [one for one in changed if isinstance(one, RocketMQError)] == []
        return self.rows(received)

    def set_retry_max_times(self, times: int) -> None:
        """Make the group so. Before anybody requests its messages: a proxy knows a group for a while."""
        with closing(ConnectionPool(PATIENT_MS, security=self._cluster.security)) as pool:
            AdminBroker(BrokerAddress(self._cluster.broker_addr()), pool, PATIENT_MS).update_group(
                self.group, retry_max_times=times
            )

    def dead_letters(self, count: int) -> list[str]:
        """Bodies in the group's dead-letter topic, once there are so many."""
        admin = {**self._cluster.security_options, **self.servers[REMOTING], "loadBalance": "message", **PATIENT}
        own = {"consumerGroup": f"{self.group}_dead", "subscribe": dead_letter_topic(self.group)}
        with closing(transport_of(ReadOptions.parse(admin | own))) as transport:
            return bodies(self.rows(poll_messages(transport, count)))

    def assert_only_unacknowledged_redelivered(self) -> None:
        """When all times are over: one message is left now, it is redelivered, and nothing else does.

        For a moment after a member has stopped, a proxy may still give messages to the member's last poll: that is an
        attempt, and the message may come here as a redelivered one."""
        time.sleep(MOMENT_S)
        left = self.leave_unacknowledged()
        received = receive_batch(self.member(), 1)
        assert self.way == GRPC or left["reconsumeTimes"] == 0
        found = [(row["body"], row["reconsumeTimes"]) for row in self.rows(received)]
        assert found == [(left["body"], left["reconsumeTimes"] + 1)], found


def poll_messages(transport: Transport, count: int) -> list[ReceivedMessage]:
    """Poll until at least ``count`` messages have come, and return all of them."""
    received: list[ReceivedMessage] = []
    eventually(lambda: transport.refresh_routes() == {}, "the topic")
    (target,) = transport.targets()

    def has_received_all() -> bool:
        received.extend(response_of(transport, ReceiveRequest(target, 32, POLL_MS)))
        return len(received) >= count

    eventually(has_received_all, f"{count} messages")
    return received


def response_of(transport: Transport, request: ReceiveRequest) -> Sequence[ReceivedMessage]:
    """The messages of one poll; none if the broker refuses it because it came too late."""
    outcomes: list[ReceiveOutcome] = []
    transport.receive(request, outcomes.append)
    eventually(lambda: bool(outcomes), "an answer")
    (outcome,) = outcomes
    if isinstance(outcome, RocketMQError) and retryability_of_pull(outcome) is Retryability.TRANSIENT:
        return ()
    assert not isinstance(outcome, Exception | IncompleteResponse), outcome
    return outcome


def receive_batch(one: Receiver, count: int) -> list[ReceivedMessage]:
    """What it has once it has received so many, and what comes a moment later; a batch from now on."""
    eventually(lambda: has_received(one, count), f"{count} messages received")
    time.sleep(MOMENT_S)
    in_batch: list[ReceivedMessage] = []

    def are_all_in_batch() -> bool:
        in_batch.extend(one.start_batch(1, 1_000))  # but what is just being renewed
        return not one.count(MessageState.PREFETCHED)

    eventually(are_all_in_batch, "a batch")
    one.check()
    return in_batch


def has_received(one: Receiver, count: int) -> bool:
    """Raises what is in the way of that."""
    one.check()
    return one.count(MessageState.PREFETCHED) >= count


def acknowledge(receiver: Receiver) -> None:
    """All that it holds in its batch."""
    receiver.mark_completed(1)
    eventually(lambda: not receiver.count(MessageState.COMPLETED), "all acknowledged, also what was just being renewed")
    receiver.check()


def bodies(rows: Sequence[Row]) -> list[str]:
    return sorted(row["body"].decode() for row in rows)
