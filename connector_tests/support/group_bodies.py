"""Bodies of a broker's responses about topics, groups and members, for scripted brokers."""

from __future__ import annotations

import json
from collections.abc import Mapping

from connector_tests.support.scripted_broker import Script, build_response
from rocketmq_spark.model import MessageQueue, QueueBounds
from rocketmq_spark.wire.body.subscription import build_subscription, subscription_fields
from rocketmq_spark.wire.remoting.codes import ResponseCode
from rocketmq_spark.wire.remoting.command import RemotingCommand
from rocketmq_spark.wire.remoting.fastjson import write_fastjson


def cluster_info(masters: Mapping[str, str]) -> RemotingCommand:
    """Brokers with the addresses of their masters; empty for one without a master."""
    table = {
        name: {"brokerAddrs": {"0": address} if address else {"1": "slave:1"}, "brokerName": name, "cluster": "c"}
        for name, address in masters.items()
    }
    body = json.dumps({"brokerAddrTable": table, "clusterAddrTable": {"c": list(masters)}}).encode()
    return build_response(body=body)


def topic_stats(bounds: Mapping[MessageQueue, QueueBounds]) -> Script:
    """The bounds of each topic's queues; a topic without queues does not exist."""

    def respond(request: RemotingCommand) -> RemotingCommand:
        table = {
            queue: {
                "minOffset": held.min_offset,
                "maxOffset": held.max_offset,
                "lastUpdateTimestamp": held.last_store_timestamp_ms or 77,
            }
            for queue, held in bounds.items()
            if queue.topic == request.fields["topic"]
        }
        if not table:
            return build_response(ResponseCode.TOPIC_NOT_EXIST, remark="topic does not exist")
        return build_response(body=write_fastjson({"offsetTable": table}))

    return respond


def consume_stats(offsets: Mapping[MessageQueue, int]) -> RemotingCommand:
    """The group's offsets; 0 also without one."""
    table = {
        queue: {"brokerOffset": 99, "consumerOffset": offset, "lastTimestamp": 0} for queue, offset in offsets.items()
    }
    return build_response(body=write_fastjson({"offsetTable": table}))


def connections(client_ids: tuple[str, ...], subscriptions: Mapping[str, str]) -> RemotingCommand:
    """Members of a group, and what they subscribe to."""
    members = [{"clientId": name, "clientAddr": "1.2.3.4:5", "language": "JAVA", "version": 513} for name in client_ids]
    table = {
        topic: subscription_fields(build_subscription(topic, expression, 1))
        for topic, expression in subscriptions.items()
    }
    return build_response(body=json.dumps({"connectionSet": members, "subscriptionTable": table}).encode())


def groups(*names: str) -> RemotingCommand:
    """The groups of a broker."""
    return build_response(body=json.dumps({"subscriptionGroupTable": {name: {} for name in names}}).encode())
