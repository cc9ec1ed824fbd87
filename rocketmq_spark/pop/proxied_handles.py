"""Proxied handles: what is known of the handles in one response of a proxy.

A proxy takes a property ``POP_CK`` that a producer has written for the handle of its message, and then may number the
handles of the messages beside it wrongly. A broker may also have stored a message for a later offset than its place, as
it does behind messages that it delivers to nobody; by that offset it is not acknowledged, but another one is. So the
number of a handle counts where the response shows that it is right. Elsewhere a handle is kept as one that no request
is made by: the message is redelivered, and its next handle comes from the broker.

Source: ``client/impl/MQClientAPIImpl.java#processPopResponse``, which the proxy uses.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple, Protocol, TypeAlias

from rocketmq_spark.pop.handles import ORDINARY, AnyHandle, Handle, OpaqueHandle, handle_of

_Times: TypeAlias = tuple[int, int, int]
_Queue: TypeAlias = tuple[str, int]


class _Numbered(NamedTuple):
    """Message ``number`` of a response, of which the proxy says that it is at ``place`` of its queue; it is stored for
    an offset that is larger ``by`` so many."""

    number: int
    place: int
    by: int


class Told(Protocol):
    """A message of a response: what the proxy knows it by, its queue, and the offset that it is stored for."""

    @property
    def handle(self) -> str: ...

    @property
    def queue_id(self) -> int: ...

    @property
    def offset(self) -> int: ...


def handles_of_response(topic: str, broker_name: str, response: Sequence[Told]) -> list[AnyHandle]:
    """Of the messages of ``response``, in order. One that is uncertain is an ``OpaqueHandle`` that ``is_made_up``."""
    parsed = [handle_of(topic, broker_name, one.handle) for one in response]
    own = _own(parsed, response)
    foreign: dict[int, list[int]] = {}
    numbered: dict[_Queue, list[_Numbered]] = {}
    for index, (handle, one) in enumerate(zip(own, response, strict=True)):
        if handle is None:
            foreign.setdefault(one.queue_id, []).append(index)
        else:
            by = one.offset - handle.offset
            numbered.setdefault(_queue(handle), []).append(_Numbered(index, handle.offset, by))
    certain = {
        index
        for (retry, queue_id), some in numbered.items()
        for index in _certain(some, foreign.get(queue_id, []) if retry == ORDINARY else [])
    }
    return [
        handle if index in certain else OpaqueHandle(topic, broker_name, one.handle)
        for index, (handle, one) in enumerate(zip(parsed, response, strict=True))
    ]


def _own(parsed: Sequence[AnyHandle], response: Sequence[Told]) -> list[Handle | None]:
    """Those that the response's broker may have given; None: a producer's, or another server's. All messages of a
    response are given out at one time."""
    of_its_queue = [
        handle if isinstance(handle, Handle) and handle.check_point.queue_id == one.queue_id else None
        for handle, one in zip(parsed, response, strict=True)
    ]
    counts = Counter(_times(handle) for handle in of_its_queue if handle is not None)
    usual = max(counts, key=lambda times: (counts[times], times), default=None)
    return [handle if handle is not None and _times(handle) == usual else None for handle in of_its_queue]


def _times(handle: Handle) -> _Times:
    one = handle.check_point
    return one.pop_time_ms, one.invisible_ms, one.revive_queue_id


def _queue(handle: Handle) -> _Queue:
    return handle.check_point.retry, handle.check_point.queue_id


def _certain(some: Sequence[_Numbered], foreign: Sequence[int]) -> list[int]:
    """Those of a queue's messages that are at the places that the proxy says, with ``foreign`` handles in the response.

    The proxy numbers a queue's messages one by one. A foreign handle makes the numbers behind it too low, where its
    message is of the queue and has no number, or too high, where it has one and is of a retry topic. In a moved queue a
    number that is too high may equal the stored offset; but then messages behind it have taken too few.
    """
    ascend = all(one.place < after.place for one, after in pairwise(some))
    if not foreign and ascend and some[0].by >= 0 and all(one.by <= after.by for one, after in pairwise(some)):
        return [one.number for one in some]
    is_straight = ascend and all(one.by == 0 for one in some)
    in_place = [one.number for one in some if one.by == 0]
    return [index for index in in_place if not foreign or index < foreign[0] or (is_straight and index > foreign[-1])]
