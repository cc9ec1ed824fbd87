"""Messages whose bodies cannot be read, though all else of them can: a stream that is damaged or no stream at all, more
than may come out of one, an inner batch that is none."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from rocketmq_spark.model import MessageExt
from rocketmq_spark.wire.arrow.record_index import RecordIndex
from rocketmq_spark.wire.message.compression import DECOMPRESSED_LIMIT_BYTES
from rocketmq_spark.wire.message.properties import INNER_NUM
from rocketmq_spark.wire.message.stored_message import as_stored, decode_record, is_inner_batch
from rocketmq_spark.wire.message.sys_flag import MessageSysFlag

_INNER_BATCH: Final = MessageSysFlag.INNER_BATCH | MessageSysFlag.NEED_UNWRAP

_COUNT: Final = re.compile("[1-9][0-9]{0,4}")
_MOST_IN_A_BATCH: Final = 2**15 - 1
"""A batch consume queue counts them in an int16. Source: ``store/queue/BatchConsumeQueue.java``."""


@dataclass(frozen=True, slots=True)
class BadMessage:
    """``message`` as it is stored, its body and sysFlag too; ``problem`` says why the body cannot be read."""

    message: MessageExt
    problem: str

    @property
    def is_inner_batch(self) -> bool:
        return is_inner_batch(self.message.sys_flag)

    @property
    def offsets(self) -> range:
        """The queue offsets that it takes: one, or as many as the broker has counted in an inner batch."""
        begin = self.message.queue_offset
        return range(begin, begin + (_inner_count(self.message.properties) if self.is_inner_batch else 1))

    def rows(self, wanted: range) -> list[MessageExt]:
        """The message once for each of its offsets in ``wanted``."""
        offsets = range(max(self.offsets.start, wanted.start), min(self.offsets.stop, wanted.stop))
        return [replace(self.message, queue_offset=offset) for offset in offsets]


def find_bad_messages(records: RecordIndex, broker_name: str, *, has_body: bool) -> dict[int, BadMessage]:
    """The bad ones by where their records begin, ascending. ``has_body``: not only inner batches are to be read."""
    is_suspect = records.has_flags(_INNER_BATCH)
    if has_body:
        is_suspect |= records.has_flags(MessageSysFlag.COMPRESSED)
    suspects = records.select(is_suspect)
    bad: dict[int, BadMessage] = {}
    for begin, end in zip(suspects.begins.tolist(), suspects.ends.tolist(), strict=True):
        record = memoryview(records.data)[begin:end]
        try:
            decode_record(record, broker_name, DECOMPRESSED_LIMIT_BYTES)
        except ValueError as problem:
            bad[begin] = BadMessage(as_stored(record, broker_name), str(problem))
    return bad


def _inner_count(properties: Mapping[str, str]) -> int:
    """1 where it is not known: so much is there."""
    text = properties.get(INNER_NUM, "")
    return min(int(text), _MOST_IN_A_BATCH) if _COUNT.fullmatch(text) else 1
