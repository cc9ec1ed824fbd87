"""What a slave has is no loss, and no step back."""

from __future__ import annotations

import pytest

from rocketmq_spark.consumer.cluster_api import MetadataSnapshot
from rocketmq_spark.model import MessageQueue, QueueBounds
from rocketmq_spark.source.stream.offsets import QueueProgress, SourceOffset
from rocketmq_spark.source.stream.position_resolution import queues_at_slaves, without_lagging, without_older

AT_SLAVE, AT_MASTER = MessageQueue("orders", "a", 0), MessageQueue("orders", "b", 0)
START = SourceOffset({queue: QueueProgress(20, 20) for queue in (AT_SLAVE, AT_MASTER)})


def snapshot(held: QueueBounds) -> MetadataSnapshot:
    bounds = {AT_SLAVE: held, AT_MASTER: held}
    return MetadataSnapshot(frozenset(bounds), bounds, True, brokers_at_slaves=frozenset({"a"}))


@pytest.mark.parametrize(
    ("held", "is_kept"),
    [
        (QueueBounds(0, 20), True),
        (QueueBounds(20, 30), True),
        (QueueBounds(0, 19), False),
        (QueueBounds(21, 30), False),
    ],
)
def test_a_slave_that_lacks_the_position_counts_as_unresponsive(held: QueueBounds, *, is_kept: bool) -> None:
    bounds = without_lagging(snapshot(held), START).bounds
    assert (AT_SLAVE in bounds, AT_MASTER in bounds) == (is_kept, True)


def test_a_queue_that_the_query_has_not_read_waits_for_the_master() -> None:
    bounds = without_lagging(snapshot(QueueBounds(0, 9)), SourceOffset()).bounds
    assert list(bounds) == [AT_MASTER]


def test_masters_alone_change_nothing() -> None:
    held = MetadataSnapshot(frozenset(), {AT_SLAVE: QueueBounds(0, 3)}, True)
    assert without_lagging(held, START) is held


@pytest.mark.parametrize(("stored", "expected"), [(None, 20), (7, 20), (25, 25), (31, None)])
def test_a_slaves_offset_is_never_below_what_was_read_nor_beyond_its_end(
    stored: int | None, expected: int | None
) -> None:
    offsets = without_older({AT_SLAVE: stored, AT_MASTER: stored}, START, snapshot(QueueBounds(0, 30)))
    assert offsets.get(AT_SLAVE) == expected
    assert offsets[AT_MASTER] == stored


def test_queues_at_slaves_are_those_of_their_brokers() -> None:
    assert queues_at_slaves([AT_SLAVE, AT_MASTER], snapshot(QueueBounds(0, 1))) == {AT_SLAVE}
