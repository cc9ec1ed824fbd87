"""Streams of assigned queues: no member of the group, and its offsets nevertheless."""

from __future__ import annotations

import json

import pytest
from pyspark.errors import StreamingQueryException

from connector_tests.spark.conftest import StreamOf
from connector_tests.support.streams import TIMEOUT_S, Topic, eventually
from rocketmq_spark.embedded import EmbeddedCluster
from rocketmq_spark.model import MessageQueue

pytestmark = pytest.mark.full


def assignment(messages: Topic, *queue_ids: int) -> str:
    (broker_name,) = {queue.broker_name for queue in messages.queues}
    return json.dumps({messages.name: {broker_name: queue_ids}})


def ends(messages: Topic, *queue_ids: int) -> dict[MessageQueue, int | None]:
    """The end of each of these queues; None for others."""
    return {
        queue: held.max_offset if queue.queue_id in queue_ids else None for queue, held in messages.bounds().items()
    }


def test_stream_reads_assigned_queues_and_commits_their_offsets(messages: Topic, stream: StreamOf, group: str) -> None:
    messages.send(20)
    query = stream(assign=assignment(messages, 0, 2), schema="queueId INT, queueOffset BIGINT")
    with query.running():
        eventually(lambda: messages.committed(group) == ends(messages, 0, 2), "offsets of both queues, and no others")
        eventually(lambda: messages.members(group) == [], "the member has left")
        messages.send(8)
        eventually(lambda: messages.committed(group) == ends(messages, 0, 2), "the offsets of later messages")
    messages.send(8)
    query.run_to_end()
    read = sorted((row.queueId, row.queueOffset) for row in query.rows())
    bounds = messages.bounds()
    assert read == [(number, at) for number in (0, 2) for at in range(bounds[messages.queues[number]].max_offset)]


def test_stream_that_commits_no_offsets_resumes_from_its_checkpoint(
    messages: Topic, stream: StreamOf, group: str
) -> None:
    given = {"assign": assignment(messages, 0, 1, 2, 3), "commitOffsets": "false"}
    sent = messages.send(12)
    query = stream(**given)
    query.run_to_end()
    sent += messages.send(8)
    query.run_to_end()
    assert query.bodies() == sorted(sent)
    assert set(messages.committed(group).values()) == {None}
    other = stream("other", **given)
    other.run_to_end()
    assert other.bodies() == sorted(sent), "a new checkpoint begins at the start position"


def test_assigned_queue_that_does_not_exist_ends_the_query_before_any_batch(messages: Topic, stream: StreamOf) -> None:
    messages.send(4)
    query = stream(assign=assignment(messages, 0, 4))
    with pytest.raises(StreamingQueryException, match=rf"ASSIGNED_QUEUES_NOT_FOUND.*{messages.name}@\S+:4"):
        query.start(availableNow=True).awaitTermination(int(TIMEOUT_S))
    assert query.rows() == []


@pytest.mark.parametrize("commits", ["true", "false"])
def test_assigned_queues_of_a_recreated_topic_resume_at_its_first_message(
    messages: Topic, stream: StreamOf, cluster: EmbeddedCluster, commits: str
) -> None:
    """Also where the new queues have outgrown the checkpoint."""
    given = {
        "assign": assignment(messages, 0, 2),
        "commitOffsets": commits,
        "schema": "queueId INT, queueOffset BIGINT",
    }
    messages.send(8)
    query = stream(**given)
    query.run_to_end()
    cluster.delete_topic(messages.name)
    cluster.create_topic(messages.name, 4)
    eventually(messages.bounds_are_empty, "an empty topic")
    messages.send(24)
    running = query.start(availableNow=True)
    with pytest.raises(StreamingQueryException, match=r"DATA_LOSS\.TOPIC_RECREATED.*created again"):
        running.awaitTermination(int(TIMEOUT_S))
    before = len(query.rows())
    stream(failOnDataLoss="false", **given).run_to_end()
    read = sorted((row.queueId, row.queueOffset) for row in query.rows())
    bounds = messages.bounds()
    expected = [(number, at) for number in (0, 2) for at in range(bounds[messages.queues[number]].max_offset)]
    assert before == 4
    assert read == sorted([*expected, *((number, at) for number in (0, 2) for at in range(2))])


def test_assigned_queues_are_filtered_by_sql92(messages: Topic, stream: StreamOf, group: str) -> None:
    sql = {"expressionType": "SQL92", "subExpression": "TAGS = 'TagA'"}
    expected = messages.send(8, tag="TagA")
    messages.send(8, tag="TagB")
    query = stream(assign=assignment(messages, 0, 1, 2, 3), commitOffsets="false", **sql)
    query.run_to_end()
    assert query.bodies() == sorted(expected)
    eventually(lambda: messages.members(group) == [], "the member has left")


def test_assigned_queues_start_at_the_groups_offsets(messages: Topic, stream: StreamOf, group: str) -> None:
    messages.send(20)
    given = {"assign": assignment(messages, 1, 3), "startingOffsets": "group"}
    with pytest.raises(StreamingQueryException, match=r"COMMITTED_OFFSETS_NOT_FOUND"):
        stream(**given).start(availableNow=True).awaitTermination(int(TIMEOUT_S))
    messages.commit(group, {messages.queues[number]: 2 for number in (1, 3)})
    query = stream("other", schema="queueId INT, queueOffset BIGINT", **given)
    query.run_to_end()
    assert {(row.queueId, min(2, row.queueOffset)) for row in query.rows()} == {(1, 2), (3, 2)}
