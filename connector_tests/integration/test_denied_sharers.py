"""What a query that shares messages is told where it is not let in: at once, the whole sentence, and what to do."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager

import pytest

from connector_tests.support.admin_broker import AdminBroker
from connector_tests.support.cluster_pool import ClusterPool, RestingCluster
from connector_tests.support.message_group import GRPC, REMOTING, SHORT_MS, WAYS, MessageGroup
from connector_tests.support.streams import eventually
from connector_tests.support.timeouts import PATIENT, PATIENT_MS, TIMEOUT_FACTOR
from rocketmq_spark.embedded import EmbeddedCluster, Right
from rocketmq_spark.embedded.pytest_plugin import unique_name
from rocketmq_spark.errors import RocketMQError
from rocketmq_spark.model import BrokerAddress
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.options.connection import options_of
from rocketmq_spark.pop.receiver import Receiver
from rocketmq_spark.pop.transports import transport_of
from rocketmq_spark.remoting.pool import ConnectionPool
from rocketmq_spark.security import Security

pytestmark = [pytest.mark.broker, pytest.mark.full]

TOPIC_ADVICE = "Grant it on every broker of the topic. Reading needs SUB and GET on Topic:orders, writing PUB."
GROUP_ADVICE = (
    "Grant it on every broker of the topics. Reading needs SUB on Group:{}. 'retryTopic' and the check of other "
    "members also need GET on it."
)
READ = Right("Topic:orders", ("SUB",))
JOIN = Right("Group:g", ("SUB",))
AT_ONCE_S = 60 * TIMEOUT_FACTOR
"""Far less than any limit."""

Options = Mapping[str, str]


def server(cluster: EmbeddedCluster, way: str) -> Options:
    return {"namesrvAddr": cluster.namesrv_addr} if way == REMOTING else {"endpoints": cluster.endpoints}


def called(cluster: EmbeddedCluster, way: str) -> str:
    """Who states whether it has messages for us."""
    return cluster.broker_addr() if way == REMOTING else cluster.endpoints


def first_called(cluster: EmbeddedCluster, way: str) -> str:
    """To whom the first connection is."""
    return cluster.namesrv_addr if way == REMOTING else cluster.endpoints


def result(options: Options, caplog: pytest.LogCaptureFixture) -> str:
    """What the query ends with. ``clusterTimeoutMs`` has its five minutes: nothing is waited for, or said to be."""
    parsed = ReadOptions.parse(
        {"consumerGroup": "g", "subscribe": "orders", "loadBalance": "message", **PATIENT, **options}
    )
    one = Receiver(parsed, transport_of(parsed))
    one.start()
    try:
        return end_of(one, caplog)
    finally:
        one.stop()


def end_of(one: Receiver, caplog: pytest.LogCaptureFixture) -> str:
    began_s = time.monotonic()
    ends: list[str] = []

    def has_ended() -> bool:
        try:
            one.check()
        except RocketMQError as error:
            ends.append(str(error))
        return bool(ends)

    eventually(has_ended, "an end")
    assert time.monotonic() - began_s < AT_ONCE_S
    lines = [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING]
    assert [line for line in lines if "aiting" in line] == []
    return ends[0]


# ---------------------------------------------------------------------------------------------------- ACL, and TLS


@pytest.fixture(scope="module")
def guarded(grpc_library: None, clusters: ClusterPool) -> EmbeddedCluster:
    cluster = clusters.get(proxy=True, acl=True, tls=True)
    cluster.create_topic("orders", 2)
    return cluster


def user(cluster: EmbeddedCluster, name: str, *rights: Right) -> Options:
    """The options of a new user with some rights."""
    return cluster.security_options | options_of(Security(cluster.create_user(name, *rights)))


@pytest.mark.parametrize(("way", "request_name"), [(REMOTING, "POP_MESSAGE"), (GRPC, "QueryRoute")])
def test_a_missing_key(way: str, request_name: str, guarded: EmbeddedCluster, caplog: pytest.LogCaptureFixture) -> None:
    unsigned = {name: text for name, text in guarded.security_options.items() if "Key" not in name}
    assert result({**unsigned, **server(guarded, way)}, caplog) == (
        f"[ROCKETMQ_CREDENTIALS_MISSING] {called(guarded, way)} requires signed requests, and {request_name} was "
        "not signed: username cannot be null. Set 'accessKey' and 'secretKey'."
    )


@pytest.mark.parametrize(("way", "request_name"), [(REMOTING, "POP_MESSAGE"), (GRPC, "QueryRoute")])
@pytest.mark.parametrize(
    ("wrong", "remark"),
    [({"secretKey": "guessed"}, "check signature failed."), ({"accessKey": "nobody"}, "User:nobody is not found.")],
)
def test_a_wrong_key(
    way: str,
    request_name: str,
    wrong: Options,
    remark: str,
    guarded: EmbeddedCluster,
    caplog: pytest.LogCaptureFixture,
) -> None:
    reported = result({**guarded.security_options, **wrong, **server(guarded, way)}, caplog)
    assert reported == (
        f"[ROCKETMQ_CREDENTIALS_REJECTED] {called(guarded, way)} rejected the credentials of {request_name}: "
        f"{remark} Check 'accessKey' and 'secretKey', and that the user exists on this broker: each broker has "
        "its own users."
    )
    assert guarded.security_options["secretKey"] not in reported


@pytest.mark.parametrize(("way", "request_name"), [(REMOTING, "POP_MESSAGE"), (GRPC, "QueryRoute")])
def test_a_missing_right_on_the_topic(
    way: str, request_name: str, guarded: EmbeddedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    name = unique_name("no_topic")
    assert result({**user(guarded, name, JOIN), **server(guarded, way)}, caplog) == (
        f"[ROCKETMQ_TOPIC_DENIED] {called(guarded, way)} denied {request_name}: the user of 'accessKey' lacks a "
        f"permission on topic 'orders'. User:{name} has no permission to access Topic:orders from 127.0.0.1, no "
        f"matched policies. {TOPIC_ADVICE}"
    )


@pytest.mark.parametrize(("way", "request_name"), [(REMOTING, "POP_MESSAGE"), (GRPC, "Telemetry")])
def test_a_missing_right_on_the_group(
    way: str, request_name: str, guarded: EmbeddedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    name = unique_name("no_group")
    assert result({**user(guarded, name, READ), **server(guarded, way)}, caplog) == (
        f"[ROCKETMQ_GROUP_DENIED] {called(guarded, way)} denied {request_name}: the user of 'accessKey' lacks a "
        f"permission on group 'g'. User:{name} has no permission to access Group:g from 127.0.0.1, no matched "
        f"policies. {GROUP_ADVICE.format('g')}"
    )


def test_a_missing_right_on_what_a_broker_takes_for_a_group(
    guarded: EmbeddedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """A message that is redelivered comes in a retry topic, and that is renewed with a right of its own. Over gRPC with
    that of the group: see the table of test_message_ports.py."""
    with closing(MessageGroup(guarded, REMOTING)) as desk:
        rights = (Right(f"Topic:{desk.topic}", ("SUB",)), Right(f"Group:{desk.group}", ("SUB",)))
        name = unique_name("no_retry")
        desk.options |= user(guarded, name, *rights)
        desk.leave_unacknowledged(SHORT_MS)
        one = desk.member()
        eventually(lambda: one.counts.received == 1, "the message again")
        assert end_of(one, caplog) == (
            f"[ROCKETMQ_GROUP_DENIED] {guarded.broker_addr()} denied CHANGE_MESSAGE_INVISIBLETIME: the user of "
            f"'accessKey' lacks a permission on group '{desk.group}_{desk.topic}'. User:{name} has no permission "
            f"to access Group:{desk.group}_{desk.topic} from 127.0.0.1, no matched policies. "
            f"{GROUP_ADVICE.format(f'{desk.group}_{desk.topic}')}"
        )


@pytest.mark.parametrize("way", WAYS)
def test_plain_to_a_port_of_tls(way: str, guarded: EmbeddedCluster, caplog: pytest.LogCaptureFixture) -> None:
    assert result(server(guarded, way), caplog) == (
        f"[ROCKETMQ_TLS_REQUIRED] {first_called(guarded, way)} requires TLS: it closed a plain connection without "
        "a response, and accepts TLS. Set 'useTLS' to true, and 'tlsTrustCertPath' unless the system trusts its "
        "certificate."
    )


@pytest.mark.parametrize("way", WAYS)
def test_an_untrusted_certificate(way: str, guarded: EmbeddedCluster, caplog: pytest.LogCaptureFixture) -> None:
    assert result({"useTLS": "true", **server(guarded, way)}, caplog) == (
        f"[ROCKETMQ_TLS_CERTIFICATE_UNTRUSTED] The certificate of {first_called(guarded, way)} is not trusted: "
        "self-signed certificate. Set 'tlsTrustCertPath' to a PEM file with this certificate, or with the "
        "certificate that signed it."
    )


def test_a_certificate_of_another_host(guarded: EmbeddedCluster, caplog: pytest.LogCaptureFixture) -> None:
    """A proxy listens on all interfaces, and its certificate names one. Over remoting: test_tls_broker.py."""
    elsewhere = guarded.endpoints.replace("127.0.0.1", "127.0.0.2")
    assert result({**guarded.security_options, "endpoints": elsewhere}, caplog) == (
        f"[ROCKETMQ_TLS_HOSTNAME_MISMATCH] The certificate of {elsewhere} is trusted, but not valid for this "
        "host: IP address mismatch, certificate is not valid for '127.0.0.2'. Use a host name from the "
        "certificate in 'namesrvAddr' or 'endpoints', or correct the broker's 'brokerIP1'. To accept any host "
        "with a trusted certificate, set 'tlsCheckHostName' to false."
    )


# ---------------------------------------------------------------------------------------------------- groups, no TLS


@pytest.fixture(scope="module")
def strict(grpc_library: None) -> Iterator[EmbeddedCluster]:
    """No TLS, and no groups but those that somebody makes."""
    with RestingCluster(proxy=True, broker_config={"autoCreateSubscriptionGroup": "false"}) as cluster:
        cluster.create_topic("orders", 2)
        yield cluster


@pytest.mark.parametrize("way", WAYS)
def test_tls_to_a_plain_port(way: str, strict: EmbeddedCluster, caplog: pytest.LogCaptureFixture) -> None:
    assert re.fullmatch(
        rf"\[ROCKETMQ_TLS_NOT_SUPPORTED\] {first_called(strict, way)} does not support TLS: it responds to plain "
        r"requests\. The handshake failed: [^.]+\.c:\d+\)\. Set 'useTLS' to false, or set the server's "
        r"'tls\.server\.mode' to permissive or enforcing\.",
        result({"useTLS": "true", **server(strict, way)}, caplog),
    )


def test_a_group_that_is_not_there(strict: EmbeddedCluster, caplog: pytest.LogCaptureFixture) -> None:
    """By the broker's word, which has all groups at hand. A proxy has to ask for them: see the next."""
    assert result(server(strict, REMOTING), caplog) == (
        f"[ROCKETMQ_GROUP_NOT_FOUND.BROKER] {strict.broker_addr()} rejected POP_MESSAGE: the consumer group does "
        "not exist, and the broker does not create it. subscription group [g] does not exist, \\nSee "
        "https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details. Create it on every broker of "
        "the topics: 'mqadmin updateSubGroup -g <group> -c <cluster>'."
    )


def test_a_group_that_a_proxy_does_not_have_yet(strict: EmbeddedCluster, caplog: pytest.LogCaptureFixture) -> None:
    """What it does not know it has asked its brokers for up to 20 s ago, or one that was away."""
    late = unique_name("late")
    with receiving(strict, GRPC, late) as one:
        eventually(lambda: "Waiting for topic orders (fails in " in caplog.text, "a line")
        assert f"group not found: {late}" in caplog.text
        create_group(strict, late)
        eventually(lambda: one.have_all_responded, "an answer")
        one.check()
        assert one.outages == ()


@pytest.mark.parametrize("way", WAYS)
def test_a_group_that_another_client_has_created(way: str, strict: EmbeddedCluster) -> None:
    made = unique_name("made")
    create_group(strict, made)
    with receiving(strict, way, made) as one:
        eventually(lambda: one.have_all_responded, "an answer")
        one.check()


def create_group(cluster: EmbeddedCluster, group: str) -> None:
    """By RocketMQ's own tool: test_denied_members.py."""
    with closing(ConnectionPool(PATIENT_MS)) as pool:
        AdminBroker(BrokerAddress(cluster.broker_addr()), pool, PATIENT_MS).ensure_group(group)


@contextmanager
def receiving(cluster: EmbeddedCluster, way: str, group: str) -> Iterator[Receiver]:
    given = {"consumerGroup": group, "subscribe": "orders", "loadBalance": "message", **server(cluster, way)}
    parsed = ReadOptions.parse(given)
    one = Receiver(parsed, transport_of(parsed))
    one.start()
    try:
        yield one
    finally:
        one.stop()


def test_endpoints_that_are_no_proxy(strict: EmbeddedCluster, caplog: pytest.LogCaptureFixture) -> None:
    for address in (strict.namesrv_addr, strict.broker_addr()):
        assert result({"endpoints": address}, caplog) == (
            f"[ROCKETMQ_NOT_A_GRPC_PROXY] {address} is not the gRPC address of a RocketMQ 5 proxy: it uses "
            "RocketMQ's remoting protocol. Set 'endpoints' to a proxy's gRPC address (port 8081 by default). "
            "Name servers belong in 'namesrvAddr'."
        )


def test_a_name_server_that_is_a_proxy(strict: EmbeddedCluster, caplog: pytest.LogCaptureFixture) -> None:
    """At either port. It was asked for messages until ``clusterTimeoutMs`` was over, and answered with a Java
    exception's text."""
    reasons = {
        strict.proxy_addr: "its remoting port does not support loadBalance=message",
        strict.endpoints: "it uses HTTP/2",
    }
    for address, reason in reasons.items():
        assert result({"namesrvAddr": address}, caplog) == (
            f"[ROCKETMQ_PROXY_REQUIRES_ENDPOINTS] {address} is a RocketMQ 5 proxy, not a name server or broker: "
            f"{reason}. For loadBalance=message, set 'endpoints' to the proxy's gRPC address (port 8081 by "
            "default) and remove 'namesrvAddr'. For loadBalance=queue, set 'namesrvAddr' to its remoting address "
            "(port 8080 by default)."
        )
