"""Verification of the receipt handles in one response of a proxy.

If a producer has set the property ``POP_CK``, a proxy uses its value as the message's handle, and may then number the
handles of adjacent messages wrongly. The commit log offset, which the proxy adds, verifies nothing. But a broker's
handle repeats the requested invisible duration, to the millisecond, and each poll requests an unpredictable one. A
handle with another duration is a producer's.

A broker may also have stored a message with a larger offset than its position in the queue, behind messages that it
cannot deliver. An acknowledgement by that offset acknowledges another message. So a handle's number is used only where
the response shows that it is right. Elsewhere the handle is kept as unverified: no request uses it, and the message is
redelivered.

Source: ``client/impl/MQClientAPIImpl.java#processPopResponse``, which the proxy uses,
``proxy/processor/ConsumerProcessor.java#popMessage``.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final, NamedTuple, Protocol, TypeAlias

from rocketmq_spark.pop.receipt_handles import (
    NORMAL_TOPIC,
    ORDER_REVIVE_QUEUE,
    BrokerHandle,
    OpaqueHandle,
    ReceiptHandle,
    handle_of,
)

MAX_HANDLE_CHARACTERS: Final = 1_024
"""Maximum length of a handle; a broker's has some 100 characters. Checkpoint, progress and spool list the handles of a
batch, and a producer's property may have 32 KB."""

UNVERIFIED: Final = "unverified 0 0 0 0 0"
"""In place of a longer handle, and of each unverified one in a spool."""

_Times: TypeAlias = tuple[int, int, int]
_Queue: TypeAlias = tuple[str, int]


class _Numbered(NamedTuple):
    """Message ``response_index`` of a response, at ``position`` of its queue by its handle.

    Its stored offset is larger by ``shift``.
    """

    response_index: int
    position: int
    shift: int


class ProxyMessage(Protocol):
    """A message of a response: its handle, its queue, and its stored offset."""

    @property
    def handle(self) -> str: ...

    @property
    def queue_id(self) -> int: ...

    @property
    def offset(self) -> int: ...


def handles_of_response(
    topic: str, broker_name: str, response: Sequence[ProxyMessage], requested_ms: int
) -> list[ReceiptHandle]:
    """Return a handle for each message of ``response``, in order: a ``BrokerHandle`` if it is certainly the message's
    own, else an ``OpaqueHandle`` with the same text. UNVERIFIED replaces a text longer than MAX_HANDLE_CHARACTERS.
    ``is_unverified`` returns True for UNVERIFIED, and for an opaque text in a broker's format. ``requested_ms``: the
    invisible duration of the poll."""
    parsed = [handle_of(topic, broker_name, one.handle) for one in response]
    broker_handles = _broker_handles(parsed, response, requested_ms)
    foreign: dict[int, list[int]] = {}
    numbered: dict[_Queue, list[_Numbered]] = {}
    for index, (handle, one) in enumerate(zip(broker_handles, response, strict=True)):
        if handle is None:
            foreign.setdefault(one.queue_id, []).append(index)
        else:
            shift = one.offset - handle.offset
            numbered.setdefault(_queue(handle), []).append(_Numbered(index, handle.offset, shift))
    certain_indices = {
        index
        for (retry, queue_id), numbered_messages in numbered.items()
        for index in _certain_indices(numbered_messages, foreign.get(queue_id, []) if retry == NORMAL_TOPIC else [])
    }
    return [
        handle if index in certain_indices else opaque_handle(topic, broker_name, one.handle)
        for index, (handle, one) in enumerate(zip(parsed, response, strict=True))
    ]


def opaque_handle(topic: str, broker_name: str, text: str) -> OpaqueHandle:
    """Return an OpaqueHandle with ``text``; with UNVERIFIED if ``text`` is longer than MAX_HANDLE_CHARACTERS."""
    return OpaqueHandle(topic, broker_name, text if len(text) <= MAX_HANDLE_CHARACTERS else UNVERIFIED)


def _broker_handles(
    parsed: Sequence[ReceiptHandle], response: Sequence[ProxyMessage], requested_ms: int
) -> list[BrokerHandle | None]:
    """Return for each message, in order, its handle in ``parsed`` if the broker made it (``_repeats_request``), or
    None.

    A broker delivers all messages of a response at one time. If handles differ in pop time or revive queue, a producer
    has guessed the duration: return None for all messages.
    """
    broker_handles = [
        handle if isinstance(handle, BrokerHandle) and _repeats_request(handle, one, requested_ms) else None
        for handle, one in zip(parsed, response, strict=True)
    ]
    times = {_times(handle) for handle in broker_handles if handle is not None}
    return broker_handles if len(times) <= 1 else [None] * len(broker_handles)


def _repeats_request(handle: BrokerHandle, one: ProxyMessage, requested_ms: int) -> bool:
    """Return whether a broker may have made the handle. It has at most MAX_HANDLE_CHARACTERS, the requested invisible
    duration, the message's queue, and a revive queue >= 0, but not that of FIFO messages."""
    is_short = len(one.handle) <= MAX_HANDLE_CHARACTERS
    point = handle.pop_check_point
    is_in_a_revive_queue = 0 <= point.revive_queue_id != ORDER_REVIVE_QUEUE
    is_of_request = point.invisible_ms == requested_ms and point.queue_id == one.queue_id
    return is_short and is_of_request and is_in_a_revive_queue


def _times(handle: BrokerHandle) -> _Times:
    """Return the pop time, the invisible duration, both in ms, and the revive queue."""
    one = handle.pop_check_point
    return one.pop_time_ms, one.invisible_ms, one.revive_queue_id


def _queue(handle: BrokerHandle) -> _Queue:
    """Return the retry flag and the queue ID."""
    return handle.pop_check_point.retry, handle.pop_check_point.queue_id


def _certain_indices(numbered_messages: Sequence[_Numbered], foreign: Sequence[int]) -> list[int]:
    """Return the response indices of those messages of one queue, at least one, whose handles certainly have the right
    position. ``foreign``: response indices, ascending, of messages in the queue whose handle no broker made.

    Without ``foreign``: all, if positions ascend, and shifts are at least 0 and never fall; otherwise those with shift
    0. With ``foreign``: those with shift 0 before the first foreign one. If positions ascend and all shifts are 0, also
    those after the last.
    """
    # The proxy numbers a queue's messages one by one. A foreign handle makes the numbers behind it too low, where its
    # message is of the queue and has no number, or too high, where it has one and is of a retry topic. In a shifted
    # queue a number that is too high may equal the stored offset; but then the messages behind it have used too few.
    ascend = all(one.position < after.position for one, after in pairwise(numbered_messages))
    if (
        not foreign
        and ascend
        and numbered_messages[0].shift >= 0
        and all(one.shift <= after.shift for one, after in pairwise(numbered_messages))
    ):
        return [one.response_index for one in numbered_messages]
    is_straight = ascend and all(one.shift == 0 for one in numbered_messages)
    in_place = [one.response_index for one in numbered_messages if one.shift == 0]
    return [index for index in in_place if not foreign or index < foreign[0] or (is_straight and index > foreign[-1])]
