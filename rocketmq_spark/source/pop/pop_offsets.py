"""Streaming offset of message-based reads: the identity of a batch, and the handles of its messages.

    {"v": 1, "loadBalance": "message", "consumerGroup": "orders-app", "epoch": "6f0c...", "n": 7,
     "handles": {"orders 120 1763712000000 300000 3 0 broker-a 1": "0-31,35"}}

``epoch`` identifies the start of the query that holds the batch's messages; ``n`` counts its batches. A later start has
only the handles: it acknowledges the messages if the batch is completed, and releases them otherwise. The JSON is
canonical, as in ``stream.offsets``, because Spark compares text.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Final

from rocketmq_spark.errors import OptionError
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.options.receive import BY_MESSAGE, BY_QUEUE
from rocketmq_spark.pop.receipt_handles import (
    BrokerHandle,
    ReceiptHandle,
    handles_from_json,
    handles_to_json,
    is_unverified,
)
from rocketmq_spark.source.stream.shown_progress import without_progress

VERSION: Final = 1
_EPOCH: Final = re.compile("[0-9a-f]*")
KIND: Final = {"v": VERSION, "loadBalance": BY_MESSAGE}


@dataclass(frozen=True, slots=True)
class PopOffset:
    """The end offset of a batch: which start of the query received it, its number, and its receipt handles.

    The initial offset has number 0 and no handles.
    """

    consumer_group: str
    epoch: str = ""
    number: int = 0
    handles: tuple[ReceiptHandle, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the value that Spark writes with ``json.dumps``; equal offsets give equal text."""
        own = {"consumerGroup": self.consumer_group, "epoch": self.epoch, "n": self.number}
        return KIND | own | {"handles": handles_to_json(self.handles)}

    @classmethod
    def from_json(cls, value: Any, options: ReadOptions) -> PopOffset:
        """Drop the fields that only the query progress has, and parse the rest, a dict of ``to_json``.

        Raises OptionError[CHECKPOINT_OPTION_CHANGED] for an offset of queue-based reads, of another group, or with
        handles that only a proxy can read while ``endpoints`` is not set. Raises OptionError[INCOMPATIBLE_CHECKPOINT]
        for any other value that ``to_json`` does not return, such as another version or spelling.
        """
        value = without_progress(value)
        try:
            if "queues" in value:
                raise _option_changed("loadBalance", BY_QUEUE, options.load_balance)
            handles = tuple(handles_from_json(value["handles"]))
            offset = cls(value["consumerGroup"], value["epoch"], value["n"], handles)
            if type(offset.number) is not int or not _EPOCH.fullmatch(offset.epoch):
                raise TypeError(f"epoch {offset.epoch!r}, n {offset.number!r}")
            if offset.handles and not offset.epoch:
                raise ValueError("a batch without 'epoch'")
            if json.dumps(offset.to_json(), sort_keys=True) != json.dumps(value, sort_keys=True):
                raise ValueError("another version or spelling")
        except (KeyError, TypeError, ValueError, AttributeError) as problem:
            if isinstance(problem, OptionError):
                raise
            raise OptionError("INCOMPATIBLE_CHECKPOINT", problem=f"{problem} in {str(value)[:200]}") from None
        if offset.consumer_group != options.consumer_group:
            raise _option_changed("consumerGroup", offset.consumer_group, options.consumer_group)
        if options.endpoints is None and not all(map(_is_independent_of_proxy, offset.handles)):
            raise _option_changed("endpoints", "(set)", "(not set)")
        return offset


def _is_independent_of_proxy(handle: ReceiptHandle) -> bool:
    """Return whether brokers read the handle, or no request uses it: its message is redelivered either way."""
    return isinstance(handle, BrokerHandle) or is_unverified(handle)


def _option_changed(option: str, before: str, now: str) -> OptionError:
    return OptionError("CHECKPOINT_OPTION_CHANGED", option=option, before=before, now=now)
