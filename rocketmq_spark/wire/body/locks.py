"""Locks of queues, as members of orderly groups take them.

Source: ``remoting/protocol/body/LockBatchRequestBody.java``.
"""

from __future__ import annotations

from collections.abc import Collection

from rocketmq_spark.model import MessageQueue
from rocketmq_spark.wire.body.decoding import decode_body, message_queue
from rocketmq_spark.wire.remoting.fastjson import write_fastjson
from rocketmq_spark.wire.remoting.typed import objects


def encode_lock_batch(group: str, client_id: str, queues: Collection[MessageQueue]) -> bytes:
    """Body of LOCK_BATCH_MQ and UNLOCK_BATCH_MQ."""
    return write_fastjson(
        {
            "clientId": client_id,
            "consumerGroup": group,
            "mqSet": sorted(queues, key=MessageQueue.sort_key),
            "onlyThisBroker": False,
        }
    )


def decode_lock_ok(body: bytes | memoryview) -> set[MessageQueue]:
    """Answer to LOCK_BATCH_MQ: the queues that are locked for the asker now."""
    return decode_body("lock answer", body, lambda locked: set(map(message_queue, objects(locked, "lockOKMQSet"))))
