"""Table of the views: names, and columns with the fields of their rows. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from rocketmq_spark.options.view_read import GROUPS, MEMBERS, QUEUES, TOPICS
from rocketmq_spark.wire.arrow.column_table import Column, ColumnType

_STRING, _INT, _LONG = ColumnType.STRING, ColumnType.INT, ColumnType.LONG
_TOPIC: Final = Column(_STRING, "Name of the topic.", "topic")
_BROKER: Final = Column(_STRING, "Name of the broker.", "broker_name")
_QUEUE: Final = Column(_INT, "ID of the queue on that broker.", "queue_id")
_GROUP: Final = Column(_STRING, "Name of the consumer group.", "consumer_group")
_MIN: Final = Column(_LONG, "Offset of the first message that the queue still has.", "min_offset")
_MAX: Final = Column(_LONG, "Offset of the next message that the broker will store.", "max_offset")

VIEWS: Final[Mapping[str, Mapping[str, Column]]] = MappingProxyType(
    {
        TOPICS: {
            "topic": _TOPIC,
            "clusterName": Column(_STRING, "Name of the cluster to which the broker belongs.", "cluster_name"),
            "brokerName": _BROKER,
            "readQueues": Column(_INT, "Number of queues that consumers read there.", "read_queues"),
            "writeQueues": Column(_INT, "Number of queues that producers write there.", "write_queues"),
            "permission": Column(_STRING, "`RW`, `R` (read only), `W` (write only), or `-`.", "permission"),
        },
        QUEUES: {
            "topic": _TOPIC,
            "brokerName": _BROKER,
            "queueId": _QUEUE,
            "minOffset": _MIN,
            "maxOffset": _MAX,
            "messages": Column(_LONG, "Number of offsets from `minOffset` to `maxOffset`.", "messages"),
            "lastStoreTimestamp": Column(
                ColumnType.TIMESTAMP,
                "Time when the broker stored the last message.",
                "last_store_ms",
                "the queue has no message, or the last one is deleted",
            ),
        },
        GROUPS: {
            "consumerGroup": _GROUP,
            "topic": _TOPIC,
            "brokerName": _BROKER,
            "queueId": _QUEUE,
            "committedOffset": Column(
                _LONG,
                "The group's committed offset: the next offset that it reads.",
                "committed_offset",
                "the group has committed none in this queue",
            ),
            "minOffset": _MIN,
            "maxOffset": _MAX,
            "lag": Column(
                _LONG,
                "Number of messages that the group has not consumed: from `committedOffset`, or without one from "
                "`minOffset`, to `maxOffset`. Deleted messages do not count.",
                "lag",
            ),
            "oldestStoreTimestamp": Column(
                ColumnType.TIMESTAMP,
                "Time when the broker stored the oldest message that the group has not consumed.",
                "oldest_store_ms",
                "the lag is 0, or the message could not be read",
            ),
            "lagMs": Column(
                _LONG,
                "Age of that message in ms, by the clock of the machine that reads the view; 0 without lag.",
                "lag_ms",
                "the message could not be read",
            ),
        },
        MEMBERS: {
            "consumerGroup": _GROUP,
            "clientId": Column(_STRING, "Client ID of the member.", "client_id"),
            "clientAddress": Column(_STRING, "`ip:port` of the member's connection.", "client_address"),
            "language": Column(_STRING, "Language that the client reports, such as `JAVA`.", "language"),
            "version": Column(_STRING, "RocketMQ version that the client reports, such as `V5_5_0`.", "version"),
            "brokerNames": Column(
                _STRING, "Brokers to which the member is connected, separated by commas.", "broker_names"
            ),
            "consumeType": Column(_STRING, "`CONSUME_PASSIVELY`, `CONSUME_ACTIVELY` or `CONSUME_POP`.", "consume_type"),
            "messageModel": Column(_STRING, "`CLUSTERING` or `BROADCASTING`.", "message_model"),
            "subscriptions": Column(
                ColumnType.MAP, "Filter expression by topic. Brokers keep it for the entire group.", "subscriptions"
            ),
        },
    }
)
"""Columns by view and name."""
