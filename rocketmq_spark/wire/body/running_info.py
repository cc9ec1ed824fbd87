"""State that a consumer reports to an operator (``mqadmin consumerStatus``) or to another member.

Source: ``remoting/protocol/body/ConsumerRunningInfo.java``, ``ProcessQueueInfo.java``; fields without a meaning here
are 0. The request may carry a report of a task, see ``task_report``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from rocketmq_spark.model import MessageQueue
from rocketmq_spark.wire.body.decoding import by_queue, decode_body
from rocketmq_spark.wire.body.subscription import SubscriptionData, read_subscription, subscription_fields
from rocketmq_spark.wire.remoting.fastjson import write_fastjson
from rocketmq_spark.wire.remoting.typed import Object, as_object, flag, int64, objects, table

PROP_NAMESERVER_ADDR: Final = "PROP_NAMESERVER_ADDR"
PROP_CONSUME_ORDERLY: Final = "PROP_CONSUMEORDERLY"
PROP_CONSUME_TYPE: Final = "PROP_CONSUME_TYPE"
PROP_CLIENT_VERSION: Final = "PROP_CLIENT_VERSION"
PROP_CONSUMER_START_TIMESTAMP: Final = "PROP_CONSUMER_START_TIMESTAMP"
PROP_CHECKPOINT: Final = "PROP_ROCKETMQ_SPARK_CHECKPOINT"
"""Written by this connector only, as the next one."""
PROP_TOPIC_PATTERN: Final = "PROP_ROCKETMQ_SPARK_SUBSCRIBE_PATTERN"
"""``subscribePattern`` of a member that has one."""


class ProcessQueueInfo(NamedTuple):
    """State of one process queue. ``cached_*``: messages in flight, offsets ``[min, max]``, both included as in
    Java."""

    commit_offset: int
    cached_min_offset: int = 0
    cached_max_offset: int = 0
    cached_count: int = 0
    is_locked: bool = False
    last_lock_timestamp_ms: int = 0
    is_dropped: bool = False
    last_pull_timestamp_ms: int = 0
    last_consume_timestamp_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerRunningInfo:
    """State of one member of a group. mqadmin requires the properties PROP_CONSUME_TYPE and
    PROP_CONSUMER_START_TIMESTAMP (ms). ``jstack``: threads of the member as text; None if they are not requested."""

    properties: Mapping[str, str]
    subscriptions: tuple[SubscriptionData, ...] = ()
    process_queues: Mapping[MessageQueue, ProcessQueueInfo] = field(default_factory=dict)
    jstack: str | None = None


def encode_consumer_running_info(info: ConsumerRunningInfo) -> bytes:
    """Return the body of the response to GET_CONSUMER_RUNNING_INFO, without ``jstack`` if it is None. Raises
    LocalProtocolError[INVALID_MESSAGE] for text that is not valid Unicode."""
    fields: dict[str, object] = {
        "mqPopTable": {},
        "mqTable": {queue: _process_queue_fields(entry) for queue, entry in info.process_queues.items()},
        "properties": info.properties,
        "statusTable": {},
        "subscriptionSet": list(map(subscription_fields, info.subscriptions)),
        "userConsumerInfo": {},
    }
    if info.jstack is not None:
        fields["jstack"] = info.jstack
    return write_fastjson(fields)


def decode_consumer_running_info(body: bytes | memoryview) -> ConsumerRunningInfo:
    """Decode another member's response to GET_CONSUMER_RUNNING_INFO; ``jstack`` is ignored and None. Raises
    RemoteProtocolError[MALFORMED_RESPONSE.BODY]."""
    return decode_body("running info", body, _running_info)


def _running_info(entry: Object) -> ConsumerRunningInfo:
    """Return the running info that a body describes, properties of other types as text; ``jstack`` is ignored. Raises
    ValueError for a missing or wrongly typed field."""
    return ConsumerRunningInfo(
        properties={str(name): str(value) for name, value in table(entry, "properties").items()},
        subscriptions=tuple(map(read_subscription, objects(entry, "subscriptionSet"))),
        process_queues=by_queue(entry, "mqTable", _process_queue_info),
    )


def _process_queue_info(value: object, name: str) -> ProcessQueueInfo:
    """Parse an entry of field ``name``, ``mqTable``. Raises ValueError for a missing or wrongly typed field."""
    entry = as_object(value, name)
    return ProcessQueueInfo(
        commit_offset=int64(entry, "commitOffset"),
        cached_min_offset=int64(entry, "cachedMsgMinOffset"),
        cached_max_offset=int64(entry, "cachedMsgMaxOffset"),
        cached_count=int64(entry, "cachedMsgCount"),
        is_locked=flag(entry, "locked"),
        last_lock_timestamp_ms=int64(entry, "lastLockTimestamp"),
        is_dropped=flag(entry, "droped"),
        last_pull_timestamp_ms=int64(entry, "lastPullTimestamp"),
        last_consume_timestamp_ms=int64(entry, "lastConsumeTimestamp"),
    )


def _process_queue_fields(info: ProcessQueueInfo) -> dict[str, object]:
    """Return the state as an entry of ``mqTable``, with all fields of the Java class; those that ProcessQueueInfo lacks
    are 0."""
    return {
        "cachedMsgCount": info.cached_count,
        "cachedMsgMaxOffset": info.cached_max_offset,
        "cachedMsgMinOffset": info.cached_min_offset,
        "cachedMsgSizeInMiB": 0,
        "commitOffset": info.commit_offset,
        "droped": info.is_dropped,
        "lastConsumeTimestamp": info.last_consume_timestamp_ms,
        "lastLockTimestamp": info.last_lock_timestamp_ms,
        "lastPullTimestamp": info.last_pull_timestamp_ms,
        "locked": info.is_locked,
        "transactionMsgCount": 0,
        "transactionMsgMaxOffset": 0,
        "transactionMsgMinOffset": 0,
        "tryUnlockTimes": 0,
    }


def encode_consumer_status(next_offsets: Mapping[MessageQueue, int]) -> bytes:
    """Return the body of the response to GET_CONSUMER_STATUS_FROM_CLIENT: the next offset of each queue. Raises
    LocalProtocolError[INVALID_MESSAGE]. Source: ``remoting/protocol/body/GetConsumerStatusBody.java``."""
    return write_fastjson({"consumerTable": {}, "messageQueueTable": next_offsets})
