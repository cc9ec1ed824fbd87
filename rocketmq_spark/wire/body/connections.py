"""Groups of a broker, and the members that are connected to it.

Source: ``remoting/protocol/body/ConsumerConnection.java``, ``SubscriptionGroupWrapper.java``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from rocketmq_spark.wire.body.decoding import decode_body
from rocketmq_spark.wire.body.subscription import SubscriptionData, read_subscription
from rocketmq_spark.wire.remoting.typed import Object, as_object, as_text, int64, objects, table, text


class MemberConnection(NamedTuple):
    """Connection of one member. ``address``: its ``ip:port``, as the broker sees it. ``language``: a name of
    ``LanguageCode``. ``version``: number of ``common/MQVersion.java``."""

    client_id: str
    address: str
    language: str
    version: int


@dataclass(frozen=True, slots=True)
class GroupConnections:
    """Members of a group at one broker. ``consume_type``, ``message_model``: names such as ``CONSUME_PASSIVELY``,
    ``CLUSTERING``; empty if the broker sends none. ``subscriptions``: by topic, of the entire group."""

    members: tuple[MemberConnection, ...] = ()
    consume_type: str = ""
    message_model: str = ""
    subscriptions: Mapping[str, SubscriptionData] = field(default_factory=dict)


def decode_group_connections(body: bytes | memoryview) -> GroupConnections:
    """Decode the response to GET_CONSUMER_CONNECTION_LIST, members in the broker's order. Raises
    RemoteProtocolError[MALFORMED_RESPONSE.BODY]."""
    return decode_body("consumer connections", body, _connections)


def decode_group_names(body: bytes | memoryview) -> list[str]:
    """Decode the response to GET_ALL_SUBSCRIPTIONGROUP_CONFIG: names of all groups of a broker, in its order. Raises
    RemoteProtocolError[MALFORMED_RESPONSE.BODY]."""
    return decode_body(
        "groups", body, lambda groups: [as_text(name, "a group") for name in table(groups, "subscriptionGroupTable")]
    )


def _connections(entry: Object) -> GroupConnections:
    """Return the members of a group that a body describes; a missing consume type or message model is empty. Raises
    ValueError for another missing or wrongly typed field."""
    subscriptions = table(entry, "subscriptionTable").items()
    return GroupConnections(
        members=tuple(map(_member, objects(entry, "connectionSet"))),
        consume_type=_text_or_empty(entry, "consumeType"),
        message_model=_text_or_empty(entry, "messageModel"),
        subscriptions={
            as_text(topic, "a topic"): read_subscription(as_object(value, "subscriptionTable"))
            for topic, value in subscriptions
        },
    )


def _member(entry: Object) -> MemberConnection:
    """Return one member; a missing address or language is empty. Raises ValueError if the client ID or version is
    missing, or if any field has a wrong type."""
    return MemberConnection(
        client_id=text(entry, "clientId"),
        address=_text_or_empty(entry, "clientAddr"),
        language=_text_or_empty(entry, "language"),
        version=int64(entry, "version"),
    )


def _text_or_empty(entry: Object, name: str) -> str:
    """Return the string in field ``name``, "" if it is missing or null. Raises ValueError for another type."""
    return "" if entry.get(name) is None else text(entry, name)
