"""Looks at messages on a server that states what a real one seldom does; ``test_simulated_broker`` has the usual
ones."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from connector_tests.support.scripted_broker import ScriptedBroker, build_response
from rocketmq_spark.errors import RemoteProtocolError
from rocketmq_spark.model import TOOLS_GROUP, BrokerAddress, MessageQueue
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.remoting import message_probes
from rocketmq_spark.remoting.message_probes import MAX_CONCURRENT_PROBES, find_first_offsets, probe_store_times
from rocketmq_spark.remoting.pool import ConnectionPool
from rocketmq_spark.remoting.prober import TOOLS_PROBER, Prober, ignore_reset, prober_of
from rocketmq_spark.remoting.remoting_client import RemotingClient
from rocketmq_spark.wire.remoting.codes import RequestCode, ResponseCode
from rocketmq_spark.wire.remoting.command import RemotingCommand

BOUNDS = {"nextBeginOffset": "7", "minOffset": "3", "maxOffset": "9", "suggestWhichBrokerId": "0"}
QUEUES = [MessageQueue("T", "b", number) for number in range(2 * MAX_CONCURRENT_PROBES + 1)]
NONE = build_response(ResponseCode.PULL_NOT_FOUND, BOUNDS, remark="NO_MESSAGE_IN_QUEUE")
RESET = build_response(ResponseCode.PULL_OFFSET_MOVED, BOUNDS, remark="OFFSET_RESET")
LONG_MS = 60_000


@pytest.fixture
def peer(server: ScriptedBroker) -> Iterator[RemotingClient]:
    pool = ConnectionPool(1000, connect=server.connect)
    yield RemotingClient(BrokerAddress("a:1"), pool, LONG_MS)
    pool.close()


def test_prober_with_credentials_is_in_the_group_of_the_query() -> None:
    required = {"namesrvAddr": "n:9876", "consumerGroup": "g", "subscribe": "T"}
    signed = required | {"accessKey": "key", "secretKey": "secret"}
    assert prober_of(ReadOptions.parse(required), print) is TOOLS_PROBER
    assert prober_of(ReadOptions.parse(signed), print) == ("g", print)
    assert prober_of(ReadOptions.parse(signed)) == ("g", ignore_reset)


def test_queues_are_probed_by_the_tools_and_some_at_once(server: ScriptedBroker, peer: RemotingClient) -> None:
    groups: list[str] = []

    def find_nothing(request: RemotingCommand) -> RemotingCommand:
        groups.append(request.fields["consumerGroup"])
        return NONE

    server.on(RequestCode.PULL_MESSAGE, find_nothing)
    assert probe_store_times(peer, dict.fromkeys(QUEUES, 5), TOOLS_PROBER) == dict.fromkeys(QUEUES)
    assert groups == [TOOLS_GROUP] * len(QUEUES)


def test_a_probe_that_receives_a_reset_reports_it_and_is_repeated(server: ScriptedBroker, peer: RemotingClient) -> None:
    responses = {"0": [NONE, RESET], "1": [NONE]}
    server.on(RequestCode.PULL_MESSAGE, lambda request: responses[request.fields["queueId"]].pop())
    reported: list[tuple[MessageQueue, int]] = []
    reset_prober = Prober("g", lambda *reset: reported.append(reset))
    assert probe_store_times(peer, {QUEUES[0]: 5, QUEUES[1]: 5}, reset_prober) == {QUEUES[0]: None, QUEUES[1]: None}
    assert reported == [(QUEUES[0], 7)]
    assert responses == {"0": [], "1": []}


def test_a_search_whose_broker_never_returns_a_message_ends(
    server: ScriptedBroker, peer: RemotingClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One broker held the search, and with it the queues of all others, for ever."""
    monkeypatch.setattr(message_probes, "MAX_SEARCH_PULLS", 50)

    def skip_one(request: RemotingCommand) -> RemotingCommand:
        next_offset = str(int(request.fields["queueOffset"]) + 1)
        fields = {"nextBeginOffset": next_offset, "minOffset": "0", "maxOffset": str(2**40)}
        return build_response(ResponseCode.PULL_RETRY_IMMEDIATELY, fields, remark="NO_MATCHED_MESSAGE")

    server.on(RequestCode.PULL_MESSAGE, skip_one)
    with pytest.raises(RemoteProtocolError, match=r"SEARCH_STALLED.*T@b:0.* 1000 \(Unix ms\).*50 pulls.*offset 55"):
        find_first_offsets(peer, {QUEUES[0]: 5}, {QUEUES[0]: 1_000}, TOOLS_PROBER)
