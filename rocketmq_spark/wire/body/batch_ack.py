"""Body of BATCH_ACK_MESSAGE, which acknowledges messages received by POP_MESSAGE.

Source: ``remoting/protocol/body/BatchAck.java``, ``remoting/protocol/BitSetSerializerDeserializer.java``.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Collection, Iterable
from typing import NamedTuple


class BatchAck(NamedTuple):
    """Messages of one queue, from one POP response, to acknowledge.

    ``topic`` is that of the POP request; ``retry`` is the response's flag for a queue of its retry topic.
    """

    group: str
    topic: str
    retry: str
    start_offset: int
    queue_id: int
    revive_queue_id: int
    pop_time_ms: int
    invisible_ms: int
    offsets: Collection[int]


def encode_batch_ack(broker_name: str, acks: Iterable[BatchAck]) -> bytes:
    """Return the body of a BATCH_ACK_MESSAGE to broker ``broker_name``, as JSON. Raises ValueError for an offset less
    than its ack's ``start_offset``."""
    return json.dumps({"brokerName": broker_name, "acks": [_fields(ack) for ack in acks]}).encode()


def _fields(ack: BatchAck) -> dict[str, object]:
    """Return an ack as an object of the body, its offsets as a bit set in Base64: bit ``i`` is ``start_offset + i``.
    Raises ValueError for an offset less than ``start_offset``."""
    return {
        "c": ack.group,
        "t": ack.topic,
        "r": ack.retry,
        "so": ack.start_offset,
        "q": ack.queue_id,
        "rq": ack.revive_queue_id,
        "pt": ack.pop_time_ms,
        "it": ack.invisible_ms,
        "b": base64.b64encode(_bits(offset - ack.start_offset for offset in ack.offsets)).decode(),
    }


def _bits(places: Iterable[int]) -> bytes:
    """Return a bit set of ``places`` as Java encodes a BitSet: place 0 is the lowest bit of the first byte. b"" for no
    place. A negative one raises ValueError."""
    number = 0
    for place in places:
        number |= 1 << place
    return number.to_bytes((number.bit_length() + 7) // 8, "little")
