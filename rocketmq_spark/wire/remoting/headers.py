"""Headers of requests and responses, one class each; ``wire.remoting.fields`` converts them to extFields.

Names on the wire are those of the Java classes in ``remoting/protocol/header``. Fields that no broker reads, or that
this package never sets, are omitted.
"""

from __future__ import annotations

from typing import Final

from rocketmq_spark.wire.remoting.fields import Header, header, wire

AUTO_CREATE_TOPIC_KEY: Final = "TBW102"
"""Template topic for automatic topic creation. Source: ``common/topic/TopicValidator.java``."""


# ---------------------------------------------------------------------------------------------------- name server


@header
class GetRouteInfoRequest(Header):
    """RequestCode GET_ROUTEINFO_BY_TOPIC; ``decode_topic_route`` decodes the response's body."""

    topic: str = wire("topic")
    accept_standard_json_only: bool = wire("acceptStandardJsonOnly", default=True)


@header
class DeleteTopicFromNamesrvRequest(Header):
    """RequestCode DELETE_TOPIC_IN_NAMESRV; send it to every name server."""

    topic: str = wire("topic")
    cluster_name: str | None = wire("clusterName", default=None)


# ---------------------------------------------------------------------------------------------------- topics, groups


@header
class CreateTopicRequest(Header):
    """RequestCode UPDATE_AND_CREATE_TOPIC. ``attributes`` such as ``+message.type=FIFO,+cleanup.policy=COMPACTION``."""

    topic: str = wire("topic")
    default_topic: str = wire("defaultTopic", default=AUTO_CREATE_TOPIC_KEY)
    read_queue_count: int = wire("readQueueNums")
    write_queue_count: int = wire("writeQueueNums")
    permission: int = wire("perm")
    topic_filter_type: str = wire("topicFilterType", default="SINGLE_TAG")
    topic_sys_flag: int = wire("topicSysFlag", default=0)
    order: bool = wire("order", default=False)
    attributes: str | None = wire("attributes", default=None)


@header
class DeleteTopicRequest(Header):
    """RequestCode DELETE_TOPIC_IN_BROKER; the broker also deletes the topic's committed offsets."""

    topic: str = wire("topic")


@header
class GetTopicStatsInfoRequest(Header):
    """RequestCode GET_TOPIC_STATS_INFO; ``decode_topic_stats`` decodes the response's body."""

    topic: str = wire("topic")


@header
class GetConsumeStatsRequest(Header):
    """RequestCode GET_CONSUME_STATS; ``decode_consume_stats`` decodes the response's body. ``topic`` None: all topics
    of the group."""

    consumer_group: str = wire("consumerGroup")
    topic: str | None = wire("topic", default=None)


# ---------------------------------------------------------------------------------------------------- queue bounds


@header
class GetMinOffsetRequest(Header):
    """RequestCode GET_MIN_OFFSET; the response is 0 if the queue does not exist."""

    topic: str = wire("topic")
    queue_id: int = wire("queueId")


@header
class GetMaxOffsetRequest(Header):
    """RequestCode GET_MAX_OFFSET: the offset of the next message to be stored; 0 if the queue does not exist."""

    topic: str = wire("topic")
    queue_id: int = wire("queueId")


@header
class SearchOffsetRequest(Header):
    """RequestCode SEARCH_OFFSET_BY_TIMESTAMP: the first message stored at or after ``timestamp_ms``, else max offset.

    With ``boundary_type`` "upper": the last one stored at or before it instead.
    """

    topic: str = wire("topic")
    queue_id: int = wire("queueId")
    timestamp_ms: int = wire("timestamp")
    boundary_type: str | None = wire("boundaryType", default=None)


@header
class OffsetResponse(Header):
    """Response to GET_MAX_OFFSET, GET_MIN_OFFSET, SEARCH_OFFSET_BY_TIMESTAMP and QUERY_CONSUMER_OFFSET."""

    offset: int = wire("offset")


# ---------------------------------------------------------------------------------------------------- pull


@header
class PullMessageRequest(Header):
    """RequestCode PULL_MESSAGE. ``sys_flag`` is a PullSysFlag.

    ``subscription`` applies only with SUBSCRIPTION, ``suspend_timeout_ms`` only with SUSPEND, ``commit_offset`` only
    with COMMIT_OFFSET. A broker checks suspended pulls every 5 s, so the response may be that much later. Proxies
    forward the pull to ``broker_name``.
    """

    consumer_group: str = wire("consumerGroup")
    topic: str = wire("topic")
    queue_id: int = wire("queueId")
    queue_offset: int = wire("queueOffset")
    max_message_count: int = wire("maxMsgNums")
    sys_flag: int = wire("sysFlag")
    commit_offset: int = wire("commitOffset", default=0)
    suspend_timeout_ms: int = wire("suspendTimeoutMillis", default=0)
    subscription: str | None = wire("subscription", default=None)
    sub_version: int = wire("subVersion", default=0)
    expression_type: str | None = wire("expressionType", default=None)
    broker_name: str | None = wire("bname", default=None)


@header
class PullMessageResponse(Header):
    """Response to PULL_MESSAGE with one of the codes that are outcomes (``wire.remoting.pull``).

    Differs from ``PullMessageResponseHeader.java``: without the fields for slaves and static topics.
    """

    next_begin_offset: int = wire("nextBeginOffset")
    min_offset: int = wire("minOffset")
    max_offset: int = wire("maxOffset")


# ---------------------------------------------------------------------------------------------------- pop


@header
class PopMessageRequest(Header):
    """RequestCode POP_MESSAGE. ``queue_id`` -1: any queue. ``init_mode``, for a group without offsets: 0 begins at the
    first message, 1 at the end. The response's body has the format of a pull's."""

    consumer_group: str = wire("consumerGroup")
    topic: str = wire("topic")
    queue_id: int = wire("queueId", default=-1)
    max_message_count: int = wire("maxMsgNums")
    invisible_ms: int = wire("invisibleTime")
    poll_ms: int = wire("pollTime")
    born_timestamp_ms: int = wire("bornTime")
    init_mode: int = wire("initMode")
    expression_type: str | None = wire("expType", default=None)
    expression: str | None = wire("exp", default=None)


@header
class PopMessageResponse(Header):
    """Response to POP_MESSAGE with messages.

    ``start_offsets``: ``"retry flag, queue id, offset"`` of each queue, separated by spaces, the queues by semicolons.
    ``message_offsets``: the same, with the offsets of the queue's messages separated by commas. Queues and offsets are
    in the order of the body.
    """

    pop_time_ms: int = wire("popTime")
    invisible_ms: int = wire("invisibleTime")
    revive_queue_id: int = wire("reviveQid")
    start_offsets: str | None = wire("startOffsetInfo", default=None)
    message_offsets: str | None = wire("msgOffsetInfo", default=None)


@header
class ChangeInvisibleTimeRequest(Header):
    """RequestCode CHANGE_MESSAGE_INVISIBLETIME. ``topic`` is the queue's own, possibly a retry topic. With ``suspend``
    the delivery does not count as a consume attempt."""

    consumer_group: str = wire("consumerGroup")
    topic: str = wire("topic")
    queue_id: int = wire("queueId")
    extra_info: str = wire("extraInfo")
    offset: int = wire("offset")
    invisible_ms: int = wire("invisibleTime")
    suspend: bool = wire("suspend", default=False)


@header
class ChangeInvisibleTimeResponse(Header):
    """Response to CHANGE_MESSAGE_INVISIBLETIME: the fields that change in the message's receipt handle."""

    pop_time_ms: int = wire("popTime")
    invisible_ms: int = wire("invisibleTime")
    revive_queue_id: int = wire("reviveQid")


# ---------------------------------------------------------------------------------------------------- group offsets


@header
class QueryConsumerOffsetRequest(Header):
    """RequestCode QUERY_CONSUMER_OFFSET. Unless ``set_zero_if_not_found`` is false, brokers return 0 for a young queue
    without a committed offset."""

    consumer_group: str = wire("consumerGroup")
    topic: str = wire("topic")
    queue_id: int = wire("queueId")
    set_zero_if_not_found: bool = wire("setZeroIfNotFound", default=False)


@header
class UpdateConsumerOffsetRequest(Header):
    """RequestCode UPDATE_CONSUMER_OFFSET; a broker stores any offset, also a lower one."""

    consumer_group: str = wire("consumerGroup")
    topic: str = wire("topic")
    queue_id: int = wire("queueId")
    commit_offset: int = wire("commitOffset")


# ---------------------------------------------------------------------------------------------------- membership


@header
class UnregisterClientRequest(Header):
    """RequestCode UNREGISTER_CLIENT; the broker unregisters the connection, and ``client_id`` only names the client."""

    client_id: str = wire("clientID")
    producer_group: str | None = wire("producerGroup", default=None)
    consumer_group: str | None = wire("consumerGroup", default=None)


@header
class GetConsumerListByGroupRequest(Header):
    """RequestCode GET_CONSUMER_LIST_BY_GROUP; ``decode_consumer_ids`` decodes the response's body."""

    consumer_group: str = wire("consumerGroup")


@header
class GetConsumerConnectionListRequest(Header):
    """RequestCode GET_CONSUMER_CONNECTION_LIST; ``decode_group_connections`` decodes the response's body."""

    consumer_group: str = wire("consumerGroup")


@header
class GetConsumerRunningInfoRequest(Header):
    """RequestCode GET_CONSUMER_RUNNING_INFO, which a broker sends."""

    consumer_group: str = wire("consumerGroup")
    client_id: str = wire("clientId")
    includes_jstack: bool = wire("jstackEnable", default=False)


@header
class GetConsumerStatusRequest(Header):
    """RequestCode GET_CONSUMER_STATUS_FROM_CLIENT, which a broker sends."""

    topic: str = wire("topic")
    group: str = wire("group")


# ---------------------------------------------------------------------------------------------------- send


@header
class SendMessageRequest(Header):
    """RequestCode SEND_MESSAGE_V2, or with ``is_batch`` SEND_BATCH_MESSAGE; names on the wire are single letters.

    A broker stores a batch without ``is_batch`` as one message. Source:
    ``remoting/protocol/header/SendMessageRequestHeaderV2.java``.
    """

    producer_group: str = wire("a")
    topic: str = wire("b")
    default_topic: str = wire("c", default=AUTO_CREATE_TOPIC_KEY)
    default_topic_queue_count: int = wire("d", default=4)
    queue_id: int = wire("e")
    sys_flag: int = wire("f", default=0)
    born_timestamp_ms: int = wire("g")
    flag: int = wire("h", default=0)
    properties: str = wire("i", default="")
    reconsume_times: int = wire("j", default=0)
    unit_mode: bool = wire("k", default=False)
    max_reconsume_times: int | None = wire("l", default=None)
    is_batch: bool = wire("m", default=False)


@header
class SendMessageResponse(Header):
    """Response to a send. ``message_id``: offsetMsgId; for a batch one per message, joined by commas.

    ``queue_offset`` is that of the first message.
    """

    message_id: str = wire("msgId")
    queue_id: int = wire("queueId")
    queue_offset: int = wire("queueOffset")
    transaction_id: str | None = wire("transactionId", default=None)


@header
class ConsumerSendMsgBackRequest(Header):
    """RequestCode CONSUMER_SEND_MSG_BACK.

    ``delay_level``: >= 1 is the delay level, 0 grows with the number of retries, < 0 sends the message to the DLQ at
    once.
    """

    commit_log_offset: int = wire("offset")
    group: str = wire("group")
    delay_level: int = wire("delayLevel")
    origin_message_id: str | None = wire("originMsgId", default=None)
    origin_topic: str | None = wire("originTopic", default=None)
    unit_mode: bool = wire("unitMode", default=False)
    max_reconsume_times: int | None = wire("maxReconsumeTimes", default=None)
