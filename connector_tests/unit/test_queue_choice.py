from __future__ import annotations

import pytest

from rocketmq_spark.errors import RouteError
from rocketmq_spark.model import BrokerData, MessageQueue, QueueData, TopicRoute
from rocketmq_spark.sink.queue_choice import named_queue, queue_by_hash, sharded_queues
from rocketmq_spark.sink.send_batches import Place

QUEUES = tuple(MessageQueue("T", "b", queue_id) for queue_id in range(5))


def route(*queues: QueueData, masters: tuple[str, ...] = ("a", "b")) -> TopicRoute:
    return TopicRoute("T", tuple(BrokerData("c", name, {0: f"{name}:1"}) for name in masters), queues)


def test_a_key_leads_to_one_queue_also_where_its_hash_is_negative() -> None:
    assert queue_by_hash("a", QUEUES) == QUEUES[97 % 5]
    assert queue_by_hash("polygenelubricants", QUEUES) == QUEUES[-(-(2**31) + 0) % 5]
    assert queue_by_hash("abcdefg", QUEUES) == QUEUES[1206291356 % 5]


def test_keys_are_shared_among_writable_queues_in_javas_order_whether_or_not_their_brokers_are_up() -> None:
    found = sharded_queues(
        route(QueueData("b", 9, 2, 6), QueueData("a", 9, 1, 2), QueueData("c", 9, 1, 4), masters=("a",))
    )
    assert found == (MessageQueue("T", "a", 0), MessageQueue("T", "b", 0), MessageQueue("T", "b", 1))


def test_and_that_order_is_by_utf_16() -> None:
    """Else a key would lead to another queue than it does for Java's producers."""
    names = ("\U0001f600", "\uff5e")
    found = sharded_queues(route(*(QueueData(name, 1, 1, 2) for name in names[::-1]), masters=names))
    assert [one.broker_name for one in found] == list(names)


def test_a_topic_that_nobody_may_write_has_no_queue_for_a_key() -> None:
    with pytest.raises(RouteError, match=r"NO_WRITABLE_QUEUE.*\bT\b"):
        sharded_queues(route(QueueData("a", 4, 4, 4)))


def test_a_row_names_its_queue_itself_or_not() -> None:
    assert named_queue(Place("T", "b", 3, "key")) == MessageQueue("T", "b", 3)
    assert named_queue(Place("T", sharding_key="key")) is None
    assert named_queue(Place("T", "b")) is None
    assert named_queue(Place("T", queue_id=3)) is None
