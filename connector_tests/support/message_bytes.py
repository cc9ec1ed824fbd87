"""Stored messages as a broker would write them, good or bad: the test side's own encoder."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from ipaddress import ip_address

V1 = 0xDAA320A7
V2 = 0xDAA320AB
BLANK = 0xCBD43194

COMPRESSED = 0x1
BORN_HOST_V6 = 0x10
STORE_HOST_V6 = 0x20
INNER_BATCH = 0xC0


@dataclass(frozen=True)
class Record:
    """One stored message. ``body`` and ``properties`` are what is stored; host flags follow from the hosts."""

    topic: str | bytes = "T"
    body: bytes = b"hello"
    properties: Mapping[str, str] | bytes = b""
    queue_id: int = 0
    queue_offset: int = 0
    commit_log_offset: int = 0
    sys_flag: int = 0
    flag: int = 0
    born_timestamp_ms: int = 0
    store_timestamp_ms: int = 0
    born_host: tuple[str, int] = ("10.0.0.1", 40001)
    store_host: tuple[str, int] = ("10.0.0.2", 10911)
    reconsume_times: int = 0
    prepared_transaction_offset: int = 0
    body_crc: int | None = None
    magic: int = V1

    def encode(self) -> bytes:
        topic = self.topic.encode() if isinstance(self.topic, str) else self.topic
        properties = property_bytes(self.properties)
        crc = zlib.crc32(self.body) & 0x7FFFFFFF if self.body_crc is None else self.body_crc
        rest = b"".join(
            (
                struct.pack(
                    ">Iiiiqq", self.magic, crc, self.queue_id, self.flag, self.queue_offset, self.commit_log_offset
                ),
                struct.pack(">iq", self.stored_sys_flag, self.born_timestamp_ms),
                host_bytes(self.born_host),
                struct.pack(">q", self.store_timestamp_ms),
                host_bytes(self.store_host),
                struct.pack(">iqi", self.reconsume_times, self.prepared_transaction_offset, len(self.body)),
                self.body,
                struct.pack(">h" if self.magic == V2 else ">b", len(topic)),
                topic,
                struct.pack(">h", len(properties)),
                properties,
            )
        )
        return struct.pack(">i", 4 + len(rest)) + rest

    @property
    def stored_sys_flag(self) -> int:
        plain = self.sys_flag & ~(BORN_HOST_V6 | STORE_HOST_V6)
        return plain | BORN_HOST_V6 * _is_ipv6(self.born_host) | STORE_HOST_V6 * _is_ipv6(self.store_host)


def pull_body(*records: Record) -> bytes:
    return b"".join(record.encode() for record in records)


def with_a_v1_topic_of_128_bytes() -> bytes:
    """A record whose int8 states -128 where 128 bytes of topic are, and all else fits."""
    longest = Record(topic="t" * 127).encode()
    at = longest.index(b"ttt") - 1
    return struct.pack(">i", len(longest) + 1) + longest[4:at] + b"\x80t" + longest[at + 1 :]


def property_bytes(properties: Mapping[str, str] | bytes) -> bytes:
    if isinstance(properties, bytes):
        return properties
    return "".join(f"{name}\x01{value}\x02" for name, value in properties.items()).encode()


def inner_batch(messages: Sequence[tuple[bytes, Mapping[str, str] | bytes]], flag: int = 0) -> bytes:
    """The body of a batch: messages of (body, properties)."""
    return b"".join(_inner_message(body, property_bytes(properties), flag) for body, properties in messages)


def batch_of(record: Record, messages: Sequence[tuple[bytes, Mapping[str, str] | bytes]], flag: int = 0) -> Record:
    """The record with ``messages`` as its body, and with what a broker writes into it for a batch consume queue."""
    counted = {"INNER_BASE": str(record.queue_offset), "INNER_NUM": str(len(messages))}
    return replace(
        record,
        body=inner_batch(messages, flag),
        properties=property_bytes(counted) + property_bytes(record.properties),
        sys_flag=record.sys_flag | INNER_BATCH,
    )


def host_bytes(host: tuple[str, int]) -> bytes:
    return ip_address(host[0]).packed + struct.pack(">i", host[1])


def _inner_message(body: bytes, properties: bytes, flag: int) -> bytes:
    size_bytes = 22 + len(body) + len(properties)
    head = struct.pack(">iiiii", size_bytes, 0, 0, flag, len(body))
    return head + body + struct.pack(">h", len(properties)) + properties


def _is_ipv6(host: tuple[str, int]) -> bool:
    return ip_address(host[0]).version == 6
