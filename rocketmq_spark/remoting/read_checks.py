"""Requests that check whether a broker lets a group read a topic, and whether it applies a filter."""

from __future__ import annotations

from typing import Final, NamedTuple

from rocketmq_spark.errors import BrokerError, TransportError
from rocketmq_spark.model import MessageFilter, MessageQueue
from rocketmq_spark.remoting.broker_rpcs import pull_rpc
from rocketmq_spark.remoting.error_kinds import is_broker_error, is_pull_rejected
from rocketmq_spark.remoting.remoting_client import RemotingClient, ResponseFuture, Rpc, decode_nothing
from rocketmq_spark.wire.body.subscription import build_subscription, encode_filter_check
from rocketmq_spark.wire.remoting.codes import RequestCode
from rocketmq_spark.wire.remoting.command import RemotingCommand
from rocketmq_spark.wire.remoting.pull import PullResult

NO_QUEUE: Final = 2**31 - 1
"""A queue ID that no topic has."""

SELF_TEST_TOPIC: Final = "SELF_TEST_TOPIC"
"""A topic that each broker has and no client may write to. Source: ``common/topic/TopicValidator.java``."""


class GroupCheck(NamedTuple):
    """Future of ``Broker.submit_group_check``. ``empty_pull``: the pull from a queue that exists and is empty."""

    pull: ResponseFuture[PullResult]
    empty_pull: ResponseFuture[PullResult]

    def result(self) -> None:
        """Wait for both pulls; return if the broker lets the group read the topic. Raises TransportError of either, and
        every BrokerError of ``pull``, such as BrokerError[GROUP_NOT_FOUND.BROKER | GROUP_DENIED | TOPIC_DENIED], but
        BROKER_ERROR (queue missing or not readable). Of ``empty_pull`` only BrokerError[PULL_REJECTED] is raised: the
        broker rejects all pulls."""
        try:
            self.pull.result()
        except BrokerError as error:
            if not is_broker_error(error):
                raise
        try:
            self.empty_pull.result()
        except BrokerError as error:
            if is_pull_rejected(error):
                raise


def submit_group_check(broker: RemotingClient, group: str, topic: str) -> GroupCheck:
    """Send the two pulls of ``Broker.submit_group_check``, without waiting for responses: from queue NO_QUEUE of
    ``topic``, and from an empty queue of SELF_TEST_TOPIC."""
    missing_queue, empty = MessageQueue(topic, "", NO_QUEUE), MessageQueue(SELF_TEST_TOPIC, "", 0)
    pulls = (broker.submit(pull_rpc(group, queue, 0, 1, "*")) for queue in (missing_queue, empty))
    return GroupCheck(*pulls)


def submit_filter_check(
    broker: RemotingClient, group: str, topic: str, message_filter: MessageFilter
) -> ResponseFuture[None]:
    """Request that the broker compiles a SQL92 filter, without waiting for the response. If it cannot, the future
    raises BrokerError[FILTER_EXPRESSION_INVALID | PROPERTY_FILTER_DISABLED].

    The check must precede all pulls: without it, a broker that cannot compile the filter sends all messages. Raises
    TransportError[FILTER_NOT_VERIFIABLE] for a broker behind a proxy, which returns success without a check.

    Source: ``client/impl/factory/MQClientInstance.java#checkClientInBroker``,
    ``broker/processor/PullMessageProcessor.java#processRequest``.
    """
    if broker.address.broker_name is not None:
        raise TransportError("FILTER_NOT_VERIFIABLE", address=broker.address.server)
    subscription = build_subscription(topic, message_filter.expression, 0, message_filter.expression_type)
    body = encode_filter_check(group, subscription)
    return broker.submit(Rpc(RemotingCommand(RequestCode.CHECK_CLIENT_CONFIG, body=body), decode_nothing))
