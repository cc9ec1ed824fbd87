from __future__ import annotations

from connector_tests.support.message_bytes import host_bytes
from rocketmq_spark.wire.message.message_id import format_host, offset_msg_id

IPV4 = ("127.0.0.1", 10911)
IPV6 = ("2001:db8::1", 10911)


def test_an_id_is_the_host_and_the_place_in_upper_case_hex() -> None:
    assert offset_msg_id(host_bytes(IPV4), 0xABCDEF) == "7F00000100002A9F0000000000ABCDEF"
    assert offset_msg_id(host_bytes(IPV6), 1) == "20010DB800000000000000000000000100002A9F0000000000000001"


def test_a_host_shows_its_port_as_it_is_stored() -> None:
    assert format_host(host_bytes(("1.2.3.4", -1))) == "1.2.3.4:-1"
