"""What the columns of messages should hold, taken from the messages one by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from rocketmq_spark.model import MessageExt

Row = dict[str, object]


def microseconds(milliseconds: int) -> int | None:
    return milliseconds * 1000 if -59_011_459_200_000 <= milliseconds <= 250_246_627_199_999 else None


EXPECTED: dict[str, Callable[[MessageExt], object]] = {
    "topic": lambda message: message.topic,
    "brokerName": lambda message: message.broker_name,
    "queueId": lambda message: message.queue_id,
    "queueOffset": lambda message: message.queue_offset,
    "msgId": lambda message: message.msg_id,
    "keys": lambda message: message.keys,
    "tags": lambda message: message.tags,
    "body": lambda message: message.body,
    "properties": lambda message: message.properties,
    "bornTimestamp": lambda message: microseconds(message.born_timestamp_ms),
    "storeTimestamp": lambda message: microseconds(message.store_timestamp_ms),
    "reconsumeTimes": lambda message: message.reconsume_times,
    "bornHost": lambda message: message.born_host,
    "storeHost": lambda message: message.store_host,
    "offsetMsgId": lambda message: message.offset_msg_id,
    "commitLogOffset": lambda message: message.commit_log_offset,
    "sysFlag": lambda message: message.sys_flag,
    "flag": lambda message: message.flag,
    "bodyCRC": lambda message: message.body_crc,
}


def _expected(name: str, message: MessageExt) -> object:
    return EXPECTED[name](message) if name in EXPECTED else message.properties.get(name)


def expected_rows(messages: Sequence[MessageExt], columns: Sequence[str]) -> list[Row]:
    """A name that is no column's is that of a property."""
    return [{name: _expected(name, message) for name in columns} for message in messages]


def rows(batch: pa.RecordBatch) -> list[Row]:
    batch.validate(full=True)
    columns = {name: _values(batch.column(name)) for name in batch.schema.names}
    return [{name: values[row] for name, values in columns.items()} for row in range(batch.num_rows)]


def _values(column: pa.Array) -> list[object]:
    if pa.types.is_timestamp(column.type):
        return list(column.view(pa.int64()).to_pylist())
    if pa.types.is_map(column.type):
        maps = column.to_pylist()
        assert all(len(dict(pairs)) == len(pairs) for pairs in maps), "a map repeats a name"
        return [dict(pairs) for pairs in maps]
    return list(column.to_pylist())
