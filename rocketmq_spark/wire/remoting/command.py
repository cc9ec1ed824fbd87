"""RemotingCommand, the envelope of every request and response, and its two header serializations.

A frame is, big-endian::

    int32 length of the rest | int8 serialization, int24 header length | header | body

A server responds in the serialization that *it* is configured for, so each frame is decoded by its own type byte.
Source: ``remoting/protocol/RemotingCommand.java``, ``RocketMQSerializable.java``.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any, Final

from rocketmq_spark.errors import LocalProtocolError, RemoteProtocolError
from rocketmq_spark.wire.bounds import HEADER_BYTES, HEADER_VALUES, check_values
from rocketmq_spark.wire.remoting.codes import CLIENT_VERSION, LanguageCode

FLAG_RESPONSE: Final = 1
FLAG_ONEWAY: Final = 2

MAX_REQUEST_BYTES: Final = 16 * 1024 * 1024
"""Default limit of servers, which close the connection on a longer frame, without a response. Source:
``remoting/netty/NettyDecoder.java``."""

MAX_HEADER_BYTES: Final = HEADER_BYTES.maximum

_PREFIX: Final = struct.Struct(">II")
_BINARY_START: Final = struct.Struct(">hbhii")
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_LANGUAGES: Final = {language.name: language for language in LanguageCode}
_LANGUAGES_BY_NUMBER: Final = {language.value: language for language in LanguageCode}

_to_json: Final = json.JSONEncoder(ensure_ascii=False, check_circular=False, separators=(",", ":")).encode
_scan_json: Final = json.JSONDecoder().raw_decode


class Serialization(IntEnum):
    """Format of a header. Source: ``remoting/protocol/SerializeType.java``."""

    JSON = 0
    ROCKETMQ = 1


@dataclass(frozen=True, slots=True)
class RemotingCommand:
    """A request or a response.

    ``code`` is a RequestCode or a ResponseCode, as a plain int because servers send codes that these do not list.
    ``fields`` are the extFields, which ``wire.remoting.headers`` reads and writes. The body of a decoded command is a
    view into its frame.
    """

    code: int
    opaque: int = 0
    flag: int = 0
    language: LanguageCode = LanguageCode.PYTHON
    version: int = CLIENT_VERSION
    remark: str | None = None
    fields: Mapping[str, str] = field(default_factory=dict)
    body: bytes | memoryview = b""

    @property
    def is_response(self) -> bool:
        return self.flag & FLAG_RESPONSE != 0

    @property
    def is_oneway(self) -> bool:
        return self.flag & FLAG_ONEWAY != 0

    def frame(self, opaque: int) -> bytes:
        """Encode a copy of the command with number ``opaque`` as a JSON frame, length included. Raises
        LocalProtocolError[INVALID_MESSAGE] as ``encode`` does."""
        return encode(replace(self, opaque=opaque))


def encode(command: RemotingCommand, serialization: Serialization = Serialization.JSON) -> bytes:
    """Encode ``command`` as a frame, length included. Raises LocalProtocolError[INVALID_MESSAGE] for a value that the
    serialization cannot hold, a header above MAX_HEADER_BYTES, or a request frame above MAX_REQUEST_BYTES; a response
    may be larger."""
    try:
        header = _ENCODERS[serialization](command)
    except (UnicodeEncodeError, struct.error) as error:
        raise LocalProtocolError(
            "INVALID_MESSAGE", problem=f"a header of request {command.code} holds {error}"
        ) from error
    length = 4 + len(header) + len(command.body)
    if len(header) > MAX_HEADER_BYTES:
        raise LocalProtocolError(
            "INVALID_MESSAGE", problem=f"a header of {len(header)} bytes; {MAX_HEADER_BYTES} is the most"
        )
    if length + 4 > MAX_REQUEST_BYTES and not command.is_response:
        raise LocalProtocolError(
            "INVALID_MESSAGE", problem=f"a request of {length + 4} bytes; {MAX_REQUEST_BYTES} is the most"
        )
    return b"".join((_PREFIX.pack(length, serialization << 24 | len(header)), header, command.body))


def decode(frame: bytes | memoryview) -> RemotingCommand:
    """Decode a frame without its four length bytes; the body is a view of ``frame``. Raises
    RemoteProtocolError[MALFORMED_RESPONSE.HEADER] for an unknown serialization or a header that cannot be decoded."""
    view = memoryview(frame)
    if len(view) < 4:
        raise _invalid_header(f"the frame has {len(view)} bytes")
    word = int.from_bytes(view[:4], "big")
    header_end = 4 + (word & MAX_HEADER_BYTES)
    if header_end > len(view):
        raise _invalid_header(f"it announces {header_end - 4} bytes, of which the frame has {len(view) - 4}")
    decode_header = _DECODERS.get(word >> 24)
    if decode_header is None:
        raise _invalid_header(f"serialization {word >> 24} is unknown")
    try:
        return decode_header(view[4:header_end], view[header_end:])
    except (ValueError, struct.error, RecursionError) as error:
        raise _invalid_header(str(error)) from error


def _invalid_header(problem: str) -> RemoteProtocolError:
    """Return, not raise, RemoteProtocolError[MALFORMED_RESPONSE.HEADER]."""
    return RemoteProtocolError("MALFORMED_RESPONSE.HEADER", subject="frame", problem=problem)


# ---------------------------------------------------------------------------------------------------- JSON


def _encode_json(command: RemotingCommand) -> bytes:
    """Return the header as JSON, in UTF-8, without remark or extFields if there are none. Raises UnicodeEncodeError."""
    header: dict[str, object] = {
        "code": command.code,
        "language": command.language.name,
        "version": command.version,
        "opaque": command.opaque,
        "flag": command.flag,
    }
    if command.remark is not None:
        header["remark"] = command.remark
    if command.fields:
        header["extFields"] = dict(command.fields)
    header["serializeTypeCurrentRPC"] = "JSON"
    return _to_json(header).encode()


def _decode_json(header: memoryview, body: memoryview) -> RemotingCommand:
    """Decode a JSON header, and return it as a command with ``body``. A missing flag or version is 0, a missing or
    unknown language OTHER. Raises ValueError, also for a missing code or opaque and for more than HEADER_VALUES values,
    and RecursionError."""
    text = str(header, "utf-8")
    check_values(text, HEADER_VALUES)
    values, end = _scan_json(text)
    if type(values) is not dict or end != len(text):
        raise ValueError("it is no JSON object")
    code, opaque, flag, version = (
        values.get("code"),
        values.get("opaque"),
        values.get("flag", 0),
        values.get("version", 0),
    )
    if not (type(code) is type(opaque) is type(flag) is type(version) is int):
        raise ValueError("'code', 'opaque', 'flag' and 'version' are not all whole numbers")
    remark = values.get("remark")
    if remark is not None and type(remark) is not str:
        raise ValueError("'remark' is no text")
    fields = values.get("extFields")
    return RemotingCommand(
        code, opaque, flag, _language(values.get("language")), version, remark, _checked_fields(fields), body
    )


def _language(name: Any) -> LanguageCode:
    """Return the language of this name; OTHER for an unknown name or no text."""
    return _LANGUAGES.get(name, LanguageCode.OTHER) if type(name) is str else LanguageCode.OTHER


def _checked_fields(fields: Any) -> dict[str, str]:
    """Return ``fields`` itself, or {} for None. Raises ValueError for anything but a dict whose values are texts."""
    if fields is None:
        return {}
    if type(fields) is not dict or not {str}.issuperset(map(type, fields.values())):
        raise ValueError("'extFields' is no map of texts")
    return fields


# ---------------------------------------------------------------------------------------------------- ROCKETMQ


def _encode_binary(command: RemotingCommand) -> bytes:
    """Return the header in ROCKETMQ's binary format. Raises struct.error for a number or length that exceeds its field,
    UnicodeEncodeError. A missing remark is written as an empty one."""
    start = _BINARY_START.pack(command.code, command.language, command.version, command.opaque, command.flag)
    entries = b"".join(_sized(_INT16, name) + _sized(_INT32, value) for name, value in command.fields.items())
    return b"".join((start, _sized(_INT32, command.remark or ""), _INT32.pack(len(entries)), entries))


def _sized(size: struct.Struct, text: str) -> bytes:
    """Return ``text`` in UTF-8 after its length in bytes, of layout ``size``. Raises struct.error for a length that
    exceeds it, UnicodeEncodeError."""
    data = text.encode()
    return size.pack(len(data)) + data


def _decode_binary(header: memoryview, body: memoryview) -> RemotingCommand:
    """Decode a header in ROCKETMQ's binary format, and return it as a command with ``body``. An empty remark is None,
    an unknown language OTHER. Raises ValueError, also for extFields of another length than announced; struct.error for
    a header that is too short."""
    code, language, version, opaque, flag = _BINARY_START.unpack_from(header)
    remark, position = _read_sized(_INT32, header, _BINARY_START.size)
    (entries_bytes,) = _INT32.unpack_from(header, position)
    position += _INT32.size
    if entries_bytes != len(header) - position:
        raise ValueError(f"{entries_bytes} bytes of extFields are announced, {len(header) - position} are there")
    fields: dict[str, str] = {}
    while position < len(header):
        name, position = _read_sized(_INT16, header, position)
        fields[name], position = _read_sized(_INT32, header, position)
    sender_language = _LANGUAGES_BY_NUMBER.get(language, LanguageCode.OTHER)
    return RemotingCommand(code, opaque, flag, sender_language, version, remark or None, fields, body)


def _read_sized(size: struct.Struct, header: memoryview, position: int) -> tuple[str, int]:
    """Read a length of layout ``size`` at ``position``. Return the text of as many bytes after it, and the position
    after the text. Raises ValueError for a negative length, one beyond the header or text that is not UTF-8,
    struct.error if the length itself is cut."""
    (length,) = size.unpack_from(header, position)
    begin = position + size.size
    if not 0 <= length <= len(header) - begin:
        raise ValueError(f"a text of {length} bytes at byte {begin} of {len(header)}")
    return str(header[begin : begin + length], "utf-8"), begin + length


_ENCODERS: Final[Mapping[Serialization, Callable[[RemotingCommand], bytes]]] = {
    Serialization.JSON: _encode_json,
    Serialization.ROCKETMQ: _encode_binary,
}
_DECODERS: Final[Mapping[int, Callable[[memoryview, memoryview], RemotingCommand]]] = {
    Serialization.JSON: _decode_json,
    Serialization.ROCKETMQ: _decode_binary,
}
