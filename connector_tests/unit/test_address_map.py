"""``brokerAddressMap``: reachable addresses instead of the advertised ones, wherever routes become addresses."""

from __future__ import annotations

import pytest

from rocketmq_spark.errors import OptionError
from rocketmq_spark.model import BrokerData, TopicRoute
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.remoting.namesrv import reachable_broker, reachable_route

REQUIRED = {"namesrvAddr": "n:9876", "consumerGroup": "g", "subscribe": "orders"}
ADDRESS_MAP = (("172.17.0.3:10911", "localhost:20911"), ("[fd00::3]:10911", "localhost:30911"))
MASTER_AND_SLAVES = BrokerData("c", "b", {0: "172.17.0.3:10911", 1: "[fd00::3]:10911", 2: "172.17.0.9:10911"})


def parsed(text: str) -> tuple[tuple[str, str], ...]:
    return ReadOptions.parse({**REQUIRED, "brokerAddressMap": text}).broker_address_map


def test_pairs_are_separated_like_addresses() -> None:
    assert parsed(" 172.17.0.3:10911=localhost:20911 ; [fd00::3]:10911 = localhost:30911;") == ADDRESS_MAP
    assert parsed("172.17.0.3:10911=localhost:20911,[fd00::3]:10911=localhost:30911") == ADDRESS_MAP
    assert parsed("") == ReadOptions.parse(REQUIRED).broker_address_map == ()


@pytest.mark.parametrize(
    "text",
    [
        ";",
        "a:1",
        "a:1=",
        "=b:1",
        "a:1=b",
        "a=b:1",
        "a:1=b:0",
        "a:1=b:65536",
        "a:1=b:1=c:1",
        "a:1=b:1;;c:1=d:1",
        "a:1=b:1;a:1=c:1",
        '{"a:1":"b:1"}',
    ],
)
def test_an_invalid_map_is_rejected_with_what_is_accepted(text: str) -> None:
    with pytest.raises(OptionError, match="'advertised=reachable' pairs of 'host:port' addresses") as raised:
        parsed(text)
    assert raised.value.condition == "INVALID_OPTION_VALUE"


def test_advertised_addresses_of_all_replicas_are_replaced() -> None:
    mapped = reachable_broker(MASTER_AND_SLAVES, ADDRESS_MAP)
    assert mapped.addresses == {0: "localhost:20911", 1: "localhost:30911", 2: "172.17.0.9:10911"}
    assert (mapped.cluster, mapped.broker_name) == ("c", "b")


def test_routes_are_equal_without_a_map_and_mapped_with_one() -> None:
    route = TopicRoute("orders", (MASTER_AND_SLAVES,), ())
    assert reachable_route(route, ()) is route
    assert reachable_route(route, ADDRESS_MAP).brokers == (reachable_broker(MASTER_AND_SLAVES, ADDRESS_MAP),)
