"""Large bodies compressed, as a producer does it: each by itself, with a flag that says how."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import numpy as np
import pyarrow as pa

from rocketmq_spark.wire.arrow.message_encoder import lengths_of
from rocketmq_spark.wire.arrow.slices import Numbers
from rocketmq_spark.wire.message.compression import compress
from rocketmq_spark.wire.message.sys_flag import MessageSysFlag

NONE: Final = "none"
KINDS: Final[Mapping[str, MessageSysFlag]] = MappingProxyType(
    {"zlib": MessageSysFlag.ZLIB, "lz4": MessageSysFlag.LZ4, "zstd": MessageSysFlag.ZSTD}
)
"""By the value of option ``compression``."""


def compressed(bodies: pa.BinaryArray, compression: str, over_bytes: int) -> tuple[pa.BinaryArray, Numbers]:
    """``bodies``, those above ``over_bytes`` compressed, and the sysFlag of each."""
    sys_flags = np.zeros(len(bodies), np.int32)
    are_large = lengths_of(bodies) > over_bytes
    if compression == NONE or not are_large.any():
        return bodies, sys_flags
    kind = KINDS[compression]
    sys_flags[are_large] = MessageSysFlag.COMPRESSED | kind
    values = (
        compress(body.as_buffer(), kind) if is_large else body.as_py()
        for body, is_large in zip(bodies, are_large, strict=True)
    )
    return pa.array(values, pa.binary()), sys_flags
