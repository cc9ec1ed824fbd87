"""Properties of a message: ``name 0x01 value 0x02 name 0x01 value 0x02 ...`` in UTF-8, and the names that matter here.

Source: ``common/message/MessageDecoder.java#messageProperties2String`` and ``#string2messageProperties``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from rocketmq_spark.errors import LocalProtocolError

NAME_VALUE_SEPARATOR: Final = "\x01"
PROPERTY_SEPARATOR: Final = "\x02"
PROPERTIES_LIMIT_BYTES: Final = 2**15 - 1
"""Their length travels as a signed 16-bit number."""
PROPERTIES_RESERVE_BYTES: Final = 512
"""For what brokers add of their own, such as their cluster's name."""

TAGS: Final = "TAGS"
KEYS: Final = "KEYS"
UNIQ_KEY: Final = "UNIQ_KEY"
"""The producer's id of a message."""
RETRY_TOPIC: Final = "RETRY_TOPIC"
"""Where a message was sent that a group has sent back."""
ORIGIN_MESSAGE_ID: Final = "ORIGIN_MESSAGE_ID"
"""The offsetMsgId that it had there."""
POP_CK: Final = "POP_CK"
"""The handle of a message that is handed out again, put there by a broker when it does."""
INNER_BASE: Final = "INNER_BASE"
"""The queue offset of an inner batch's first message. A broker with batch consume queues writes it; older ones let a
producer's pass."""
INNER_NUM: Final = "INNER_NUM"
"""How many queue offsets that broker gives the batch."""

_SURROGATE: Final = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")


def decode_utf8(data: bytes) -> str:
    """Text as Java's ``new String(data, UTF_8)`` makes it: what is malformed becomes U+FFFD, nothing is refused.

    Python agrees but for encoded surrogates, which Java replaces as one and Python byte by byte.
    """
    try:
        return data.decode()
    except UnicodeDecodeError:
        return _SURROGATE.sub("\ufffd".encode(), data).decode(errors="replace")


def decode_properties(data: bytes) -> dict[str, str]:
    """Properties with Java's leniency.

    The first 0x01 of a property splits it, further ones belong to the value. What has no name or no value vanishes, of
    a repeated name the last value stays, and the last 0x02 may be missing.
    """
    splits = (text.partition(NAME_VALUE_SEPARATOR) for text in decode_utf8(data).split(PROPERTY_SEPARATOR))
    return {name: value for name, _, value in splits if name and value}


def encode_properties(properties: Mapping[str, str]) -> bytes:
    """Properties as bytes that decode to the same. LocalProtocolError[INVALID_MESSAGE] where none would."""
    data = b"".join(_encoded(name, value) for name, value in properties.items())
    if len(data) > PROPERTIES_LIMIT_BYTES:
        raise _invalid(f"the properties have {len(data)} bytes, at most {PROPERTIES_LIMIT_BYTES} are possible")
    return data


def _encoded(name: str, value: str) -> bytes:
    if not isinstance(name, str):
        raise _invalid(f"the name of property {name!r} must be text, not {type(name).__name__}")
    if not isinstance(value, str):
        raise _invalid(f"property {name!r} must be text, not {type(value).__name__}")
    if not name or not value:
        raise _invalid(f"property {name!r} is empty, and RocketMQ would drop it")
    if NAME_VALUE_SEPARATOR in name or PROPERTY_SEPARATOR in name or PROPERTY_SEPARATOR in value:
        raise _invalid(f"property {name!r} contains a separator (0x01 or 0x02)")
    try:
        return f"{name}{NAME_VALUE_SEPARATOR}{value}{PROPERTY_SEPARATOR}".encode()
    except UnicodeEncodeError as error:
        raise _invalid(f"property {name!r} is no text: {error.reason}") from error


def _invalid(problem: str) -> LocalProtocolError:
    return LocalProtocolError("INVALID_MESSAGE", problem=problem)
