"""Strings and queues sort as in Java; members that sorted otherwise would own each other's queues."""

from __future__ import annotations

from random import Random
from typing import Any

from connector_tests.support.java_values import java_queues, java_strings, queues_from, random_text, strings_from
from rocketmq_spark.model import MessageQueue, java_string_order


def test_strings_sort_as_in_java(java: Any) -> None:
    random = Random(1)
    texts = [random_text(random) for _ in range(2000)]
    in_java = java_strings(java, texts)
    java.java.util.Collections.sort(in_java)
    assert sorted(texts, key=java_string_order) == strings_from(java, in_java)
    assert sorted(texts) != strings_from(java, in_java), "the sample must tell UTF-16 from code points"


def test_queues_sort_as_in_java(java: Any) -> None:
    random = Random(2)
    names = [random_text(random, 3) for _ in range(30)]
    queues = [MessageQueue(random.choice(names), random.choice(names), random.randrange(2000)) for _ in range(2000)]
    in_java = java_queues(java, queues)
    java.java.util.Collections.sort(in_java)
    assert sorted(queues, key=MessageQueue.sort_key) == queues_from(java, in_java)
