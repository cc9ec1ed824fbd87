"""The work of a write task: check its rows, encode them, send them, and wait until all are stored."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from rocketmq_spark.errors import LocalProtocolError
from rocketmq_spark.model import MessageQueue
from rocketmq_spark.options import WriteOptions
from rocketmq_spark.sink.columns import BODY
from rocketmq_spark.sink.invalid_rows import dead_letters, problems_of
from rocketmq_spark.sink.message_ids import column_ids, row_ids, task_key
from rocketmq_spark.sink.outgoing_rows import OutgoingRows, outgoing_rows, split_by_bytes
from rocketmq_spark.sink.send_batches import BATCH_BYTES, EncodableRows, RowTarget, SendBatch, encode_batches
from rocketmq_spark.sink.topic_lookup import TopicRequirement, requirements_of
from rocketmq_spark.wire.arrow.message_encoder import MessageIds, lengths_of, properties_of, property_of
from rocketmq_spark.wire.arrow.slices import Numbers
from rocketmq_spark.wire.message.compression import compress
from rocketmq_spark.wire.message.sys_flag import MessageSysFlag

log = logging.getLogger(__name__)

ENCODED_BYTES: Final = 8 * 1024 * 1024
"""Maximum number of body bytes that are encoded at once."""


class Topics(Protocol):
    """Lookup of the topics of rows, implemented by ``TopicLookup``."""

    def find_problems(
        self, requirements: Collection[TopicRequirement], *, first_only: bool
    ) -> Mapping[TopicRequirement, str]:
        """Look up topics, which may wait. Return the requirements that are not met, with the reason as text; with
        ``first_only`` at least one of them."""

    def resolve_queue(self, target: RowTarget) -> MessageQueue | None:
        """Return the queue of a row whose topic has no problem, or None for any queue of its topic. Request nothing."""


class Sender(Protocol):
    """Destination of batches, implemented by ``BatchSender``."""

    @property
    def topics(self) -> Topics: ...

    def send(self, batch: SendBatch) -> None:
        """Send a batch without waiting for its response; may wait for earlier ones, and raises their errors."""

    def finish(self) -> None:
        """Wait until all batches are stored; raises their errors."""


@dataclass(frozen=True, slots=True)
class Columns:
    """Positions of columns: ``parts`` of a message by name, and the columns that determine message IDs."""

    parts: Mapping[str, int]
    id_positions: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class WriteTask:
    """Partition of ``job``, a query's micro-batch or a batch write."""

    job: str
    partition_id: int

    def __str__(self) -> str:
        """Return "partition <id> of <job>"."""
        return f"partition {self.partition_id} of {self.job}"


def write_rows(
    batches: Iterable[pa.RecordBatch], columns: Columns, task: WriteTask, options: WriteOptions, sender: Sender
) -> int:
    """Check, encode and send all rows of a task, each Arrow batch as a whole before any of its rows is sent. Wait until
    the brokers have stored them, and return their number, invalid ones included.

    Invalid rows, including those for an unavailable topic, go to the dead-letter topic of ``options``. Raises
    LocalProtocolError[INVALID_ROW] if there is none or it cannot be used; rows of earlier Arrow batches may be stored
    then. Raises the errors of ``sender``.
    """
    key = task_key(task.job, task.partition_id)
    limit_bytes = min(BATCH_BYTES, options.max_message_bytes)
    row_count = 0
    for batch in batches:
        pieces = list(_pieces(batch, columns, key, row_count, options))
        for piece in _valid_pieces(pieces, task, options, sender.topics):
            for send_batch in encode_batches(_encodable(piece, options), sender.topics.resolve_queue, limit_bytes):
                sender.send(send_batch)
        row_count += len(batch)
    sender.finish()
    return row_count


class _Piece(NamedTuple):
    """Some consecutive rows of an Arrow batch, with the message ID and the encoded properties of each."""

    rows: OutgoingRows
    ids: MessageIds
    properties: tuple[pa.BinaryArray, ...]


def _pieces(
    batch: pa.RecordBatch, columns: Columns, key: bytes, first_row: int, options: WriteOptions
) -> Iterator[_Piece]:
    """Encode the rows of an Arrow batch, unchecked, and yield them with their message IDs in pieces of at most
    ``ENCODED_BYTES`` of bodies, or of one larger row. Message IDs come from the ID columns, or without any from
    ``key``, the row's number and all its content. ``first_row``: number of the first row in the task."""
    for part in split_by_bytes(batch, columns.parts[BODY], ENCODED_BYTES):
        rows = outgoing_rows(part, columns.parts, options.topic, first_row, columns.id_positions)
        properties = _properties(rows)
        ids_of_columns = [part.column(position) for position in columns.id_positions]
        yield _Piece(rows, _message_ids(rows, properties, ids_of_columns, key), properties)
        first_row += len(part)


def _message_ids(
    rows: OutgoingRows, properties: Sequence[pa.BinaryArray], id_columns: Sequence[pa.Array], key: bytes
) -> MessageIds:
    """Return the ID of each row, at least one, from ``id_columns``. Without these, and for a row in which one is null,
    the ID is of its number and content. Such a row is invalid, and as a dead letter needs an ID of its own."""
    nulls = rows.have_null_ids
    if nulls is not None and not nulls.any():
        return column_ids(id_columns)
    ids = row_ids(key, int(rows.numbers[0]), (*rows.destinations, rows.bodies, *properties))
    return ids if nulls is None else np.where(nulls, ids, column_ids(id_columns))


def _valid_pieces(pieces: list[_Piece], task: WriteTask, options: WriteOptions, topics: Topics) -> Iterator[_Piece]:
    """Check all ``pieces``, then yield pieces to send. One without problems is unchanged. Otherwise its valid rows come
    first, then the dead letters of its invalid rows, which are logged. Topics are looked up, which may wait, unless a
    row has another problem and there is no dead-letter topic.

    Raises LocalProtocolError[INVALID_ROW] for invalid rows without a usable dead-letter topic, before the first piece
    is yielded. Raises the errors of ``Topics.find_problems``.
    """
    problems = [problems_of(piece.rows, piece.properties, max_body_bytes=options.max_message_bytes) for piece in pieces]
    if options.dead_letter_topic is not None or not any(problems):
        problems = _with_topic_problems(pieces, problems, topics, first_only=options.dead_letter_topic is None)
    if any(problems):
        if options.dead_letter_topic is None:
            raise _invalid_row_error(pieces, problems, task)
        for refusal in topics.find_problems([TopicRequirement(options.dead_letter_topic)], first_only=True).values():
            raise _invalid_row_error(pieces, problems, task, f"; and 'deadLetterTopic' cannot be used: {refusal}")
    for piece, row_problems in zip(pieces, problems, strict=True):
        yield from _split_invalid(piece, row_problems, task, options) if row_problems else [piece]


def _with_topic_problems(
    pieces: list[_Piece], problems: list[dict[int, str]], topics: Topics, *, first_only: bool
) -> list[dict[int, str]]:
    """Look up the topics of all rows without a problem so far, all together, which may wait. Return for each piece a
    new dict, ascending by row position, of its ``problems`` (by row position) and of the topic problems of its other
    rows. Raises the errors of ``Topics.find_problems``."""
    row_requirements = [
        requirements_of(piece.rows, excluded=row_problems) for piece, row_problems in zip(pieces, problems, strict=True)
    ]
    topic_problems = topics.find_problems(
        dict.fromkeys(one for some in row_requirements for one in some.requirements), first_only=first_only
    )
    found = (some.problems(topic_problems) for some in row_requirements)
    return [dict(sorted({**more, **row_problems}.items())) for more, row_problems in zip(found, problems, strict=True)]


def _split_invalid(
    piece: _Piece, problems: Mapping[int, str], task: WriteTask, options: WriteOptions
) -> Iterator[_Piece]:
    """Yield a piece of the valid rows, possibly empty, then one of dead letters with the message IDs of the invalid
    rows. Log one warning with the number of invalid rows and the first problem. ``problems``: by row position, not
    empty. Requires a dead-letter topic."""
    assert options.dead_letter_topic is not None
    rows, ids, _ = piece
    first = next(iter(problems))
    log.warning(
        "INVALID_ROW: Sending %d invalid rows of %s to dead-letter topic=%s; first: row=%d: %s",
        len(problems),
        task,
        options.dead_letter_topic,
        rows.numbers[first],
        problems[first],
    )
    valid = np.setdiff1d(np.arange(len(rows)), list(problems))
    dead_letter_rows = dead_letters(
        rows, problems, str(task), options.dead_letter_topic, max_body_bytes=options.max_message_bytes
    )
    for some, own_ids in ((rows.take(valid), ids[valid]), (dead_letter_rows, ids[list(problems)])):
        yield _Piece(some, own_ids, _properties(some))


def _encodable(piece: _Piece, options: WriteOptions) -> EncodableRows:
    """Return the rows of ``piece`` with bodies compressed as ``options`` require, and unchanged IDs and properties."""
    bodies, sys_flags = compressed(piece.rows.bodies, options.compression, options.compress_over_bytes)
    return EncodableRows(replace(piece.rows, bodies=bodies), piece.ids, piece.properties, sys_flags)


def _invalid_row_error(
    pieces: list[_Piece], problems: list[dict[int, str]], task: WriteTask, suffix: str = ""
) -> LocalProtocolError:
    """Return the error for the first invalid row, with the number of all invalid rows; at least one is invalid.
    ``problems``: for each piece, problem by row position. ``suffix``: text to add after the problem."""
    rows, found = next(
        (piece.rows, row_problems) for piece, row_problems in zip(pieces, problems, strict=True) if row_problems
    )
    position, problem = next(iter(found.items()))
    return LocalProtocolError(
        "INVALID_ROW",
        row=int(rows.numbers[position]),
        partition=task.partition_id,
        job=task.job,
        problem=(problem.removesuffix(".") + suffix).removesuffix("."),
        count=sum(map(len, problems)),
    )


def _properties(rows: OutgoingRows) -> tuple[pa.BinaryArray, ...]:
    """Return the encoded properties, as an array for each of ``rows.texts``, in order, then one for ``rows.properties``
    unless it is None."""
    named = [property_of(name, values) for name, values in rows.texts.items()]
    return (*named,) if rows.properties is None else (*named, properties_of(rows.properties))


NONE: Final = "none"
KINDS: Final[Mapping[str, MessageSysFlag]] = MappingProxyType(
    {"zlib": MessageSysFlag.ZLIB, "lz4": MessageSysFlag.LZ4, "zstd": MessageSysFlag.ZSTD}
)
"""Compression flags by the value of option ``compression``."""


def compressed(bodies: pa.BinaryArray, compression: str, over_bytes: int) -> tuple[pa.BinaryArray, Numbers]:
    """Compress each body of more than ``over_bytes`` if this makes it smaller. Return all bodies in order, and the
    sysFlag of each, 0 if it is not compressed. ``compression``: ``none``, which compresses nothing, or a key of
    KINDS."""
    sys_flags = np.zeros(len(bodies), np.int32)
    sizes = lengths_of(bodies)
    are_large = sizes > over_bytes
    if compression == NONE or not are_large.any():
        return bodies, sys_flags
    kind = KINDS[compression]
    values = bodies.to_pylist()
    for row in np.flatnonzero(are_large):
        packed = compress(values[row], kind)
        if len(packed) < sizes[row]:
            values[row], sys_flags[row] = packed, MessageSysFlag.COMPRESSED | kind
    return pa.array(values, pa.binary()), sys_flags
