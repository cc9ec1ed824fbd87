"""A sharding key leads to the queue that Java's selector chooses."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest

from connector_tests.support.java_values import java_queues, queues_from, random_text
from rocketmq_spark.errors import RouteError
from rocketmq_spark.model import MessageQueue
from rocketmq_spark.sink.send_batches import queue_by_hash, sharded_queues
from rocketmq_spark.wire.body.routes import decode_topic_route


@pytest.mark.parametrize("queue_count", [1, 4, 7])
def test_a_key_leads_where_java_leads_it(java: Any, queue_count: int) -> None:
    queues = tuple(MessageQueue("T", f"b{number % 2}", number) for number in range(queue_count))
    theirs = java_queues(java, queues)
    select = java.org.apache.rocketmq.client.producer.selector.SelectMessageQueueByHash().select
    random = Random(5)
    keys = ["polygenelubricants", *(random_text(random) for _ in range(100))]
    chosen = java.java.util.ArrayList()
    for key in keys:
        chosen.add(select(theirs, None, key))
    assert [queue_by_hash(key, queues) for key in keys] == queues_from(java, chosen)


def java_route(java: Any, order_conf: str | None) -> Any:
    """A route of two brokers, 3 queues each, with an order configuration."""
    names = ("broker-b", "broker-a")
    route = {
        "brokerDatas": [{"cluster": "c", "brokerName": name, "brokerAddrs": {0: f"{name}:10911"}} for name in names],
        "queueDatas": [{"brokerName": name, "readQueueNums": 3, "writeQueueNums": 3, "perm": 6} for name in names],
        "orderTopicConf": order_conf,
    }
    kind = java.java.lang.Class.forName("org.apache.rocketmq.remoting.protocol.route.TopicRouteData")
    return java.com.alibaba.fastjson2.JSON.parseObject(json.dumps(route), kind)


ORDER_CONFS = [
    None,
    "",
    "broker-b:2;broker-a:2",
    "broker-a:1;",
    "broker-b:2",
    "broker-b:0;broker-a:+2",
    "broker-b:-1;broker-a:2:9",
    "broker-gone:2;broker-a:1;broker-a:1",
    "broker-b:09;broker-a:12",
]


@pytest.mark.parametrize("order_conf", ORDER_CONFS)
def test_keys_follow_the_order_configuration_as_javas_do(java: Any, order_conf: str | None) -> None:
    """With orderMessageEnable at the name server 0 of 12 keys were in Java's queue."""
    route = java_route(java, order_conf)
    ours = sharded_queues(decode_topic_route("T", route.encode()))
    instance = java.org.apache.rocketmq.client.impl.factory.MQClientInstance
    theirs = instance.topicRouteData2TopicPublishInfo("T", route).getMessageQueueList()
    assert list(ours) == queues_from(java, theirs)


@pytest.mark.parametrize(
    "order_conf", ["broker-a", "broker-a:two", ";broker-a:2", "broker-a: 2", "broker-a:2147483648"]
)
def test_an_order_configuration_that_java_cannot_read_is_refused(java: Any, order_conf: str) -> None:
    route = java_route(java, order_conf)
    instance = java.org.apache.rocketmq.client.impl.factory.MQClientInstance
    with pytest.raises(Exception, match=r"NumberFormatException|ArrayIndexOutOfBounds"):
        instance.topicRouteData2TopicPublishInfo("T", route)
    with pytest.raises(RouteError, match="INVALID_ORDER_CONF"):
        sharded_queues(decode_topic_route("T", route.encode()))
