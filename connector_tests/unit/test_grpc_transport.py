"""Messages over gRPC, as a scripted proxy has them: what a real one says rarely."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest

from connector_tests.support.scripted_proxy import OK, ScriptedProxy, of_entries, status
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.pop.grpc_transport import GrpcTransport
from rocketmq_spark.pop.handles import Handle
from rocketmq_spark.pop.transports import transport_of
from rocketmq_spark.wire.grpc import messaging_pb2 as pb

pytestmark = pytest.mark.usefixtures("grpc_library")

HANDLE = Handle.parse("gone", "0 1795445135749 60000 3 0 broker-a 0 0")


@pytest.mark.parametrize("is_looked_after", [True, False])
def test_of_a_topic_that_is_gone_the_proxy_says_that_it_knows_a_message_no_more(is_looked_after: bool) -> None:
    """A query that has left the topic out, and whose checkpoint has a batch of it, could not be started."""
    over = status(pb.Code.INVALID_RECEIPT_HANDLE, "handle has expired")

    def route(said: Any) -> Any:
        if said.topic.name == "gone":
            return pb.QueryRouteResponse(status=status(pb.Code.TOPIC_NOT_FOUND, "no such topic"))
        return pb.QueryRouteResponse(status=OK, message_queues=[proxy.queue()])

    with ScriptedProxy() as proxy:
        proxy.answers["QueryRoute"] = route
        proxy.answers["ChangeInvisibleDuration"] = lambda _: pb.ChangeInvisibleDurationResponse(status=over)
        proxy.answers["AckMessage"] = lambda said: of_entries(said, [over])
        asks = {"endpoints": proxy.address, "consumerGroup": "g", "subscribe": "T", "loadBalance": "message"}
        transport = transport_of(ReadOptions.parse(asks))
        assert isinstance(transport, GrpcTransport)
        with closing(transport):
            if is_looked_after:
                transport.look()
                transport.change([HANDLE], 1, suspend=True)  # from here on its route is looked for too
                transport.look()
            assert transport.change([HANDLE], 1, suspend=True) == [None]
            assert transport.acknowledge([HANDLE]) == [False]
