"""How a member consumes, beside what: where members of one group differ in it, they harm each other in silence.

A member tells it among the properties of its running info. Those of Java's push consumers are told by all of them
(``MixAll#object2Properties``): the message model, and the strategy as its class and an address,
``org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely@1b2c6ec2``. What is not told is not
compared.

A query also tells which checkpoint it goes on from. A sink that skips batches that it has, as Delta's, takes the
batches of a copy for those of the original.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from rocketmq_spark.consumer import allocation
from rocketmq_spark.options import BROADCASTING, ReadOptions
from rocketmq_spark.wire.body.running_info import PROP_CHECKPOINT, PROP_CONSUME_ORDERLY

MESSAGE_MODEL: Final = "messageModel"
STRATEGY: Final = "allocateMessageQueueStrategy"

OPTIONS: Final = {MESSAGE_MODEL: "messageModel", PROP_CONSUME_ORDERLY: "consumeOrderly", STRATEGY: "allocateStrategy"}
"""What is compared, by property, and the option that decides it here."""

KNOWN_STRATEGIES: Final = frozenset(
    {
        allocation.AllocateMessageQueueAveragely.__name__,
        allocation.AllocateMessageQueueAveragelyByCircle.__name__,
        allocation.AllocateMessageQueueConsistentHash.__name__,
        allocation.AllocateMessageQueueByConfig.__name__,
        allocation.AllocateMessageQueueByMachineRoom.__name__,
        allocation.AllocateMachineRoomNearby.__name__,
        allocation.AllocateAveragelyOverAllTopics.__name__,
    }
)
"""By the names of their classes, which are Java's. Of others nobody knows whether they divide alike."""


def told_manner(options: ReadOptions, strategy: object, checkpoint_id: str | None = None) -> dict[str, str]:
    """The properties of our own. In BROADCASTING members share nothing: a copy of a checkpoint is another reader."""
    told = {
        MESSAGE_MODEL: options.message_model,
        PROP_CONSUME_ORDERLY: "true" if options.consume_orderly else "false",
    }
    if options.message_model == BROADCASTING:
        return told
    return told | {STRATEGY: type(strategy).__name__} | ({PROP_CHECKPOINT: checkpoint_id} if checkpoint_id else {})


def manner_of(properties: Mapping[str, str]) -> dict[str, str]:
    """What can be compared of a member, by the options' names."""
    told = {option: properties[name] for name, option in OPTIONS.items() if name in properties}
    strategy = told.pop(OPTIONS[STRATEGY], "").partition("@")[0].rpartition(".")[2]
    is_comparable = strategy in KNOWN_STRATEGIES and told.get(OPTIONS[MESSAGE_MODEL]) != BROADCASTING
    return told | ({OPTIONS[STRATEGY]: strategy} if is_comparable else {})


def differences(ours: Mapping[str, str], theirs: Mapping[str, str]) -> list[str]:
    """Options in which two members differ that have both told them."""
    return [option for option, value in ours.items() if theirs.get(option, value) != value]
