"""``Prober``: the consumer group with which single messages are probed, see ``message_probes``.

By default this is the group that every broker has for tools. A client that signs requests rarely has permission for it
and probes with the query's group. A broker returns an operator's offset reset to one pull only, which may be such a
probe; the prober then passes the reset on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

from rocketmq_spark.model import TOOLS_GROUP, MessageQueue
from rocketmq_spark.options import RangeReadOptions

OnReset: TypeAlias = Callable[[MessageQueue, int], None]
"""Callback for an offset reset that a probe received: queue, and offset to resume from."""


class Prober(NamedTuple):
    """A group, and the callback for offset resets that its probes receive."""

    group: str
    on_reset: OnReset


def ignore_reset(_queue: MessageQueue, _offset: int) -> None:
    """Do nothing. For a group without stored offsets, which has no resets."""


TOOLS_PROBER: Final = Prober(TOOLS_GROUP, ignore_reset)


def prober_of(options: RangeReadOptions, on_reset: OnReset = ignore_reset) -> Prober:
    """Return ``TOOLS_PROBER`` for options without credentials; with them the prober of the query's group, which calls
    ``on_reset`` with operators' resets that its probes consume."""
    return TOOLS_PROBER if options.security.credentials is None else Prober(options.consumer_group, on_reset)
