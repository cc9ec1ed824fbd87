"""Part ``starting``: what a query of one batch takes beside its rows, ours and one on an empty Python source, with the
recommended settings and with Spark's own.

Each time in a Python and a JVM of their own, as a ``spark-submit`` would: nothing is loaded when it begins.
"""

from __future__ import annotations

import json
import sys
import uuid
from collections.abc import Iterator, Mapping
from functools import partial
from time import perf_counter, time
from typing import Final

from connector_tests.benchmarks.apart import run_apart
from connector_tests.benchmarks.names import DEFAULTS_SUFFIX, EMPTY, OURS
from connector_tests.benchmarks.race import alternate
from connector_tests.benchmarks.rocketmq_side import rocketmq_side
from connector_tests.benchmarks.roles import PLANNING, RUNNER, cpu_s
from connector_tests.benchmarks.run import Contestant, Figures, Outcome
from connector_tests.benchmarks.workload import Workload

PART: Final = "starting"
CASE: Final = "a query of one batch"
ROWS: Final = 100
FIRST_BATCH: Final = "first batch after start_s"
"""The figure that states how long nobody sees anything of a query."""
SAMPLE_INTERVAL_S: Final = 0.1
"""A source runner ends with its query, soon after its first batch."""


def run_starting(rounds: int) -> Iterator[Outcome]:
    with rocketmq_side(Workload(100, ROWS)) as side:
        options = {**side.options, "consumerGroup": ""}
        for case in (CASE, f"{CASE}{DEFAULTS_SUFFIX}"):
            racing: dict[str, Contestant] = {
                OURS: partial(start_apart, case, side.source, options),
                EMPTY: partial(start_apart, case, "empty", {}),
            }
            yield from alternate(PART, case, racing, rounds)


def start_apart(case: str, source: str, options: Mapping[str, str]) -> Figures:
    """See ``start_here``; ours for a group that nobody has used."""
    arguments_given = {**options, "consumerGroup": f"benchmark-{uuid.uuid4().hex}"} if options else {}
    figures: Figures = json.loads(run_apart(__name__, case, source, json.dumps(arguments_given)).splitlines()[-1])
    return figures


def start_here(case: str, source: str, options: Mapping[str, str]) -> Figures:
    """Seconds of ``load()``, from ``start()`` to the query's end, and from ``start()`` to the end of its first batch;
    the processor time that Spark's Python processes for planning took for each, and the source runner."""
    from connector_tests.benchmarks.empty_source import EmptySource
    from connector_tests.benchmarks.spark import (
        DEFAULT_SETTINGS,
        RECOMMENDED_SETTINGS,
        checkpoint,
        jvm_pid,
        spark_session,
    )
    from connector_tests.benchmarks.throughput import batches_of
    from connector_tests.benchmarks.usage import Usage

    settings = DEFAULT_SETTINGS if case.endswith(DEFAULTS_SUFFIX) else RECOMMENDED_SETTINGS
    with spark_session(settings, []) as spark, checkpoint() as folder:
        spark.dataSource.register(EmptySource)
        with Usage({}, jvm_pid(spark)) as loading:
            begin = perf_counter()
            stream = spark.readStream.format(source).options(**options).load()
            load_s = perf_counter() - begin
        writer = stream.writeStream.format("noop").option("checkpointLocation", folder).trigger(availableNow=True)
        with Usage({}, jvm_pid(spark), SAMPLE_INTERVAL_S) as running:
            begin, begin_s = perf_counter(), time()
            query = writer.start()
            query.awaitTermination()
            query_s = perf_counter() - begin
        rows, ((first_begin_s, first_end_s), *_) = batches_of(query)
        assert rows, "no rows"
        return {
            "load_s": load_s,
            f"load {cpu_s(PLANNING)}": loading.figures().get(cpu_s(PLANNING), 0.0),
            "query_s": query_s,
            FIRST_BATCH: first_end_s - begin_s,
            "first batch_s": first_end_s - first_begin_s,
            f"query {cpu_s(PLANNING)}": running.figures().get(cpu_s(PLANNING), 0.0),
            f"query {cpu_s(RUNNER)}": running.figures().get(cpu_s(RUNNER), 0.0),
        }


def main(case: str, source: str, options: str) -> None:
    """Print the figures."""
    sys.stdout.write(json.dumps(start_here(case, source, json.loads(options))))


if __name__ == "__main__":
    main(*sys.argv[1:])
