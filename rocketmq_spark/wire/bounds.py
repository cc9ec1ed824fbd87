"""Bounds: the sizes, counts and depths that a server, a producer or a checkpoint may claim, and the error beyond each.

A claim is a number that decides how much memory or time its reader spends, where few bytes can claim much. A text, a
list or a record that is as large as it claims needs no row of its own: it lies within a frame, a file or a body that
has one.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple


class Claimant(Enum):
    """Who wrote the number."""

    SERVER = "a name server, broker or proxy"
    PRODUCER = "whoever sent a message"
    CHECKPOINT = "the checkpoint"


class Bound(NamedTuple):
    """One row. ``claim``: what is bounded, plural or with its unit. ``condition``: of the error for more than
    ``maximum``."""

    claim: str
    claimant: Claimant
    maximum: int
    condition: str

    def check(self, claimed: int) -> None:
        """Raises ValueError for less than nothing, and for more than ``maximum``; its caller knows where that was."""
        if not 0 <= claimed <= self.maximum:
            raise ValueError(f"{self.claim}: {_format_number(claimed)}, at most {self.maximum} are accepted")


def _format_number(number: int) -> str:
    """Python writes no number of more than some thousand digits."""
    return str(number) if number.bit_length() <= 128 else f"a number of {number.bit_length()} bits"


FRAME_BYTES: Final = Bound("bytes of a frame", Claimant.SERVER, 256 * 1024 * 1024, "FRAME_TOO_LARGE")
"""A broker caps one pull at 128 MiB. What other protocols send first reads as more: "HTTP", a TLS record."""

RESPONSE_BYTES: Final = Bound("bytes of a response over gRPC", Claimant.SERVER, 128 * 1024 * 1024, "RESPONSE_TOO_LARGE")
"""One message of gRPC, and all that answer one request for messages. No task of Spark carries more; compression is
refused."""

HEADER_BYTES: Final = Bound("bytes of a header", Claimant.SERVER, 0xFFFFFF, "MALFORMED_RESPONSE.HEADER")
"""Its length has 24 bits."""

HEADER_VALUES: Final = Bound("values in a header", Claimant.SERVER, 1_000_000, "MALFORMED_RESPONSE.HEADER")
"""A value takes up to 230 bytes of memory, and as few as 3 in a header or body."""

BODY_BYTES: Final = Bound("bytes of a JSON body", Claimant.SERVER, 16 * 1024 * 1024, "MALFORMED_RESPONSE.BODY")
"""No Java client reads a longer frame. Source: ``remoting/netty/NettyDecoder.java``."""

BODY_VALUES: Final = Bound("values in a JSON body", Claimant.SERVER, 1_000_000, "MALFORMED_RESPONSE.BODY")
"""A queue in statistics has 8."""

BODY_DEPTH: Final = Bound("levels of objects as keys in a JSON body", Claimant.SERVER, 32, "MALFORMED_RESPONSE.BODY")
"""RocketMQ's bodies go to 4. Levels of standard JSON end where Python's recursion does, with the same error."""

ROUTE_QUEUES: Final = Bound("queues of a topic", Claimant.SERVER, 65_536, "MALFORMED_RESPONSE.BODY")
"""Of all brokers together, those to read and those to write each for itself."""

ORDERED_QUEUES: Final = Bound("queues of an order configuration", Claimant.SERVER, 65_536, "INVALID_ORDER_CONF")
"""Only producers use them: what cannot be read ends no query that reads the topic."""

QUEUE_ID: Final = Bound("queue ID", Claimant.SERVER, 2**31 - 1, "MALFORMED_RESPONSE.BODY")

QUEUE_OFFSETS: Final = Bound("offsets of a queue, min to max", Claimant.SERVER, 2**42, "INVALID_QUEUE_OFFSETS")
"""A consume queue with so many entries has 88 TB, of 20 bytes each."""

POP_OFFSETS: Final = Bound(
    "offsets from the start of a POP response", Claimant.SERVER, 2**20, "MALFORMED_RESPONSE.HEADER"
)
"""A POP response has at most 32 messages of a queue; a broker looks through some thousand others for them. An
acknowledgement has a bit for each offset."""

INNER_MESSAGES: Final = Bound("messages of an inner batch", Claimant.PRODUCER, 2**15 - 1, "UNDECODABLE_MESSAGE_BODY")
"""An entry of a batch consume queue counts them in 16 bits. Source: ``store/queue/BatchConsumeQueue.java``."""

DECOMPRESSED_BODY_BYTES: Final = Bound(
    "decompressed bytes of a body", Claimant.PRODUCER, 32 * 1024 * 1024, "UNDECODABLE_MESSAGE_BODY"
)
"""What one body may grow to; by RocketMQ's defaults it has 4 MiB at most before it is compressed. Spark holds a row
several times in the memory of its JVM, which ends where there is not enough."""

DECOMPRESSED_BYTES: Final = Bound(
    "decompressed bytes of a pull", Claimant.PRODUCER, 128 * 1024 * 1024, "UNDECODABLE_MESSAGE_BODY"
)
"""What the bodies of one pull may grow to, together; more of them are decoded in parts."""

CHECKPOINT_OFFSET: Final = Bound("offset in a checkpoint", Claimant.CHECKPOINT, 2**63 - 1, "INCOMPATIBLE_CHECKPOINT")

CHECKPOINT_MESSAGES: Final = Bound("messages in a batch", Claimant.CHECKPOINT, 200_000, "INCOMPATIBLE_CHECKPOINT")
"""With message-based load balancing, where a checkpoint lists the receipt handles of a batch as ranges."""

BOUNDS: Final = (
    FRAME_BYTES,
    RESPONSE_BYTES,
    HEADER_BYTES,
    HEADER_VALUES,
    BODY_BYTES,
    BODY_VALUES,
    BODY_DEPTH,
    ROUTE_QUEUES,
    ORDERED_QUEUES,
    QUEUE_ID,
    QUEUE_OFFSETS,
    POP_OFFSETS,
    INNER_MESSAGES,
    DECOMPRESSED_BODY_BYTES,
    DECOMPRESSED_BYTES,
    CHECKPOINT_OFFSET,
    CHECKPOINT_MESSAGES,
)
"""The table."""


def check_values(text: str, bound: Bound) -> None:
    """Raises ValueError where the JSON ``text`` may hold more values than ``bound`` lets it; one in three characters at
    most is a value, so that short texts cost nothing."""
    if len(text) > bound.maximum:
        bound.check(1 + text.count(",") + text.count("{") + text.count("["))
