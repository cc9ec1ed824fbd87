"""The question that a send is: to store messages, answered with where they are."""

from __future__ import annotations

from rocketmq_spark.model import MessageQueue
from rocketmq_spark.remoting.peer import Question
from rocketmq_spark.remoting.send_result import SendResult, SendStatus
from rocketmq_spark.wire.remoting.codes import RequestCode
from rocketmq_spark.wire.remoting.command import RemotingCommand
from rocketmq_spark.wire.remoting.headers import SendMessageRequest, SendMessageResponse


def send_question(
    code: RequestCode, header: SendMessageRequest, body: bytes | memoryview, queue: MessageQueue
) -> Question[SendResult]:
    """``code`` is one of those that store messages in ``queue``."""

    def read(answer: RemotingCommand) -> SendResult:
        stored = SendMessageResponse.from_fields(answer.fields)
        where = MessageQueue(queue.topic, queue.broker_name, stored.queue_id)
        return SendResult(SendStatus(answer.code), where, stored.queue_offset, tuple(stored.message_id.split(",")))

    return Question(RemotingCommand(code, fields=header.to_fields(), body=body), read)
