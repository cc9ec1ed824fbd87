"""BROADCASTING: every query reads every queue, and keeps its offsets to itself."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import AnalysisException

from connector_tests.spark.conftest import StreamOf
from connector_tests.support.streams import Stream, Topic, eventually

pytestmark = pytest.mark.full


@pytest.fixture
def broadcast(stream: StreamOf, tmp_path: Path) -> StreamOf:
    """Makes queries that read everything; ``name`` names their files of offsets as well."""

    def make(name: str, checkpoint: str = "") -> Stream:
        folder = str(tmp_path / "offsets")
        return stream(name + checkpoint, messageModel="BROADCASTING", instanceName=name, localOffsetStoreDir=folder)

    return make


def test_two_queries_of_one_group_each_read_everything_and_the_broker_keeps_no_offset(
    messages: Topic, broadcast: StreamOf, group: str
) -> None:
    first, second = broadcast("first"), broadcast("second")
    sent = messages.send(12)
    with first.running(), second.running():
        eventually(lambda: len(messages.members(group)) == 2, "both join")
        sent += messages.send(20)
        eventually(lambda: first.bodies() == sorted(sent), "everything in the first")
        eventually(lambda: second.bodies() == sorted(sent), "everything in the second")
    sent += messages.send(8)
    first.run_to_end()
    assert first.bodies() == sorted(sent)
    assert set(messages.committed(group).values()) == {None}


def test_without_its_checkpoint_a_query_resumes_from_its_file_and_with_it_from_that(
    messages: Topic, broadcast: StreamOf
) -> None:
    before = messages.send(12)
    broadcast("query").run_to_end()
    after = messages.send(8)
    restarted = broadcast("query", checkpoint="-anew")
    restarted.run_to_end()
    assert restarted.bodies() == sorted(after)
    old = broadcast("query")
    old.run_to_end()
    assert old.bodies() == sorted(before + after)


def test_what_shares_queues_is_refused_in_load(stream: StreamOf) -> None:
    with pytest.raises(AnalysisException, match="'messageModel' and 'consumeOrderly' are incompatible"):
        stream(messageModel="BROADCASTING", instanceName="one", consumeOrderly="true").load()
