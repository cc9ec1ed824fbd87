"""``query.stop()`` while no broker responds: the query ends all the same, and a restart loses nothing."""

from __future__ import annotations

import pytest

from connector_tests.support.simulated_cluster import Reach
from connector_tests.support.simulated_group import SimulatedGroup
from connector_tests.support.simulated_query import IDLE, LATEST_OFFSET, LOG_COMMITS, LOG_OFFSETS, READ, WRITE

IN_A_REQUEST = "request"


@pytest.mark.parametrize("consume_orderly", ["false", "true"])
@pytest.mark.parametrize("how", [Reach.UNRESPONSIVE, Reach.UNAVAILABLE])
@pytest.mark.parametrize("stands_at", [LATEST_OFFSET, IN_A_REQUEST, LOG_OFFSETS, READ, WRITE, LOG_COMMITS, IDLE])
def test_query_stops_though_no_broker_responds(stands_at: str, how: Reach, consume_orderly: str) -> None:
    with SimulatedGroup({"t": {"a": 1, "b": 1}}, options={"consumeOrderly": consume_orderly}) as group:
        for queue in group.cluster.queues():
            group.cluster.produce(queue, 3)
        runner = group.start(group.query("A"))
        runner.resume(stops=(stands_at,))
        assert group.alive() == [runner]
        group.cluster.set_reach(how)
        runner.terminate()
        runner.resume()
        assert group.alive() == []
        assert runner.error is None
        group.run_until_idle()
        assert group.checker.is_all_read()


@pytest.mark.parametrize("how", [Reach.UNRESPONSIVE, Reach.UNAVAILABLE])
def test_query_stops_though_its_commit_gets_no_response(how: Reach) -> None:
    """It leaves with offsets that it could not commit. The restart commits them."""
    with SimulatedGroup({"t": {"a": 1}}) as group:
        (queue,) = group.cluster.queues()
        group.cluster.produce(queue, 3)
        runner = group.start(group.query("A"))
        for stands_at in (LOG_COMMITS, "request write offsets"):
            runner.resume(stops=(stands_at,))
        group.cluster.set_reach(how)
        runner.resume(points=1)
        assert runner.membership.offsets.unconfirmed
        runner.terminate()
        runner.resume()
        assert group.alive() == []
        assert group.cluster.group_offset(queue) == 0
        group.run_until_idle()
        assert group.cluster.group_offset(queue) == 3
