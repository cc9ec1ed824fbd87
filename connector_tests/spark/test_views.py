"""``option("view", ...)``: the cluster as DataFrames and SQL."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from pyspark.errors import AnalysisException, PythonException
from pyspark.sql import DataFrame, SparkSession

from connector_tests.support.streams import Topic
from connector_tests.support.timeouts import PATIENT
from rocketmq_spark.cli.arguments import cluster_at
from rocketmq_spark.embedded import EmbeddedCluster
from rocketmq_spark.embedded.pytest_plugin import unique_name
from rocketmq_spark.model import BrokerAddress

ViewOf = Callable[..., DataFrame]


@pytest.fixture
def view(spark: SparkSession, cluster: EmbeddedCluster) -> ViewOf:
    def load(name: str, **options: str) -> DataFrame:
        reader = spark.read.format("rocketmq").option("namesrvAddr", cluster.namesrv_addr)
        return reader.options(view=name, **options).load()

    return load


@pytest.fixture
def lagging(cluster: EmbeddedCluster, messages: Topic, group: str) -> Iterator[str]:
    """A group that has read one message of each queue but the last, of two."""
    messages.send(8)
    with cluster_at(cluster.namesrv_addr, PATIENT) as client:
        broker = client.broker(BrokerAddress(cluster.broker_addr()))
        offsets = dict.fromkeys(messages.queues[:3], 1)
        # Any pull of the group creates it.
        broker.pull(group, messages.queues[0], 0, 1)
        assert broker.submit_update_offsets(group, offsets).result() == {}
        yield group


def test_where_is_my_lag(spark: SparkSession, cluster: EmbeddedCluster, messages: Topic, lagging: str) -> None:
    name = unique_name("lag")
    options = f"namesrvAddr '{cluster.namesrv_addr}', view 'groups', consumerGroup '{lagging}'"
    spark.sql(f"CREATE TEMPORARY VIEW {name} USING rocketmq OPTIONS ({options})")
    query = f"SELECT topic, sum(lag) AS lag, max(lagMs) >= 0 AS has_age FROM {name} GROUP BY topic"
    try:
        assert [tuple(row) for row in spark.sql(query).collect()] == [(messages.name, 5, True)]
        messages.send(4)
        assert [tuple(row) for row in spark.sql(query).collect()] == [(messages.name, 9, True)], "of that moment"
    finally:
        spark.catalog.dropTempView(name)


def test_queues_and_topics_are_those_of_the_cluster(messages: Topic, view: ViewOf) -> None:
    messages.send(8)
    queues = view("queues", subscribe=messages.name)
    assert [(row.queueId, row.minOffset, row.maxOffset, row.messages) for row in queues.collect()] == [
        (queue_id, 0, 2, 2) for queue_id in range(4)
    ]
    assert queues.where("lastStoreTimestamp > current_timestamp() - INTERVAL 1 DAY").count() == 4
    (topic,) = view("topics").where(f"topic = '{messages.name}'").collect()
    assert (topic.brokerName, topic.readQueues, topic.permission) == ("broker-a", 4, "RW")
    assert view("topics").where("topic = 'SELF_TEST_TOPIC'").count() == 0


def test_members_of_a_group_without_any_have_no_rows(lagging: str, view: ViewOf) -> None:
    members = view("members", consumerGroup=lagging)
    assert members.count() == 0
    assert dict(members.dtypes)["subscriptions"] == "map<string,string>"


def test_user_selects_columns(spark: SparkSession, cluster: EmbeddedCluster, messages: Topic) -> None:
    messages.send(4)
    reader = spark.read.format("rocketmq").options(namesrvAddr=cluster.namesrv_addr, view="queues")
    frame = reader.schema("messages BIGINT, queueId INT").option("subscribe", messages.name).load()
    assert sorted(map(tuple, frame.collect())) == [(1, queue_id) for queue_id in range(4)]


def test_errors_name_what_is_missing(view: ViewOf) -> None:
    with pytest.raises(PythonException, match=r"TOPIC_NOT_FOUND.*no_such_topic"):
        view("queues", subscribe="no_such_topic").count()
    with pytest.raises(PythonException, match=r"GROUP_NOT_FOUND\.CLUSTER.*no_such_group"):
        view("groups", consumerGroup="no_such_group").count()
    with pytest.raises(AnalysisException, match=r"INVALID_OPTION_VALUE.*view"):
        view("lag")
