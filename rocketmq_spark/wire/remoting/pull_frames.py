"""The pulls of one queue: their frames differ in three numbers, so everything else is encoded once."""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import Final

from rocketmq_spark.model import MessageQueue
from rocketmq_spark.wire.remoting.codes import PullSysFlag, RequestCode
from rocketmq_spark.wire.remoting.command import RemotingCommand, encode
from rocketmq_spark.wire.remoting.headers import PullMessageRequest

FRAME_START_BYTES: Final = 8
PLACE: Final = 1_000_000_007
"""Stands for a number in the frame that the others are made from."""

_START: Final = struct.Struct(">II")


def pull_header(
    group: str, queue: MessageQueue, offset: int, max_messages: int, expression: str, suspend_ms: int = 0
) -> PullMessageRequest:
    """A pull that brings its subscription along, so that the broker needs no heartbeat of this group to serve it."""
    return PullMessageRequest(
        consumer_group=group,
        topic=queue.topic,
        queue_id=queue.queue_id,
        queue_offset=offset,
        max_message_count=max_messages,
        sys_flag=PullSysFlag.SUBSCRIPTION | (PullSysFlag.SUSPEND if suspend_ms > 0 else 0),
        suspend_timeout_ms=suspend_ms,
        subscription=expression,
    )


class PullFrames:
    """Frames of pulls that are not suspended."""

    def __init__(self, group: str, queue: MessageQueue, expression: str) -> None:
        header = pull_header(group, queue, PLACE, PLACE, expression)
        sample = encode(RemotingCommand(RequestCode.PULL_MESSAGE, opaque=PLACE, fields=header.to_fields()))
        text = sample[FRAME_START_BYTES:].decode().replace("%", "%%")
        # No text of a user holds a quotation mark that is not escaped, so these are the fields themselves.
        for name, mark in (("opaque", "{}"), ("queueOffset", '"{}"'), ("maxMsgNums", '"{}"')):
            text = text.replace(f'"{name}":{mark.format(PLACE)}', f'"{name}":{mark.format("%d")}')
        self._header = text.encode()

    def frame(self, opaque: int, offset: int, max_messages: int) -> bytes:
        """The whole frame, its length included."""
        header = self._header % (opaque, offset, max_messages)
        return _START.pack(len(header) + 4, len(header)) + header


@lru_cache(maxsize=4096)
def pull_frames(group: str, queue: MessageQueue, expression: str) -> PullFrames:
    """The frames of a queue's pulls. Raises LocalProtocolError[UNSENDABLE]."""
    return PullFrames(group, queue, expression)
