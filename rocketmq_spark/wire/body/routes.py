"""Routes of topics and addresses of brokers, as name servers return them."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Final

from rocketmq_spark.model import MASTER_ID, PERM_WRITE, BrokerData, QueueData, TopicRoute
from rocketmq_spark.wire.body.decoding import decode_body
from rocketmq_spark.wire.bounds import ORDERED_QUEUES, ROUTE_QUEUES
from rocketmq_spark.wire.remoting.typed import Object, as_object, as_text, int64, objects, table, text, texts

FIRST_SLAVE_ID: Final = 1
_QUEUE_COUNT: Final = re.compile(r"[+-]?[0-9]{1,9}")


@dataclass(frozen=True, slots=True)
class ClusterInfo:
    """Brokers by name, and the broker names of each cluster. Source: ``remoting/protocol/body/ClusterInfo.java``."""

    brokers: Mapping[str, BrokerData]
    clusters: Mapping[str, tuple[str, ...]]


def decode_topic_route(topic: str, body: bytes | memoryview) -> TopicRoute:
    """Decode the response to GET_ROUTEINFO_BY_TOPIC, which does not contain ``topic``. Raises
    RemoteProtocolError[MALFORMED_RESPONSE.BODY], also for more queues than ROUTE_QUEUES allows."""
    return decode_body("topic route", body, lambda route: _topic_route(topic, route))


def decode_cluster_info(body: bytes | memoryview) -> ClusterInfo:
    """Decode the response to GET_BROKER_CLUSTER_INFO. Raises RemoteProtocolError[MALFORMED_RESPONSE.BODY]."""
    return decode_body("cluster info", body, _cluster_info)


def _topic_route(topic: str, route: Object) -> TopicRoute:
    """Return the route that a body describes. Raises ValueError for a missing or wrongly typed field, a negative number
    of queues, and more read queues or write queues than ROUTE_QUEUES allows. An invalid order configuration raises
    nothing: see ``_ordered_brokers``."""
    queues = tuple(_queue_data(entry) for entry in objects(route, "queueDatas"))
    writable = {data.broker_name for data in queues if data.permission & PERM_WRITE}
    brokers = tuple(_with_acting(_broker_data(entry), entry, writable) for entry in objects(route, "brokerDatas"))
    for counts in ([data.read_queue_count for data in queues], [data.write_queue_count for data in queues]):
        ROUTE_QUEUES.check(min(counts, default=0))
        ROUTE_QUEUES.check(sum(counts))
    order_conf = as_text(route.get("orderTopicConf") or "", "orderTopicConf")
    is_static = bool(route.get("topicQueueMappingByBroker"))
    return TopicRoute(topic, brokers, queues, is_static, order_conf, _ordered_brokers(order_conf))


def _with_acting(broker: BrokerData, entry: Object, writable: Collection[str]) -> BrokerData:
    """Return a copy of ``broker`` with ``is_acting``. It is True for a broker with ID 0 but not ID 1, if ``entry``
    enables acting masters, and ``writable`` (names of brokers with write permission) lacks it. So the name server lists
    a slave that acts as master. A master without write permission whose slave is down has the same route. Source:
    ``namesrv/routeinfo/RouteInfoManager.java#pickupTopicRouteData``."""
    may_act = entry.get("enableActingMaster") is True and broker.broker_name not in writable
    has_gap = MASTER_ID in broker.addresses and FIRST_SLAVE_ID not in broker.addresses
    return replace(broker, is_acting=may_act and has_gap)


def _ordered_brokers(order_conf: str) -> tuple[tuple[str, int], ...]:
    """Return (broker name, number of queues) for each part of ``broker-a:4;broker-b:4``, as Java reads it. Empty parts
    at the end and fields after the second are ignored; a negative number counts as 0. Return () for an empty text, if
    any part is invalid, or if all parts together have more queues than ORDERED_QUEUES allows."""
    brokers = [part.split(":") for part in order_conf.rstrip(";").split(";")]
    if any(len(broker) < 2 or not _QUEUE_COUNT.fullmatch(broker[1]) for broker in brokers):
        return ()
    counts = tuple((broker[0], max(0, int(broker[1]))) for broker in brokers)
    return counts if sum(count for _, count in counts) <= ORDERED_QUEUES.maximum else ()


def _cluster_info(info: Object) -> ClusterInfo:
    """Return the cluster info that a body describes. Raises ValueError for a missing or wrongly typed field."""
    brokers = (_broker_data(as_object(entry, "brokerAddrTable")) for entry in table(info, "brokerAddrTable").values())
    clusters = table(info, "clusterAddrTable")
    return ClusterInfo(
        {broker.broker_name: broker for broker in brokers},
        {as_text(name, "a cluster's name"): tuple(texts(clusters, str(name))) for name in clusters},
    )


def _broker_data(entry: Object) -> BrokerData:
    """Return a broker's data, addresses by broker ID. Raises ValueError for a missing or wrongly typed field, and for
    an ID that is no number."""
    addresses = table(entry, "brokerAddrs").items()
    return BrokerData(
        cluster=text(entry, "cluster"),
        broker_name=text(entry, "brokerName"),
        addresses={int(str(broker_id)): as_text(address, "a broker's address") for broker_id, address in addresses},
    )


def _queue_data(entry: Object) -> QueueData:
    """Return the queue counts, also negative ones, and the permission of a topic on one broker. Raises ValueError for a
    missing or wrongly typed field."""
    return QueueData(
        broker_name=text(entry, "brokerName"),
        read_queue_count=int64(entry, "readQueueNums"),
        write_queue_count=int64(entry, "writeQueueNums"),
        permission=int64(entry, "perm"),
    )
