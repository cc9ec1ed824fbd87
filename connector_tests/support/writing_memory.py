"""What a task takes of memory that writes many rows, as a program: name server, topic, number of rows.

A process of its own, as a worker is; it prints the most that it had resident, at a third of the rows and at the end.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from connector_tests.support.timeouts import PATIENT_MS
from connector_tests.support.written_rows import SCHEMA, write
from rocketmq_spark.remoting.pool import ConnectionPool
from rocketmq_spark.sink.write_task import WriteTask

BATCH_ROWS = 10_000
"""As Spark hands them over."""
BODY = b"x" * 100


def most_resident_kib() -> int:
    """Of this process, since it began."""
    found = re.search(r"^VmHWM:\s+(\d+) kB$", Path("/proc/self/status").read_text(encoding="ascii"), re.MULTILINE)
    assert found is not None
    return int(found[1])


def batches(rows: int, at_a_third: list[int]) -> Iterator[pa.RecordBatch]:
    """So many rows; in the middle it is noted how much memory there was."""
    for begin in range(0, rows, BATCH_ROWS):
        if begin >= rows // 3 and not at_a_third:
            at_a_third.append(most_resident_kib())
        keys = pa.array([f"key-{number}" for number in range(begin, begin + BATCH_ROWS)])
        columns = {"body": pa.array([BODY] * BATCH_ROWS), "tags": pa.array(["tag"] * BATCH_ROWS), "keys": keys}
        absent = {field.name: pa.nulls(BATCH_ROWS, field.type) for field in SCHEMA if field.name not in columns}
        yield pa.record_batch([(columns | absent)[field.name] for field in SCHEMA], schema=SCHEMA)


def main(namesrv_addr: str, topic: str, rows: int) -> None:
    pool, at_a_third = ConnectionPool(PATIENT_MS), list[int]()
    written = write(namesrv_addr, topic, batches(rows, at_a_third), WriteTask("memory", 0), pool)
    pool.close()
    figures = {"rows": written, "third_kib": at_a_third[0], "end_kib": most_resident_kib()}
    sys.stdout.write(json.dumps(figures))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
