"""How a stored message is to be read: the flags in front of it."""

from __future__ import annotations

from enum import IntFlag


class MessageSysFlag(IntFlag):
    """How a message is stored. Source: ``common/sysflag/MessageSysFlag.java``.

    The transaction kind is what ``TRANSACTION_MASK`` covers, zero for a plain message; the compression, meaningful only
    with ``COMPRESSED``, what ``COMPRESSION_MASK`` covers, zero for ZLIB by old producers.
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
