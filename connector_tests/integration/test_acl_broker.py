"""What a broker with ACL 2.0 lets whom do, over TLS and without."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from connector_tests.support.cluster_pool import ClusterPool
from connector_tests.support.streams import Topic
from connector_tests.support.timeouts import PATIENT_MS
from rocketmq_spark import send
from rocketmq_spark.embedded import EmbeddedCluster
from rocketmq_spark.embedded.acl import ADMIN, Right
from rocketmq_spark.errors import BrokerError, RocketMQError
from rocketmq_spark.model import BrokerAddress, MessageFilter, MessageQueue
from rocketmq_spark.options.connection import connection_options
from rocketmq_spark.pull.pull_connections import PullConnections
from rocketmq_spark.pull.pull_request import PullRequest
from rocketmq_spark.remoting.broker import Broker
from rocketmq_spark.remoting.pool import ConnectionPool
from rocketmq_spark.security import Credentials, Secret, Security
from rocketmq_spark.wire.remoting.pull import PullResult, PullStatus
from rocketmq_spark.wire.remoting.pull_frames import pull_frames

pytestmark = pytest.mark.broker

TIMEOUT_MS = PATIENT_MS
QUEUE = MessageQueue("guarded-orders", "broker-a", 0)


@pytest.fixture(scope="module", params=[False, True], ids=["ACL", "ACL+TLS"])
def guarded(request: pytest.FixtureRequest, clusters: ClusterPool) -> Iterator[EmbeddedCluster]:
    with clusters.using(acl=True, tls=request.param) as cluster:
        cluster.create_topic(QUEUE.topic, 1)
        send(cluster.namesrv_addr, QUEUE.topic, ["one", "two"], options=cluster.security_options)
        with closing(Topic(cluster, QUEUE.topic)) as messages:
            messages.await_dispatch()
        yield cluster


CallAs = Callable[[Credentials | None], Broker]


@pytest.fixture
def call_as(guarded: EmbeddedCluster) -> Iterator[CallAs]:
    """The broker as somebody asks it."""
    pools: list[ConnectionPool] = []

    def make(signer: Credentials | None) -> Broker:
        pools.append(ConnectionPool(TIMEOUT_MS, security=Security(signer, guarded.security.tls)))
        return Broker(BrokerAddress(guarded.broker_addr()), pools[-1], TIMEOUT_MS)

    yield make
    for pool in pools:
        pool.close()


def pulled_as(guarded: EmbeddedCluster, signer: Credentials | None) -> PullResult | RocketMQError:
    """What an executor is answered, which pulls over connections of its own."""
    with closing(PullConnections(TIMEOUT_MS, tls=guarded.security.tls)) as pulling:
        one_request = PullRequest(0, 2, 32, deque())
        pulling.get_or_open(BrokerAddress(guarded.broker_addr())).pull(
            [one_request], pull_frames("g", QUEUE, "*", signer)
        )
        ((_, outcome, _),) = pulling.receive(TIMEOUT_MS)
        return outcome


def test_a_client_that_signs_may_do_what_is_allowed(guarded: EmbeddedCluster, call_as: CallAs) -> None:
    reader = guarded.create_user("reader", Right("Topic:guarded-orders", ("SUB",)), Right("Group:g", ("SUB",)))
    broker = call_as(reader)
    assert broker.pull("g", QUEUE, 0, 1).status is PullStatus.FOUND
    outcome = pulled_as(guarded, reader)
    assert isinstance(outcome, PullResult)
    assert b"one" in bytes(outcome.body)
    broker.submit_filter_check("g", QUEUE.topic, MessageFilter("price > 5", "SQL92")).result()
    with pytest.raises(BrokerError):
        broker.pull("another", QUEUE, 0, 1)
    with pytest.raises(BrokerError):
        broker.query_topic_stats("guarded-orders")


def test_a_client_that_does_not_sign_is_refused(guarded: EmbeddedCluster, call_as: CallAs) -> None:
    with pytest.raises(BrokerError):
        call_as(None).pull("g", QUEUE, 0, 1)
    assert isinstance(pulled_as(guarded, None), BrokerError)


def test_a_client_that_signs_with_another_key_is_refused(guarded: EmbeddedCluster, call_as: CallAs) -> None:
    forged = Credentials(ADMIN, Secret("guessed"))
    with pytest.raises(BrokerError):
        call_as(forged).pull("g", QUEUE, 0, 1)
    assert isinstance(pulled_as(guarded, forged), BrokerError)


def test_a_token_is_signed_too(guarded: EmbeddedCluster, call_as: CallAs) -> None:
    given = {"namesrvAddr": guarded.namesrv_addr, **guarded.security_options, "securityToken": "from a token service"}
    with_token = connection_options(given).security.credentials
    assert with_token is not None
    assert call_as(with_token).query_topic_stats("guarded-orders")
    assert isinstance(pulled_as(guarded, with_token), PullResult)


def test_operators_tools_are_let_in(guarded: EmbeddedCluster) -> None:
    assert "guarded-orders" in guarded.mqadmin("topicList")
