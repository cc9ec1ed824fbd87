"""Subscriptions as members register them with brokers, which filter tags by Java's ``String.hashCode``."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from rocketmq_spark.errors import LocalProtocolError
from rocketmq_spark.model import java_string_order
from rocketmq_spark.wire.remoting.typed import Object, array, as_int64, int64, text, texts


def java_hash_code(text: str) -> int:
    """Return Java's hash of ``text``: signed, 32 bits, over its UTF-16 code units. Source:
    ``java/lang/String.java#hashCode``."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for (unit,) in struct.iter_unpack(">H", units):
        value = (31 * value + unit) & 0xFFFFFFFF
    return value - (1 << 32) if value & 0x80000000 else value


SUB_ALL: Final = "*"
TAG: Final = "TAG"
_JAVA_BLANKS: Final = "".join(map(chr, range(0x21)))


@dataclass(frozen=True, slots=True)
class SubscriptionData:
    """Subscription to one topic. Source: ``remoting/protocol/heartbeat/SubscriptionData.java``.

    A broker filters by ``code_set``, hashes that tags may share; the puller must filter again by ``tags_set``. Both
    empty: all messages. ``version_ms``: a broker replaces a subscription only by a newer one.
    """

    topic: str
    sub_string: str
    tags_set: frozenset[str]
    code_set: frozenset[int]
    version_ms: int
    expression_type: str = TAG


def build_subscription(topic: str, expression: str, version_ms: int) -> SubscriptionData:
    """Build a subscription by tags, ``TagA || TagB``, or by ``*`` or a blank expression for all messages.

    Raises LocalProtocolError[INVALID_MESSAGE] for an expression without any tag. Source:
    ``remoting/protocol/filter/FilterAPI.java#buildSubscriptionData`` -- differs: Java accepts ``" * "`` and ``" || "``
    as subscriptions that match no message.
    """
    tags = exact_tags(expression)
    if tags is None:
        return SubscriptionData(topic, SUB_ALL, frozenset(), frozenset(), version_ms)
    return SubscriptionData(topic, expression, tags, frozenset(map(java_hash_code, tags)), version_ms)


def exact_tags(expression: str) -> frozenset[str] | None:
    """Parse the tags in ``expression``, of which a message must have one; None, for ``*`` or blanks: all messages.
    Raises LocalProtocolError[INVALID_MESSAGE] if the expression has no tag."""
    if expression.strip(_JAVA_BLANKS) in ("", SUB_ALL):
        return None
    tags = frozenset(tag.strip(_JAVA_BLANKS) for tag in expression.split("||")) - {""}
    if not tags:
        raise LocalProtocolError("INVALID_MESSAGE", problem=f"the subscription {expression!r} names no tag")
    return tags


def subscription_fields(subscription: SubscriptionData) -> dict[str, object]:
    """Return the subscription as an object of a body."""
    return {
        "classFilterMode": False,
        "codeSet": sorted(subscription.code_set),
        "expressionType": subscription.expression_type,
        "subString": subscription.sub_string,
        "subVersion": subscription.version_ms,
        "tagsSet": sorted(subscription.tags_set, key=java_string_order),
        "topic": subscription.topic,
    }


def read_subscription(entry: Object) -> SubscriptionData:
    """Build the subscription from an object written by ``subscription_fields`` or a Java client. Raises ValueError for
    a missing or wrongly typed field."""
    return SubscriptionData(
        topic=text(entry, "topic"),
        sub_string=text(entry, "subString"),
        tags_set=frozenset(texts(entry, "tagsSet")),
        code_set=frozenset(as_int64(code, "codeSet") for code in array(entry, "codeSet")),
        version_ms=int64(entry, "subVersion"),
        expression_type=text(entry, "expressionType"),
    )
