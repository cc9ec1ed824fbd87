"""``rocketmq_spark.stop`` of a query whose temporary files somebody has cleaned up."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from pyspark.sql.streaming.query import StreamingQuery

import rocketmq_spark
from connector_tests.spark.conftest import StreamOf
from connector_tests.support.streams import Topic, eventually

pytestmark = pytest.mark.full


def control_folder(query: StreamingQuery) -> Path:
    eventually(lambda: query.lastProgress is not None, "a first progress")
    return Path(json.loads(query.lastProgress.sources[0].latestOffset)["control"]["folder"])  # type: ignore[union-attr]  # it has had progress


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
