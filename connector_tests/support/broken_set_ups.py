"""Broken set-ups, one cause each: what the doctor is to find, and the page of the documentation shows.

A set-up is a context manager over the options of a job, the arguments of the command, and what in its output is another
one's name here than on the page.
"""

from __future__ import annotations

import json
import socket
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from connector_tests.support.admin_broker import AdminBroker
from connector_tests.support.hostile_server import HostileServer
from connector_tests.support.scripted_broker import ScriptedBroker, build_response
from connector_tests.support.scripted_proxy import ScriptedProxy, status
from connector_tests.support.simulated_cluster import OLD_VERSION
from connector_tests.support.tcp_server import serving
from connector_tests.support.timeouts import REQUEST_TIMEOUT_MS
from rocketmq_spark.embedded import EmbeddedCluster, Right
from rocketmq_spark.embedded.pytest_plugin import unique_name
from rocketmq_spark.model import BrokerAddress
from rocketmq_spark.options.connection import options_of
from rocketmq_spark.remoting.broker import Broker
from rocketmq_spark.remoting.pool import ConnectionPool
from rocketmq_spark.remoting.remoting_client import Rpc, decode_nothing
from rocketmq_spark.security import Security
from rocketmq_spark.wire.body.groups import ConsumerData, Heartbeat
from rocketmq_spark.wire.body.subscription import build_subscription
from rocketmq_spark.wire.grpc import messaging_pb2 as pb
from rocketmq_spark.wire.remoting.codes import RequestCode, ResponseCode
from rocketmq_spark.wire.remoting.command import RemotingCommand
from rocketmq_spark.wire.remoting.fastjson import write_fastjson

TLS: Final = Path(__file__).parent / "tls"
CERTIFICATE: Final = TLS / "localhost.crt"
QUICK: Final = {"brokerTimeoutMs": "300"}
"""For servers that never respond."""


@dataclass(frozen=True)
class SetUp:
    """``shown``: by what is printed here, what the page has."""

    options: Mapping[str, str]
    shown: Mapping[str, str]
    arguments: tuple[str, ...] = ()


class Clusters(NamedTuple):
    """``guarded``: with ACL 2.0 and TLS."""

    plain: EmbeddedCluster
    guarded: EmbeddedCluster


Build = Callable[[Clusters], AbstractContextManager[SetUp]]


def job(name_server: str, topic: str = "orders", group: str = "my-group") -> dict[str, str]:
    return {"namesrvAddr": name_server, "subscribe": topic, "consumerGroup": group}


def at(name_server: str, **options: str) -> SetUp:
    """A job at a name server that is none."""
    return SetUp(job(name_server) | options, {name_server: "ns:9876"})


# ------------------------------------------------------------------------------------------------------- name servers


@contextmanager
def given(set_up: SetUp, _clusters: Clusters) -> Iterator[SetUp]:
    yield set_up


@contextmanager
def unresponsive(_clusters: Clusters) -> Iterator[SetUp]:
    with HostileServer() as server:
        yield at(server.address, **QUICK)


@contextmanager
def web_server(_clusters: Clusters) -> Iterator[SetUp]:
    with HostileServer(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n") as server:
        yield at(server.address)


@contextmanager
def broker_as_name_server(clusters: Clusters) -> Iterator[SetUp]:
    yield at(clusters.plain.broker_addr())


@contextmanager
def tls_server(certificate: str, trusted: str | None, client_ca: bool, _clusters: Clusters) -> Iterator[SetUp]:
    """A name server that does no more than the handshake."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(TLS / certificate, CERTIFICATE.with_suffix(".key"))
    if client_ca:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(CERTIFICATE)

    def shake_hands(accepted: socket.socket) -> None:
        with context.wrap_socket(accepted, server_side=True) as secured:
            secured.recv(1)

    trust = {} if trusted is None else {"tlsTrustCertPath": str(TLS / trusted)}
    with serving() as start:
        yield at(start(shake_hands), useTLS="true", **trust)


@contextmanager
def plain_client(clusters: Clusters) -> Iterator[SetUp]:
    yield at(clusters.guarded.namesrv_addr)


@contextmanager
def tls_client(clusters: Clusters) -> Iterator[SetUp]:
    yield at(clusters.plain.namesrv_addr, useTLS="true")


# ------------------------------------------------------------------------------------------------------------- topics


def of_cluster(cluster: EmbeddedCluster, topic: str, group: str = "my-group") -> SetUp:
    """A job on a cluster of the pool, where other tests have topics and groups too."""
    shown = {cluster.namesrv_addr: "ns:9876", cluster.broker_addr(): "broker:10911", topic: "orders", group: "my-group"}
    return SetUp(job(cluster.namesrv_addr, topic, group) | cluster.security_options, shown)


def for_writing(set_up: SetUp) -> SetUp:
    """The same, of a job that writes."""
    options = {name: text for name, text in set_up.options.items() if name not in {"subscribe", "consumerGroup"}}
    return replace(set_up, options=options | {"topic": set_up.options["subscribe"]}, arguments=("--write",))


@contextmanager
def missing_topic(clusters: Clusters) -> Iterator[SetUp]:
    yield of_cluster(clusters.plain, unique_name("doctor"))


@contextmanager
def unreadable_topic(clusters: Clusters) -> Iterator[SetUp]:
    yield of_cluster(clusters.plain, clusters.plain.create_topic(unique_name("doctor"), 4, perm=2))


@contextmanager
def unwritable_topic(clusters: Clusters) -> Iterator[SetUp]:
    yield for_writing(of_cluster(clusters.plain, clusters.plain.create_topic(unique_name("doctor"), 4, perm=4)))


# ------------------------------------------------------------------------------------------------------------ brokers


@contextmanager
def scripted(address: str | None, broker: ScriptedBroker, more: Mapping[str, str]) -> Iterator[SetUp]:
    """A scripted name server, whose route has a scripted broker, or another address."""
    with broker:
        server = address or broker.listen()
        with routed({"0": server}) as namesrv_addr:
            yield SetUp({**job(namesrv_addr), **more}, {namesrv_addr: "ns:9876", server: "broker:10911"})


@contextmanager
def routed(addresses: Mapping[str, str]) -> Iterator[str]:
    """The address of a scripted name server, whose routes have one broker with these addresses by ID."""
    route = {
        "brokerDatas": [{"brokerAddrs": addresses, "brokerName": "broker-a", "cluster": "c"}],
        "queueDatas": [{"brokerName": "broker-a", "perm": 6, "readQueueNums": 4, "writeQueueNums": 4}],
    }
    with ScriptedBroker() as name_server:
        name_server.on(RequestCode.GET_ROUTEINFO_BY_TOPIC, build_response(body=json.dumps(route).encode()))
        yield name_server.listen()


@contextmanager
def replicated(slave: str, read_from: str, clusters: Clusters) -> Iterator[SetUp]:
    """The cluster's broker as the master, with a slave at this address."""
    set_up = on_broker(clusters, read_from)
    with routed({"0": clusters.plain.broker_addr(), "1": slave}) as namesrv_addr:
        shown = {**set_up.shown, namesrv_addr: "ns:9876", slave: "slave:10911"}
        yield replace(set_up, options={**set_up.options, "namesrvAddr": namesrv_addr}, shown=shown)


def on_broker(clusters: Clusters, read_from: str) -> SetUp:
    topic = clusters.plain.create_topic(unique_name("doctor"), 1)
    set_up = of_cluster(clusters.plain, topic, unique_name("group"))
    return replace(set_up, options={**set_up.options, "readFrom": read_from})


@contextmanager
def without_slave(clusters: Clusters) -> Iterator[SetUp]:
    yield on_broker(clusters, "slave")


@contextmanager
def unreadable_slave(clusters: Clusters) -> Iterator[SetUp]:
    """As with ``slaveReadEnable=false``, RocketMQ's default."""
    rejected = "[REJECTREQUEST]system busy, start flow control for a while"
    with ScriptedBroker() as slave:
        slave.on(RequestCode.PULL_MESSAGE, build_response(ResponseCode.SYSTEM_BUSY, remark=rejected))
        with replicated(slave.listen(), "slave", clusters) as set_up:
            yield set_up


@contextmanager
def without_master(read_from: str, clusters: Clusters) -> Iterator[SetUp]:
    """The cluster's broker as the only slave."""
    set_up, slave = on_broker(clusters, read_from), clusters.plain.broker_addr()
    with routed({"1": slave}) as namesrv_addr:
        shown = {**set_up.shown, namesrv_addr: "ns:9876", slave: "slave:10911"}
        yield replace(set_up, options={**set_up.options, "namesrvAddr": namesrv_addr}, shown=shown)


@contextmanager
def unreachable_broker(_clusters: Clusters) -> Iterator[SetUp]:
    with scripted("127.0.0.1:1", ScriptedBroker(), {}) as set_up:
        yield set_up


@contextmanager
def skewed_clock(_clusters: Clusters) -> Iterator[SetUp]:
    """An hour and some seconds, for responses within a second; the broker rounds down to seconds."""

    def info(_request: RemotingCommand) -> RemotingCommand:
        begin_ms = int(time.time() * 1000) - 3_603_999
        table = {"bootTimestamp": str(begin_ms), "runtime": "[ 0 days, 0 hours, 0 minutes, 0 seconds ]"}
        return build_response(body=json.dumps({"table": table}).encode())

    broker = ScriptedBroker()
    broker.on(RequestCode.GET_BROKER_RUNTIME_INFO, info)
    with scripted(None, broker, {}) as set_up:
        yield set_up


@contextmanager
def old_broker(_clusters: Clusters) -> Iterator[SetUp]:
    broker = ScriptedBroker()
    for code in (RequestCode.GET_BROKER_RUNTIME_INFO, RequestCode.PULL_MESSAGE, RequestCode.GET_TOPIC_STATS_INFO):
        broker.on(code, replace(build_response(ResponseCode.SYSTEM_ERROR, remark="no"), version=OLD_VERSION))
    with scripted(None, broker, {"loadBalance": "message"}) as set_up:
        yield set_up


# -------------------------------------------------------------------------------------------------------- permissions


@contextmanager
def as_user(rights: Mapping[str, tuple[str, ...]], is_writing: bool, clusters: Clusters) -> Iterator[SetUp]:
    """A job of a user with ``rights`` by resource, on ``orders`` and ``my-group``."""
    cluster = clusters.guarded
    set_up = of_cluster(cluster, cluster.create_topic(unique_name("doctor"), 1), unique_name("group"))
    names = {
        "Topic:orders": f"Topic:{set_up.options['subscribe']}",
        "Group:my-group": f"Group:{set_up.options['consumerGroup']}",
    }
    granted = [Right(names[resource], actions) for resource, actions in rights.items()]
    user = cluster.create_user(unique_name("user"), *granted)
    signed = replace(set_up, options={**set_up.options, **options_of(Security(user, cluster.security.tls))})
    yield for_writing(signed) if is_writing else signed


@contextmanager
def wrong_secret(clusters: Clusters) -> Iterator[SetUp]:
    set_up = of_cluster(clusters.guarded, clusters.guarded.create_topic(unique_name("doctor"), 1))
    yield replace(set_up, options={**set_up.options, "secretKey": "hunter2"})


@contextmanager
def unsigned(clusters: Clusters) -> Iterator[SetUp]:
    set_up = of_cluster(clusters.guarded, clusters.guarded.create_topic(unique_name("doctor"), 1))
    yield replace(set_up, options={name: text for name, text in set_up.options.items() if "Key" not in name})


# -------------------------------------------------------------------------------------------------------------- group


@contextmanager
def administered(clusters: Clusters) -> Iterator[tuple[AdminBroker, SetUp]]:
    cluster = clusters.plain
    set_up = of_cluster(cluster, cluster.create_topic(unique_name("doctor"), 1), unique_name("group"))
    with closing(ConnectionPool(REQUEST_TIMEOUT_MS)) as pool:
        yield AdminBroker(BrokerAddress(cluster.broker_addr()), pool, REQUEST_TIMEOUT_MS), set_up


@contextmanager
def configured(name: str, value: str, usual: str, clusters: Clusters, **options: str) -> Iterator[SetUp]:
    """With another setting of the broker for a while."""
    with administered(clusters) as (broker, set_up), ExitStack() as restoring:
        restoring.callback(broker.update_config, {name: usual})
        broker.update_config({name: value})
        yield replace(set_up, options={**set_up.options, **options})


@contextmanager
def filtered(expression: str, clusters: Clusters) -> Iterator[SetUp]:
    with administered(clusters) as (_, set_up):
        yield replace(set_up, options={**set_up.options, "subExpression": expression, "expressionType": "SQL92"})


@contextmanager
def disabled_group(clusters: Clusters) -> Iterator[SetUp]:
    with administered(clusters) as (broker, set_up):
        body = write_fastjson({"groupName": set_up.options["consumerGroup"], "consumeEnable": False})
        broker.call(Rpc(RemotingCommand(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body), decode_nothing))
        yield set_up


@contextmanager
def other_member(model: str, topic: str | None, clusters: Clusters) -> Iterator[SetUp]:
    """A member of the group, as a Java consumer registers one. ``topic``: that of the job if None."""
    with administered(clusters) as (broker, set_up):
        subscribed = build_subscription(topic or set_up.options["subscribe"], "*", 1)
        group = set_up.options["consumerGroup"]
        data = ConsumerData(group, "CONSUME_PASSIVELY", model, "CONSUME_FROM_LAST_OFFSET", (subscribed,))
        member: Broker = broker
        member.submit_heartbeat(Heartbeat("10.0.0.7@java", (data,))).result()
        yield set_up


# -------------------------------------------------------------------------------------------------------------- proxy


def at_proxy(address: str) -> SetUp:
    options = {"endpoints": address, "subscribe": "orders", "consumerGroup": "my-group", "loadBalance": "message"}
    return SetUp(options, {address: "proxy:8081"})


@contextmanager
def remoting_port_as_endpoint(clusters: Clusters) -> Iterator[SetUp]:
    yield at_proxy(clusters.plain.broker_addr())


@contextmanager
def topic_missing_at_proxy(_clusters: Clusters) -> Iterator[SetUp]:
    missing = pb.QueryRouteResponse(status=status(pb.Code.TOPIC_NOT_FOUND, "no route"))
    with ScriptedProxy() as proxy:
        proxy.handlers_by_method["QueryRoute"] = lambda _: missing
        yield at_proxy(proxy.address)


SUB: Final = ("SUB",)
SET_UPS: Final[Mapping[str, Build]] = {
    "an option is misspelt": partial(given, at("127.0.0.1:1", maxOffsetPerTrigger="10")),
    "a SQL92 filter is set without `expressionType`": partial(given, at("127.0.0.1:1", subExpression="price > 5")),
    "the name server's host name does not exist": partial(given, at("nowhere.invalid:9876")),
    "no name server runs": partial(given, at("127.0.0.1:1")),
    "the name server is paused": unresponsive,
    "the port is that of a web server": web_server,
    "the address is that of a broker": broker_as_name_server,
    "the servers require TLS": plain_client,
    "the servers do not accept TLS": tls_client,
    "the certificate's CA is not trusted": partial(tls_server, "localhost.crt", None, False),
    "the certificate is for another host": partial(tls_server, "elsewhere.crt", "elsewhere.crt", False),
    "the certificate has expired": partial(tls_server, "expired.crt", "expired.crt", False),
    "the servers require a client certificate": partial(tls_server, "localhost.crt", "localhost.crt", True),
    "the topic does not exist": missing_topic,
    "the topic has no read permission": unreadable_topic,
    "the topic has no write permission": unwritable_topic,
    "the broker registers an address that is unreachable from here": unreachable_broker,
    "`readFrom=slave` is set, and the broker has no slave": without_slave,
    "`readFrom=slave` is set, and the slave is unreachable from here": partial(replicated, "127.0.0.1:1", "slave"),
    "`readFrom=auto` is set, and the slave is unreachable from here": partial(replicated, "127.0.0.1:1", "auto"),
    "the slave has `slaveReadEnable=false`": unreadable_slave,
    "the master is unavailable, with `readFrom=auto`": partial(without_master, "auto"),
    "the master is unavailable, with `readFrom=master`": partial(without_master, "master"),
    "a broker cannot parse the SQL92 filter": partial(filtered, "region = 'north"),
    "the broker does not filter by SQL92": partial(
        configured, "enablePropertyFilter", "false", "true", subExpression="price > 5", expressionType="SQL92"
    ),
    "requests are not signed": unsigned,
    "the secret key is wrong": wrong_secret,
    "the user lacks SUB on the topic": partial(
        as_user, {"Topic:orders": ("GET",), "Group:my-group": ("SUB", "GET")}, False
    ),
    "the user lacks GET on the topic": partial(as_user, {"Topic:orders": SUB, "Group:my-group": ("SUB", "GET")}, False),
    "the user lacks SUB on the group": partial(
        as_user, {"Topic:orders": ("SUB", "GET"), "Group:my-group": ("GET",)}, False
    ),
    "the user lacks PUB on the topic": partial(as_user, {"Topic:orders": ("SUB", "GET")}, True),
    "the group does not exist": partial(configured, "autoCreateSubscriptionGroup", "false", "true"),
    "the broker rejects pulls": partial(configured, "rejectPullConsumerEnable", "true", "false"),
    "the group is disabled": disabled_group,
    "a member of the group broadcasts": partial(other_member, "BROADCASTING", None),
    "a member subscribes to another topic": partial(other_member, "CLUSTERING", "payments"),
    "the broker is too old for message mode": old_broker,
    "the clocks differ": skewed_clock,
    "the endpoint is no gRPC port": remoting_port_as_endpoint,
    "no proxy runs": partial(given, at_proxy("127.0.0.1:1")),
    "the topic does not exist at the proxy": topic_missing_at_proxy,
}
"""By what the page calls them, in its order."""
