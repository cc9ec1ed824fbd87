"""Mutated bodies and frames: native code states what Python states, or refuses; never panics, reads beyond, keeps
memory.

The long form: ``make fuzz-native``.
"""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Sequence
from itertools import islice
from random import Random
from typing import Final

import psutil
import pyarrow as pa
import pytest

from connector_tests.support.decoders import native_decoder
from connector_tests.support.message_bytes import COMPRESSED, V2, Record, batch_of, pull_body
from connector_tests.support.mutation import Brink, mutated
from connector_tests.vectors.test_captured_frames import FRAMES, response
from rocketmq_spark.wire.arrow.column_table import COLUMNS
from rocketmq_spark.wire.arrow.columns import ColumnDecoder
from rocketmq_spark.wire.implementation import NATIVE, PYTHON, choose_response_template
from rocketmq_spark.wire.message.compression import compress
from rocketmq_spark.wire.message.sys_flag import MessageSysFlag
from rocketmq_spark.wire.remoting.fast_path_response import template_of

DECODER = native_decoder()
EVERYTHING: Final = (-(2**63), 2**63 - 1)
TOGETHER: Final = 500
"""How many bodies Python decodes at once: one by one takes it a hundred times longer."""
GROWTH_LIMIT_BYTES: Final = 64 * 2**20
JAVA_PROPERTIES: Final = {
    "MSG_REGION": "DefaultRegion",
    "UNIQ_KEY": "7F000001000018B4AAC20000000000FF",
    "CLUSTER": "DefaultCluster",
    "WAIT": "true",
    "TAGS": "TagA",
    "KEYS": "key-1 key-2",
    "TRACE_ON": "true",
}
PLAIN: Final = Record(topic="fuzz", body=b"payload", properties=JAVA_PROPERTIES, queue_offset=7)
SENT_BACK: Final = {"RETRY_TOPIC": "origin", "ORIGIN_MESSAGE_ID": "O", "订单": "值"}


def seeds() -> list[bytes]:
    """What a broker really said, and what else it may state."""
    return [
        bytes(response("pull found").body),
        bytes(response("pull by tag").body),
        PLAIN.encode(),
        pull_body(*[PLAIN] * 3),
        Record(topic="t" * 200, magic=V2, properties=SENT_BACK, body=b"").encode(),
        Record(born_host=("2001:db8::1", 1), store_host=("::1", 2), properties=b"a\x01b\x02c").encode(),
        pull_body(Record(properties=b""), PLAIN, Record(properties=b"TAGS\x01x\x02\x02KEYS\x01")),
        batch_of(Record(), [(b"1", b""), (b"2", b"a\x01b\x02")]).encode(),
        Record(sys_flag=COMPRESSED, body=compress(b"plain", MessageSysFlag.ZLIB)).encode(),
    ]


def mutants(seed: int) -> Iterator[bytes]:
    """Without end; one in sixteen is as it was."""
    random, bodies = Random(seed), seeds()
    while True:
        body = random.choice(bodies)
        yield mutated(body, random) if random.randrange(16) else body


class Duel:
    """Both decoders with the same arguments."""

    def __init__(self, columns: Sequence[str], tags: frozenset[str] | None, *, restores_origin: bool) -> None:
        self._native = DECODER(columns, broker_name="b", tags=tags, restores_origin=restores_origin)
        self._python = ColumnDecoder(columns, broker_name="b", tags=tags, restores_origin=restores_origin)
        self._brink = Brink(2**16)

    def fight(self, bodies: Sequence[bytes]) -> int:
        """How many native code takes; of these it must state what Python states, all at once and one after another."""
        batch_builder = self._native.batch_builder(sum(map(len, bodies)), len(bodies))
        assert batch_builder is not None
        accepted = [body for body in bodies if batch_builder.add([self._brink.at_the_brink(body)], *EVERYTHING)]
        grown, batch = batch_builder.finish(), self._native.decode_fast_path(accepted, *EVERYTHING)
        assert batch is not None, "what is ordinary alone is so together"
        expected = self._python.decode(accepted, *EVERYTHING)
        for one in (grown, batch):
            one.validate(full=True)
            assert one.schema.equals(expected.schema, check_metadata=True)
            assert one.equals(expected), first_difference(one, expected)
        return len(accepted)


def first_difference(batch: pa.RecordBatch, expected: pa.RecordBatch) -> str:
    pairs = zip(batch.to_pylist(), expected.to_pylist(), strict=False)
    different = (f"row {row}: {one} instead of {other}" for row, (one, other) in enumerate(pairs) if one != other)
    return next(different, f"{batch.num_rows} rows instead of {expected.num_rows}")


def duels() -> list[Duel]:
    names = tuple(COLUMNS)
    return [
        Duel(names, None, restores_origin=False),
        Duel(names, frozenset({"TagA", "x"}), restores_origin=True),
        Duel(("queueOffset", "body"), None, restores_origin=False),
        Duel(("msgId", "properties", "storeHost"), None, restores_origin=True),
        Duel(("queueOffset", "TAGS", "a", "UNIQ_KEY"), None, restores_origin=False),
    ]


@pytest.mark.timeout(4 * 3600)
@pytest.mark.parametrize("count", [40_000, pytest.param(10_000_000, marks=pytest.mark.long)])
def test_mutated_bodies_are_decoded_as_python_does_or_refused(count: int) -> None:
    process, opponents = psutil.Process(), duels()
    bodies = mutants(seed=count)
    accepted = done = rss_bytes = 0
    while done < count:
        some = list(islice(bodies, TOGETHER))
        accepted += opponents[done // TOGETHER % len(opponents)].fight(some)
        done += len(some)
        if done <= count // 10:
            rss_bytes = process.memory_info().rss
    assert count // 10 < accepted < count - count // 10, "both happens often"
    assert process.memory_info().rss - rss_bytes < GROWTH_LIMIT_BYTES


@pytest.mark.timeout(4 * 3600)
@pytest.mark.parametrize("count", [40_000, pytest.param(10_000_000, marks=pytest.mark.long)])
def test_mutated_responses_are_read_as_python_does(count: int) -> None:
    """Three frames at a time, of which any may be damaged, and the last cut."""
    frame = FRAMES["pull found"][4:]
    kinds = (choose_response_template(PYTHON), choose_response_template(NATIVE))
    python, native = (template_of(memoryview(frame), kind) for kind in kinds)
    assert python is not None
    assert native is not None
    random, brink, read = Random(count), Brink(2**16), [0] * 4
    for _ in range(count // 3):
        frames = (mutated(frame, random) if random.randrange(4) == 0 else frame for _ in range(3))
        stream = b"".join(len(one).to_bytes(4, "big") + one for one in frames)
        stream = stream[: len(stream) - random.choice((0, 0, 1, random.randrange(len(stream))))]
        received, begin = brink.at_the_brink(stream), random.choice((0, 0, 4 + len(frame)))
        responses, end = native.read(received, begin, len(stream))
        assert (responses, end) == python.read(received, begin, len(stream))
        read[len(responses)] += 1
    assert min(read) > count // 100, read


def test_reading_beyond_is_seen() -> None:
    """The brink is one: one byte further kills."""
    script = """
        import ctypes
        from connector_tests.support.mutation import Brink
        view = Brink(100).at_the_brink(b"abc")
        begin = ctypes.addressof(ctypes.c_char.from_buffer(view))
        assert ctypes.string_at(begin, 3) == b"abc"
        ctypes.string_at(begin, 4)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], env=os.environ, check=False)
    assert done.returncode == -11
