"""Capture the responses of a real broker, frame by frame: ``connector_tests/vectors/frames.json``.

Run it again when a new version of Apache RocketMQ is to be supported; the tests then show what has changed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from rocketmq_spark.embedded import EmbeddedCluster
from rocketmq_spark.model import BrokerAddress, Message, MessageQueue
from rocketmq_spark.remoting.broker import Broker
from rocketmq_spark.remoting.pool import ConnectionPool
from rocketmq_spark.remoting.tcp import connect_tcp
from rocketmq_spark.wire.body.groups import Heartbeat, encode_heartbeat, encode_lock_batch
from rocketmq_spark.wire.remoting.codes import PullSysFlag, RequestCode
from rocketmq_spark.wire.remoting.command import RemotingCommand, Serialization, encode
from rocketmq_spark.wire.remoting.frame import FrameBuffer
from rocketmq_spark.wire.remoting.headers import (
    GetConsumerListByGroupRequest,
    GetRouteInfoRequest,
    GetTopicStatsInfoRequest,
    PullMessageRequest,
    QueryConsumerOffsetRequest,
)

TARGET: Final = Path(__file__).parents[1] / "connector_tests" / "vectors" / "frames.json"
QUEUE: Final = MessageQueue("vectors", "broker-a", 0)
TIMEOUT_MS: Final = 5_000


def pull(offset: int, expression: str = "*") -> RemotingCommand:
    """A pull of the captured queue that brings its subscription along."""
    header = PullMessageRequest(
        consumer_group="vectors-group",
        topic=QUEUE.topic,
        queue_id=QUEUE.queue_id,
        queue_offset=offset,
        max_message_count=32,
        sys_flag=PullSysFlag.SUBSCRIPTION,
        subscription=expression,
    )
    return RemotingCommand(RequestCode.PULL_MESSAGE, opaque=1, fields=header.to_fields())


def requests() -> Iterator[tuple[str, str, RemotingCommand]]:
    """(name, server, request)."""
    route = GetRouteInfoRequest(topic=QUEUE.topic).to_fields()
    stats = GetTopicStatsInfoRequest(topic=QUEUE.topic).to_fields()
    members = GetConsumerListByGroupRequest(consumer_group="nobody").to_fields()
    offset = QueryConsumerOffsetRequest(
        consumer_group="vectors-group", topic=QUEUE.topic, queue_id=QUEUE.queue_id
    ).to_fields()
    yield "route", "name server", RemotingCommand(RequestCode.GET_ROUTEINFO_BY_TOPIC, opaque=1, fields=route)
    yield "cluster", "name server", RemotingCommand(RequestCode.GET_BROKER_CLUSTER_INFO, opaque=1)
    yield "no such topic", "name server", RemotingCommand(105, opaque=1, fields={**route, "topic": "missing"})
    yield "topic stats", "broker", RemotingCommand(RequestCode.GET_TOPIC_STATS_INFO, opaque=1, fields=stats)
    yield (
        "heartbeat",
        "broker",
        RemotingCommand(RequestCode.HEART_BEAT, opaque=1, body=encode_heartbeat(Heartbeat("127.0.0.1@vectors"))),
    )
    yield "members of nobody", "broker", RemotingCommand(38, opaque=1, fields=members)
    yield "no offset", "broker", RemotingCommand(RequestCode.QUERY_CONSUMER_OFFSET, opaque=1, fields=offset)
    yield (
        "locks",
        "broker",
        RemotingCommand(
            RequestCode.LOCK_BATCH_MQ, opaque=1, body=encode_lock_batch("vectors-group", "127.0.0.1@vectors", [QUEUE])
        ),
    )
    yield "pull found", "broker", pull(0)
    yield "pull by tag", "broker", pull(0, "TagB")
    yield "pull at the end", "broker", pull(3)
    yield "pull beyond the end", "broker", pull(1_000)


def response(address: str, request: RemotingCommand) -> bytes:
    """Return the response frame, with its four length bytes."""
    stream = connect_tcp(address, TIMEOUT_MS)
    frames = FrameBuffer(address)
    try:
        stream.sendall(encode(request, Serialization.JSON), TIMEOUT_MS)
        while (frame := frames.next_frame()) is None:
            frames.feed(stream.recv(1 << 20, TIMEOUT_MS) or b"")
        return len(frame).to_bytes(4, "big") + bytes(frame)
    finally:
        stream.close()


def main() -> None:
    """Start a broker, send it three messages, and write its responses to files."""
    with EmbeddedCluster() as cluster:
        cluster.create_topic(QUEUE.topic, queues=2)
        pool = ConnectionPool(connect_timeout_ms=TIMEOUT_MS)
        broker = Broker(BrokerAddress(cluster.broker_addr()), pool, TIMEOUT_MS)
        for number, tag in enumerate(("TagA", "TagB", "TagA")):
            properties = {"UNIQ_KEY": f"{number:032X}", "shop": "Köln"}
            broker.send(Message(QUEUE.topic, b"body-%d" % number, tag, f"key-{number}", properties), QUEUE, "tests")
        addresses = {"name server": cluster.namesrv_addr, "broker": cluster.broker_addr()}
        frames = {name: response(addresses[client], request).hex() for name, client, request in requests()}
        pool.close()
    TARGET.write_text(json.dumps({"frames": frames}, indent=1) + "\n", encoding="utf-8")
    print(f"{TARGET.name}: {len(frames)} frames")


if __name__ == "__main__":
    main()
