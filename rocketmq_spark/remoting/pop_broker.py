"""Client of one broker for message-based load balancing: pop, acknowledge, change the invisible duration.

Methods raise what those of ``Broker`` do. Source: ``client/impl/MQClientAPIImpl.java``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple, TypeAlias

from rocketmq_spark.errors import BrokerError, RocketMQError
from rocketmq_spark.remoting.broker_rpcs import topic_config_rpc
from rocketmq_spark.remoting.remoting_client import RemotingClient, ResponseFuture, Rpc, decode_nothing
from rocketmq_spark.wire.body.batch_ack import BatchAck, encode_batch_ack
from rocketmq_spark.wire.body.groups import GroupRetrySettings, decode_group_retry_settings
from rocketmq_spark.wire.body.topics import TopicSettings
from rocketmq_spark.wire.remoting.codes import RequestCode
from rocketmq_spark.wire.remoting.command import RemotingCommand
from rocketmq_spark.wire.remoting.headers import (
    ChangeInvisibleTimeRequest,
    ChangeInvisibleTimeResponse,
    PopMessageRequest,
    PopMessageResponse,
)
from rocketmq_spark.wire.remoting.meanings import Meaning, meaning_of
from rocketmq_spark.wire.remoting.refusal import REMARK_CHARACTERS

HOLD_SLACK_MS: Final = 5_000
"""Extra response timeout of a pop: the broker holds it until a time by its own clock, which may be behind this host's.
"""


class Popped(NamedTuple):
    """Popped messages, now invisible to other clients: the response header, and the messages as they are stored."""

    header: PopMessageResponse
    body: memoryview


PopOutcome: TypeAlias = Popped | RocketMQError | None
"""Outcome of a pop; None: there was no message."""


class PopBroker(RemotingClient):
    """Client of the broker master at one address, for pops. ``pop`` and ``submit_`` methods send, and wait for a
    connection, but for no response."""

    def pop(self, request: PopMessageRequest, on_response: Callable[[PopOutcome], None]) -> None:
        """Send a pop, and return; only opening a connection waits. The broker holds the pop for ``poll_ms`` while there
        are no messages. ``on_response`` receives the messages, None without any, or the error, once; see
        ``RemotingClient.call_async``. Never raises a RocketMQError."""
        rpc = Rpc(RemotingCommand(RequestCode.POP_MESSAGE, fields=request.to_fields()), self._decode_pop)
        self.call_async(rpc, on_response, request.poll_ms + HOLD_SLACK_MS + self._timeout_ms)

    def _decode_pop(self, response: RemotingCommand) -> Popped | None:
        """Return the popped messages, or None if the broker has no message, or has too many polls waiting
        (POLLING_FULL). Raises BrokerError[POLL_REQUEST_EXPIRED] if the pop arrived too late: after None a caller would
        repeat it without a pause. Raises BrokerError[MESSAGE_MODE_UNSUPPORTED] for a server without pops,
        RemoteProtocolError[MALFORMED_RESPONSE.HEADER]."""
        meaning = meaning_of(RequestCode.POP_MESSAGE, response)
        if meaning is Meaning.WRONG_SERVER_KIND:
            raise BrokerError("MESSAGE_MODE_UNSUPPORTED", address=str(self.address), code=response.code)
        if meaning is Meaning.POLL_EXPIRED:
            remark = (response.remark or "")[:REMARK_CHARACTERS]
            raise BrokerError("POLL_REQUEST_EXPIRED", address=str(self.address), code=response.code, remark=remark)
        if meaning is Meaning.EMPTY:
            return None
        return Popped(PopMessageResponse.from_fields(response.fields), memoryview(response.body))

    def submit_ack(self, broker_name: str, acks: Iterable[BatchAck]) -> ResponseFuture[None]:
        """Send acknowledgements of messages without waiting for the response. ``broker_name``: this broker's. Raises
        what ``submit`` does. The broker does not report receipt handles that are no longer valid."""
        body = encode_batch_ack(broker_name, acks)
        return self.submit(Rpc(RemotingCommand(RequestCode.BATCH_ACK_MESSAGE, body=body), decode_nothing))

    def submit_change_invisible_time(
        self, request: ChangeInvisibleTimeRequest
    ) -> ResponseFuture[ChangeInvisibleTimeResponse | None]:
        """Request, without waiting, a change of a message's invisible duration from now on. The result has the parts of
        the new receipt handle, or is None if the message is deleted. Never repeat the request: after each response the
        message is redelivered once more unless acknowledged."""
        command = RemotingCommand(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, fields=request.to_fields())
        return self.submit(Rpc(command, _decode_change))

    def query_topic_settings(self, topic: str) -> TopicSettings:
        """Request and await the topic's settings on this broker; BrokerError if it does not have the topic. With ACLs
        the permission GET on the topic is required."""
        return self.call(topic_config_rpc(topic))

    def query_group_retry_settings(self, group: str) -> GroupRetrySettings:
        """Request and await the group's retry settings on this broker. A broker that creates groups on demand creates
        the group. Any other raises BrokerError for an unknown group. With ACLs the permission GET on the group is
        required."""
        command = RemotingCommand(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, fields={"group": group})
        return self.call(Rpc(command, lambda response: decode_group_retry_settings(response.body)))


def _decode_change(response: RemotingCommand) -> ChangeInvisibleTimeResponse | None:
    """Return the header of the response, or None if the message is deleted."""
    if meaning_of(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, response) is Meaning.DELETED:
        return None
    return ChangeInvisibleTimeResponse.from_fields(response.fields)
