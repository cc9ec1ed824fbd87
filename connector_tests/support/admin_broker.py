"""A broker that is also asked what operators and tests ask, and no query does."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from connector_tests.support.timeouts import TIMEOUT_FACTOR
from rocketmq_spark.errors import BrokerError
from rocketmq_spark.model import MessageQueue
from rocketmq_spark.remoting.broker import Broker
from rocketmq_spark.remoting.remoting_client import Rpc, decode_nothing
from rocketmq_spark.wire.remoting.codes import RequestCode, ResponseCode
from rocketmq_spark.wire.remoting.command import RemotingCommand
from rocketmq_spark.wire.remoting.fastjson import write_fastjson
from rocketmq_spark.wire.remoting.headers import OffsetResponse

ALL_QUEUES: Final = -1
DISPATCH_S: Final = 30 * TIMEOUT_FACTOR
_DISPATCHED: Final = re.compile(rb'"dispatchBehindBytes":"(0|-\d+)"')
"""A broker that skipped too much, behind a message that it cannot read, is ahead of what it stores."""
_RESET_ENTRY: Final = re.compile(r'{"brokerName":"(.+?)","queueId":(\d+),"topic":"(.+?)"}:(-?\d+)')


class AdminBroker(Broker):
    """Some methods are a plural of ``Broker`` for one queue, others have requests of their own."""

    def max_offset(self, queue: MessageQueue) -> int:
        """Offset that the next message will get; 0 where the broker knows no such queue."""
        return self.call(Rpc(_of_queue(RequestCode.GET_MAX_OFFSET, queue), _offset))

    def search_offset(self, queue: MessageQueue, timestamp_ms: int) -> int:
        return self.search_offsets({queue: timestamp_ms})[queue]

    def query_offset(self, group: str, queue: MessageQueue) -> int | None:
        return self.submit_query_offsets(group, [queue]).result()[queue]

    def update_offset(self, group: str, queue: MessageQueue, offset: int) -> None:
        for failure in self.submit_update_offsets(group, {queue: offset}).result().values():
            raise failure

    def reset_offset(self, group: str, queue: MessageQueue, offset: int) -> dict[MessageQueue, int]:
        """Mark the group's offset as reset to ``offset``; return it by queue. The next pull of the queue gets
        OFFSET_RESET."""
        return self.call(_reset_offset(group, queue.topic, queue.queue_id, -1, {"offset": str(offset)}))

    def reset_offsets_to_time(self, group: str, topic: str, timestamp_ms: int) -> dict[MessageQueue, int]:
        """Reset the group's offsets to the first message stored at ``timestamp_ms`` (Unix) or later, -1: to the max
        offset. Return the new offsets of all queues."""
        return self.call(_reset_offset(group, topic, ALL_QUEUES, timestamp_ms, {}))

    def ensure_group(self, group: str) -> None:
        """Create the group where there is none; one that exists keeps its settings.

        A broker that may create groups does so when it is asked for one; others state SUBSCRIPTION_GROUP_NOT_EXIST.
        """
        command = RemotingCommand(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, fields={"group": group})
        try:
            self.call(Rpc(command, decode_nothing))
        except BrokerError as error:
            if error.code != ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST:
                raise
            body = write_fastjson({"groupName": group})
            self.call(Rpc(RemotingCommand(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body), decode_nothing))

    def update_group(self, group: str, *, retry_max_times: int, retry_queue_count: int = 1) -> None:
        """Create the group, or change how its messages are redelivered."""
        settings = {"groupName": group, "retryMaxTimes": retry_max_times, "retryQueueNums": retry_queue_count}
        body = write_fastjson(settings)
        self.call(Rpc(RemotingCommand(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body), decode_nothing))

    def await_dispatch(self) -> None:
        """Wait until the broker has put into its queues all that it has confirmed, which it does a moment later. Raises
        AssertionError after DISPATCH_S."""
        deadline = time.monotonic() + DISPATCH_S
        while not self.has_dispatched():
            assert time.monotonic() < deadline, f"a broker that has not dispatched what it stores in {DISPATCH_S} s"
            time.sleep(0.01)

    def has_dispatched(self) -> bool:
        """Return whether the broker has put into its queues all that it has confirmed; False if it refuses the request,
        as in its first seconds."""
        command = RemotingCommand(RequestCode.GET_BROKER_RUNTIME_INFO)
        with suppress(BrokerError):
            return _DISPATCHED.search(self.call(Rpc(command, lambda response: bytes(response.body)))) is not None
        return False

    def update_config(self, properties: Mapping[str, str]) -> None:
        """Change the running broker's configuration. The broker skips names that it does not know."""
        body = "".join(f"{name}={value}\n" for name, value in properties.items()).encode()
        self.call(Rpc(RemotingCommand(RequestCode.UPDATE_BROKER_CONFIG, body=body), decode_nothing))


def _reset_offset(
    group: str, topic: str, queue_id: int, timestamp_ms: int, more: dict[str, str]
) -> Rpc[dict[MessageQueue, int]]:
    fields = {"group": group, "topic": topic, "queueId": str(queue_id), "timestamp": str(timestamp_ms)}
    command = RemotingCommand(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, fields=fields | {"isForce": "true"} | more)
    return Rpc(command, _reset_table)


def _reset_table(response: RemotingCommand) -> dict[MessageQueue, int]:
    entries = _RESET_ENTRY.findall(bytes(response.body).decode())
    return {MessageQueue(topic, broker_name, int(queue)): int(at) for broker_name, queue, topic, at in entries}


def _of_queue(code: RequestCode, queue: MessageQueue) -> RemotingCommand:
    return RemotingCommand(code, fields={"topic": queue.topic, "queueId": str(queue.queue_id)})


def _offset(response: RemotingCommand) -> int:
    return OffsetResponse.from_fields(response.fields).offset
