"""Filters by SQL92, as a stream and a batch use them."""

from __future__ import annotations

import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import SparkSession

from connector_tests.spark.conftest import StreamOf
from connector_tests.support.streams import TIMEOUT_S, Topic
from rocketmq_spark.embedded import EmbeddedCluster

pytestmark = pytest.mark.full

SQL = {"expressionType": "SQL92", "subExpression": "TAGS IN ('TagA', 'TagC') AND KEYS IS NOT NULL"}
NOTHING = {"expressionType": "SQL92", "subExpression": "KEYS IS NULL"}
INVALID = {"expressionType": "SQL92", "subExpression": "TAGS = = 'TagA'"}


def test_stream_reads_what_matches_and_moves_past_the_rest(messages: Topic, stream: StreamOf, group: str) -> None:
    """In bounded batches, also where nothing matches; a restart may have another expression, or none."""
    expected = messages.send(3, tag="TagA")
    messages.send(50, tag="TagB")
    expected += messages.send(2, tag="TagC")
    query = stream(maxOffsetsPerTrigger="20", **SQL).start(availableNow=True)
    assert query.awaitTermination(int(TIMEOUT_S))
    assert len([progress for progress in query.recentProgress if progress.sources]) >= 3
    assert sum(progress.numInputRows for progress in query.recentProgress) == 5
    assert stream().bodies() == sorted(expected)
    assert messages.lag(group) == 0
    messages.send(40, tag="TagA")
    stream(maxOffsetsPerTrigger="20", **NOTHING).run_to_end()
    assert messages.lag(group) == 0
    expected += messages.send(4, tag="TagB")
    stream().run_to_end()
    assert stream().bodies() == sorted(expected)


def test_invalid_expression_fails_stream_and_batch(
    messages: Topic, stream: StreamOf, spark: SparkSession, cluster: EmbeddedCluster
) -> None:
    messages.send(4, tag="TagA")
    query = stream(**INVALID).start(availableNow=True)
    with pytest.raises(StreamingQueryException, match="ROCKETMQ_FILTER_EXPRESSION_INVALID"):
        query.awaitTermination(int(TIMEOUT_S))
    reader = spark.read.format("rocketmq").option("namesrvAddr", cluster.namesrv_addr)
    with pytest.raises(AnalysisException, match="ROCKETMQ_FILTER_EXPRESSION_INVALID"):
        reader.options(subscribe=messages.name, **INVALID).load().count()
    assert reader.options(subscribe=messages.name, **NOTHING).load().count() == 0
    assert reader.options(subscribe=messages.name, **SQL).load().count() == 4
