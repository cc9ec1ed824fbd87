"""For whom single messages are looked at, see ``message_probes``.

By default for the group that every broker has for tools. Who has to sign is seldom allowed to use it, and looks for the
query's own group: then a look may be the one pull that is told of an operator's reset, and hands that on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from rocketmq_spark.model import MessageQueue

TOOLS_GROUP: Final = "TOOLS_CONSUMER"
"""Every broker has it for tools that look at messages; it owns no queues and keeps no offsets."""


class Prober(NamedTuple):
    """A group, and who hears of the resets that its looks are told: queue, and offset to read on from."""

    group: str
    on_reset: Callable[[MessageQueue, int], None]


def ignore_reset(_queue: MessageQueue, _offset: int) -> None:
    """Of a group without offsets nobody resets any."""


TOOLS_PROBER: Final = Prober(TOOLS_GROUP, ignore_reset)
