"""One Spark session for all stories, found source and all: nothing is registered by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from connector_tests.support.spark_session import test_session
from connector_tests.support.streams import Stream, Topic
from rocketmq_spark.embedded import EmbeddedCluster
from rocketmq_spark.embedded.pytest_plugin import unique_name

StreamOf = Callable[..., Stream]

pytest.register_assert_rewrite("connector_tests.support.core_scenarios")


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with test_session(tmp_path_factory.mktemp("spark")) as session:
        yield session


@pytest.fixture
def messages(cluster: EmbeddedCluster, topic: str) -> Iterator[Topic]:
    """The test's topic, to send to and to ask about."""
    handle = Topic(cluster, topic)
    yield handle
    handle.close()


@pytest.fixture
def others(cluster: EmbeddedCluster) -> Iterator[Topic]:
    """A second topic."""
    topic = Topic(cluster, cluster.create_topic(unique_name("others"), 2))
    yield topic
    topic.close()


@pytest.fixture
def stream(spark: SparkSession, cluster: EmbeddedCluster, topic: str, group: str, tmp_path: Path) -> StreamOf:
    """Makes queries over the test's topic in the test's group; ``name`` keeps their outputs apart."""

    def make(name: str = "query", schema: str | StructType | None = None, **options: str) -> Stream:
        return Stream(spark, cluster, topic, group, tmp_path / name, options, schema)

    return make
