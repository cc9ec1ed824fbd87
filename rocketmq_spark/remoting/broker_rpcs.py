"""RPCs of brokers: the command of a request, and what its response means. Clients of brokers send them."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Final, NamedTuple

from rocketmq_spark.errors import BrokerError, DataLossError
from rocketmq_spark.model import MessageQueue, StoredMessage
from rocketmq_spark.remoting.remoting_client import Rpc, decode_nothing
from rocketmq_spark.wire.body.connections import GroupConnections, decode_group_connections, decode_group_names
from rocketmq_spark.wire.body.groups import decode_consumer_ids
from rocketmq_spark.wire.body.inspection import GroupSwitches, decode_clock, decode_group_switches
from rocketmq_spark.wire.body.running_info import ConsumerRunningInfo, decode_consumer_running_info
from rocketmq_spark.wire.body.topics import TopicSettings, decode_topic_settings
from rocketmq_spark.wire.remoting.codes import RequestCode
from rocketmq_spark.wire.remoting.command import RemotingCommand
from rocketmq_spark.wire.remoting.headers import (
    ConsumerSendMsgBackRequest,
    GetConsumerConnectionListRequest,
    GetConsumerListByGroupRequest,
    GetConsumerRunningInfoRequest,
    OffsetResponse,
    QueryConsumerOffsetRequest,
    SearchOffsetRequest,
    SendMessageRequest,
    UpdateConsumerOffsetRequest,
)
from rocketmq_spark.wire.remoting.meanings import Meaning, meaning_of
from rocketmq_spark.wire.remoting.mq_version import V5_0_0_SNAPSHOT
from rocketmq_spark.wire.remoting.pull import PullResult, read_pull
from rocketmq_spark.wire.remoting.pull_frames import pull_header
from rocketmq_spark.wire.remoting.send import SendResult, read_send

NONEXISTENT_TOPIC: Final = "-"
"""A name that no topic has. A broker with ``autoCreateTopicEnable`` creates a missing topic from the default topic that
a send names; with this name it creates none."""

# -------------------------------------------------------------------------------------------------------------- pulling


def pull_rpc(
    group: str, queue: MessageQueue, offset: int, max_messages: int, expression: str, suspend_ms: int = 0
) -> Rpc[PullResult]:
    """Return the RPC of a pull, see ``Broker.pull``. While there is no message, the broker holds it for ``suspend_ms``;
    0: it responds at once."""
    header = pull_header(group, queue, offset, max_messages, expression, suspend_ms)
    return Rpc(RemotingCommand(RequestCode.PULL_MESSAGE, fields=header.to_fields()), read_pull)


def search_offset_rpc(queue: MessageQueue, timestamp_ms: int) -> Rpc[int]:
    """Return the RPC for the broker's hint where a queue's messages of a time (Unix ms) begin: unverified, perhaps -1;
    see ``Broker.search_offsets``."""
    header = SearchOffsetRequest(topic=queue.topic, queue_id=queue.queue_id, timestamp_ms=timestamp_ms)
    command = RemotingCommand(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, fields=header.to_fields())
    return Rpc(command, lambda response: OffsetResponse.from_fields(response.fields).offset)


# -------------------------------------------------------------------------------------------------------- group offsets


class StoredOffset(NamedTuple):
    """A group's offset. RocketMQ 4 returns 0 also without one, if the queue's first message is still in memory."""

    value: int | None
    is_conclusive: bool


def query_offset_rpc(group: str, queue: MessageQueue) -> Rpc[StoredOffset]:
    """Return the RPC for a StoredOffset: value None if the group has none, inconclusive for a 0 from RocketMQ 4."""
    header = QueryConsumerOffsetRequest(consumer_group=group, topic=queue.topic, queue_id=queue.queue_id)

    def decode(response: RemotingCommand) -> StoredOffset:
        """Return the offset; a missing one is None and conclusive."""
        if meaning_of(RequestCode.QUERY_CONSUMER_OFFSET, response) is Meaning.EMPTY:
            return StoredOffset(None, is_conclusive=True)
        offset = OffsetResponse.from_fields(response.fields).offset
        return StoredOffset(offset, is_conclusive=offset != 0 or response.version >= V5_0_0_SNAPSHOT)

    return Rpc(RemotingCommand(RequestCode.QUERY_CONSUMER_OFFSET, fields=header.to_fields()), decode)


def commit_rpc(address: str, group: str, queue: MessageQueue, offset: int) -> Rpc[None]:
    """Return the RPC by which members commit ``offset`` of a queue. ``address``: the broker's, for errors. Decoding
    raises BrokerError[OFFSET_RESET_PENDING] if an operator's reset is pending, so that the offset was not stored."""
    header = UpdateConsumerOffsetRequest(
        consumer_group=group, topic=queue.topic, queue_id=queue.queue_id, commit_offset=offset
    )

    def decode(response: RemotingCommand) -> None:
        """Do nothing. Raises BrokerError[OFFSET_RESET_PENDING] if an operator's reset is pending."""
        if meaning_of(RequestCode.UPDATE_CONSUMER_OFFSET, response) is Meaning.OFFSET_RESET_PENDING:
            raise BrokerError(
                "OFFSET_RESET_PENDING", address=address, queue=str(queue), group=group, code=response.code
            )

    return Rpc(RemotingCommand(RequestCode.UPDATE_CONSUMER_OFFSET, fields=header.to_fields()), decode)


def reset_offset_rpc(group: str, queue: MessageQueue, offset: int) -> Rpc[None]:
    """Return the RPC by which operators' tools reset the group's offset of one queue to ``offset``. With ACLs the
    permission UPDATE on topic and group is required.

    Source: ``broker/processor/AdminBrokerProcessor.java#resetOffset``.
    """
    fields = {
        "group": group,
        "topic": queue.topic,
        "queueId": str(queue.queue_id),
        "timestamp": "-1",
        "offset": str(offset),
        "isForce": "true",
    }
    return Rpc(RemotingCommand(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, fields=fields), decode_nothing)


# -------------------------------------------------------------------------------------------------------------- sending


def send_header(
    queue: MessageQueue,
    producer_group: str,
    *,
    sys_flag: int = 0,
    flag: int = 0,
    properties: str = "",
    is_batch: bool = False,
) -> SendMessageRequest:
    """Return the header of a send, born now, with encoded ``properties``. A broker may create a missing topic."""
    return SendMessageRequest(
        producer_group=producer_group,
        topic=queue.topic,
        queue_id=queue.queue_id,
        sys_flag=sys_flag,
        born_timestamp_ms=int(time.time() * 1000),
        flag=flag,
        properties=properties,
        is_batch=is_batch,
    )


def send_rpc(
    code: RequestCode, header: SendMessageRequest, body: bytes | memoryview, queue: MessageQueue
) -> Rpc[SendResult]:
    """Return the RPC that stores the messages in ``body`` in ``queue``. ``code``: SEND_MESSAGE_V2 for one message,
    SEND_BATCH_MESSAGE for a batch, with the matching ``header``."""

    command = RemotingCommand(code, fields=header.to_fields(), body=body)
    return Rpc(command, lambda response: read_send(response, queue))


def send_batch_rpc(
    body: bytes | memoryview,
    queue: MessageQueue,
    producer_group: str,
    *,
    sys_flag: int = 0,
    properties: str | None = None,
) -> Rpc[SendResult]:
    """Return the RPC that stores a batch or a single message in ``queue``. Without ``properties``, ``body`` has the
    messages of a batch, encoded one after another. With encoded ``properties``, it is the body of one message.
    ``sys_flag``: compression of the bodies. The broker does not re-create a deleted topic."""
    is_batch = properties is None
    header = send_header(queue, producer_group, sys_flag=sys_flag, properties=properties or "", is_batch=is_batch)
    code = RequestCode.SEND_BATCH_MESSAGE if is_batch else RequestCode.SEND_MESSAGE_V2
    return send_rpc(code, replace(header, default_topic=NONEXISTENT_TOPIC), body, queue)


def send_back_rpc(group: str, message: StoredMessage, delay_level: int, max_reconsume_times: int | None) -> Rpc[None]:
    """Return the RPC that sends a message back for retry, see ``Broker.send_back``. Decoding raises
    DataLossError[MESSAGE_DELETED] if the broker has deleted the message."""
    header = ConsumerSendMsgBackRequest(
        group=group,
        commit_log_offset=message.commit_log_offset,
        delay_level=delay_level,
        origin_message_id=message.msg_id,
        origin_topic=message.topic,
        max_reconsume_times=max_reconsume_times,
    )

    def decode(response: RemotingCommand) -> None:
        """Do nothing. Raises DataLossError[MESSAGE_DELETED] if the broker has deleted the message."""
        if meaning_of(RequestCode.CONSUMER_SEND_MSG_BACK, response) is Meaning.DELETED:
            raise DataLossError("MESSAGE_DELETED", message=str(message))

    return Rpc(RemotingCommand(RequestCode.CONSUMER_SEND_MSG_BACK, fields=header.to_fields()), decode)


# ----------------------------------------------------------------------------------------------------------- inspection


def topic_config_rpc(topic: str) -> Rpc[TopicSettings]:
    """Return the RPC for a topic's settings on a broker. With ACLs the permission GET on the topic is required."""
    command = RemotingCommand(RequestCode.GET_TOPIC_CONFIG, fields={"topic": topic})
    return Rpc(command, lambda response: decode_topic_settings(response.body))


def group_names_rpc() -> Rpc[list[str]]:
    """Return the RPC for the names of all groups of a broker, the system's included."""
    command = RemotingCommand(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
    return Rpc(command, lambda response: decode_group_names(response.body))


def group_connections_rpc(group: str) -> Rpc[GroupConnections]:
    """Return the RPC for the members of ``group`` that are connected to a broker. The result is empty, not an error, if
    the group has no member on this broker. With ACLs the permission GET on the group is required."""
    header = GetConsumerConnectionListRequest(consumer_group=group)

    def decode(response: RemotingCommand) -> GroupConnections:
        """Return the members; none if the broker reports that the group has no member."""
        if meaning_of(RequestCode.GET_CONSUMER_CONNECTION_LIST, response) is Meaning.EMPTY:
            return GroupConnections()
        return decode_group_connections(response.body)

    return Rpc(RemotingCommand(RequestCode.GET_CONSUMER_CONNECTION_LIST, fields=header.to_fields()), decode)


def consumer_ids_rpc(group: str) -> Rpc[list[str]]:
    """Return the RPC for the client IDs of the group's members on a broker, one per connection."""
    header = GetConsumerListByGroupRequest(consumer_group=group)

    def decode(response: RemotingCommand) -> list[str]:
        """Return the client IDs; none if the broker reports that the group has no member."""
        is_none = meaning_of(RequestCode.GET_CONSUMER_LIST_BY_GROUP, response) is Meaning.EMPTY
        return [] if is_none else decode_consumer_ids(response.body)

    return Rpc(RemotingCommand(RequestCode.GET_CONSUMER_LIST_BY_GROUP, fields=header.to_fields()), decode)


def running_info_rpc(group: str, client_id: str, report: bytes = b"") -> Rpc[ConsumerRunningInfo]:
    """Return the RPC for the running info of one member of the group. The broker forwards it to the member, with
    ``report`` as the body. If forwarding fails, the broker refuses the RPC (BrokerError)."""
    header = GetConsumerRunningInfoRequest(consumer_group=group, client_id=client_id)
    command = RemotingCommand(RequestCode.GET_CONSUMER_RUNNING_INFO, fields=header.to_fields(), body=report)
    return Rpc(command, lambda response: decode_consumer_running_info(response.body))


def clock_rpc() -> Rpc[int | None]:
    """Return the RPC for a broker's clock (Unix ms), up to 1 s too small. Its result is None if the broker does not
    report it. With ACLs GET on the cluster is required."""
    command = RemotingCommand(RequestCode.GET_BROKER_RUNTIME_INFO)
    return Rpc(command, lambda response: decode_clock(response.body))


def group_switches_rpc(group: str) -> Rpc[GroupSwitches]:
    """Return the RPC for a group's switches. A broker that creates groups on demand creates this one. With ACLs GET on
    the group is required."""
    command = RemotingCommand(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, fields={"group": group})
    return Rpc(command, lambda response: decode_group_switches(response.body))
