"""``rocketmq_spark.send`` and the command, over TCP: to which queue each message goes."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

import rocketmq_spark
from connector_tests.support.scripted_broker import build_response
from connector_tests.support.scripted_cluster import ScriptedCluster
from rocketmq_spark.cli.main import main
from rocketmq_spark.wire.remoting.codes import RequestCode
from rocketmq_spark.wire.remoting.command import RemotingCommand

CALLS = 32


class Servers:
    """Two brokers with four queues each, and where they have stored messages."""

    def __init__(self, cluster: ScriptedCluster) -> None:
        self.cluster = cluster
        self.stored: list[tuple[str, int]] = []
        for name, broker in cluster.brokers.items():
            broker.on(RequestCode.SEND_MESSAGE_V2, self._store_at(name))
        cluster.queue_count = 4
        self.address = cluster.listen()

    def _store_at(self, name: str) -> Callable[[RemotingCommand], RemotingCommand]:
        def store(request: RemotingCommand) -> RemotingCommand:
            self.stored.append((name, int(request.fields["e"])))
            return build_response(fields={"msgId": "ID", "queueId": request.fields["e"], "queueOffset": "0"})

        return store


@pytest.fixture
def servers() -> Iterator[Servers]:
    with ScriptedCluster("a", "b") as cluster:
        yield Servers(cluster)


def send_by_function(address: str) -> None:
    assert len(rocketmq_spark.send(address, "T", "body")) == 1


def send_by_command(address: str) -> None:
    assert main(["send", "--namesrv", address, "--topic", "T", "body"]) == 0


@pytest.mark.parametrize("send", [send_by_function, send_by_command])
def test_each_call_begins_with_any_queue(servers: Servers, send: Callable[[str], None]) -> None:
    """All calls sent their first message to queue 0 of the first broker."""
    for _ in range(CALLS):
        send(servers.address)
    assert len(servers.stored) == CALLS
    assert {name for name, _ in servers.stored} == {"a", "b"}
    assert len(set(servers.stored)) > 4


@pytest.mark.parametrize("send", [send_by_function, send_by_command])
def test_each_call_succeeds_with_one_of_two_brokers_stopped(servers: Servers, send: Callable[[str], None]) -> None:
    """Each call tried one broker only."""
    servers.cluster.brokers["a"].stop()
    for _ in range(CALLS):
        send(servers.address)
    assert [name for name, _ in servers.stored] == ["b"] * CALLS


def test_messages_go_only_where_the_order_configuration_names_queues(servers: Servers) -> None:
    servers.cluster.order_conf = "b:2"
    rocketmq_spark.send(servers.address, "T", ["body"] * CALLS)
    assert sorted(servers.stored) == [("b", 0)] * (CALLS // 2) + [("b", 1)] * (CALLS // 2)
