"""Ordinary answers to pulls, recognised by their headers, which differ from one another in a few numbers only.

    {"code":0,"extFields":{"nextBeginOffset":"64","maxOffset":"900", ...},"flag":1,"opaque":7,"remark":"FOUND", ...}

To match such a header against the first one costs a fraction of what it costs to parse it. It is the general codec that
says what a header means: a template is made from one that it has read, and only if it reads the same header with other
numbers as the template does. Whatever does not match is for the codec again.
"""

from __future__ import annotations

import re
import struct
from itertools import count
from typing import Final, NamedTuple, TypeAlias

from rocketmq_spark.wire.remoting.command import decode
from rocketmq_spark.wire.remoting.frame import LENGTH_BYTES
from rocketmq_spark.wire.remoting.pull import PULL_STATUS, PullResult, PullStatus, read_pull

HEADER_BEGIN: Final = 8
"""In a frame: behind its length, the serialization, which is 0 for JSON, and the header's length."""

PARSED_FIELDS: Final = (b"opaque", b"nextBeginOffset", b"minOffset", b"maxOffset")
"""The numbers that are read; others are passed over, whatever they are."""

DIGITS: Final = rb"0|[1-9][0-9]{0,17}"
"""A number as Java writes it. Longer ones, and those below 0, are not ordinary."""

_NUMBER: Final = re.compile(rb'"(\w+)":("?)(%b)\2(?=[,}])' % DIGITS)
"""A field that is a number: in quotation marks among the extFields, without in the header itself."""

_LENGTHS: Final = struct.Struct(">II")

FastPathResponse: TypeAlias = tuple[int, PullResult]
"""The opaque of an ordinary answer, and what it says."""


class Place(NamedTuple):
    """Where a number stands in a header: behind these bytes. ``name``: one of ``PARSED_FIELDS``; None if it is passed
    over."""

    before: bytes
    name: bytes | None


class ResponseTemplate:
    """The header that a connection's ordinary answers have: its numbers in their places, and ``suffix`` behind the
    last.

    Its ``places`` have each of the ``PARSED_FIELDS`` once.
    """

    def __init__(self, places: list[Place], suffix: bytes, reason: str) -> None:
        digits = {True: b"(%b)" % DIGITS, False: b"(?:%b)" % DIGITS}
        parts = (re.escape(place.before) + digits[place.name is not None] for place in places)
        names = [place.name for place in places if place.name is not None]
        self._fullmatch = re.compile(b"".join((*parts, re.escape(suffix)))).fullmatch
        self._groups = tuple(1 + names.index(name) for name in PARSED_FIELDS)
        self._reason = reason

    def read(self, received: memoryview, begin: int, end: int) -> tuple[list[FastPathResponse], int]:
        """The ordinary answers in front of ``received[begin:end]``, which begins with a frame's length, and where they
        end: at a frame that is not whole yet, or that is none of them."""
        responses: list[FastPathResponse] = []
        while begin + HEADER_BEGIN <= end:
            length, header_length = _LENGTHS.unpack_from(received, begin)
            frame_end, header_begin = begin + LENGTH_BYTES + length, begin + HEADER_BEGIN
            body_begin = header_begin + header_length
            if frame_end > end or body_begin > frame_end:
                break
            match = self._fullmatch(received, header_begin, body_begin)
            if match is None:
                break
            opaque, next_begin_offset, min_offset, max_offset = map(int, match.group(*self._groups))
            body = received[body_begin:frame_end]
            result = PullResult(PullStatus.FOUND, self._reason, next_begin_offset, min_offset, max_offset, body)
            responses.append((opaque, result))
            begin = frame_end
        return responses, begin


def template_of(frame: memoryview, kind: type[ResponseTemplate] = ResponseTemplate) -> ResponseTemplate | None:
    """The template that this answer, a frame without its length, gives; None where it is not ordinary itself, or has no
    layout to rely on."""
    response = decode(frame)
    if PULL_STATUS.get(response.code) is not PullStatus.FOUND:
        return None
    header = bytes(frame[HEADER_BEGIN - LENGTH_BYTES : len(frame) - len(response.body)])
    places, suffix = _find_places(header)
    if sorted(place.name for place in places if place.name is not None) != sorted(PARSED_FIELDS):
        return None
    template = kind(places, suffix, read_pull(response).reason)
    return template if _matches_codec(template, header) else None


def _find_places(header: bytes) -> tuple[list[Place], bytes]:
    """The places of its numbers, and what is behind the last."""
    places, end = [], 0
    for number in _NUMBER.finditer(header):
        name, mark, _ = number.groups()
        if mark or name in PARSED_FIELDS:
            places.append(Place(header[end : number.start(3)], name if name in PARSED_FIELDS else None))
            end = number.end(3)
    return places, header[end:]


def _matches_codec(template: ResponseTemplate, header: bytes) -> bool:
    """Whether both read the same from the header with each of its numbers changed."""
    changed = _with_other_numbers(header)
    frame = memoryview(_LENGTHS.pack(LENGTH_BYTES + len(changed), len(changed)) + changed)
    response = decode(frame[LENGTH_BYTES:])
    expected = [(response.opaque, read_pull(response))], len(frame)
    return template.read(frame, 0, len(frame)) == expected and response.is_response


def _with_other_numbers(header: bytes) -> bytes:
    numbers = count(1_000_000)

    def other(number: re.Match[bytes]) -> bytes:
        name, mark, _ = number.groups()
        return b'"%b":%b%d%b' % (name, mark, next(numbers), mark) if mark or name in PARSED_FIELDS else number[0]

    return _NUMBER.sub(other, header)
