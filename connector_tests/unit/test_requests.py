"""What a proxy is asked, whole: what one field too few would say, no answer shows."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from rocketmq_spark._version import __version__
from rocketmq_spark.security import Credentials, Secret
from rocketmq_spark.wire.grpc import messaging_pb2 as pb
from rocketmq_spark.wire.grpc.requests import Identity, Subscription, route

GROUP = Subscription("g", ("T", "U"), "TagA || TagB")
FILTER = pb.FilterExpression(type=pb.FilterType.TAG, expression="TagA || TagB")


def named(name: str) -> pb.Resource:
    return pb.Resource(name=name)


def test_settings_identify_the_client_and_its_request() -> None:
    expected = pb.Settings(
        client_type=pb.ClientType.SIMPLE_CONSUMER,
        subscription=pb.Subscription(
            group=named("g"),
            subscriptions=[pb.SubscriptionEntry(topic=named(topic), expression=FILTER) for topic in ("T", "U")],
        ),
        user_agent=pb.UA(language=pb.Language.PYTHON, version=__version__, hostname="here"),
    )
    expected.request_timeout.FromMilliseconds(2_500)
    assert GROUP.settings("here", 2_500) == pb.TelemetryCommand(settings=expected)


def test_a_heartbeat_and_a_goodbye_name_the_group() -> None:
    assert GROUP.heartbeat() == pb.HeartbeatRequest(group=named("g"), client_type=pb.ClientType.SIMPLE_CONSUMER)
    assert GROUP.termination() == pb.NotifyClientTerminationRequest(group=named("g"))


def test_a_receive_names_one_broker_and_none_of_its_queues() -> None:
    expected = pb.ReceiveMessageRequest(
        group=named("g"),
        message_queue=pb.MessageQueue(topic=named("T"), id=-1, broker=pb.Broker(name="broker-a")),
        filter_expression=FILTER,
        batch_size=32,
    )
    expected.invisible_duration.FromMilliseconds(60_000)
    expected.long_polling_timeout.FromMilliseconds(1_500)
    assert GROUP.receive("T", "broker-a", max_messages=32, invisible_ms=60_000, poll_ms=1_500) == expected


@pytest.mark.parametrize(
    ("host", "scheme"),
    [
        ("10.0.0.1", pb.AddressScheme.IPv4),
        ("::1", pb.AddressScheme.IPv6),
        ("proxy.example.com", pb.AddressScheme.DOMAIN_NAME),
    ],
)
def test_a_route_is_requested_with_the_configured_addresses(host: str, scheme: pb.AddressScheme) -> None:
    addresses = [pb.Address(host=host, port=8081), pb.Address(host="other", port=8082)]
    endpoints = pb.Endpoints(scheme=scheme, addresses=addresses)
    expected = pb.QueryRouteRequest(topic=named("T"), endpoints=endpoints)
    assert route("T", [(host, 8081), ("other", 8082)]) == expected


NOON_S = 1_795_435_200.75
OPENSSLS = "DE4CB00537A35EDE539A6D276B202696D8838069"
"""``printf 20261123T120000Z | openssl dgst -sha1 -hmac 'a secret'``"""
OWN = (
    ("x-mq-client-id", "me@1"),
    ("x-mq-language", "PYTHON"),
    ("x-mq-client-version", __version__),
    ("x-mq-protocol", "v2"),
)


@pytest.fixture(autouse=True)
def own_zone() -> Iterator[None]:
    """As it was, once the environment is what it was."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("TZ", raising=False)
        yield
    time.tzset()


def test_without_keys_a_call_names_its_caller() -> None:
    assert Identity("me@1", None).metadata(NOON_S) == OWN


@pytest.mark.parametrize("zone", ["UTC", "Asia/Shanghai"])
def test_with_keys_it_signs_the_time_whatever_the_zone(zone: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    keys = Credentials("ak", Secret("a secret"))
    assert Identity("me@1", keys).metadata(NOON_S) == (
        *OWN,
        ("x-mq-date-time", "20261123T120000Z"),
        ("authorization", f"MQv2-HMAC-SHA1 Credential=ak, SignedHeaders=x-mq-date-time, Signature={OPENSSLS}"),
    )


def test_a_token_goes_with_the_keys() -> None:
    keys = Credentials("ak", Secret("a secret"), Secret("a token"))
    assert Identity("me@1", keys).metadata(NOON_S)[-1] == ("x-mq-session-token", "a token")
