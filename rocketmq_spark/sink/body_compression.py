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
    """``bodies``, those above ``over_bytes`` compressed where that makes them smaller, and the sysFlag of each."""
    sys_flags = np.zeros(len(bodies), np.int32)
    sizes = lengths_of(bodies)
    are_large = sizes > over_bytes
    if compression == NONE or not are_large.any():
        return bodies, sys_flags
    kind = KINDS[compression]
    values = bodies.to_pylist()
    for row in np.flatnonzero(are_large):
        packed = compress(values[row], kind)
        if len(packed) < sizes[row]:
            values[row], sys_flags[row] = packed, MessageSysFlag.COMPRESSED | kind
    return pa.array(values, pa.binary()), sys_flags
