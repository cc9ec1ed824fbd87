"""What a user reads, whole, of a query that can never work as it was written."""

from __future__ import annotations

import json
import re
from shutil import copytree
from uuid import uuid4

import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import SparkSession

from connector_tests.spark.conftest import StreamOf
from connector_tests.support.streams import Stream, Topic
from connector_tests.support.timeouts import END_TO_END_S, PATIENT
from rocketmq_spark.embedded import EmbeddedCluster

FAILURE_TIMEOUT_S = int(END_TO_END_S)
NAME_SERVERS_UNAVAILABLE = (
    "[ROCKETMQ_NOT_A_NAME_SERVER] {address} is not a name server, but probably a broker: it does not support "
    "GET_ROUTEINFO_BY_TOPIC. Set 'namesrvAddr' to the name server's address. Its port is 9876 by default, a "
    "broker's is 10911."
)


@pytest.mark.full
def test_a_group_of_rocketmqs_own(stream: StreamOf) -> None:
    with pytest.raises(AnalysisException) as raised:
        stream(consumerGroup="CID_RMQ_SYS_TRANS").load()
    assert (
        "[ROCKETMQ_INVALID_OPTION_VALUE] Invalid value 'CID_RMQ_SYS_TRANS' for 'consumerGroup'. Set it to a "
        "group name (letters, digits and %|_-, at most 120 characters) that is no system group of RocketMQ, such as "
        "CID_RMQ_SYS_... or TOOLS_CONSUMER."
    ) in str(raised.value)


def test_a_broker_given_as_a_name_server_to_a_reader(cluster: EmbeddedCluster, stream: StreamOf) -> None:
    """At once: all of its time is the default, five minutes. It was once said in RocketMQ's words, after 15 seconds."""
    query = stream(namesrvAddr=cluster.broker_addr()).start()
    try:
        with pytest.raises(StreamingQueryException) as raised:
            query.awaitTermination(FAILURE_TIMEOUT_S)
    finally:
        query.stop()
    assert NAME_SERVERS_UNAVAILABLE.format(address=cluster.broker_addr()) in str(raised.value)


@pytest.mark.full
def test_a_broker_given_as_a_name_server_to_a_writer(spark: SparkSession, cluster: EmbeddedCluster, topic: str) -> None:
    rows = spark.createDataFrame([("a",)], "body string").write.format("rocketmq").mode("append").option("topic", topic)
    with pytest.raises(Exception, match="NOT_A_NAME_SERVER") as raised:
        rows.option("namesrvAddr", cluster.broker_addr()).save()
    assert NAME_SERVERS_UNAVAILABLE.format(address=cluster.broker_addr()) in str(raised.value)


@pytest.mark.full
def test_two_streams_of_one_application_with_one_group_and_different_topics(
    cluster: EmbeddedCluster, messages: Topic, stream: StreamOf, group: str
) -> None:
    """The newcomer ends and states why; the other one reads on."""
    sent = messages.send(8)
    other_topic = f"{messages.name}-other"
    cluster.create_topic(other_topic, 4)
    first, second = (
        stream("first", instanceName="first", **PATIENT),
        stream("second", instanceName="second", subscribe=other_topic, **PATIENT),
    )
    with first.running() as query:
        query.processAllAvailable()
        failure = failure_of(second)
        progress = query.lastProgress
        assert progress is not None
        host, _ = json.loads(str(progress.sources[0].latestOffset))["clientId"].split("@")
        sent += messages.send(8)
        query.processAllAvailable()
    assert first.bodies() == sorted(sent)
    reported = re.sub(r"%RETRY%\S+ \(\*\), ", "", failure)
    assert (
        f"[ROCKETMQ_INCONSISTENT_SUBSCRIPTION] Members of group {group!r} have different subscriptions: "
        f"'{host}@second' subscribes to {other_topic} (*); '{host}@first' subscribes to {messages.name} (*). Set "
        "the same topics and expressions on all members, or use another group. Each stream is a member of its "
        "own: two streams of one application that read different topics need a group each."
    ) in reported


def failure_of(joining: Stream) -> str:
    """The text of the error with which it ends."""
    query = joining.start()
    try:
        with pytest.raises(StreamingQueryException) as raised:
            query.awaitTermination(FAILURE_TIMEOUT_S)
    finally:
        query.stop()
    return str(raised.value)


@pytest.mark.full
def test_a_copy_of_a_checkpoint_beside_the_first(messages: Topic, stream: StreamOf, group: str) -> None:
    """With another query ID, as Spark stops the first of two queries of one: members compare names of the connector's
    own. The copy ends and names both members; the first query reads on."""
    sent = messages.send(8)
    first, copy = stream("first", instanceName="first", **PATIENT), stream("copy", instanceName="second", **PATIENT)
    first.run_to_end()
    copytree(first.folder / "checkpoint", copy.folder / "checkpoint")
    (copy.folder / "checkpoint" / ".metadata.crc").unlink(missing_ok=True)
    (copy.folder / "checkpoint" / "metadata").write_text(json.dumps({"id": str(uuid4())}), "utf-8")
    with first.running() as query:
        query.processAllAvailable()
        failure = failure_of(copy)
        assert re.search(rf"'\S+@second' and '\S+@first' of group '{group}' run from one checkpoint", failure)
        assert copy.bodies() == []
        sent += messages.send(8)
        query.processAllAvailable()
    assert first.bodies() == sorted(sent)
