"""What one broker is asked where messages are shared one by one: pop, acknowledge, change the invisibility.

Methods raise what those of ``Broker`` do. Source: ``client/impl/MQClientAPIImpl.java``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple, TypeAlias

from rocketmq_spark.errors import BrokerError, RocketMQError
from rocketmq_spark.remoting.peer import Peer, Question, ResponseFuture, code_only
from rocketmq_spark.remoting.settings_question import settings_question
from rocketmq_spark.wire.body.batch_ack import BatchAck, encode_batch_ack
from rocketmq_spark.wire.body.groups import GroupRetries, decode_group_retries
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


class PopBroker(Peer):
    """The master of one broker, by its address."""

    def pop(self, request: PopMessageRequest, on_answer: Callable[[PopOutcome], None]) -> None:
        """Ask for messages; the broker holds the request for ``poll_ms`` while there are none. Never raises."""
        question = Question(RemotingCommand(RequestCode.POP_MESSAGE, fields=request.to_fields()), self._read_pop)
        self.ask_then(question, on_answer, request.poll_ms + HOLD_SLACK_MS + self._timeout_ms)

    def _read_pop(self, answer: RemotingCommand) -> Popped | None:
        """A pop that came too late is refused: that there is nothing would be said again and again."""
        meaning = meaning_of(RequestCode.POP_MESSAGE, answer)
        if meaning is Meaning.TOO_LATE:
            remark = answer.remark or ""
            raise BrokerError("POLL_REQUEST_EXPIRED", address=str(self.address), code=answer.code, remark=remark)
        if meaning is Meaning.NOTHING:
            return None
        return Popped(PopMessageResponse.from_fields(answer.fields), memoryview(answer.body))

    def submit_acknowledge(self, broker_name: str, acks: Iterable[BatchAck]) -> ResponseFuture[None]:
        """Say that messages are done. Of handles that count no more the broker says nothing."""
        body = encode_batch_ack(broker_name, acks)
        return self.submit(Question(RemotingCommand(RequestCode.BATCH_ACK_MESSAGE, body=body), code_only))

    def submit_change(self, request: ChangeInvisibleTimeRequest) -> ResponseFuture[ChangeInvisibleTimeResponse | None]:
        """Have a message invisible for another while from now on; None where it is deleted. Not to be repeated: each
        answer makes the message come again if it is not acknowledged."""
        command = RemotingCommand(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, fields=request.to_fields())
        return self.submit(Question(command, _read_change))

    def is_in_order(self, topic: str) -> bool:
        """Whether the topic is of type FIFO. Wants the right GET on it, where there are rights."""
        return self.ask(settings_question(topic)).message_type == FIFO

    def group_retries(self, group: str) -> GroupRetries:
        """How the group's messages come again, by its settings on this broker. Wants the right GET on the group, where
        there are rights."""
        command = RemotingCommand(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, fields={"group": group})
        return self.ask(Question(command, lambda answer: decode_group_retries(answer.body)))


def _read_change(answer: RemotingCommand) -> ChangeInvisibleTimeResponse | None:
    if meaning_of(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, answer) is Meaning.GONE:
        return None
    return ChangeInvisibleTimeResponse.from_fields(answer.fields)
