"""Hosts inside messages, and the offsetMsgId: upper-case hex of IP (4 or 16 bytes), int32 port, int64 offset.

Source: ``common/message/MessageDecoder.java#createMessageId`` and ``#decodeMessageId``.
"""

from __future__ import annotations

import re
import struct
from ipaddress import IPv4Address, IPv6Address
from typing import Final

from rocketmq_spark.errors import RemoteProtocolError

IPV4_HOST_BYTES: Final = 8
IPV6_HOST_BYTES: Final = 20
_PORT: Final = struct.Struct(">i")
_OFFSET: Final = struct.Struct(">q")
_OFFSET_MSG_ID: Final = re.compile("[0-9A-Fa-f]{32}|[0-9A-Fa-f]{56}")


def format_host(host: bytes) -> str:
    """A stored host (IP and int32 port, 8 or 20 bytes) as ``"ip:port"``, IPv6 in brackets."""
    ip, (port,) = host[:-4], _PORT.unpack(host[-4:])
    return f"{IPv4Address(ip)}:{port}" if len(ip) == 4 else f"[{IPv6Address(ip)}]:{port}"


def offset_msg_id(store_host: bytes, commit_log_offset: int) -> str:
    """Id of a stored message: where it is. ``store_host`` as in the message, 8 or 20 bytes."""
    return (store_host + _OFFSET.pack(commit_log_offset)).hex().upper()


def parse_offset_msg_id(text: str) -> tuple[str, int]:
    """The broker's ``"ip:port"`` and the commit log offset inside an offsetMsgId. RemoteProtocolError[BAD_HEADER]."""
    if not _OFFSET_MSG_ID.fullmatch(text):
        raise RemoteProtocolError("BAD_HEADER", subject="send response", problem=f"{text!r} is no offsetMsgId")
    data = bytes.fromhex(text)
    return format_host(data[: -_OFFSET.size]), _OFFSET.unpack(data[-_OFFSET.size :])[0]
