"""Compression of message bodies: ZLIB, LZ4 (frame format), Zstandard (frames without content size).

Source: ``common/compression/*.java``. Differs: a stream that ends early is an error for every type, and the result is
limited, because kilobytes can expand to gigabytes. Arrow's codecs are loaded with the first body that needs one: not
when planning a query, or in a broker.
"""

from __future__ import annotations

import zlib
from typing import Final, TypeAlias

from rocketmq_spark.wire.bounds import DECOMPRESSED_BODY_BYTES, DECOMPRESSED_BYTES
from rocketmq_spark.wire.message.sys_flag import MessageSysFlag

Buffer: TypeAlias = bytes | bytearray | memoryview

DECOMPRESSED_LIMIT_BYTES: Final = DECOMPRESSED_BYTES.maximum

_JAVA_ZLIB_LEVEL: Final = 5
_READ_BYTES: Final = 256 * 1024
_LZ4_FRAME_BYTES: Final = 64 * 1024
"""Frames of one block each: Arrow writes and Java's LZ4FrameInputStream reads only blocks that do not refer to
other blocks."""

_ARROW_CODEC: Final[dict[MessageSysFlag, str]] = {MessageSysFlag.LZ4: "lz4", MessageSysFlag.ZSTD: "zstd"}

_KIND_BY_BITS: Final[dict[int, MessageSysFlag]] = {
    0: MessageSysFlag.ZLIB,  # producers before 5.0 set no type
    MessageSysFlag.LZ4.value: MessageSysFlag.LZ4,
    MessageSysFlag.ZSTD.value: MessageSysFlag.ZSTD,
    MessageSysFlag.ZLIB.value: MessageSysFlag.ZLIB,
}


def compression_kind(sys_flag: int) -> MessageSysFlag:
    """Return ``LZ4``, ``ZSTD`` or ``ZLIB`` by the sysFlag of a compressed message; ZLIB if it has no type. Raises
    ValueError for an unknown type.

    Source: ``common/compression/CompressionType.java#findByValue``.
    """
    bits = sys_flag & MessageSysFlag.COMPRESSION_MASK.value
    if bits not in _KIND_BY_BITS:
        raise ValueError(f"its compression {bits:#x} is unknown")
    return _KIND_BY_BITS[bits]


def compress(body: Buffer, kind: MessageSysFlag) -> bytes:
    """Compress ``body`` as the Java client does; ``kind``: ZLIB, LZ4 or ZSTD, another one raises KeyError. The caller
    sets ``COMPRESSED | kind`` in the message's sysFlag."""
    if kind is MessageSysFlag.ZLIB:
        return zlib.compress(body, _JAVA_ZLIB_LEVEL)
    if kind is MessageSysFlag.LZ4:
        return _compress_lz4(memoryview(body))
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, _ARROW_CODEC[kind]) as stream:
        stream.write(body)
    return bytes(sink.getvalue())


def _compress_lz4(body: memoryview) -> bytes:
    """Return LZ4 frames of at most 64 KiB of ``body`` each, one after another; one frame for an empty body."""
    import pyarrow as pa

    codec = pa.Codec(_ARROW_CODEC[MessageSysFlag.LZ4])
    begins = range(0, max(len(body), 1), _LZ4_FRAME_BYTES)
    return b"".join(codec.compress(body[begin : begin + _LZ4_FRAME_BYTES]) for begin in begins)


def decompress(body: Buffer, sys_flag: int, limit_bytes: int = DECOMPRESSED_LIMIT_BYTES) -> bytes:
    """Return the plain body of a message whose sysFlag has ``COMPRESSED``, which is not checked.

    Raises ValueError for an unknown type, a damaged or early ending stream, and a result larger than ``limit_bytes``
    (the rest of a limit of several bodies) or DECOMPRESSED_BODY_BYTES (the limit of one body). An empty body is b""
    with LZ4 and ZSTD; with ZLIB it ends early.
    """
    limit_bytes = min(limit_bytes, DECOMPRESSED_BODY_BYTES.maximum)
    kind = compression_kind(sys_flag)
    try:
        if kind is MessageSysFlag.ZLIB:
            plain = _decompress_zlib(body, limit_bytes + 1)
        else:
            plain = _decompress_frames(body, _ARROW_CODEC[kind], limit_bytes + 1)
    except (zlib.error, OSError) as damage:
        raise ValueError(f"its {kind.name} body is damaged: {damage}") from damage
    if len(plain) > limit_bytes:
        raise ValueError(f"its body has more than the {limit_bytes} bytes allowed when decompressed")
    return plain


def _decompress_zlib(body: Buffer, max_bytes: int) -> bytes:
    """Return the plain body, or its first ``max_bytes`` if it is longer; bytes after the stream are ignored. A body
    that is damaged or ends early raises zlib.error."""
    stream = zlib.decompressobj()
    plain = stream.decompress(body, max_bytes)
    if not stream.eof and len(plain) < max_bytes:
        raise zlib.error("it ends early")
    return plain


def _decompress_frames(body: Buffer, codec: str, max_bytes: int) -> bytes:
    """Return the plain body of all frames, at most its first ``max_bytes``; b"" for no frame. Raises OSError if a frame
    is damaged or ends early. Read into a preallocated buffer: ``stream.read`` allocates one, and does not free it when
    it raises."""
    import pyarrow as pa

    stream = pa.CompressedInputStream(pa.BufferReader(body), codec)
    buffer = memoryview(pa.allocate_buffer(min(max_bytes, _READ_BYTES)))
    parts: list[bytes] = []
    while max_bytes > 0 and (part_bytes := stream.readinto(buffer[:max_bytes])):
        parts.append(bytes(buffer[:part_bytes]))
        max_bytes -= part_bytes
    return b"".join(parts)
