"""Who makes a call, and how that is proven."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from rocketmq_spark._version import __version__
from rocketmq_spark.security import Credentials, Secret
from rocketmq_spark.wire.grpc.identity import Identity

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


def test_without_keys_a_call_says_who_makes_it() -> None:
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
