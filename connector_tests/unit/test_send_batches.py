from __future__ import annotations

import pyarrow as pa

from rocketmq_spark.sink.outgoing_rows import outgoing_rows
from rocketmq_spark.sink.send_batches import STORED_EXTRA_BYTES, SendBatch, send_batches


def batches(topics: list[str], messages: list[bytes], limit_bytes: int) -> list[SendBatch]:
    bodies = pa.array(messages, pa.binary())
    rows = outgoing_rows(
        pa.record_batch([bodies, pa.array(topics)], names=["b", "t"]), {"body": 0, "topic": 1}, None, 5
    )
    return list(send_batches(rows, bodies, limit_bytes))


def test_rows_of_one_topic_are_cut_where_a_batch_is_full() -> None:
    limit_bytes = 2 * (1 + STORED_EXTRA_BYTES)
    assert batches(["T"] * 5, [b"a", b"b", b"c", b"d", b"e"], limit_bytes) == [
        SendBatch("T", memoryview(b"ab"), 2, 5),
        SendBatch("T", memoryview(b"cd"), 2, 7),
        SendBatch("T", memoryview(b"e"), 1, 9),
    ]


def test_rows_of_several_topics_keep_their_order_within_each() -> None:
    assert batches(["T", "U", "T", "V", "U"], [b"a", b"b", b"c", b"d", b"e"], 10_000) == [
        SendBatch("T", memoryview(b"ac"), 2, 5),
        SendBatch("U", memoryview(b"be"), 2, 6),
        SendBatch("V", memoryview(b"d"), 1, 8),
    ]


def test_a_message_that_is_larger_than_a_batch_should_be_goes_alone() -> None:
    assert [batch.row_count for batch in batches(["T"] * 3, [b"a", b"b" * 900, b"c"], 800)] == [1, 1, 1]


def test_no_rows_are_no_batches() -> None:
    assert batches([], [], 100) == []
