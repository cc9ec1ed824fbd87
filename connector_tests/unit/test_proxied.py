"""Brokers behind a proxy: how they are known, and what a request for one of them states."""

from __future__ import annotations

import pytest

from rocketmq_spark.model import BrokerAddress, BrokerData, QueueData, TopicRoute
from rocketmq_spark.remoting.proxied import behind_proxy, is_from_proxy, with_broker_name
from rocketmq_spark.wire.remoting.codes import RequestCode
from rocketmq_spark.wire.remoting.command import RemotingCommand

PROXY = "10.0.0.9:8080"
ROUTE = TopicRoute(
    "T",
    (BrokerData("c", "a", {0: PROXY, 1: PROXY}), BrokerData("c", "room@b", {0: PROXY})),
    (QueueData("a", 2, 2, 6), QueueData("room@b", 2, 2, 6)),
)


@pytest.mark.parametrize(
    ("fields", "is_so"),
    [
        ({"MSG_REGION": "", "TRACE_ON": "false"}, True),
        ({"MSG_REGION": "r", "TRACE_ON": "true", "more": ""}, True),
        ({"MSG_REGION": ""}, False),
        ({}, False),
    ],
)
def test_a_proxy_is_known_by_what_it_puts_into_all_its_responses(fields: dict[str, str], is_so: bool) -> None:
    assert is_from_proxy(fields) is is_so


@pytest.mark.parametrize("name", ["a", "room@b"])
def test_brokers_behind_a_proxy_share_its_server_and_have_names(name: str) -> None:
    route = behind_proxy(ROUTE)
    address = route.master_address(name)
    assert address == BrokerAddress(PROXY, name)
    assert str(address) == f"{name}@{PROXY}"
    assert route.read_queues() == ROUTE.read_queues()


def test_slaves_behind_a_proxy_are_named_too() -> None:
    (first, _) = behind_proxy(ROUTE).brokers
    assert first.all_addresses == {0: BrokerAddress(PROXY, "a"), 1: BrokerAddress(PROXY, "a")}


def test_without_a_proxy_an_address_is_its_server() -> None:
    assert ROUTE.master_address("a") == BrokerAddress(PROXY)
    assert str(BrokerAddress(PROXY)) == PROXY


@pytest.mark.parametrize(
    ("code", "field"),
    [
        (RequestCode.GET_MAX_OFFSET, "bname"),
        (RequestCode.SEND_MESSAGE_V2, "n"),
        (RequestCode.SEND_BATCH_MESSAGE, "n"),
    ],
)
def test_a_request_for_a_broker_behind_a_proxy_names_it(code: RequestCode, field: str) -> None:
    command = RemotingCommand(code, fields={"topic": "T"}, body=b"body")
    sent = with_broker_name(command, "room@b")
    assert sent.fields == {"topic": "T", field: "room@b"}
    assert (sent.code, sent.body, command.fields) == (code, b"body", {"topic": "T"})
