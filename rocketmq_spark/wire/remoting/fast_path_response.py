"""Fast path for pull responses: recognises headers that differ from an earlier one only in a few numbers.

    {"code":0,"extFields":{"nextBeginOffset":"64","maxOffset":"900", ...},"flag":1,"opaque":7,"remark":"FOUND", ...}

Matching a header against a template costs a fraction of parsing it. The general codec defines the meaning. A template
is made only if it and the codec read the same from a copy of its header with other numbers. The codec decodes all other
headers.
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
"""Offset of the header in a frame: after the frame's length, the serialization (0 for JSON), and the header's
length."""

PARSED_FIELDS: Final = (b"opaque", b"nextBeginOffset", b"minOffset", b"maxOffset")
"""Names of the numbers to read; all other numbers are skipped."""

CONSTANT_FIELDS: Final = (b"suggestWhichBrokerId",)
"""Names of the numbers that a template has as they are: they determine where to pull next."""

DIGITS: Final = rb"0|[1-9][0-9]{0,17}"
"""A number as Java writes it. Numbers of more than 18 digits and negative ones do not match."""

_NUMBER: Final = re.compile(rb'"(\w+)":("?)(%b)\2(?=[,}])' % DIGITS)
"""A field that is a number: quoted among the extFields, unquoted in the header itself."""

_LENGTHS: Final = struct.Struct(">II")

FastPathResponse: TypeAlias = tuple[int, PullResult]
"""Opaque and result of a response that matches a template."""


class Place(NamedTuple):
    """Position of a number in a header: after the bytes ``before``. ``name``: in ``PARSED_FIELDS``; None to skip it."""

    before: bytes
    name: bytes | None


class ResponseTemplate:
    """Header of a connection's fast-path responses to pulls, made by ``template_of``: numbers at ``places``, and
    ``suffix`` after the last. ``reason``: remark of the responses.

    ``places`` have each of the ``PARSED_FIELDS`` once.
    """

    def __init__(self, places: list[Place], suffix: bytes, reason: str) -> None:
        digits = {True: b"(%b)" % DIGITS, False: b"(?:%b)" % DIGITS}
        parts = (re.escape(place.before) + digits[place.name is not None] for place in places)
        names = [place.name for place in places if place.name is not None]
        self._fullmatch = re.compile(b"".join((*parts, re.escape(suffix)))).fullmatch
        self._groups = tuple(1 + names.index(name) for name in PARSED_FIELDS)
        self._reason = reason

    def read(self, received: memoryview, begin: int, end: int) -> tuple[list[FastPathResponse], int]:
        """Read the leading fast-path responses in ``received[begin:end]``, which begins with a frame's length. Return
        them in order, and the position after the last: ``end``, or the begin of the first frame that is incomplete or
        does not match. Raise nothing. Bodies are views of ``received``."""
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
    """Make a template of class ``kind`` from a response, a frame without its length.

    Return None if the response is not FOUND, if a field of ``PARSED_FIELDS`` is missing, repeated or no number, or if
    template and codec read different numbers. Raises RemoteProtocolError[MALFORMED_RESPONSE.HEADER].
    """
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
    """Return the place of each variable number in ``header`` (see ``_is_variable``), in order, and the bytes after the
    last of them."""
    places, end = [], 0
    for number in _NUMBER.finditer(header):
        name, mark, _ = number.groups()
        if _is_variable(name, mark):
            places.append(Place(header[end : number.start(3)], name if name in PARSED_FIELDS else None))
            end = number.end(3)
    return places, header[end:]


def _is_variable(name: bytes, mark: bytes) -> bool:
    """Return whether a number may differ between responses: it is one of ``PARSED_FIELDS``, or in extFields and none of
    ``CONSTANT_FIELDS``. ``mark``: its quotation mark, empty outside of extFields."""
    return name not in CONSTANT_FIELDS and (bool(mark) or name in PARSED_FIELDS)


def _matches_codec(template: ResponseTemplate, header: bytes) -> bool:
    """Return whether template and codec read the same from a copy of ``header`` with all variable numbers changed, and
    it is a response's."""
    changed = _with_other_numbers(header)
    frame = memoryview(_LENGTHS.pack(LENGTH_BYTES + len(changed), len(changed)) + changed)
    response = decode(frame[LENGTH_BYTES:])
    expected = [(response.opaque, read_pull(response))], len(frame)
    return template.read(frame, 0, len(frame)) == expected and response.is_response


def _with_other_numbers(header: bytes) -> bytes:
    """Return ``header`` with each variable number replaced by another one, ascending from 1,000,000."""
    numbers = count(1_000_000)

    def other(number: re.Match[bytes]) -> bytes:
        """Return the field, name included, with the next of ``numbers``; unchanged if its number is not variable."""
        name, mark, _ = number.groups()
        return b'"%b":%b%d%b' % (name, mark, next(numbers), mark) if _is_variable(name, mark) else number[0]

    return _NUMBER.sub(other, header)
