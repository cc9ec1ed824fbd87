"""A new checkpoint location (docs/offsets.md), where Spark's own file sink remembers batches by their number."""

from __future__ import annotations

from pathlib import Path

import pytest

import rocketmq_spark
from connector_tests.spark.conftest import StreamOf
from connector_tests.support.streams import Stream, Topic
from connector_tests.support.timeouts import PATIENT

pytestmark = pytest.mark.full

BATCHES, ROWS = 3, 5


def append_to_files(stream: Stream, path: Path, checkpoint: Path) -> None:
    """One run to the end, in ``BATCHES`` batches, into Spark's Parquet sink."""
    writer = stream.load().selectExpr("CAST(body AS STRING) AS body").writeStream.format("parquet")
    writer = writer.option("checkpointLocation", str(checkpoint))
    query = rocketmq_spark.run_available_now(writer, lambda run: run.start(str(path)))
    assert query.exception() is None
    assert {file.name for file in (checkpoint / "commits").glob("[0-9]*")} == {str(number) for number in range(BATCHES)}


@pytest.mark.parametrize("path", ["same", "new"])
def test_a_new_checkpoint_loses_no_row_with_a_new_path_and_those_of_its_first_batches_without(
    messages: Topic, stream: StreamOf, group: str, tmp_path: Path, path: str
) -> None:
    query_of = stream(maxOffsetsPerTrigger=str(ROWS), **PATIENT)
    folders = {"before": tmp_path / "before", "after": tmp_path / ("after" if path == "new" else "before")}
    sent: dict[str, list[str]] = {}
    for checkpoint, folder in folders.items():
        sent[checkpoint] = messages.send(BATCHES * ROWS)
        append_to_files(query_of, folder, tmp_path / f"checkpoint-{checkpoint}")
    stored = {row.body for folder in folders.values() for row in query_of.spark.read.parquet(str(folder)).collect()}
    assert messages.lag(group) == 0
    assert stored == {*sent["before"], *(sent["after"] if path == "new" else ())}
