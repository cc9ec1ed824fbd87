"""Spark compares offsets as JSON text, so text and value must state the same."""

from __future__ import annotations

import json
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from connector_tests.support.queues import QUEUES, progress, source_offsets
from rocketmq_spark.model import MessageQueue
from rocketmq_spark.source.stream.offsets import QueueProgress, SourceOffset


def text(offset: SourceOffset) -> str:
    return json.dumps(offset.to_json())


@given(source_offsets())
def test_an_offset_is_read_back_as_it_was(offset: SourceOffset) -> None:
    assert SourceOffset.from_json(json.loads(text(offset))) == offset


@given(source_offsets())
def test_reading_and_writing_keeps_the_text_to_the_letter(offset: SourceOffset) -> None:
    assert text(SourceOffset.from_json(json.loads(text(offset)))) == text(offset)


@given(source_offsets())
def test_what_spark_4_1_shows_beside_an_offset_is_ignored(offset: SourceOffset) -> None:
    assert SourceOffset.from_json(offset.to_json() | {"shown": {"lag": 3}}) == offset


@given(source_offsets(), st.randoms())
def test_equal_offsets_have_equal_text_however_they_were_made(offset: SourceOffset, random: Random) -> None:
    items = list(offset.queues.items())
    random.shuffle(items)
    assert text(SourceOffset(dict(items))) == text(offset)


@given(source_offsets(), QUEUES, progress())
def test_offsets_that_differ_have_texts_that_differ(
    offset: SourceOffset, queue: MessageQueue, other: QueueProgress
) -> None:
    changed = SourceOffset({**offset.queues, queue: other})
    assert (text(changed) == text(offset)) == (changed == offset)


@given(source_offsets(), source_offsets())
def test_the_next_offset_forgets_no_queue_and_reads_only_what_is_planned(
    offset: SourceOffset, planned: SourceOffset
) -> None:
    following = offset.advanced(planned.queues)
    assert following.queues.keys() == offset.queues.keys() | planned.queues.keys()
    assert list(following.ranges()) == list(planned.ranges())
    unread = offset.queues.keys() - planned.queues.keys()
    assert all(following.queues[queue].end_offset == offset.queues[queue].end_offset for queue in unread)
