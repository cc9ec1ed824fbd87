"""Bodies with groups and their members."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rocketmq_spark.errors import RemoteProtocolError
from rocketmq_spark.wire.body.connections import (
    GroupConnections,
    MemberConnection,
    decode_group_connections,
    decode_group_names,
)
from rocketmq_spark.wire.body.subscription import build_subscription, subscription_fields

MEMBER = {"clientId": "10.0.0.5@77", "clientAddr": "10.0.0.5:4711", "language": "JAVA", "version": 513}
SUBSCRIPTION = build_subscription("orders", "a || b", 1)


def body(**fields: Any) -> bytes:
    of_a_group = {"connectionSet": [MEMBER], "subscriptionTable": {"orders": subscription_fields(SUBSCRIPTION)}}
    return json.dumps(of_a_group | fields).encode()


def test_connections_have_members_and_subscriptions() -> None:
    found = decode_group_connections(body(consumeType="CONSUME_PASSIVELY", messageModel="CLUSTERING"))
    member = MemberConnection("10.0.0.5@77", "10.0.0.5:4711", "JAVA", 513)
    assert found == GroupConnections((member,), "CONSUME_PASSIVELY", "CLUSTERING", {"orders": SUBSCRIPTION})


def test_names_that_a_broker_omits_are_empty() -> None:
    found = decode_group_connections(body(connectionSet=[{"clientId": "me", "version": 0}], consumeType=None))
    assert found == GroupConnections((MemberConnection("me", "", "", 0),), "", "", {"orders": SUBSCRIPTION})


@pytest.mark.parametrize(
    "fields",
    [
        {"connectionSet": None},
        {"connectionSet": [{"clientId": "me"}]},
        {"connectionSet": [{**MEMBER, "language": 0}]},
        {"subscriptionTable": []},
        {"subscriptionTable": {"orders": {"topic": "orders"}}},
        {"consumeType": 1},
    ],
)
def test_other_bodies_are_malformed(fields: dict[str, Any]) -> None:
    with pytest.raises(RemoteProtocolError, match=r"MALFORMED_RESPONSE\.BODY.*consumer connections"):
        decode_group_connections(body(**fields))


def test_group_names_are_the_keys_of_the_table() -> None:
    assert decode_group_names(b'{"subscriptionGroupTable":{"a":{"groupName":"a"},"b":{}}}') == ["a", "b"]
    with pytest.raises(RemoteProtocolError, match=r"MALFORMED_RESPONSE\.BODY.*groups"):
        decode_group_names(b"{}")
