"""RPCs that store a group's offset: the commit of members and the reset of operators' tools."""

from __future__ import annotations

from rocketmq_spark.errors import BrokerError
from rocketmq_spark.model import MessageQueue
from rocketmq_spark.remoting.remoting_client import Rpc, decode_nothing
from rocketmq_spark.wire.remoting.codes import RequestCode
from rocketmq_spark.wire.remoting.command import RemotingCommand
from rocketmq_spark.wire.remoting.headers import UpdateConsumerOffsetRequest
from rocketmq_spark.wire.remoting.meanings import Meaning, meaning_of


def commit_rpc(address: str, group: str, queue: MessageQueue, offset: int) -> Rpc[None]:
    """Return the RPC by which members commit ``offset`` of a queue. ``address``: the broker's, for errors. Decoding
    raises BrokerError[OFFSET_RESET_PENDING] if an operator's reset is pending, so that the offset was not stored."""
    header = UpdateConsumerOffsetRequest(
        consumer_group=group, topic=queue.topic, queue_id=queue.queue_id, commit_offset=offset
    )

    def decode(response: RemotingCommand) -> None:
        """Raise the error of a pending reset, else do nothing."""
        if meaning_of(RequestCode.UPDATE_CONSUMER_OFFSET, response) is Meaning.OFFSET_RESET_PENDING:
            raise BrokerError(
                "OFFSET_RESET_PENDING", address=address, queue=str(queue), group=group, code=response.code
            )

    return Rpc(RemotingCommand(RequestCode.UPDATE_CONSUMER_OFFSET, fields=header.to_fields()), decode)


def reset_offset_rpc(group: str, queue: MessageQueue, offset: int) -> Rpc[None]:
    """Return the RPC by which operators' tools reset the group's offset of one queue to ``offset``. With ACLs the
    permission UPDATE on topic and group is required.

    Source: ``broker/processor/AdminBrokerProcessor.java#resetOffset``.
    """
    fields = {
        "group": group,
        "topic": queue.topic,
        "queueId": str(queue.queue_id),
        "timestamp": "-1",
        "offset": str(offset),
        "isForce": "true",
    }
    return Rpc(RemotingCommand(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, fields=fields), decode_nothing)
