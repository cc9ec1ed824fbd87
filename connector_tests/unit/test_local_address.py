from __future__ import annotations

import pytest

from rocketmq_spark.remoting.local_address import local_ip


def test_towards_this_machine_it_is_the_loopback_address() -> None:
    assert local_ip("127.0.0.1:9876") == "127.0.0.1"


@pytest.mark.parametrize("towards", ["no such host.invalid:1", "null", "127.0.0.1:x"])
def test_where_there_is_no_way_it_is_the_loopback_address_and_no_error(towards: str) -> None:
    assert local_ip(towards) == "127.0.0.1"
