"""Queues and what is known of them, as hypothesis strategies and as short hand."""

from __future__ import annotations

from hypothesis import strategies as st

from rocketmq_spark.model import MessageQueue
from rocketmq_spark.source.stream.offsets import QueueProgress, SourceOffset

TOPICS = st.sampled_from(["orders", "payments", "%RETRY%g", "\U0001f600", "\uff5e", "A", "a"])
BROKER_NAMES = st.sampled_from(["broker-a", "broker-b", "broker-10", "broker-9"])
QUEUES = st.builds(MessageQueue, TOPICS, BROKER_NAMES, st.integers(0, 12))
OFFSETS = st.integers(0, 2**63 - 1)


def queue(number: int, topic: str = "orders", broker_name: str = "broker-a") -> MessageQueue:
    return MessageQueue(topic, broker_name, number)


def queues(count: int, topic: str = "orders", broker_name: str = "broker-a") -> tuple[MessageQueue, ...]:
    return tuple(queue(number, topic, broker_name) for number in range(count))


def progress() -> st.SearchStrategy[QueueProgress]:
    ends = st.tuples(OFFSETS, OFFSETS).map(sorted)
    return st.builds(lambda range_, time_ms: QueueProgress(range_[0], range_[1], time_ms), ends, OFFSETS)


def source_offsets() -> st.SearchStrategy[SourceOffset]:
    return st.builds(SourceOffset, st.dictionaries(QUEUES, progress(), max_size=8))
