"""Frames of pulls of one queue. They differ in opaque, offset, maximum number of messages, and a signature if there is
one; the rest is encoded once."""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import Final

from rocketmq_spark.model import TAG, MessageQueue
from rocketmq_spark.security import Credentials
from rocketmq_spark.wire.remoting.codes import PullSysFlag, RequestCode
from rocketmq_spark.wire.remoting.command import RemotingCommand, encode
from rocketmq_spark.wire.remoting.headers import PullMessageRequest
from rocketmq_spark.wire.remoting.signature import SIGNATURE, SignatureTemplate, identity

FRAME_START_BYTES: Final = 8
PLACE: Final = 1_000_000_007
"""Placeholder for a number in the frame from which the template is made."""
PLACE_OF_TEXT: Final = str(PLACE)

OFFSET: Final = "queueOffset"
MAX_MESSAGES: Final = "maxMsgNums"

_START: Final = struct.Struct(">II")


def pull_header(
    group: str,
    queue: MessageQueue,
    offset: int,
    max_messages: int,
    expression: str,
    suspend_ms: int = 0,
    expression_type: str = TAG,
) -> PullMessageRequest:
    """Return the header of a pull with its subscription, so that the broker needs no heartbeat of the group. While
    there are no messages, the broker holds the pull up to ``suspend_ms``, if this is > 0. Proxies forward it to the
    queue's broker."""
    return PullMessageRequest(
        consumer_group=group,
        topic=queue.topic,
        queue_id=queue.queue_id,
        queue_offset=offset,
        max_message_count=max_messages,
        sys_flag=PullSysFlag.SUBSCRIPTION | (PullSysFlag.SUSPEND if suspend_ms > 0 else 0),
        suspend_timeout_ms=suspend_ms,
        subscription=expression,
        expression_type=None if expression_type == TAG else expression_type,
        broker_name=queue.broker_name or None,
    )


class PullFrames:
    """Maker of the frames of unsigned pulls of one queue. They are not suspended: the broker responds at once."""

    def __init__(self, group: str, queue: MessageQueue, expression: str, expression_type: str = TAG) -> None:
        self._header = _header_with_places(_fields(group, queue, expression, expression_type))

    def frame(self, opaque: int, offset: int, max_messages: int) -> bytes:
        """Return the JSON frame, length included, of a pull numbered ``opaque`` at ``offset``, for at most
        ``max_messages``."""
        header = self._header % (opaque, offset, max_messages)
        return _START.pack(len(header) + 4, len(header)) + header


class SignedPullFrames(PullFrames):
    """Maker of the frames of signed pulls of one queue. They are not suspended: the broker responds at once."""

    def __init__(
        self, group: str, queue: MessageQueue, expression: str, credentials: Credentials, expression_type: str = TAG
    ) -> None:
        fields = _fields(group, queue, expression, expression_type) | identity(credentials)
        self._signature = SignatureTemplate(fields, (MAX_MESSAGES, OFFSET), credentials.secret_key)
        self._header = _header_with_places(fields | {SIGNATURE: PLACE_OF_TEXT})

    def frame(self, opaque: int, offset: int, max_messages: int) -> bytes:
        """Return the JSON frame, signed, length included, of a pull numbered ``opaque`` at ``offset``, for at most
        ``max_messages``."""
        signature = self._signature.sign(max_messages, offset)
        header = self._header % (opaque, offset, max_messages, signature)
        return _START.pack(len(header) + 4, len(header)) + header


def _fields(group: str, queue: MessageQueue, expression: str, expression_type: str) -> dict[str, str]:
    """Return the extFields of a pull that is not suspended, with PLACE as offset and as maximum number of messages."""
    return pull_header(group, queue, PLACE, PLACE, expression, expression_type=expression_type).to_fields()


def _header_with_places(fields: dict[str, str]) -> bytes:
    """Return the JSON header of a pull with ``fields`` as a format. It has ``%d`` for opaque, offset and maximum number
    of messages, in this order, then ``%b`` for a signature in ``fields``. Raises
    LocalProtocolError[INVALID_MESSAGE]."""
    sample = encode(RemotingCommand(RequestCode.PULL_MESSAGE, opaque=PLACE, fields=fields))
    text = sample[FRAME_START_BYTES:].decode().replace("%", "%%")
    # User texts have only escaped quotation marks, so these match the fields themselves.
    for name, place in (("opaque", "{}"), (OFFSET, '"{}"'), (MAX_MESSAGES, '"{}"')):
        text = text.replace(f'"{name}":{place.format(PLACE)}', f'"{name}":{place.format("%d")}')
    return text.replace(f'"{SIGNATURE}":"{PLACE_OF_TEXT}"', f'"{SIGNATURE}":"%b"').encode()


@lru_cache(maxsize=4096)
def pull_frames(
    group: str,
    queue: MessageQueue,
    expression: str,
    credentials: Credentials | None = None,
    expression_type: str = TAG,
) -> PullFrames:
    """Return the maker of the frames of a queue's pulls, signed if there are ``credentials``. The last 4096 makers are
    cached by the arguments. Raises LocalProtocolError[INVALID_MESSAGE] for arguments that cannot be encoded."""
    if credentials is None:
        return PullFrames(group, queue, expression, expression_type)
    return SignedPullFrames(group, queue, expression, credentials, expression_type)
