"""Part ``decode``: how fast pulled bytes become Arrow batches; alone ``python -m connector_tests.benchmarks.decode``.

Both decoders, in Python and native (where that is built), each round of one after that of the other. No broker; seconds
are CPU time, so rates are per core. Messages have the properties that a 5.x broker stores for a Java producer (7 of
them, 140 bytes). The best round is what the code can do, the median what the machine let it do.
"""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from time import process_time
from typing import Final

import numpy as np
import pyarrow as pa

from connector_tests.benchmarks.apart import run_apart
from connector_tests.benchmarks.figures import cases, contestants, rates, summary
from connector_tests.benchmarks.run import Run
from connector_tests.benchmarks.schemas import LIKE_KAFKA
from connector_tests.support.message_bytes import Record, pull_body
from rocketmq_spark.source.range_decoding import BATCH_BYTES
from rocketmq_spark.wire.arrow.column_table import COLUMNS, DEFAULT_COLUMNS, default_columns
from rocketmq_spark.wire.arrow.columns import ColumnDecoder
from rocketmq_spark.wire.implementation import PYTHON, choose_decoder
from rocketmq_spark.wire.message.stored_message import decode_messages

PART: Final = "decode"
ROUNDS: Final = 30
REPEATED: Final = 5
UNCOUNTED_ROUNDS: Final = 3
PULL_MESSAGES: Final = (32, 1024)
"""32 is what a broker gives by default, 1024 what one may be set to."""

OFFSET: Final = "queueOffset"
ALL: Final = f"all {len(COLUMNS)}"
PROJECTIONS: Final[dict[str, tuple[str, ...]]] = {
    f"default {len(DEFAULT_COLUMNS)}": DEFAULT_COLUMNS,
    f"default {len(DEFAULT_COLUMNS)} and properties": default_columns(include_properties=True),
    ALL: tuple(COLUMNS),
    "Kafka's": tuple(LIKE_KAFKA.names),
    "queueOffset, body": (OFFSET, "body"),
}
SINGLE: Final[dict[str, tuple[str, ...]]] = {OFFSET: (OFFSET,)} | {
    f"{OFFSET}, {name}": (OFFSET, name)
    for name in default_columns(include_properties=True)
    if name not in (OFFSET, "body")
}
"""What a column costs is the difference to ``queueOffset`` alone."""


def message(number: int, body_bytes: int) -> Record:
    return Record(
        topic="benchmark-topic",
        body=bytes(body_bytes),
        properties={
            "MSG_REGION": "DefaultRegion",
            "UNIQ_KEY": f"{number * 7919:032X}",
            "CLUSTER": "DefaultCluster",
            "WAIT": "true",
            "TAGS": "TagA",
            "KEYS": f"key-{number:08d}",
            "TRACE_ON": "true",
        },
        queue_offset=number,
        commit_log_offset=number * 400,
        born_timestamp_ms=1_700_000_000_000 + number,
        store_timestamp_ms=1_700_000_000_003 + number,
    )


def pulls(body_bytes: int, messages_per_pull: int, total_bytes: int) -> list[bytes]:
    """Pull response bodies of ``total_bytes`` together."""
    count = total_bytes // len(message(0, body_bytes).encode())
    return [
        pull_body(*(message(number, body_bytes) for number in range(begin, min(begin + messages_per_pull, count))))
        for begin in range(0, count, messages_per_pull)
    ]


def run_decode_apart(rounds: int) -> Iterator[Run]:
    """``run_decode``, see ``apart``."""
    for line in run_apart(__name__, str(rounds)).splitlines():
        yield Run(**json.loads(line))


def run_decode(rounds: int) -> Iterator[Run]:
    """Several columns together, each column, and the scalar decoder."""
    for body_bytes in (100, 1024):
        for messages_per_pull in PULL_MESSAGES:
            bodies = pulls(body_bytes, messages_per_pull, BATCH_BYTES)
            projections = PROJECTIONS | SINGLE if messages_per_pull == PULL_MESSAGES[0] else PROJECTIONS
            yield from column_runs(f"{body_bytes} B, {messages_per_pull} a pull", projections, bodies, rounds)
        yield from scalar_runs(f"{body_bytes} B, one by one", body_bytes, rounds)


def column_runs(
    case: str, projections: Mapping[str, tuple[str, ...]], bodies: Sequence[bytes], rounds: int
) -> Iterator[Run]:
    for name, columns in projections.items():
        decoders = [kind(columns, broker_name="broker-a", tags=None) for kind in decoder_classes()]
        (row_count,) = {decoder.decode(bodies, 0, 2**62).num_rows for decoder in decoders}
        racing = {title(name, decoder): partial(decoder.decode, bodies, 0, 2**62) for decoder in decoders}
        yield from timed(case, racing, row_count, rounds)


def decoder_classes() -> list[type[ColumnDecoder]]:
    """Python's, and the native one where it is built."""
    return list(dict.fromkeys((choose_decoder(PYTHON), choose_decoder(None))))


def title(columns: str, decoder: ColumnDecoder) -> str:
    """What is decoded, and by whom if not by Python."""
    return columns if decoder.implementation == PYTHON else f"{columns}, {decoder.implementation}"


def scalar_runs(case: str, body_bytes: int, rounds: int) -> Iterator[Run]:
    (body,) = pulls(body_bytes, 2**31, 2**20)
    row_count = len(decode_messages(body, broker_name="broker-a"))
    work = partial(decode_messages, body, broker_name="broker-a")
    yield from timed(case, {"scalar decoder": work}, row_count, rounds)


def timed(case: str, racing: Mapping[str, Callable[[], object]], row_count: int, rounds: int) -> Iterator[Run]:
    """Each round of one after that of the other; in a round the same again and again, as a worker does it."""
    for number in range(1 - UNCOUNTED_ROUNDS, rounds + 1):
        for name, work in racing.items():
            begin = process_time()
            for _ in range(REPEATED):
                work()
            seconds = process_time() - begin
            if number > 0:
                yield Run(PART, case, name, number, {"rows": REPEATED * row_count, "seconds": seconds})


def main(*rounds: str) -> None:
    """A table; with a number of rounds, each run as JSON."""
    if rounds:
        for run in run_decode(int(rounds[0])):
            sys.stdout.write(json.dumps(asdict(run)) + "\n")
    else:
        print_table()


def print_table() -> None:
    versions = f"Python {platform.python_version()}, numpy {np.__version__}, pyarrow {pa.__version__}"
    sys.stdout.write(f"{versions}, {platform.machine()}, {ROUNDS} rounds each\n")
    runs = list(run_decode(ROUNDS))
    for case in cases(runs, PART):
        for name, rounds in contestants(runs, PART, case).items():
            sys.stdout.write(f"{case:20} {name:30} {summary(rates(rounds))} M rows/s\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
