"""What a query is told that servers do not let in: at once, the whole sentence, and what to do."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

import pytest

from connector_tests.support.cluster_pool import ClusterPool, PatientCluster, RestingCluster
from connector_tests.support.jvm_options import SHORT_LIVED
from connector_tests.support.timeouts import PATIENT, PATIENT_MS
from rocketmq_spark import send
from rocketmq_spark.consumer.cluster_api import MetadataSnapshot
from rocketmq_spark.consumer.member import Member
from rocketmq_spark.embedded import EmbeddedCluster
from rocketmq_spark.embedded.acl import Right
from rocketmq_spark.embedded.jars import VERSIONS
from rocketmq_spark.errors import RocketMQError
from rocketmq_spark.model import BrokerAddress
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.options.connection import options_of
from rocketmq_spark.pop.delivery_attempts import DEFAULT_RETRY_MAX_TIMES
from rocketmq_spark.pop.receive_scheduler import Target
from rocketmq_spark.pop.remoting_transport import RemotingTransport
from rocketmq_spark.remoting.broker import Broker
from rocketmq_spark.remoting.pool import ConnectionPool
from rocketmq_spark.security import Security

pytestmark = pytest.mark.broker

TOPIC_ADVICE = "Grant it on every broker of the topic. Reading needs SUB and GET on Topic:orders, writing PUB."
GROUP_ADVICE = (
    "Grant it on every broker of the topics. Reading needs SUB on Group:{}. 'retryTopic' and the check of other "
    "members also need GET on it."
)
READ = Right("Topic:orders", ("SUB", "GET"))
JOIN = Right("Group:g", ("SUB",))
REFRESHES = 3


@contextmanager
def member(cluster: EmbeddedCluster, **given: str) -> Iterator[Member]:
    required = {"namesrvAddr": cluster.namesrv_addr, "consumerGroup": "g", "subscribe": "orders", **PATIENT}
    joining = Member(ReadOptions.parse({**required, **given}))
    joining.start()
    try:
        yield joining
    finally:
        joining.stop()


def snapshot_of(cluster: EmbeddedCluster, **given: str) -> MetadataSnapshot:
    """What a plan is made from, or what the query ends with."""
    with member(cluster, **given) as joining:
        for _ in range(REFRESHES):
            with joining.group_lock() as membership:
                snapshot = membership.refresh_metadata()
            joining.wait_for_change({}, 500)
    return snapshot


def reported(cluster: EmbeddedCluster, **given: str) -> str:
    """What the query ends with. ``clusterTimeoutMs`` has its five minutes: nothing is waited for."""
    with pytest.raises(RocketMQError) as raised:
        snapshot_of(cluster, **given)
    return str(raised.value)


# ---------------------------------------------------------------------------------------------------- ACL 2.0, and TLS


@pytest.fixture(scope="module")
def guarded(clusters: ClusterPool) -> EmbeddedCluster:
    cluster = clusters.get(acl=True, tls=True)
    cluster.create_topic("orders", 2)
    return cluster


User = Callable[..., dict[str, str]]


@pytest.fixture
def user(guarded: EmbeddedCluster) -> User:
    """The options of a new user with some rights."""

    def make(name: str, *rights: Right) -> dict[str, str]:
        return guarded.security_options | options_of(Security(guarded.create_user(name, *rights)))

    return make


def test_a_member_that_has_the_rights_is_let_in(guarded: EmbeddedCluster, user: User) -> None:
    snapshot = snapshot_of(guarded, **user("allowed", READ, JOIN))
    assert (len(snapshot.owned), snapshot.is_complete) == (2, True)


def test_a_missing_key(guarded: EmbeddedCluster) -> None:
    unsigned = {name: text for name, text in guarded.security_options.items() if "Key" not in name}
    assert reported(guarded, **unsigned) == (
        f"[ROCKETMQ_CREDENTIALS_MISSING] {guarded.broker_addr()} requires signed requests, and "
        "GET_CONSUMER_LIST_BY_GROUP was not signed: username cannot be null. Set 'accessKey' and 'secretKey'."
    )


@pytest.mark.parametrize(
    ("wrong", "remark"),
    [({"secretKey": "guessed"}, "check signature failed."), ({"accessKey": "nobody"}, "User:nobody is not found.")],
)
def test_a_wrong_key(guarded: EmbeddedCluster, wrong: dict[str, str], remark: str) -> None:
    error_text = reported(guarded, **guarded.security_options | wrong)
    assert error_text == (
        f"[ROCKETMQ_CREDENTIALS_REJECTED] {guarded.broker_addr()} rejected the credentials of "
        f"GET_CONSUMER_LIST_BY_GROUP: {remark} Check 'accessKey' and 'secretKey', and that the user exists on "
        "this broker: each broker has its own users."
    )
    assert guarded.security_options["secretKey"] not in error_text


@pytest.mark.parametrize(
    ("name", "rights", "request_name"),
    [
        ("no-topic", (JOIN,), "PULL_MESSAGE|GET_TOPIC_STATS_INFO"),
        ("no-sub", (JOIN, Right("Topic:orders", ("GET",))), "PULL_MESSAGE"),
        ("no-get", (JOIN, Right("Topic:orders", ("SUB",))), "GET_TOPIC_STATS_INFO"),
    ],
)
def test_a_missing_right_on_the_topic(
    guarded: EmbeddedCluster, user: User, name: str, rights: tuple[Right, ...], request_name: str
) -> None:
    assert re.fullmatch(
        rf"\[ROCKETMQ_TOPIC_DENIED\] {guarded.broker_addr()} denied ({request_name}): the user of 'accessKey' "
        rf"lacks a permission on topic 'orders'. User:{name} has no permission to access Topic:orders from "
        rf"127.0.0.1, no matched policies. {TOPIC_ADVICE}",
        reported(guarded, **user(name, *rights)),
    )


def test_a_missing_right_on_the_group(guarded: EmbeddedCluster, user: User) -> None:
    assert reported(guarded, **user("no-group", READ)) == (
        f"[ROCKETMQ_GROUP_DENIED] {guarded.broker_addr()} denied GET_CONSUMER_LIST_BY_GROUP: the user of "
        "'accessKey' lacks a permission on group 'g'. User:no-group has no permission to access Group:g from "
        f"127.0.0.1, no matched policies. {GROUP_ADVICE.format('g')}"
    )


@pytest.mark.full
def test_a_groups_settings_are_not_a_members_to_read(guarded: EmbeddedCluster, user: User) -> None:
    """So it goes by what groups have by default."""
    given = {"namesrvAddr": guarded.namesrv_addr, "consumerGroup": "g", "subscribe": "orders", "loadBalance": "message"}
    transport = RemotingTransport(ReadOptions.parse(given | user("sharer", READ, JOIN)))
    with closing(transport):
        assert transport.dead_letters.retry_max_times(Target("orders", "broker-a")) == DEFAULT_RETRY_MAX_TIMES


@pytest.mark.full
def test_whether_a_topic_is_in_order_may_be_requested_by_a_client_that_may_read_it(
    guarded: EmbeddedCluster, user: User, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    guarded.create_topic("in-order", 1, attributes={"message.type": "FIFO"})
    given = {"namesrvAddr": guarded.namesrv_addr, "consumerGroup": "g", "subscribe": "in-order"}
    reported: list[list[str]] = []
    for name, actions in (("looker", ("SUB", "GET")), ("puller", ("SUB",))):
        rights = user(name, Right("Topic:in-order", actions), JOIN)
        transport = RemotingTransport(ReadOptions.parse(given | {"loadBalance": "message"} | rights))
        with closing(transport):
            reported.append([error.condition for error in transport.refresh_routes().values()])
    assert reported == [["FIFO_NOT_SUPPORTED"], []]
    skipped = (
        "TOPIC_CHECK_SKIPPED: Cannot check whether topic=in-order is FIFO or has batch consume queues; reading its "
        "messages in any order: "
    )
    assert skipped in caplog.text


@pytest.mark.full
def test_a_right_of_operators(guarded: EmbeddedCluster, user: User) -> None:
    options = ReadOptions.parse(
        {"namesrvAddr": "a:1", "consumerGroup": "g", "subscribe": "orders", **user("no-operator", READ)}
    )
    with closing(ConnectionPool(PATIENT_MS, security=options.security)) as pool, pytest.raises(RocketMQError) as raised:
        Broker(BrokerAddress(guarded.broker_addr()), pool, PATIENT_MS).create_topic("another", 1)
    assert raised.value.condition == "TOPIC_DENIED"


def test_plain_to_a_port_of_tls(guarded: EmbeddedCluster) -> None:
    assert reported(guarded) == (
        f"[ROCKETMQ_TLS_REQUIRED] {guarded.namesrv_addr} requires TLS: it closed a plain connection without a "
        "response, and accepts TLS. Set 'useTLS' to true, and 'tlsTrustCertPath' unless the system trusts its "
        "certificate."
    )


def test_an_untrusted_certificate(guarded: EmbeddedCluster) -> None:
    assert reported(guarded, useTLS="true") == (
        f"[ROCKETMQ_TLS_CERTIFICATE_UNTRUSTED] The certificate of {guarded.namesrv_addr} is not trusted: "
        "self-signed certificate. Set 'tlsTrustCertPath' to a PEM file with this certificate, or with the "
        "certificate that signed it."
    )


@pytest.mark.full
def test_another_name_server_is_called_where_one_is_not_trusted(
    guarded: EmbeddedCluster, strict: EmbeddedCluster
) -> None:
    both = f"{strict.namesrv_addr};{guarded.namesrv_addr}"
    assert snapshot_of(guarded, **guarded.security_options, namesrvAddr=both).is_complete


# ---------------------------------------------------------------------------------------------------- groups, no TLS


@pytest.fixture(scope="module")
def strict() -> Iterator[EmbeddedCluster]:
    """No TLS, and no groups but those that somebody makes."""
    with RestingCluster(broker_config={"autoCreateSubscriptionGroup": "false"}) as cluster:
        cluster.create_topic("orders", 2)
        yield cluster


@pytest.mark.full
def test_tls_to_a_plain_port(strict: EmbeddedCluster) -> None:
    error_text = reported(strict, useTLS="true")
    assert error_text.startswith(
        f"[ROCKETMQ_TLS_NOT_SUPPORTED] {strict.namesrv_addr} does not support TLS: it responds to plain requests. "
        "The handshake failed: "
    )
    assert error_text.endswith(
        "Set 'useTLS' to false, or set the server's 'tls.server.mode' to permissive or enforcing."
    )


@pytest.mark.full
@pytest.mark.parametrize("given", [{}, {"consumeOrderly": "true"}, {"retryTopic": "true"}])
def test_a_group_that_is_not_there(strict: EmbeddedCluster, given: dict[str, str]) -> None:
    assert reported(strict, **given) == (
        f"[ROCKETMQ_GROUP_NOT_FOUND.BROKER] {strict.broker_addr()} rejected PULL_MESSAGE: the consumer group does "
        "not exist, and the broker does not create it. subscription group [g] does not exist, \\nSee "
        "https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details. Create it on every broker of "
        "the topics: 'mqadmin updateSubGroup -g <group> -c <cluster>'."
    )


@pytest.mark.full
def test_a_group_that_another_client_has_created(strict: EmbeddedCluster) -> None:
    strict.mqadmin("updateSubGroup", "-c", "DefaultCluster", "-g", "made")
    assert snapshot_of(strict, consumerGroup="made").is_complete


# ---------------------------------------------------------------------------------------------------- ACL 1.0


FIRST, *BETWEEN, LAST = (version for version in VERSIONS if version < "5.3")
OF_ACL_1 = [FIRST, *(pytest.param(version, marks=pytest.mark.versions) for version in BETWEEN), LAST]


@pytest.mark.full
@pytest.mark.parametrize("version", OF_ACL_1)
def test_acl_1(version: str) -> None:
    with PatientCluster(acl=True, version=version, java_options=SHORT_LIVED) as cluster:
        cluster.create_topic("orders", 2)
        send(cluster.namesrv_addr, "orders", "one", options=cluster.security_options)
        assert snapshot_of(cluster, **cluster.security_options).is_complete
        assert "CREDENTIALS_MISSING" in reported(cluster)
        assert "CREDENTIALS_REJECTED" in reported(cluster, **cluster.security_options | {"secretKey": "guessed"})
        assert "CREDENTIALS_REJECTED" in reported(cluster, **cluster.security_options | {"accessKey": "somebody"})
        keys = options_of(Security(cluster.create_user("reader-of-orders", READ)))
        assert "GROUP_DENIED" in reported(cluster, **keys)
        keys = options_of(Security(cluster.create_user("member-of-g", JOIN)))
        assert "TOPIC_DENIED" in reported(cluster, **keys)
        keys = options_of(Security(cluster.create_user("reader-in-g", READ, JOIN)))
        assert snapshot_of(cluster, **keys).is_complete
