"""Short stories of a simulated group, each of which once ended badly."""

from __future__ import annotations

from connector_tests.support.simulated_cluster import Fate, Reach
from connector_tests.support.simulated_group import SimulatedGroup
from connector_tests.support.simulated_query import WRITE
from rocketmq_spark.model import MessageQueue

QUEUE = MessageQueue("t", "a", 0)
ONE_QUEUE = {"t": {"a": 1}}


def test_a_broker_that_is_back_is_surveyed_whoever_noticed_it() -> None:
    with SimulatedGroup({"t": {"a": 1, "b": 1}}) as group:
        group.cluster.produce(QUEUE, 1)
        group.cluster.brokers["a"].reach = Reach.SILENT
        runner = group.start(group.query("A"))
        for _ in range(3):
            runner.go_on()
        group.cluster.set_reach(Reach.UP)
        group.pass_time(11_000)
        runner.go_on()
        assert group.witness.is_all_read()


def test_a_first_position_that_was_not_stored_is_written_again_though_nothing_else_happens() -> None:
    with SimulatedGroup(ONE_QUEUE) as group:
        group.cluster.produce(QUEUE, 1)
        runner = group.start(group.query("A"), available_now=True)
        for _ in range(2):
            runner.go_on(stops=("request write offsets",))
            runner.door.fates.append(Fate.LOST)
        for _ in range(3):
            runner.go_on()
            group.clock.advance(6_000)
        assert group.witness.is_all_read()


def test_what_is_proven_of_a_queue_that_went_and_came_back_is_committed() -> None:
    with SimulatedGroup({"t": {"a": 2}}) as group:
        queue = group.cluster.queues()[1]
        group.cluster.produce(queue, 5)
        first, visitor = group.start(group.query("A")), group.start(group.query("B"))
        first.go_on(stops=(WRITE,))
        visitor.go_on(stops=("request read offsets",))
        first.do_all_timed_work()
        visitor.kill()
        group.cluster.lose_connections(visitor)
        first.do_all_timed_work()
        first.go_on()
        assert group.cluster.group_offset(queue) == 5
