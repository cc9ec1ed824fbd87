"""Client of one broker: one short method for each request.

Every method, or its future's ``result``, raises TransportError (no connection, no response in time),
RemoteProtocolError and BrokerError. A BrokerError is a refusal by the response code; ``wire.remoting.refusal`` selects
its condition. ``retry`` defines which errors are retried. Source: ``client/impl/MQClientAPIImpl.java``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final, NamedTuple

from rocketmq_spark.errors import RocketMQError
from rocketmq_spark.model import Message, MessageFilter, MessageQueue, QueueBounds, StoredMessage, retry_topic
from rocketmq_spark.remoting import read_checks
from rocketmq_spark.remoting.broker_rpcs import (
    StoredOffset,
    clock_rpc,
    commit_rpc,
    consumer_ids_rpc,
    group_connections_rpc,
    group_names_rpc,
    group_switches_rpc,
    pull_rpc,
    query_offset_rpc,
    reset_offset_rpc,
    running_info_rpc,
    search_offset_rpc,
    send_back_rpc,
    send_batch_rpc,
    send_header,
    send_rpc,
    topic_config_rpc,
)
from rocketmq_spark.remoting.future import Future
from rocketmq_spark.remoting.message_probes import find_first_offsets, probe_sizes, probe_store_times
from rocketmq_spark.remoting.prober import TOOLS_PROBER, Prober
from rocketmq_spark.remoting.remoting_client import RemotingClient, ResponseFuture, Rpc, decode_nothing
from rocketmq_spark.wire.body.connections import GroupConnections
from rocketmq_spark.wire.body.groups import (
    Heartbeat,
    decode_lock_ok,
    encode_heartbeat,
    encode_lock_batch,
)
from rocketmq_spark.wire.body.inspection import GroupSwitches
from rocketmq_spark.wire.body.running_info import ConsumerRunningInfo
from rocketmq_spark.wire.body.topics import ConsumeProgress, TopicSettings, decode_consume_stats, decode_topic_stats
from rocketmq_spark.wire.message.batch import encode_batch, message_properties
from rocketmq_spark.wire.message.properties import encode_properties
from rocketmq_spark.wire.remoting.codes import RequestCode
from rocketmq_spark.wire.remoting.command import RemotingCommand
from rocketmq_spark.wire.remoting.fields import Header
from rocketmq_spark.wire.remoting.headers import (
    CreateTopicRequest,
    DeleteTopicRequest,
    GetConsumeStatsRequest,
    GetTopicStatsInfoRequest,
    UnregisterClientRequest,
)
from rocketmq_spark.wire.remoting.pull import OFFSET_RESET, PullResult
from rocketmq_spark.wire.remoting.send import SendResult

HOLD_SLACK_MS: Final = 6_000
"""Extra response timeout of a long poll: a broker checks its held pulls every 5 s."""


class SearchHints(NamedTuple):
    """Future of ``Broker.submit_search_hints``."""

    futures: Mapping[MessageQueue, ResponseFuture[int]]

    def result(self) -> dict[MessageQueue, int]:
        """Wait for all, and return the unverified results by queue. The first error is raised."""
        return {queue: future.result() for queue, future in self.futures.items()}


class StoredOffsets(NamedTuple):
    """Future of ``Broker.submit_query_offsets``; sends one more request if RocketMQ 4 returned offset 0."""

    broker: Broker
    group: str
    futures: Mapping[MessageQueue, ResponseFuture[StoredOffset]]

    def result(self) -> dict[MessageQueue, int | None]:
        """Wait, and return the group's offset by queue, or None if the broker stores none. RocketMQ 4 returns 0 for
        both: after a 0, request the group's consume stats. The 0 becomes None unless the stats contain the queue's
        topic."""
        stored = {queue: future.result() for queue, future in self.futures.items()}
        if all(offset.is_conclusive for offset in stored.values()):
            return {queue: offset.value for queue, offset in stored.items()}
        # Among the topics that the group subscribes to now, those for which the broker has an offset of the group.
        topics_with_offset = {queue.topic for queue in self.broker.query_consume_stats(self.group)}
        return {
            queue: offset.value if offset.is_conclusive or queue.topic in topics_with_offset else None
            for queue, offset in stored.items()
        }


class OffsetUpdates(NamedTuple):
    """Future of ``Broker.submit_update_offsets``."""

    futures: Mapping[MessageQueue, ResponseFuture[None]]

    def result(self) -> dict[MessageQueue, RocketMQError]:
        """Wait for all commits; return the errors of failed ones by queue, not raised. The offsets of all other queues
        are stored."""
        failures: dict[MessageQueue, RocketMQError] = {}
        for queue, future in self.futures.items():
            try:
                future.result()
            except RocketMQError as error:
                failures[queue] = error
        return failures


class Broker(RemotingClient):
    """Client of the broker at one address. ``submit_`` methods return a future without waiting for the response; they
    wait only to open a missing connection, and raise its errors. All other methods but ``long_poll`` wait for the
    response.

    Offsets and locks belong to masters: use no slave for them.
    """

    # ---------------------------------------------------------------------------------------------------- pulling

    def pull(
        self, group: str, queue: MessageQueue, offset: int, max_messages: int, expression: str = "*"
    ) -> PullResult:
        """Pull the messages that exist now, at most ``max_messages`` from ``offset`` on; the broker may return fewer.
        It filters by the hashes of the tags in ``expression`` (``TagA || TagB``, ``*``: all); the caller must filter
        again. No message, an invalid offset and an operator's reset are a ``status`` or ``reason``, not an error."""
        return self.call(pull_rpc(group, queue, offset, max_messages, expression))

    def long_poll(
        self,
        group: str,
        queue: MessageQueue,
        offset: int,
        suspend_ms: int,
        on_response: Callable[[PullResult | RocketMQError], None],
    ) -> None:
        """Request a pull of one message, without a filter, and return. Only opening a connection waits. Raise no
        RocketMQError: ``on_response`` receives the result or the error, once (``call_async``). Without a message, the
        broker holds the request for ``suspend_ms``, or up to 5 s longer."""
        rpc = pull_rpc(group, queue, offset, 1, "*", suspend_ms)
        self.call_async(rpc, on_response, suspend_ms + HOLD_SLACK_MS + self._timeout_ms)

    # --------------------------------------------------------------------------------------------------- positions

    def query_topic_stats(self, topic: str) -> dict[MessageQueue, QueueBounds]:
        """Request and await the bounds of all queues of ``topic``; BrokerError with code TOPIC_NOT_EXIST without it."""
        return self.submit_topic_stats(topic).result()

    def submit_topic_stats(self, topic: str) -> Future[dict[MessageQueue, QueueBounds]]:
        """Send the request of ``query_topic_stats`` without waiting; return the future of the bounds."""
        header = GetTopicStatsInfoRequest(topic=topic)
        command = _command(RequestCode.GET_TOPIC_STATS_INFO, header)
        return self.submit(Rpc(command, lambda response: decode_topic_stats(response.body)))

    def query_topic_settings(self, topic: str) -> TopicSettings:
        """Request and await the topic's settings on this broker; BrokerError if it does not have the topic. With ACLs
        the permission GET on the topic is required."""
        return self.call(topic_config_rpc(topic))

    def search_offsets(
        self, timestamps_ms: Mapping[MessageQueue, int], prober: Prober = TOOLS_PROBER
    ) -> dict[MessageQueue, int]:
        """Return for each queue the offset of the first message stored at its time (Unix ms) or later, else its max
        offset. Request the broker's results, all at once, then verify them by ``message_probes``, and wait. Each round
        pulls once for each queue; a right result needs one or two rounds. ``prober``: group of the pulls, and receiver
        of its offset resets. Raises what ``find_first_offsets`` does."""
        return find_first_offsets(self, self.submit_search_hints(timestamps_ms).result(), timestamps_ms, prober)

    def submit_search_hints(self, timestamps_ms: Mapping[MessageQueue, int]) -> SearchHints:
        """Request the broker's results for ``search_offsets``, all in flight at once, and do not wait. The results are
        unverified: too small, too large or -1."""
        return SearchHints({queue: self.submit(search_offset_rpc(queue, at)) for queue, at in timestamps_ms.items()})

    def probe_store_times(
        self, offsets: Mapping[MessageQueue, int], prober: Prober = TOOLS_PROBER
    ) -> dict[MessageQueue, int | None]:
        """Pull the message at an offset of each queue, at most ``MAX_CONCURRENT_PROBES`` at once, and wait. Return its
        store time (Unix ms), or None for no message. The first error is raised. See ``message_probes``."""
        return probe_store_times(self, offsets, prober)

    def probe_sizes(
        self, offsets: Mapping[MessageQueue, int], prober: Prober = TOOLS_PROBER
    ) -> dict[MessageQueue, int | None]:
        """Pull messages as ``probe_store_times`` does, and return the size in bytes of each as the broker stores it, or
        None."""
        return probe_sizes(self, offsets, prober)

    # ----------------------------------------------------------------------------------------------- group offsets

    def query_offsets(self, group: str, queues: Iterable[MessageQueue]) -> dict[MessageQueue, int | None]:
        """Request the group's committed offset of each queue, and wait; return None for a queue if the broker stores
        none."""
        return self.submit_query_offsets(group, queues).result()

    def submit_query_offsets(self, group: str, queues: Iterable[MessageQueue]) -> StoredOffsets:
        """Send the requests of ``query_offsets`` without waiting, all in flight at once; return the future."""
        return StoredOffsets(self, group, {queue: self.submit(query_offset_rpc(group, queue)) for queue in queues})

    def submit_update_offsets(self, group: str, offsets: Mapping[MessageQueue, int]) -> OffsetUpdates:
        """Send a commit of the group's offset for each queue, all in flight at once, without waiting. The broker stores
        any offset, also a smaller one, if it has the group. The future returns errors by queue:
        BrokerError[OFFSET_RESET_PENDING] until a pull has received an operator's pending reset."""
        return OffsetUpdates(
            {queue: self.submit(commit_rpc(str(self.address), group, queue, at)) for queue, at in offsets.items()}
        )

    def consume_reset(self, group: str, queue: MessageQueue) -> int | None:
        """Pull once at offset 0, and discard a pulled message. Return the offset of an operator's reset of the group,
        which the broker then removes, or None without a reset."""
        response = self.pull(group, queue, 0, 1)
        return response.next_begin_offset if response.reason == OFFSET_RESET else None

    def restore_reset(self, group: str, queue: MessageQueue, offset: int) -> None:
        """Make the broker store a reset of the group to ``offset``, as operators' tools do, and wait. It repeats a
        reset that ``consume_reset`` has removed. Raises BrokerError if the broker rejects it, as some do for a group
        without members. With ACLs the permission UPDATE on topic and group is required."""
        self.call(reset_offset_rpc(group, queue, offset))

    def query_consume_stats(self, group: str) -> dict[MessageQueue, ConsumeProgress]:
        """Request and await the group's progress in each queue of the topics for which this broker has the group's
        offset. While the group has members, only topics that it subscribes to count. Empty for an unknown group."""
        command = _command(RequestCode.GET_CONSUME_STATS, GetConsumeStatsRequest(consumer_group=group))
        return self.call(Rpc(command, lambda response: decode_consume_stats(response.body)))

    # -------------------------------------------------------------------------------------------------- membership

    def submit_heartbeat(self, heartbeat: Heartbeat) -> ResponseFuture[None]:
        """Send a heartbeat without waiting: it registers this connection as a member of each group in it, or keeps it
        registered. No other connection may have the same client ID."""
        return self.submit(Rpc(_command(RequestCode.HEART_BEAT, body=encode_heartbeat(heartbeat)), decode_nothing))

    def unregister(self, client_id: str, group: str) -> None:
        """Unregister this connection, with ``client_id``, from the group on this broker, and wait."""
        header = UnregisterClientRequest(client_id=client_id, consumer_group=group)
        self.call(Rpc(_command(RequestCode.UNREGISTER_CLIENT, header), decode_nothing))

    def submit_group_check(self, group: str, topic: str) -> read_checks.GroupCheck:
        """Check whether the broker lets the group read the topic, without waiting; see ``GroupCheck.result``. Two pulls
        are sent. One is from a queue that no topic has, so that it has no effect. The other is from an empty queue,
        because a broker that rejects all pulls checks the queue first. Heartbeats are no check: brokers accept them
        from groups that do not exist."""
        return read_checks.submit_group_check(self, group, topic)

    def submit_filter_check(self, group: str, topic: str, message_filter: MessageFilter) -> ResponseFuture[None]:
        """Request without waiting, before any pull, that the broker compiles a SQL92 filter; the future raises
        BrokerError if it cannot. Raises TransportError[FILTER_NOT_VERIFIABLE] at once for a broker behind a proxy."""
        return read_checks.submit_filter_check(self, group, topic, message_filter)

    def submit_consumer_ids(self, group: str) -> ResponseFuture[list[str]]:
        """Request without waiting the client IDs of the group's members on this broker, one per connection; empty
        without members."""
        return self.submit(consumer_ids_rpc(group))

    def query_running_infos(self, group: str, client_ids: Iterable[str]) -> dict[str, ConsumerRunningInfo]:
        """Request the running infos of members, all at once, wait, and return them by client ID. The broker queries
        each member; members whose request fails are missing. Raises TransportError if a request cannot be sent."""
        infos: dict[str, ConsumerRunningInfo] = {}
        futures = {client_id: self.submit(running_info_rpc(group, client_id)) for client_id in client_ids}
        for client_id, future in futures.items():
            with suppress(RocketMQError):
                infos[client_id] = future.result()
        return infos

    def report_to_member(self, group: str, client_id: str, report: bytes) -> None:
        """Send an encoded task report through the broker to a member of the group, and wait for the member's response.
        The report is a request for the member's running info. Raises BrokerError if the broker cannot forward it."""
        self.call(Rpc(running_info_rpc(group, client_id, report).command, decode_nothing))

    def submit_lock_batch(
        self, group: str, client_id: str, queues: Collection[MessageQueue]
    ) -> ResponseFuture[set[MessageQueue]]:
        """Request locks on ``queues`` for a client ID, or renew its locks, without waiting. Locks expire after 60 s.
        The result is the set of ``queues`` locked for the client ID; other client IDs hold the missing ones."""
        body = encode_lock_batch(group, client_id, queues)
        command = _command(RequestCode.LOCK_BATCH_MQ, body=body)
        return self.submit(Rpc(command, lambda response: decode_lock_ok(response.body)))

    def submit_unlock_batch(self, group: str, client_id: str, queues: Collection[MessageQueue]) -> ResponseFuture[None]:
        """Request to unlock queues of a client ID; do not wait for the response. Locks of other client IDs stay."""
        body = encode_lock_batch(group, client_id, queues)
        return self.submit(Rpc(_command(RequestCode.UNLOCK_BATCH_MQ, body=body), decode_nothing))

    # ----------------------------------------------------------------------------------------------------- sending

    def send(self, message: Message, queue: MessageQueue, producer_group: str, sys_flag: int = 0) -> SendResult:
        """Send one message to ``queue``, in one attempt, and wait until it is stored; ``message.topic`` has no effect.
        ``SendResult.status`` shows whether it is flushed and replicated. ``sys_flag``: its body's compression, by the
        caller, and whether it is a half message. Raises LocalProtocolError[INVALID_MESSAGE]."""
        properties = encode_properties(message_properties(message)).decode()
        header = send_header(queue, producer_group, sys_flag=sys_flag, flag=message.flag, properties=properties)
        return self.call(send_rpc(RequestCode.SEND_MESSAGE_V2, header, message.body, queue))

    def send_batch(self, messages: Sequence[Message], queue: MessageQueue, producer_group: str) -> SendResult:
        """Send messages, at least one, to ``queue`` as a batch, as ``send`` does. The broker stores all in a row, or
        none, and does not create a missing topic."""
        return self.submit_send(encode_batch(messages), queue, producer_group).result()

    def submit_send(
        self,
        body: bytes | memoryview,
        queue: MessageQueue,
        producer_group: str,
        *,
        sys_flag: int = 0,
        properties: str | None = None,
    ) -> ResponseFuture[SendResult]:
        """Send without waiting an encoded batch, or a message with encoded ``properties``; see ``send_batch_rpc``."""
        return self.submit(send_batch_rpc(body, queue, producer_group, sys_flag=sys_flag, properties=properties))

    def send_dead_letter(self, group: str, message: Message, broker_name: str) -> SendResult:
        """Store ``message`` in the group's dead-letter topic (DLQ) on this broker, which creates the topic if missing,
        and wait.

        Sends to the retry topic with ``reconsume_times`` above the maximum, and ignores ``message.topic``. Source:
        ``broker/processor/SendMessageProcessor.java#handleRetryAndDLQ``.
        """
        properties = encode_properties(message_properties(message)).decode()
        queue = MessageQueue(retry_topic(group), broker_name, 0)
        header = replace(
            send_header(queue, group, flag=message.flag, properties=properties),
            reconsume_times=1,
            max_reconsume_times=0,
        )
        return self.call(send_rpc(RequestCode.SEND_MESSAGE_V2, header, message.body, queue))

    def send_back(
        self,
        group: str,
        message: StoredMessage,
        *,
        delay_level: int = 0,
        max_reconsume_times: int | None = None,
    ) -> None:
        """Send a message back for retry through the group's retry topic, and wait. After the last retry it goes to the
        DLQ. ``delay_level``: 0 grows with the number of attempts, < 0 sends to the DLQ at once.
        ``max_reconsume_times``: None: the group's. Call the broker that stores the message. For a group without retry
        queues this has no effect. Raises DataLossError[MESSAGE_DELETED]."""
        self.call(send_back_rpc(group, message, delay_level, max_reconsume_times))

    # ---------------------------------------------------------------------------------------------- administration

    def query_group_names(self) -> list[str]:
        """Request and await the names of all groups of this broker, in its order, the system's included."""
        return self.call(group_names_rpc())

    def query_group_connections(self, group: str) -> GroupConnections:
        """Request and await the group's members that are connected to this broker; empty without any."""
        return self.call(group_connections_rpc(group))

    def query_group_switches(self, group: str) -> GroupSwitches:
        """Request and await the group's switches; a broker that creates groups on demand creates the group."""
        return self.call(group_switches_rpc(group))

    def query_clock_ms(self) -> int | None:
        """Request and await this broker's clock (Unix ms), up to 1 s too small, or None if it reports none."""
        return self.call(clock_rpc())

    def create_topic(
        self, topic: str, queue_count: int, permission: int = 6, attributes: Mapping[str, str] | None = None
    ) -> None:
        """Create or change a topic on this broker, with ``queue_count`` read and write queues, and wait.
        ``permission``: 4 (read) + 2 (write). ``attributes`` are added, such as ``{"message.type": "FIFO"}``."""
        texts = [f"+{name}={value}" for name, value in (attributes or {}).items()]
        header = CreateTopicRequest(
            topic=topic,
            read_queue_count=queue_count,
            write_queue_count=queue_count,
            permission=permission,
            attributes=",".join(texts) or None,
        )
        self.call(Rpc(_command(RequestCode.UPDATE_AND_CREATE_TOPIC, header), decode_nothing))

    def delete_topic(self, topic: str) -> None:
        """Delete a topic on this broker, with its messages and the offsets of all groups, and wait."""
        command = _command(RequestCode.DELETE_TOPIC_IN_BROKER, DeleteTopicRequest(topic=topic))
        self.call(Rpc(command, decode_nothing))


def _command(code: RequestCode, header: Header | None = None, body: bytes = b"") -> RemotingCommand:
    """Return a request, which is not sent; without ``header`` it has no fields."""
    return RemotingCommand(code, fields=header.to_fields() if header is not None else {}, body=body)
