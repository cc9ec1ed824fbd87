"""A sharding key leads to the queue that Java's selector chooses."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from connector_tests.support.java_values import java_queues, queues_from, random_text
from rocketmq_spark.model import MessageQueue
from rocketmq_spark.sink.queue_choice import queue_by_hash


@pytest.mark.parametrize("queue_count", [1, 4, 7])
def test_a_key_leads_where_java_leads_it(java: Any, queue_count: int) -> None:
    queues = tuple(MessageQueue("T", f"b{number % 2}", number) for number in range(queue_count))
    theirs = java_queues(java, queues)
    select = java.org.apache.rocketmq.client.producer.selector.SelectMessageQueueByHash().select
    random = Random(5)
    keys = ["polygenelubricants", *(random_text(random) for _ in range(100))]
    chosen = java.java.util.ArrayList()
    for key in keys:
        chosen.add(select(theirs, None, key))
    assert [queue_by_hash(key, queues) for key in keys] == queues_from(java, chosen)
