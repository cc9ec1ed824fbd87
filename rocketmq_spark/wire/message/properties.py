"""Properties of a message: ``name 0x01 value 0x02 name 0x01 value 0x02 ...`` in UTF-8, and the names used here.

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
"""Their length is sent as a signed 16-bit number."""
PROPERTIES_RESERVE_BYTES: Final = 512
"""Reserve for properties that brokers add, such as their cluster's name."""

TAGS: Final = "TAGS"
KEYS: Final = "KEYS"
UNIQ_KEY: Final = "UNIQ_KEY"
"""The message ID that the producer assigned."""
SHARDING_KEY: Final = "__SHARDINGKEY"
"""The key by which a producer selects the queue; the gRPC protocol's name for it is message group."""
RETRY_TOPIC: Final = "RETRY_TOPIC"
"""Original topic of a message that a group has sent back for retry."""
ORIGIN_MESSAGE_ID: Final = "ORIGIN_MESSAGE_ID"
"""The offsetMsgId of that message in its original topic."""
POP_CK: Final = "POP_CK"
"""Receipt handle of a redelivered message; the broker adds it at delivery."""
INNER_BASE: Final = "INNER_BASE"
"""Queue offset of an inner batch's first message, written by brokers with batch consume queues; older ones keep a
producer's."""
INNER_NUM: Final = "INNER_NUM"
"""Number of queue offsets that such a broker assigns to the batch."""

_SEPARATORS_TO_BLANKS: Final = str.maketrans(NAME_VALUE_SEPARATOR + PROPERTY_SEPARATOR, "  ")
_SURROGATE: Final = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")


def decode_utf8(data: bytes) -> str:
    """Decode text as Java's ``new String(data, UTF_8)``: malformed bytes become U+FFFD, no input raises an error.

    Python agrees except for encoded surrogates, which Java replaces as one and Python byte by byte.
    """
    try:
        return data.decode()
    except UnicodeDecodeError:
        return _SURROGATE.sub("\ufffd".encode(), data).decode(errors="replace")


def decode_properties(data: bytes) -> dict[str, str]:
    """Decode properties as leniently as Java does.

    The first 0x01 splits a property, later ones belong to the value. Properties without a name or value are dropped,
    the last value of a repeated name is kept, and the final 0x02 may be missing.
    """
    splits = (text.partition(NAME_VALUE_SEPARATOR) for text in decode_utf8(data).split(PROPERTY_SEPARATOR))
    return {name: value for name, _, value in splits if name and value}


def encode_properties(properties: Mapping[str, str]) -> bytes:
    """Encode properties, in order, so that ``decode_properties`` returns the same; b"" for none. Reserved names are
    accepted. Raises LocalProtocolError[INVALID_MESSAGE] for more than PROPERTIES_LIMIT_BYTES, and for a name or value
    that is no str, is empty, has a separator (a value may have 0x01), or is not valid Unicode."""
    data = b"".join(_encoded(name, value) for name, value in properties.items())
    if len(data) > PROPERTIES_LIMIT_BYTES:
        raise _invalid(f"the properties have {len(data)} bytes, at most {PROPERTIES_LIMIT_BYTES} are possible")
    return data


def as_property_text(text: str, max_characters: int) -> str:
    """Return the first ``max_characters`` of ``text``, which may be any, with each separator replaced by a space."""
    return text[:max_characters].translate(_SEPARATORS_TO_BLANKS)


def _encoded(name: str, value: str) -> bytes:
    """Return one property, encoded. Raises LocalProtocolError[INVALID_MESSAGE] for a name or value that is no str, is
    empty, is not encodable in UTF-8 or contains 0x02, and for a name with 0x01."""
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
    """Return, not raise, LocalProtocolError[INVALID_MESSAGE]."""
    return LocalProtocolError("INVALID_MESSAGE", problem=problem)
