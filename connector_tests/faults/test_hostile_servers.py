"""A server that is not RocketMQ, in the place of a name server or of a broker: an error that names it, in bounded time.

Spark's calls without Spark; ``spark/test_faults`` has a whole query before a server that is silent.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Final

import pytest

from connector_tests.support.hostile_server import HostileServer
from connector_tests.support.scripted_broker import ScriptedBroker, build_response
from connector_tests.support.source_calls import source_calls
from rocketmq_spark.errors import RocketMQError
from rocketmq_spark.wire.remoting.codes import RequestCode
from rocketmq_spark.wire.remoting.command import RemotingCommand

LIMITS: Final = {"brokerTimeoutMs": "500", "clusterTimeoutMs": "1500"}
HTTP: Final = b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n"
GARBAGE: Final = bytes([0, 0, 0, 20, 255, 0, 0, 8]) + b"so long, and thanks"
TWO_GIB_FRAME: Final = (1 << 31).to_bytes(4, "big")
MOST_RECEIVED_BYTES: Final = 64 * 1024 * 1024


@pytest.mark.parametrize(
    ("server", "condition"),
    [
        (lambda: HostileServer(HTTP), "FRAME_TOO_LARGE"),
        (lambda: HostileServer(TWO_GIB_FRAME, endless=True), "FRAME_TOO_LARGE"),
        (lambda: HostileServer(GARBAGE), "MALFORMED_FRAME"),
        (lambda: HostileServer(), "RESPONSE_TIMED_OUT"),
    ],
    ids=["http", "two gibibytes", "garbage", "silence"],
)
@pytest.mark.parametrize("place", ["name server", "broker"])
def test_server_that_is_not_rocketmq_is_named(
    server: Callable[[], HostileServer], condition: str, place: str, group: str
) -> None:
    with server() as hostile, ScriptedBroker() as name_server:
        name_server.on(RequestCode.GET_ROUTEINFO_BY_TOPIC, route_to(hostile.address))
        address = hostile.address if place == "name server" else name_server.listen()
        given = {"namesrvAddr": address, "consumerGroup": group, "subscribe": "any", **LIMITS}
        with source_calls(given) as source, pytest.raises(RocketMQError, match=f"ROCKETMQ_{condition}") as raised:
            source.next_batch()
        assert hostile.connect_count > 0
        assert hostile.received_bytes < MOST_RECEIVED_BYTES
    assert hostile.address in str(raised.value)


def route_to(broker_address: str) -> RemotingCommand:
    """A name server's response: one broker with one queue."""
    brokers = [{"brokerAddrs": {"0": broker_address}, "brokerName": "broker-a", "cluster": "c"}]
    queues = [{"brokerName": "broker-a", "perm": 6, "readQueueNums": 1, "writeQueueNums": 1}]
    return build_response(body=json.dumps({"brokerDatas": brokers, "queueDatas": queues}).encode())
