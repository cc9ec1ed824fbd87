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
from typing import Final

from rocketmq_spark.wire.remoting.command import decode
from rocketmq_spark.wire.remoting.pull import PULL_STATUS, PullResult, PullStatus, read_pull

HEADER_BEGIN: Final = 4
"""In a frame: behind the serialization, which is 0 for JSON, and the header's length."""

WANTED: Final = (b"opaque", b"nextBeginOffset", b"minOffset", b"maxOffset")
"""The numbers that are read; others are passed over, whatever they are."""

DIGITS: Final = rb"0|[1-9][0-9]{0,17}"
"""A number as Java writes it. Longer ones, and those below 0, are not ordinary."""

_NUMBER: Final = re.compile(rb'"(\w+)":("?)(?:%b)\2(?=[,}])' % DIGITS)
"""A field that is a number: in quotation marks among the extFields, without in the header itself."""

_WORD: Final = struct.Struct(">I")


class AnswerTemplate:
    """The header that a connection's ordinary answers have."""

    def __init__(self, header: bytes, reason: str) -> None:
        """``header``: that of an answer which found messages. Raises re.error, KeyError where it has no layout."""
        pattern = re.compile(_pattern_of(header))
        self._fullmatch = pattern.fullmatch
        self._groups = tuple(pattern.groupindex[name.decode()] for name in WANTED)
        self._reason = reason

    def read(self, frame: memoryview) -> tuple[int, PullResult] | None:
        """The opaque and the result of an ordinary answer; None: it is none, or was damaged."""
        body_begin = HEADER_BEGIN + _WORD.unpack_from(frame)[0]
        match = self._fullmatch(frame, HEADER_BEGIN, body_begin)
        if match is None or body_begin > len(frame):
            return None
        opaque, next_begin_offset, min_offset, max_offset = map(int, match.group(*self._groups))
        body = frame[body_begin:]
        return opaque, PullResult(PullStatus.FOUND, self._reason, next_begin_offset, min_offset, max_offset, body)


def template_of(frame: memoryview) -> AnswerTemplate | None:
    """The template that this answer gives; None where it is not ordinary itself, or has no layout to rely on."""
    answer = decode(frame)
    if PULL_STATUS.get(answer.code) is not PullStatus.FOUND:
        return None
    header = bytes(frame[HEADER_BEGIN : len(frame) - len(answer.body)])
    try:
        template = AnswerTemplate(header, read_pull(answer).reason)
    except (re.error, KeyError):
        return None
    return template if _agrees_with_the_codec(template, header) else None


def _pattern_of(header: bytes) -> bytes:
    """All of ``header`` as it stands, but for its numbers."""
    parts, end = [], 0
    for number in _NUMBER.finditer(header):
        name, mark = number.groups()
        if mark or name in WANTED:
            digits = b"(?P<%b>%b)" % (name, DIGITS) if name in WANTED else b"(?:%b)" % DIGITS
            parts += [re.escape(header[end : number.start()]), b'"%b":%b%b%b' % (name, mark, digits, mark)]
            end = number.end()
    return b"".join((*parts, re.escape(header[end:])))


def _agrees_with_the_codec(template: AnswerTemplate, header: bytes) -> bool:
    """Whether both read the same from the header with each of its numbers changed."""
    changed = _with_other_numbers(header)
    frame = memoryview(_WORD.pack(len(changed)) + changed)
    answer = decode(frame)
    return template.read(frame) == (answer.opaque, read_pull(answer)) and answer.is_response


def _with_other_numbers(header: bytes) -> bytes:
    numbers = count(1_000_000)

    def other(number: re.Match[bytes]) -> bytes:
        name, mark = number.groups()
        return b'"%b":%b%d%b' % (name, mark, next(numbers), mark) if mark or name in WANTED else number[0]

    return _NUMBER.sub(other, header)
