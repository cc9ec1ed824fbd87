from __future__ import annotations

from random import Random

import numpy as np
import pyarrow as pa
import pytest

from rocketmq_spark.sink.body_compression import KINDS, NONE, compressed
from rocketmq_spark.wire.message.compression import decompress
from rocketmq_spark.wire.message.sys_flag import MessageSysFlag

BODIES = pa.array([b"short", b"x" * 5_000, b"y" * 4_096, b"z" * 4_097], pa.binary())


@pytest.mark.parametrize("compression", KINDS)
def test_large_bodies_are_compressed_and_flagged(compression: str) -> None:
    bodies, flags = compressed(BODIES, compression, 4_096)
    flag = int(MessageSysFlag.COMPRESSED | KINDS[compression])
    assert (flags.tolist(), flags.dtype) == ([0, flag, 0, flag], np.dtype(np.int32))
    values = bodies.to_pylist()
    assert (values[0], values[2]) == (b"short", b"y" * 4_096)
    assert [decompress(values[row], flag) for row in (1, 3)] == [b"x" * 5_000, b"z" * 4_097]
    assert len(values[1]) < 1_000
    assert bodies.type == pa.binary()


def test_without_compression_bodies_stay_as_they_are() -> None:
    bodies, flags = compressed(BODIES, NONE, 0)
    assert bodies is BODIES
    assert not flags.any()


@pytest.mark.parametrize("compression", KINDS)
def test_what_would_become_larger_stays_as_it_is(compression: str) -> None:
    """A body of the largest size that a broker takes was beyond it when it was compressed, and its dead letter too."""
    noise = Random(7).randbytes(10_000)
    bodies, flags = compressed(pa.array([noise, b"x" * 10_000], pa.binary()), compression, 4_096)
    assert bodies[0].as_py() == noise
    assert flags.tolist() == [0, int(MessageSysFlag.COMPRESSED | KINDS[compression])]
