"""Hosts inside messages, and the offsetMsgId: upper-case hex of IP (4 or 16 bytes), int32 port, int64 offset.

Source: ``common/message/MessageDecoder.java#createMessageId``.
"""

from __future__ import annotations

import struct
from ipaddress import IPv4Address, IPv6Address
from typing import Final

IPV4_HOST_BYTES: Final = 8
IPV6_HOST_BYTES: Final = 20
_PORT: Final = struct.Struct(">i")
_OFFSET: Final = struct.Struct(">q")


def format_host(host: bytes) -> str:
    """A stored host (IP and int32 port, 8 or 20 bytes) as ``"ip:port"``, IPv6 in brackets."""
    ip, (port,) = host[:-4], _PORT.unpack(host[-4:])
    return f"{IPv4Address(ip)}:{port}" if len(ip) == 4 else f"[{IPv6Address(ip)}]:{port}"


def offset_msg_id(store_host: bytes, commit_log_offset: int) -> str:
    """Id of a stored message: where it is. ``store_host`` as in the message, 8 or 20 bytes."""
    return (store_host + _OFFSET.pack(commit_log_offset)).hex().upper()
