"""Which transport options ask for."""

from __future__ import annotations

import pytest

from rocketmq_spark.options import ReadOptions
from rocketmq_spark.pop.grpc_transport import GrpcTransport
from rocketmq_spark.pop.remoting_transport import RemotingTransport
from rocketmq_spark.pop.transports import transport_of

GIVEN = {"consumerGroup": "g", "subscribe": "T", "loadBalance": "message"}


@pytest.mark.parametrize(("server", "kind"), [("namesrvAddr", RemotingTransport), ("endpoints", GrpcTransport)])
def test_brokers_and_proxies_have_their_own_and_making_it_opens_nothing(server: str, kind: type) -> None:
    assert type(transport_of(ReadOptions.parse({**GIVEN, server: "127.0.0.1:1"}))) is kind
