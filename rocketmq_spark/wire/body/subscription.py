"""Subscriptions as members register them with brokers, which filter by tags' ``String.hashCode`` of Java, or by SQL92
expressions over properties."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from rocketmq_spark.errors import LocalProtocolError
from rocketmq_spark.model import SUB_ALL, TAG, MessageFilter, java_string_order
from rocketmq_spark.wire.remoting.fastjson import write_fastjson
from rocketmq_spark.wire.remoting.typed import Object, array, as_int64, int64, text, texts


def java_hash_code(text: str) -> int:
    """Return Java's hash of ``text``: signed, 32 bits, over its UTF-16 code units. Source:
    ``java/lang/String.java#hashCode``."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for (unit,) in struct.iter_unpack(">H", units):
        value = (31 * value + unit) & 0xFFFFFFFF
    return value - (1 << 32) if value & 0x80000000 else value


_JAVA_BLANKS: Final = "".join(map(chr, range(0x21)))


@dataclass(frozen=True, slots=True)
class SubscriptionData:
    """Subscription to one topic. Source: ``remoting/protocol/heartbeat/SubscriptionData.java``.

    A broker filters by ``code_set``, hashes of tags; the puller must filter again by ``tags_set``, since tags may share
    a hash. Both empty: all messages, or, with another ``expression_type`` than TAG, those that ``sub_string`` selects.
    ``version_ms``: a broker replaces a subscription only by a newer one.
    """

    topic: str
    sub_string: str
    tags_set: frozenset[str]
    code_set: frozenset[int]
    version_ms: int
    expression_type: str = TAG


def build_subscription(topic: str, expression: str, version_ms: int, expression_type: str = TAG) -> SubscriptionData:
    """Return a subscription. Type TAG selects by the tags of ``TagA || TagB``, or all messages for ``*`` or a blank
    expression, which is sent as ``*``. Another type selects by ``expression``, unchecked: only the broker can check
    SQL92.

    Raises LocalProtocolError[INVALID_MESSAGE] for an expression of type TAG that has only separators.

    Source: ``remoting/protocol/filter/FilterAPI.java#build`` -- differs: Java accepts ``" * "`` and ``" || "`` as
    subscriptions that match no message.
    """
    if expression_type != TAG:
        return SubscriptionData(topic, expression, frozenset(), frozenset(), version_ms, expression_type)
    tags = exact_tags(expression)
    if tags is None:
        return SubscriptionData(topic, SUB_ALL, frozenset(), frozenset(), version_ms)
    return SubscriptionData(topic, expression, tags, frozenset(map(java_hash_code, tags)), version_ms)


def tags_of(message_filter: MessageFilter) -> frozenset[str] | None:
    """Return the tags of which a message must have one. None: the filter is by SQL92, or it is by tags and matches all
    messages. Raises the errors of ``exact_tags``."""
    return None if message_filter.is_sql else exact_tags(message_filter.expression)


def exact_tags(expression: str) -> frozenset[str] | None:
    """Return the tags in ``expression``, ``TagA || TagB``, of which a message must have one, without blanks around them
    and without empty ones. None, for ``*`` or a blank expression: all messages. Raises
    LocalProtocolError[INVALID_MESSAGE] if it has only separators."""
    if expression.strip(_JAVA_BLANKS) in ("", SUB_ALL):
        return None
    tags = frozenset(tag.strip(_JAVA_BLANKS) for tag in expression.split("||")) - {""}
    if not tags:
        raise LocalProtocolError("INVALID_MESSAGE", problem=f"the subscription {expression!r} names no tag")
    return tags


def subscription_fields(subscription: SubscriptionData) -> dict[str, object]:
    """Return the subscription as an object of a request's body, its sets as sorted lists."""
    return {
        "classFilterMode": False,
        "codeSet": sorted(subscription.code_set),
        "expressionType": subscription.expression_type,
        "subString": subscription.sub_string,
        "subVersion": subscription.version_ms,
        "tagsSet": sorted(subscription.tags_set, key=java_string_order),
        "topic": subscription.topic,
    }


def encode_filter_check(group: str, subscription: SubscriptionData) -> bytes:
    """Return the body of CHECK_CLIENT_CONFIG, by which a broker checks a SQL92 filter. Raises
    LocalProtocolError[INVALID_MESSAGE]. Source: ``remoting/protocol/body/CheckClientRequestBody.java``."""
    return write_fastjson({"group": group, "subscriptionData": subscription_fields(subscription)})


def read_subscription(entry: Object) -> SubscriptionData:
    """Return the subscription that an object of a body describes. Raises ValueError for a missing or wrongly typed
    field."""
    return SubscriptionData(
        topic=text(entry, "topic"),
        sub_string=text(entry, "subString"),
        tags_set=frozenset(texts(entry, "tagsSet")),
        code_set=frozenset(as_int64(code, "codeSet") for code in array(entry, "codeSet")),
        version_ms=int64(entry, "subVersion"),
        expression_type=text(entry, "expressionType"),
    )
