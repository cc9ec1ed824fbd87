"""The batch of an earlier start whose handles are of no use any more."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from connector_tests.support.scripted_broker import answer
from connector_tests.support.sharing_servers import SharingServers, handle_of
from connector_tests.support.streams import eventually
from rocketmq_spark.pop.handles import Received
from rocketmq_spark.pop.ledger import State
from rocketmq_spark.pop.receiver import Receiver
from rocketmq_spark.pop.spool import Spool
from rocketmq_spark.pop.transports import transport_of
from rocketmq_spark.source.pop.earlier_batch import EarlierBatch
from rocketmq_spark.source.pop.pop_offsets import PopOffset
from rocketmq_spark.wire.remoting.codes import RequestCode

START = "6f0c"
LONG_AGO_MS = 1_763_712_000_000
HANDLES = (handle_of("gone", 0, LONG_AGO_MS), handle_of("a", 1, LONG_AGO_MS), handle_of("a", 2))
END = PopOffset("g", START, 1, HANDLES)
LINE = (
    "2 messages of an earlier batch are left to their brokers, for their invisible durations are long over: "
    "1 of broker a, 1 of broker gone. Those that were not acknowledged are redelivered."
)


@contextmanager
def receiver() -> Iterator[Receiver]:
    """Of a cluster that has broker a only."""
    with SharingServers("a") as servers:
        servers.name_server.on(RequestCode.GET_BROKER_CLUSTER_INFO, answer(body=b'{"brokerAddrTable":{}}'))
        options = servers.options(clusterTimeoutMs="500")
        one = Receiver(options, transport_of(options))
        try:
            yield one
        finally:
            one.stop()


def assert_all_is_well(one: Receiver, lines: list[str]) -> None:
    one.check()
    assert [line for line in lines if "redelivered" in line] == [LINE]


def test_overdue_handles_of_an_absent_broker_are_not_released(caplog: pytest.LogCaptureFixture) -> None:
    """A producer may have made one of them up; each restart from such a checkpoint ended after clusterTimeoutMs."""
    with receiver() as one:
        assert EarlierBatch(one, None).messages(END) == ()
        assert one.counts.given_back == 1
        assert_all_is_well(one, caplog.messages)


def test_overdue_handles_of_an_absent_broker_are_not_acknowledged(caplog: pytest.LogCaptureFixture) -> None:
    with receiver() as one:
        EarlierBatch(one, None).prove(END)
        eventually(lambda: one.counts.acknowledged == 1, "the other is acknowledged")
        assert_all_is_well(one, caplog.messages)


def test_a_kept_batch_is_read_again_without_overdue_handles(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    spool, kept = Spool(tmp_path), tuple(Received(handle, memoryview(b"x")) for handle in HANDLES)
    spool.keep(START, 1, kept)
    with receiver() as one:
        earlier = EarlierBatch(one, spool)
        assert earlier.messages(END) == kept
        assert one.count(State.FROZEN) == 1
        earlier.prove(END)
        eventually(lambda: one.counts.acknowledged == 1, "the other is acknowledged")
        assert_all_is_well(one, caplog.messages)


def test_abandoned_messages_are_released_without_overdue_handles(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    spool = Spool(tmp_path)
    spool.keep(START, 1, tuple(Received(handle, memoryview(b"x")) for handle in HANDLES))
    spool.close()
    with receiver() as one:
        EarlierBatch(one, spool).give_back_abandoned()
        eventually(lambda: one.counts.given_back == 1, "the other is released")
        assert_all_is_well(one, caplog.messages)
