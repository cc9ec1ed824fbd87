"""System flags of a stored message."""

from __future__ import annotations

from enum import IntFlag


class MessageSysFlag(IntFlag):
    """Flags of a stored message. Source: ``common/sysflag/MessageSysFlag.java``.

    ``TRANSACTION_MASK`` covers the transaction kind, 0 for a plain message. ``COMPRESSION_MASK`` covers the type, which
    applies only with ``COMPRESSED``; 0 is ZLIB, by old producers.
    """

    COMPRESSED = 0x1
    MULTI_TAGS = 0x2
    TRANSACTION_PREPARED = 0x4
    TRANSACTION_COMMIT = 0x8
    TRANSACTION_ROLLBACK = 0xC
    TRANSACTION_MASK = 0xC
    BORNHOST_V6 = 0x10
    STOREHOST_V6 = 0x20
    NEED_UNWRAP = 0x40
    INNER_BATCH = 0x80
    LZ4 = 0x100
    ZSTD = 0x200
    ZLIB = 0x300
    COMPRESSION_MASK = 0x700
