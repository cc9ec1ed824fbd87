"""Bounds: maximum sizes, counts and depths that are accepted from a server, a producer or a checkpoint, and their
errors.

A number has a bound here if few bytes of input can cost its reader much memory or time. A text, list or record as large
as its length needs none: it lies within a frame, file or body that has a bound.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple


class Claimant(Enum):
    """Sender of the bounded number."""

    SERVER = "a name server, broker or proxy"
    PRODUCER = "the producer of a message"
    CHECKPOINT = "the checkpoint"


class Bound(NamedTuple):
    """Maximum of one kind of number.

    ``claim`` names the number, in the plural or with its unit. ``condition`` is that of the error for more than
    ``maximum``.
    """

    claim: str
    claimant: Claimant
    maximum: int
    condition: str

    def check(self, claimed: int) -> None:
        """Raise ValueError if ``claimed`` is negative or more than ``maximum``, else do nothing. It is not an error of
        ``condition``: the caller converts it, and adds where the number was read."""
        if not 0 <= claimed <= self.maximum:
            raise ValueError(f"{self.claim}: {_format_number(claimed)}, at most {self.maximum} are accepted")


def _format_number(number: int) -> str:
    """Return the number as text; beyond 128 bits only its size in bits: Python refuses to format some thousand
    digits."""
    return str(number) if number.bit_length() <= 128 else f"a number of {number.bit_length()} bits"


FRAME_BYTES: Final = Bound("bytes of a frame", Claimant.SERVER, 256 * 1024 * 1024, "FRAME_TOO_LARGE")
"""A broker limits one pull to 128 MiB. The first bytes of other protocols ("HTTP", a TLS record) read as a larger
length."""

RESPONSE_BYTES: Final = Bound("bytes of a response over gRPC", Claimant.SERVER, 128 * 1024 * 1024, "RESPONSE_TOO_LARGE")
"""Of one gRPC message, and of all responses to one receive request. No Spark task carries more; compression is
refused."""

CONTROL_RESPONSE_BYTES: Final = Bound(
    "bytes of a response over gRPC without messages", Claimant.SERVER, 4 * 1024 * 1024, "RESPONSE_TOO_LARGE"
)
"""An entry of two bytes takes 64 bytes of memory. A route of ten thousand queues has some 1 MB."""

MESSAGE_BYTES_BESIDE_BODY: Final = Bound(
    "bytes of a received message beside its body", Claimant.SERVER, 1024 * 1024, "MALFORMED_RESPONSE.BODY"
)
"""Over gRPC, where an empty key of two bytes takes 28 bytes of memory. A broker stores at most 32,767 bytes of
properties."""

HEADER_BYTES: Final = Bound("bytes of a header", Claimant.SERVER, 0xFFFFFF, "MALFORMED_RESPONSE.HEADER")
"""The length field has 24 bits."""

HEADER_VALUES: Final = Bound("values in a header", Claimant.SERVER, 1_000_000, "MALFORMED_RESPONSE.HEADER")
"""A value takes as few as 3 bytes in a header or body, and up to 230 bytes of memory."""

BODY_BYTES: Final = Bound("bytes of a JSON body", Claimant.SERVER, 16 * 1024 * 1024, "MALFORMED_RESPONSE.BODY")
"""Java clients read no longer frame. Source: ``remoting/netty/NettyDecoder.java``."""

BODY_VALUES: Final = Bound("values in a JSON body", Claimant.SERVER, 1_000_000, "MALFORMED_RESPONSE.BODY")
"""A queue in statistics has 8 values."""

BODY_DEPTH: Final = Bound("levels of objects as keys in a JSON body", Claimant.SERVER, 32, "MALFORMED_RESPONSE.BODY")
"""RocketMQ's bodies use up to 4 levels. Standard JSON is limited by Python's recursion instead, with the same error."""

ROUTE_QUEUES: Final = Bound("queues of a topic", Claimant.SERVER, 65_536, "MALFORMED_RESPONSE.BODY")
"""Of all brokers together; read queues and write queues count separately."""

PROXIED_BROKERS: Final = Bound("brokers of a topic", Claimant.SERVER, 1_024, "MALFORMED_RESPONSE.BODY")
"""In a proxy's route. Each is polled by a thread, and may need a connection."""

ORDERED_QUEUES: Final = Bound("queues of an order configuration", Claimant.SERVER, 65_536, "INVALID_ORDER_CONF")
"""Only producers use the order configuration: an invalid one fails no query that reads the topic."""

QUEUE_ID: Final = Bound("queue ID", Claimant.SERVER, 2**31 - 1, "MALFORMED_RESPONSE.BODY")

QUEUE_OFFSETS: Final = Bound("offsets of a queue, min to max", Claimant.SERVER, 2**42, "INVALID_QUEUE_OFFSETS")
"""A consume queue with that many entries, of 20 bytes each, has 88 TB."""

POP_OFFSETS: Final = Bound(
    "offsets from the start of a POP response", Claimant.SERVER, 2**20, "MALFORMED_RESPONSE.HEADER"
)
"""A POP response has at most 32 messages of a queue, and a broker scans some thousand other messages for them. An
acknowledgement has a bit for each offset."""

POP_MESSAGES: Final = Bound("messages of a POP response", Claimant.SERVER, 1_024, "MALFORMED_RESPONSE.HEADER")
"""A poll requests at most 32. Messages are matched to their receipt handles one by one."""

INNER_MESSAGES: Final = Bound("messages of an inner batch", Claimant.PRODUCER, 2**15 - 1, "UNDECODABLE_MESSAGE_BODY")
"""An entry of a batch consume queue stores the count in 16 bits. Source: ``store/queue/BatchConsumeQueue.java``."""

DECOMPRESSED_BODY_BYTES: Final = Bound(
    "decompressed bytes of a body", Claimant.PRODUCER, 32 * 1024 * 1024, "UNDECODABLE_MESSAGE_BODY"
)
"""Of one body; by RocketMQ's defaults it has at most 4 MiB uncompressed. Spark holds a row several times in its JVM,
which fails when it runs out of memory."""

DECOMPRESSED_BYTES: Final = Bound(
    "decompressed bytes of a pull", Claimant.PRODUCER, 128 * 1024 * 1024, "UNDECODABLE_MESSAGE_BODY"
)
"""Of all bodies of one pull together; beyond it, the pull is decoded in parts."""

CHECKPOINT_OFFSET: Final = Bound("offset in a checkpoint", Claimant.CHECKPOINT, 2**63 - 1, "INCOMPATIBLE_CHECKPOINT")

CHECKPOINT_QUEUE_ID: Final = Bound(
    "queue ID in a checkpoint", Claimant.CHECKPOINT, QUEUE_ID.maximum, "INCOMPATIBLE_CHECKPOINT"
)

CHECKPOINT_MESSAGES: Final = Bound("messages in a batch", Claimant.CHECKPOINT, 200_000, "INCOMPATIBLE_CHECKPOINT")
"""With message-based load balancing: the checkpoint lists the receipt handles of a batch as ranges."""

BOUNDS: Final = (
    FRAME_BYTES,
    RESPONSE_BYTES,
    CONTROL_RESPONSE_BYTES,
    MESSAGE_BYTES_BESIDE_BODY,
    HEADER_BYTES,
    HEADER_VALUES,
    BODY_BYTES,
    BODY_VALUES,
    BODY_DEPTH,
    ROUTE_QUEUES,
    PROXIED_BROKERS,
    ORDERED_QUEUES,
    QUEUE_ID,
    QUEUE_OFFSETS,
    POP_OFFSETS,
    POP_MESSAGES,
    INNER_MESSAGES,
    DECOMPRESSED_BODY_BYTES,
    DECOMPRESSED_BYTES,
    CHECKPOINT_OFFSET,
    CHECKPOINT_QUEUE_ID,
    CHECKPOINT_MESSAGES,
)
"""All bounds."""


def check_values(text: str, bound: Bound) -> None:
    """Raise ValueError if the JSON ``text`` may hold more values than ``bound`` allows. The count is 1 plus the number
    of ``, { [``, also within strings, so it may be too large. A text of up to ``bound.maximum`` characters always
    passes."""
    if len(text) > bound.maximum:
        bound.check(1 + text.count(",") + text.count("{") + text.count("["))
