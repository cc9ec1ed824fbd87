"""A scripted name server and scripted brokers that hand out messages, over TCP: what real ones do rarely, at will."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack
from types import TracebackType
from typing import Final

from connector_tests.support.message_bytes import Record, pull_body
from connector_tests.support.scripted_broker import ScriptedBroker, Session, build_response
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.pop.receipt_handles import BrokerHandle, PopCheckPoint
from rocketmq_spark.wire.remoting.codes import RequestCode, ResponseCode
from rocketmq_spark.wire.remoting.command import RemotingCommand

TOPIC: Final = "T"
BROKER_TIMEOUT_MS: Final = 400
INVISIBLE_MS: Final = 60_000
REVIVE_QUEUE: Final = 3


class SharingBroker:
    """One that has so many messages, and answers polls only while it has some. ``polls``: those it holds.

    Threads: any; scripts run on the threads of its connections, one after the other.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.server = ScriptedBroker()
        self.messages = 0
        self.polls: list[RemotingCommand] = []
        self.after_change: list[RemotingCommand] = []
        self._delivered_count = 0
        self._deliverable_count = threading.Lock()
        self.server.on(RequestCode.POP_MESSAGE, self._pop)
        self.server.on(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, self.change)
        self.server.on(RequestCode.BATCH_ACK_MESSAGE, build_response())

    def session(self) -> Session:
        """The connection that messages are asked for over."""
        return self.server.next_session()

    def hang_up(self) -> None:
        """Close the first connection that is open."""
        self.session().hang_up()

    def _pop(self, request: RemotingCommand) -> RemotingCommand | None:
        with self._deliverable_count:
            count = min(self.messages, int(request.fields["maxMsgNums"]))
            self.messages -= count
        if not count:
            self.polls.append(request)
            return None
        return self.given(count, int(request.fields["invisibleTime"]))

    def given(self, count: int, invisible_ms: int) -> RemotingCommand:
        """An answer with so many messages."""
        with self._deliverable_count:
            first = self._delivered_count
            self._delivered_count += count
        records = [Record(topic=TOPIC, queue_offset=first + index) for index in range(count)]
        return build_response(
            fields={
                "popTime": str(int(time.time() * 1000)),
                "invisibleTime": str(invisible_ms),
                "reviveQid": str(REVIVE_QUEUE),
                "startOffsetInfo": f"0 0 {first}",
                "msgOffsetInfo": f"0 0 {','.join(map(str, range(first, first + count)))}",
            },
            body=pull_body(*records),
        )

    def change(self, request: RemotingCommand) -> RemotingCommand:
        """As brokers do."""
        self.after_change.append(request)
        fields = {"popTime": str(int(time.time() * 1000)), "invisibleTime": request.fields["invisibleTime"]}
        return build_response(fields={**fields, "reviveQid": str(REVIVE_QUEUE)})

    def busy_once(self, code: RequestCode) -> None:
        """The next such request is refused, and may be made again."""
        default_script = {RequestCode.CHANGE_MESSAGE_INVISIBLETIME: self.change}.get(code, lambda _: build_response())

        def refuse(_request: RemotingCommand) -> RemotingCommand:
            self.server.on(code, default_script)
            return build_response(ResponseCode.SYSTEM_BUSY, remark="by the test")

        self.server.on(code, refuse)


class SharingServers:
    """Context manager. All brokers have the topic."""

    def __init__(self, *names: str) -> None:
        self._running = ExitStack()
        self.name_server = ScriptedBroker()
        self.brokers = {name: SharingBroker(name) for name in names}
        self.name_server_address = ""
        self._addresses: dict[str, str] = {}
        self.route_request_count = 0

    def __enter__(self) -> SharingServers:
        for server in (self.name_server, *(broker.server for broker in self.brokers.values())):
            self._running.enter_context(server)
        self._addresses = {name: broker.server.listen() for name, broker in self.brokers.items()}
        self.name_server_address = self.name_server.listen()
        self.name_server.on(RequestCode.GET_ROUTEINFO_BY_TOPIC, self.route)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._running.close()

    def move(self, name: str, address: str) -> None:
        """The name server says from now on that the broker is there."""
        self._addresses[name] = address

    def options(self, **more: str) -> ReadOptions:
        given: Mapping[str, str] = {
            "namesrvAddr": self.name_server_address,
            "consumerGroup": "g",
            "subscribe": TOPIC,
            "loadBalance": "message",
            "startingOffsets": "earliest",
            "brokerTimeoutMs": str(BROKER_TIMEOUT_MS),
        }
        return ReadOptions.parse({**given, **more})

    def route(self, _request: RemotingCommand) -> RemotingCommand:
        self.route_request_count += 1
        brokers = [
            {"brokerAddrs": {"0": address}, "brokerName": name, "cluster": "c"}
            for name, address in self._addresses.items()
        ]
        queues = [{"brokerName": name, "perm": 6, "readQueueNums": 1, "writeQueueNums": 1} for name in self.brokers]
        return build_response(body=json.dumps({"brokerDatas": brokers, "queueDatas": queues}).encode())


def handle_of(broker_name: str, offset: int, pop_time_ms: int | None = None) -> BrokerHandle:
    """Of a message that was delivered before, by default just now."""
    popped_ms = int(time.time() * 1000) if pop_time_ms is None else pop_time_ms
    return BrokerHandle(PopCheckPoint(TOPIC, 0, popped_ms, INVISIBLE_MS, REVIVE_QUEUE, "0", broker_name, 0), offset)
