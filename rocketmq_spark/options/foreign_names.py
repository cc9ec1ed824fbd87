"""Option names of Spark's Kafka connector and of the former rocketmq-spark connector, and their replacements. Pure.

After Spark's guide to its Kafka connector; ``RocketMQConf.scala`` and ``RocketMQConfig.java`` of rocketmq-externals.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

_NO_END: Final = (
    "A stream has no end position. Use spark.read, or trigger(availableNow=True) to read up to the current end."
)

HINTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "path": "Set the topics with option 'subscribe' (reader) or 'topic' (writer), not in load() or save().",
        "endingoffsets": _NO_END,
        "endingtimestamp": _NO_END,
        "endingoffsetsbytimestamp": _NO_END,
    }
)
"""By name in lower case: hints for names without a replacement. Ends of reading have one in streaming reads only."""

STARTING_OFFSETS: Final = "startingoffsets"
"""Option, in lower case, of reads of messages. Batch reads have ends too, so these are unknown to streams only."""

REPLACED_BY: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "kafka.bootstrap.servers": ("namesrvAddr",),
        "bootstrap.servers": ("namesrvAddr",),
        "nameserver.addr": ("namesrvAddr",),
        "nameserver.address": ("namesrvAddr",),
        "nameserveraddress": ("namesrvAddr",),
        "kafka.group.id": ("consumerGroup",),
        "group.id": ("consumerGroup",),
        "groupidprefix": ("consumerGroup",),
        "group": ("consumerGroup", "producerGroup"),
        "consumer.group": ("consumerGroup",),
        "consumer.topic": ("subscribe",),
        "consumer.tag": ("subExpression",),
        "tags": ("subExpression",),
        "consumer.offset.reset.to": ("startingOffsets",),
        "kafka.auto.offset.reset": ("startingOffsets",),
        "consumer.messages.orderly": ("consumeOrderly",),
        "consumer.offset.persist.interval": ("persistOffsetIntervalMs",),
        "client.name": ("instanceName",),
        "nameserver.poll.interval": ("rebalanceIntervalMs",),
        "kafkaconsumer.polltimeoutms": ("brokerTimeoutMs",),
        "kafka.request.timeout.ms": ("brokerTimeoutMs",),
        "pulltimeout": ("brokerTimeoutMs",),
        "pulltimeoutms": ("brokerTimeoutMs",),
        "pull.timeout.ms": ("brokerTimeoutMs",),
        "fetchoffset.numretries": ("clusterTimeoutMs",),
        "fetchoffset.retryintervalms": ("clusterTimeoutMs",),
        "pullbatchsize": ("maxOffsetsPerTrigger",),
        "pull.max.batch.size": ("maxOffsetsPerTrigger",),
        "pull.max.speed.per.partition": ("maxOffsetsPerTrigger",),
        "includeheaders": ("includeProperties",),
        "kafka.max.request.size": ("maxMessageBytes",),
        "kafka.compression.type": ("compression",),
        "kafka.security.protocol": ("useTLS",),
    }
)
"""By name in lower case: the options that replace it."""

BY_PREFIX: Final = (
    ("kafka.ssl.", ("useTLS", "tlsTrustCertPath")),
    ("kafka.sasl.", ("accessKey", "secretKey")),
)


def hint_for(name: str, known: Mapping[str, str], elsewhere: Mapping[str, str]) -> str | None:
    """Return the hint for the name, in any case, of an option that the call does not have, or None without a hint.

    A name in ``HINTS`` has its fixed hint. The name of an end position has it only if the call has
    ``STARTING_OFFSETS``. An option of another connector has the hint to use all of its replacements that the call has.
    If the call has none of them, the hint is the first replacement and the calls that have it. Any other name that
    begins with "kafka." has the hint that Kafka's settings do not apply.

    ``known``: options of the call, by name in lower case. ``elsewhere``: for all options, by name in lower case, the
    calls that have them, as text.
    """
    lower = name.lower()
    if lower in HINTS and (HINTS[lower] is not _NO_END or STARTING_OFFSETS in known):
        return HINTS[lower]
    replacements = REPLACED_BY.get(lower) or next(
        (found for prefix, found in BY_PREFIX if lower.startswith(prefix)), ()
    )
    here = [repr(one) for one in replacements if one.lower() in known]
    if here:
        return f"Use {' and '.join(here)}."
    if replacements:
        return f"{replacements[0]!r} replaces it, and is an option of {elsewhere[replacements[0].lower()]}."
    return "Kafka client settings do not apply to RocketMQ." if lower.startswith("kafka.") else None
