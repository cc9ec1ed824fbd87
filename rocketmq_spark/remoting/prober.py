"""``Prober``: the consumer group with which single messages are probed, see ``message_probes``.

By default this is the group that every broker has for tools. A client that signs requests rarely has permission for it
and probes with the query's group. A broker returns an operator's offset reset to one pull only, which may be such a
probe; the prober then passes the reset on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from rocketmq_spark.model import TOOLS_GROUP, MessageQueue


class Prober(NamedTuple):
    """A group, and the callback for offset resets that its probes receive: queue, and offset to resume from."""

    group: str
    on_reset: Callable[[MessageQueue, int], None]


def ignore_reset(_queue: MessageQueue, _offset: int) -> None:
    """Do nothing: a group without stored offsets has no resets."""


TOOLS_PROBER: Final = Prober(TOOLS_GROUP, ignore_reset)
