"""``rocketmq_spark.stop`` of a query whose temporary files somebody has cleaned up."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from pyspark.sql.streaming.query import StreamingQuery

import rocketmq_spark
from connector_tests.spark.conftest import StreamOf
from connector_tests.support.streams import TIMEOUT_S, Topic, eventually

pytestmark = pytest.mark.full


def control_folder(query: StreamingQuery) -> Path:
    eventually(lambda: any(rocketmq_spark.progress_of(query)), "a first progress")
    return Path(rocketmq_spark.progress_of(query)[0]["control"]["folder"])


def test_a_query_stops_gracefully_though_its_temporary_files_were_cleaned_up(
    messages: Topic, stream: StreamOf, group: str
) -> None:
    bodies = messages.send(20)
    query_of = stream()
    with query_of.running() as query:
        eventually(lambda: len(query_of.places()) == len(bodies), "all rows in the sink")
        folder = control_folder(query)
        shutil.rmtree(folder)
        rocketmq_spark.stop(query)
        assert not query.isActive
    assert messages.lag(group) == 0
    assert messages.members(group) == []
    eventually(lambda: not folder.exists(), "the folder gone with the query")


@pytest.mark.parametrize("options", [{}, {"loadBalance": "message"}], ids=["queue", "message"])
def test_restarted_query_stops_gracefully_before_it_has_new_messages(
    messages: Topic, stream: StreamOf, group: str, options: dict[str, str]
) -> None:
    """On Spark 4.0 and 4.1 its progress shows the last logged offset, and so the folder of the start before."""
    messages.send(20)
    query_of = stream(**options)
    with query_of.running() as query:
        eventually(lambda: len(query_of.places()) == 20, "all rows in the sink")
        # a batch of messages that was cut off here would be another one at its replay
        eventually(lambda: query_of.batches_done() == len(list(query_of.folder.glob("out/*"))), "the batches committed")
    with query_of.running() as query:
        control_folder(query)
        rocketmq_spark.stop(query, timeout_s=TIMEOUT_S)
        assert not query.isActive
    assert len(query_of.places()) == 20
    assert messages.members(group) == []
    assert options or messages.lag(group) == 0
