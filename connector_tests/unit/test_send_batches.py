from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from rocketmq_spark.errors import RouteError
from rocketmq_spark.model import BrokerData, MessageQueue, QueueData, TopicRoute
from rocketmq_spark.sink.message_ids import row_ids
from rocketmq_spark.sink.outgoing_rows import outgoing_rows
from rocketmq_spark.sink.send_batches import (
    STORED_EXTRA_BYTES,
    EncodableRows,
    RowTarget,
    SendBatch,
    encode_batches,
    named_queue,
    queue_by_hash,
    sharded_queues,
)
from rocketmq_spark.wire.arrow.message_encoder import property_of
from rocketmq_spark.wire.message.batch import decode_batch

KEY = b"0" * 20
SINGLE_BYTES = 20 + 1 + 2 + 42
"""A message in a batch with a body of one byte, and no property but its id."""
COMPRESSED = 0x301


def by_place(target: RowTarget) -> MessageQueue | None:
    """Keys that begin alike share a queue."""
    return named_queue(target) or (
        MessageQueue(target.topic, "keyed", int(target.sharding_key[0])) if target.sharding_key else None
    )


def sent(
    limit_bytes: int = 10_000,
    sys_flags: list[int] | None = None,
    calls: list[RowTarget] | None = None,
    **columns: list[Any],
) -> list[SendBatch]:
    """Of rows from 5 on, with these columns; bodies are letters."""
    count = len(columns["topic"])
    arrays = {"body": pa.array([bytes([97 + index]) for index in range(count)], pa.binary())}
    arrays |= {name: pa.array(values) for name, values in columns.items()}
    positions = {name: position for position, name in enumerate(arrays)}
    rows = outgoing_rows(pa.record_batch(arrays), positions, None, 5)
    properties = tuple(property_of(name, values) for name, values in rows.texts.items())
    flags = np.array(sys_flags or [0] * count, np.int32)

    def queue_of(target: RowTarget) -> MessageQueue | None:
        if calls is not None:
            calls.append(target)
        return by_place(target)

    ids = row_ids(KEY, 5, [rows.bodies])
    return list(encode_batches(EncodableRows(rows, ids, properties, flags), queue_of, limit_bytes))


def id_of(letters: bytes, row: int) -> str:
    """Return the ID of a row; of all rows from 5 on, these are the bodies."""
    bodies = pa.array([letters[at : at + 1] for at in range(len(letters))], pa.binary())
    ids: list[bytes] = row_ids(KEY, 5, [bodies]).tolist()
    return ids[row - 5].decode()


def letters(batch: SendBatch) -> str:
    return b"".join(message.body for message in decode_batch(bytes(batch.body))).decode()


def reported(batches: list[SendBatch]) -> list[tuple[str, str, int]]:
    return [
        (batch.topic if batch.queue is None else str(batch.queue), letters(batch), batch.first_row) for batch in batches
    ]


def test_rows_of_one_topic_are_cut_where_a_batch_is_full() -> None:
    batches = sent(2 * (SINGLE_BYTES + STORED_EXTRA_BYTES), topic=["T"] * 5)
    assert reported(batches) == [("T", "ab", 5), ("T", "cd", 7), ("T", "e", 9)]
    assert [batch.row_count for batch in batches] == [2, 2, 1]
    assert sum(len(batch.body) for batch in batches) == 5 * SINGLE_BYTES


def test_rows_of_several_topics_keep_their_order_within_each() -> None:
    assert reported(sent(topic=["T", "U", "T", "V", "U"])) == [("T", "ac", 5), ("U", "be", 6), ("V", "d", 8)]


def test_destinations_alternate() -> None:
    """Nothing is sent to a queue that rows name while a batch is on its way there: the others would have to wait."""
    one = SINGLE_BYTES + 1 + STORED_EXTRA_BYTES + len("__SHARDINGKEY\x01_\x02")
    batches = sent(one, topic=["T"] * 6, shardingKey=["1", "1", "1", "2", "3", "3"])
    assert reported(batches) == [
        ("T@keyed:1", "a", 5),
        ("T@keyed:2", "d", 8),
        ("T@keyed:3", "e", 9),
        ("T@keyed:1", "b", 6),
        ("T@keyed:3", "f", 10),
        ("T@keyed:1", "c", 7),
    ]


def test_a_message_that_is_larger_than_a_batch_should_be_goes_alone() -> None:
    assert [batch.row_count for batch in sent(10, topic=["T"] * 3)] == [1, 1, 1]


def test_what_is_larger_than_a_batch_should_be_is_a_single_message() -> None:
    """Of a batch brokers limit the whole, of a single message the body: a body of the limit was refused for ever."""
    limit_bytes = SINGLE_BYTES + STORED_EXTRA_BYTES
    (in_a_batch,) = sent(limit_bytes, topic=["T"])
    assert (letters(in_a_batch), in_a_batch.properties) == ("a", None)
    (single,) = sent(limit_bytes - 1, topic=["T"])
    assert single == SendBatch("T", None, memoryview(b"a"), 1, 5, 0, f"UNIQ_KEY\x01{id_of(b'a', 5)}\x02")


def test_no_rows_are_no_batches() -> None:
    assert sent(topic=[]) == []


def test_rows_for_one_queue_are_together_in_their_order_whatever_leads_there() -> None:
    calls: list[RowTarget] = []
    batches = sent(
        calls=calls,
        topic=["T"] * 6,
        shardingKey=["1x", "2x", "1y", None, "1x", "2x"],
        brokerName=[None, None, None, None, None, "keyed"],
        queueId=pa.array([None, None, None, None, None, 1], pa.int32()),
    )
    assert reported(batches) == [("T@keyed:1", "acef", 5), ("T@keyed:2", "b", 6), ("T", "d", 8)]
    assert sorted(calls, key=str) == sorted(
        [
            RowTarget("T", sharding_key="1x"),
            RowTarget("T", sharding_key="2x"),
            RowTarget("T", sharding_key="1y"),
            RowTarget("T"),
            RowTarget("T", "keyed", 1, "2x"),
        ],
        key=str,
    )


def test_rows_that_differ_in_topic_and_key_are_never_mistaken_for_each_other() -> None:
    batches = sent(topic=["T", "U", "V", "T"], shardingKey=["1", "1", "1", "2"])
    assert reported(batches) == [
        ("T@keyed:1", "a", 5),
        ("T@keyed:2", "d", 8),
        ("U@keyed:1", "b", 6),
        ("V@keyed:1", "c", 7),
    ]


def test_what_is_compressed_travels_apart_and_in_a_queue_of_its_own_in_order() -> None:
    flags = [0, COMPRESSED, 0, COMPRESSED]
    assert [(letters(batch), batch.sys_flag) for batch in sent(sys_flags=flags, topic=["T"] * 4)] == [
        ("ac", 0),
        ("bd", COMPRESSED),
    ]
    keyed = sent(sys_flags=flags, topic=["T"] * 4, shardingKey=["1"] * 4)
    assert [(letters(batch), batch.sys_flag) for batch in keyed] == [
        ("a", 0),
        ("b", COMPRESSED),
        ("c", 0),
        ("d", COMPRESSED),
    ]


def test_what_is_delayed_is_a_single_message_with_its_properties() -> None:
    delays = pa.array([None, 3, None, 4], pa.int32())
    first, *singles = sent(topic=["T"] * 4, delayLevel=delays)
    assert (letters(first), first.properties) == ("ac", None)
    assert singles == [
        SendBatch("T", None, memoryview(b"b"), 1, 6, 0, f"UNIQ_KEY\x01{id_of(b'abcd', 6)}\x02DELAY\x013\x02"),
        SendBatch("T", None, memoryview(b"d"), 1, 8, 0, f"UNIQ_KEY\x01{id_of(b'abcd', 8)}\x02DELAY\x014\x02"),
    ]


def test_a_row_for_a_retry_topic_is_a_single_message() -> None:
    """Brokers refuse batches there: a stream with one such row failed at each restart."""
    batches = sent(topic=["T", "%RETRY%G", "T", "%RETRY%G"], shardingKey=[None, "1", None, "1"])
    assert [(letters(one), one.topic) for one in batches if one.properties is None] == [("ac", "T")]
    singles = [one for one in batches if one.properties is not None]
    assert [(bytes(one.body), one.topic, one.row_count) for one in singles] == [
        (b"b", "%RETRY%G", 1),
        (b"d", "%RETRY%G", 1),
    ]


def test_what_comes_after_single_messages_is_sent_too() -> None:
    batches = sent(topic=["T"] * 2, sys_flags=[0, COMPRESSED], delayLevel=pa.array([3, None], pa.int32()))
    assert [(batch.row_count, batch.first_row, batch.sys_flag) for batch in batches] == [(1, 5, 0), (1, 6, COMPRESSED)]


def test_what_is_delayed_goes_to_the_queue_that_its_row_names() -> None:
    (single,) = sent(
        topic=["T"], delayLevel=pa.array([3], pa.int32()), brokerName=["b"], queueId=pa.array([2], pa.int32())
    )
    assert single.queue == MessageQueue("T", "b", 2)


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


def test_a_topic_that_is_not_writable_has_no_queue_for_a_key() -> None:
    with pytest.raises(RouteError, match=r"TOPIC_UNAVAILABLE\.NO_WRITABLE_QUEUE.*\bT\b"):
        sharded_queues(route(QueueData("a", 4, 4, 4)))


def test_a_row_names_its_queue_itself_or_not() -> None:
    assert named_queue(RowTarget("T", "b", 3, "key")) == MessageQueue("T", "b", 3)
    assert named_queue(RowTarget("T", sharding_key="key")) is None
    assert named_queue(RowTarget("T", "b")) is None
    assert named_queue(RowTarget("T", queue_id=3)) is None
