"""What a member states of an address that is another server's."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from rocketmq_spark.consumer.member import Member
from rocketmq_spark.embedded import EmbeddedCluster
from rocketmq_spark.errors import OptionError
from rocketmq_spark.options import ReadOptions

pytestmark = pytest.mark.broker


@pytest.fixture
def member(cluster: EmbeddedCluster) -> Iterator[Member]:
    """It takes the broker for the name server."""
    given = {"namesrvAddr": cluster.broker_addr(), "consumerGroup": "g", "subscribe": "orders"}
    member = Member(ReadOptions.parse(given))
    member.start()
    yield member
    member.stop()


def test_a_broker_that_is_given_as_a_name_server_is_logged_at_once_and_once(
    cluster: EmbeddedCluster, member: Member, caplog: pytest.LogCaptureFixture
) -> None:
    """By the error that ends the query; the member's thread used to come upon it too, and to state it."""
    with member.group_lock() as membership, pytest.raises(OptionError) as raised:
        membership.refresh_metadata()
    assert str(raised.value) == (
        f"[ROCKETMQ_NOT_A_NAME_SERVER] {cluster.broker_addr()} is not a name server, but probably a broker: it "
        "does not support GET_ROUTEINFO_BY_TOPIC. Set 'namesrvAddr' to the name server's address. Its port is "
        "9876 by default, a broker's is 10911."
    )
    member.stop()
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == []
