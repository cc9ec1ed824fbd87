"""What one broker is asked where messages are shared one by one: pop, acknowledge, change the invisibility.

Methods raise what those of ``Broker`` do. Source: ``client/impl/MQClientAPIImpl.java``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple, TypeAlias

from rocketmq_spark.errors import BrokerError, RocketMQError
from rocketmq_spark.remoting.remoting_client import RemotingClient, ResponseFuture, Rpc, decode_nothing
from rocketmq_spark.remoting.topic_config_rpc import topic_config_rpc
from rocketmq_spark.wire.body.batch_ack import BatchAck, encode_batch_ack
from rocketmq_spark.wire.body.groups import GroupRetrySettings, decode_group_retry_settings
from rocketmq_spark.wire.body.topics import FIFO
from rocketmq_spark.wire.remoting.codes import RequestCode
from rocketmq_spark.wire.remoting.command import RemotingCommand
from rocketmq_spark.wire.remoting.headers import (
    ChangeInvisibleTimeRequest,
    ChangeInvisibleTimeResponse,
    PopMessageRequest,
    PopMessageResponse,
)
from rocketmq_spark.wire.remoting.meanings import Meaning, meaning_of

HOLD_SLACK_MS: Final = 5_000
"""A broker holds a pop until a time by its own clock, which may be behind ours."""


class Popped(NamedTuple):
    """Messages that are invisible to others now: the header of the answer, and the messages as they are stored."""

    header: PopMessageResponse
    body: memoryview


PopOutcome: TypeAlias = Popped | RocketMQError | None
"""What became of a pop; None: there was nothing."""


class PopBroker(RemotingClient):
    """The master of one broker, by its address."""

    def pop(self, request: PopMessageRequest, on_response: Callable[[PopOutcome], None]) -> None:
        """Ask for messages; the broker holds the request for ``poll_ms`` while there are none. Never raises."""
        rpc = Rpc(RemotingCommand(RequestCode.POP_MESSAGE, fields=request.to_fields()), self._decode_pop)
        self.call_async(rpc, on_response, request.poll_ms + HOLD_SLACK_MS + self._timeout_ms)

    def _decode_pop(self, response: RemotingCommand) -> Popped | None:
        """A pop that came too late is refused: that there is nothing would be said again and again."""
        meaning = meaning_of(RequestCode.POP_MESSAGE, response)
        if meaning is Meaning.POLL_EXPIRED:
            remark = response.remark or ""
            raise BrokerError("POLL_REQUEST_EXPIRED", address=str(self.address), code=response.code, remark=remark)
        if meaning is Meaning.EMPTY:
            return None
        return Popped(PopMessageResponse.from_fields(response.fields), memoryview(response.body))

    def submit_ack(self, broker_name: str, acks: Iterable[BatchAck]) -> ResponseFuture[None]:
        """Say that messages are done. Of handles that count no more the broker says nothing."""
        body = encode_batch_ack(broker_name, acks)
        return self.submit(Rpc(RemotingCommand(RequestCode.BATCH_ACK_MESSAGE, body=body), decode_nothing))

    def submit_change_invisible_time(
        self, request: ChangeInvisibleTimeRequest
    ) -> ResponseFuture[ChangeInvisibleTimeResponse | None]:
        """Have a message invisible for another while from now on; None where it is deleted. Not to be repeated: each
        answer makes the message come again if it is not acknowledged."""
        command = RemotingCommand(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, fields=request.to_fields())
        return self.submit(Rpc(command, _decode_change))

    def is_fifo(self, topic: str) -> bool:
        """Whether the topic is of type FIFO. Wants the right GET on it, where there are rights."""
        return self.call(topic_config_rpc(topic)).message_type == FIFO

    def group_retry_settings(self, group: str) -> GroupRetrySettings:
        """How the group's messages come again, by its settings on this broker. Wants the right GET on the group, where
        there are rights."""
        command = RemotingCommand(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, fields={"group": group})
        return self.call(Rpc(command, lambda response: decode_group_retry_settings(response.body)))


def _decode_change(response: RemotingCommand) -> ChangeInvisibleTimeResponse | None:
    if meaning_of(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, response) is Meaning.DELETED:
        return None
    return ChangeInvisibleTimeResponse.from_fields(response.fields)
