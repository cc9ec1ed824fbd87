"""Short stories of a simulated group, each of which once ended badly."""

from __future__ import annotations

import pytest

from connector_tests.support.delivery_checker import MessageDeliveryChecker
from connector_tests.support.simulated_cluster import Fate, Reach
from connector_tests.support.simulated_group import SimulatedGroup
from connector_tests.support.simulated_query import IDLE, LOG_COMMITS, LOG_OFFSETS, WRITE
from rocketmq_spark.errors import BrokerError, TransportError
from rocketmq_spark.model import MessageQueue

QUEUE = MessageQueue("t", "a", 0)
ONE_QUEUE = {"t": {"a": 1}}
FORBIDDEN = BrokerError(
    "BROKER_ERROR", address="a:10911", request="UPDATE_CONSUMER_OFFSET", code=16, code_name="NO_PERMISSION", remark=""
)
IDLE_CALL_MS = 212
"""How often Spark asks a source that has nothing."""


def test_a_broker_that_is_back_is_probed_whichever_caller_noticed_it() -> None:
    with SimulatedGroup({"t": {"a": 1, "b": 1}}) as group:
        group.cluster.produce(QUEUE, 1)
        group.cluster.brokers["a"].reach = Reach.UNRESPONSIVE
        runner = group.start(group.query("A"))
        for _ in range(3):
            runner.resume()
        group.cluster.set_reach(Reach.UP)
        group.pass_time(11_000)
        runner.resume()
        assert group.checker.is_all_read()


def test_a_first_position_that_was_not_stored_is_written_again_though_nothing_else_happens() -> None:
    with SimulatedGroup(ONE_QUEUE) as group:
        group.cluster.produce(QUEUE, 1)
        runner = group.start(group.query("A"), available_now=True)
        for _ in range(2):
            runner.resume(stops=("request write offsets",))
            runner.client.fates.append(Fate.LOST)
        for _ in range(3):
            runner.resume()
            group.clock.advance(6_000)
        assert group.checker.is_all_read()


def test_what_is_completed_of_a_queue_that_went_and_came_back_is_committed() -> None:
    with SimulatedGroup({"t": {"a": 2}}) as group:
        queue = group.cluster.queues()[1]
        group.cluster.produce(queue, 5)
        first, visitor = group.start(group.query("A")), group.start(group.query("B"))
        first.resume(stops=(WRITE,))
        visitor.resume(stops=("request read offsets",))
        first.run_timed_work()
        visitor.kill()
        group.cluster.lose_connections(visitor)
        first.run_timed_work()
        first.resume()
        assert group.cluster.group_offset(queue) == 5
        assert first.progress()["completedAfterRebalance"] == 1


def test_a_batch_that_is_completed_after_its_queue_has_moved_is_counted_and_not_committed_by_us() -> None:
    with SimulatedGroup({"t": {"a": 2}}) as group:
        kept, lost = group.cluster.queues()
        for queue in (kept, lost):
            group.cluster.produce(queue, 5)
        first = group.start(group.query("A"))
        first.resume(stops=(WRITE,))
        assert first.progress()["completedAfterRebalance"] == 0
        group.cluster.set_others("B")
        first.run_timed_work()
        first.resume()
        stored = [group.cluster.group_offset(queue) for queue in (kept, lost)]
        assert (stored, first.progress()["completedAfterRebalance"]) == ([5, 0], 1)
        group.cluster.produce(kept, 5)
        for _ in range(2):
            first.resume()
        assert (group.cluster.group_offset(kept), first.progress()["completedAfterRebalance"]) == (10, 1)


@pytest.mark.parametrize(("available_now", "is_drained"), [(False, True), (True, False), (True, True)])
def test_a_member_that_leaves_gracefully_waits_until_its_last_commit_gets_a_response(
    available_now: bool, is_drained: bool
) -> None:
    with SimulatedGroup(ONE_QUEUE, options={"consumeOrderly": "true"}) as group:
        group.cluster.produce(QUEUE, 5)
        runner = group.start(group.query("A"), available_now=available_now)
        runner.resume(stops=(LOG_COMMITS,))
        runner.drain.is_wanted = is_drained
        runner.resume(stops=("request write offsets",))
        runner.client.fates.append(Fate.LOST)
        for ms in (0, 0, 6_000, 6_000):
            runner.resume()
            group.clock.advance(ms)
        assert not runner.is_alive
        assert group.cluster.group_offset(QUEUE) == 5


def test_a_query_that_cannot_commit_before_it_leaves_fails_like_any_other() -> None:
    with SimulatedGroup(ONE_QUEUE, options={"clusterTimeoutMs": "60000"}) as group:
        group.cluster.produce(QUEUE, 5)
        runner = group.start(group.query("A"))
        runner.resume(stops=(LOG_COMMITS,))
        runner.drain.is_wanted = True
        group.cluster.set_reach(Reach.UNRESPONSIVE)
        for _ in range(12):
            runner.resume()
            group.pass_time(6_000)
        assert runner.error is not None
        assert runner.error.condition == "CLUSTER_TIMEOUT"


def test_a_member_that_the_group_does_not_list_plans_nothing() -> None:
    with SimulatedGroup(ONE_QUEUE) as group:
        group.cluster.produce(QUEUE, 5)
        sleeper = group.start(group.query("B"))
        sleeper.resume()
        group.clock.advance(125_000)
        group.start(group.query("A")).resume()
        group.cluster.produce(QUEUE, 3)
        sleeper.resume(stops=(LOG_OFFSETS, IDLE))
        assert sleeper.spark.at == IDLE
        group.run_until_idle()
        assert group.checker.duplicates() == 0


def test_a_broker_that_is_back_cannot_be_notified_of_a_batch_before_a_refresh_finds_it() -> None:
    """Its locks have expired meanwhile, so another member reads the batch again, and no rule forbids it."""
    with SimulatedGroup({"t": {"a": 1, "b": 1}}, options={"consumeOrderly": "true"}) as group:
        for queue in group.cluster.queues():
            group.cluster.produce(queue, 4)
        runner = group.start(group.query("A"))
        group.query("B")
        runner.resume(stops=(LOG_OFFSETS,))
        group.clock.advance(125_000)
        group.cluster.brokers["a"].reach = Reach.UNAVAILABLE
        runner.drain.is_wanted = True
        runner.resume()
        runner.resume(stops=("request consumer ids b",))
        group.run_until_idle()
        assert group.checker.is_all_committed()


def test_two_that_take_one_name_at_once_do_not_wait_for_each_other_for_ever() -> None:
    with SimulatedGroup(ONE_QUEUE, options={"instanceName": "worker"}) as group:
        runners = [group.start(group.query(name)) for name in "AB"]
        for runner in runners:
            runner.resume(stops=("request consumer ids",))
        for _ in range(13):
            group.pass_time(10_000)
            for runner in runners:
                runner.resume()
        assert [runner.error and runner.error.condition for runner in runners] == ["DUPLICATE_CLIENT_ID", None]


def test_a_commit_that_gets_no_response_is_sent_again_with_the_next_completion() -> None:
    """The timer may be late: a machine has slept, and a member on another one has the expired lock already."""
    with SimulatedGroup(ONE_QUEUE, options={"consumeOrderly": "true"}) as group:
        group.cluster.produce(QUEUE, 4)
        sleeper = group.start(group.query("B"))
        sleeper.resume(stops=(LOG_COMMITS,))
        sleeper.resume(stops=("request read offsets a",))
        sleeper.client.fates.append(Fate.LOST)
        sleeper.resume(stops=("request route",))
        group.clock.advance(65_000)
        sleeper.resume()
        assert group.cluster.group_offset(QUEUE) == 4


@pytest.mark.parametrize("resumes", [True, False])
def test_a_broker_that_takes_no_commits_ends_the_query_at_its_limit_and_is_not_called_without_pause(
    resumes: bool,
) -> None:
    """It answers everything else, so each survey finds it in good health."""
    with SimulatedGroup(ONE_QUEUE, options={"clusterTimeoutMs": "60000"}) as group:
        group.cluster.produce(QUEUE, 5)
        runner = group.start(group.query("A"))
        runner.resume(stops=(LOG_COMMITS,))
        group.cluster.brokers["a"].write_refusal = FORBIDDEN
        began_ms, before = group.clock(), group.cluster.now
        while runner.is_alive and group.clock() - began_ms < 80_000:
            runner.resume()
            group.clock.advance(IDLE_CALL_MS)
            if resumes and group.cluster.max_offset(QUEUE) < 20:
                group.cluster.produce(QUEUE, 1)
        assert runner.error is FORBIDDEN
        assert group.clock() - began_ms < 66_000
        assert group.cluster.now - before < 500, "requests and turns, of which each idle call takes one"


def test_a_queue_whose_commit_a_timer_has_made_good_is_read_on() -> None:
    """Nobody watched it any more, and what had come meanwhile was left until something else happened."""
    with SimulatedGroup(ONE_QUEUE) as group:
        group.cluster.produce(QUEUE, 5)
        runner = group.start(group.query("A"))
        runner.resume(stops=(LOG_COMMITS,))
        group.cluster.brokers["a"].write_refusal = FORBIDDEN
        group.cluster.produce(QUEUE, 1)
        runner.resume()
        runner.resume()
        group.cluster.brokers["a"].write_refusal = None
        group.pass_time(6_000)
        assert group.cluster.group_offset(QUEUE) == 5
        runner.resume()
        assert group.checker.is_all_read()


def test_a_refused_commit_of_a_queue_that_went_to_another_member_is_its_business() -> None:
    with SimulatedGroup({"t": {"a": 2}}, options={"clusterTimeoutMs": "60000"}) as group:
        queue = group.cluster.queues()[1]
        group.cluster.produce(queue, 5)
        first = group.start(group.query("A"))
        first.resume(stops=(LOG_COMMITS,))
        group.cluster.brokers["a"].write_refusal = FORBIDDEN
        first.resume()
        group.cluster.set_others("B")
        group.clock.advance(6_000)
        first.run_timed_work()
        group.cluster.brokers["a"].write_refusal = None
        group.clock.advance(120_000)
        group.cluster.set_others("B")
        group.cluster.produce(group.cluster.queues()[0], 1)
        first.run_timed_work()
        first.resume()
        assert first.is_alive
        assert group.cluster.group_offset(group.cluster.queues()[0]) == 1


@pytest.mark.parametrize("how", [Reach.UNRESPONSIVE, None])
def test_a_single_batch_of_a_query_that_continues_waits_for_its_servers(how: Reach | None) -> None:
    """``Trigger.Once`` asks once: an answer of "nothing" that is unknown to be true ends it as a success."""
    with SimulatedGroup(ONE_QUEUE) as group:
        query = group.query("A")
        group.cluster.produce(QUEUE, 5)
        first = group.start(query)
        first.resume()
        first.terminate()
        first.resume()
        group.cluster.produce(QUEUE, 3)
        if how is None:
            group.cluster.name_server_error = TransportError("CONNECT_FAILED", address="ns:9876", reason="refused")
        else:
            group.cluster.set_reach(how)
        once = group.start(query, once=True)
        for _ in range(5):
            once.resume()
            group.clock.advance(1_000)
        assert group.alive() == [once]
        group.cluster.set_reach(Reach.UP)
        group.cluster.name_server_error = None
        for _ in range(5):
            once.resume()
            group.clock.advance(6_000)
        assert group.alive() == []
        assert once.error is None
        assert group.checker.is_all_read()


def test_a_single_batch_without_its_servers_fails_at_the_limit() -> None:
    with SimulatedGroup(ONE_QUEUE, options={"clusterTimeoutMs": "60000"}) as group:
        query = group.query("A")
        group.cluster.produce(QUEUE, 5)
        first = group.start(query)
        first.resume()
        first.terminate()
        first.resume()
        group.cluster.set_reach(Reach.UNRESPONSIVE)
        once = group.start(query, once=True)
        for _ in range(12):
            once.resume()
            group.clock.advance(6_000)
        assert once.error is not None
        assert once.error.condition == "CLUSTER_TIMEOUT"


def test_a_single_batch_ends_with_nothing_once_that_is_known() -> None:
    with SimulatedGroup(ONE_QUEUE) as group:
        query = group.query("A")
        group.cluster.produce(QUEUE, 5)
        group.start(query, once=True).resume()
        again = group.start(query, once=True)
        again.resume()
        assert not again.is_alive
        assert query.checkpoint.offsets == query.checkpoint.offsets[:1]


def test_a_member_that_is_cut_off_from_one_broker_still_has_its_queues_on_the_others_to_itself() -> None:
    """Its broker lists it, the one that it cannot reach does not, and others used to believe whichever they asked."""
    with SimulatedGroup({"t": {"a": 2, "b": 2}}) as group:
        cut, other = group.start(group.query("A")), group.start(group.query("B"))
        for runner in (cut, other, cut):
            runner.resume()
        cut.client.cut_off.add("a")
        group.cluster.brokers["a"].connections.pop(cut)
        for _ in range(4):
            for queue in group.cluster.queues():
                group.cluster.produce(queue, 3)
            for stops in ((WRITE, IDLE), (IDLE,)):
                for runner in (cut, other):
                    runner.resume(stops=stops)
            group.pass_time(21_000)
        assert group.checker.duplicates() == 0
        held = {runner: {one.queue for one in runner.membership.process_queues} for runner in (cut, other)}
        assert not held[cut] & held[other]
        group.run_until_idle()
        assert group.checker.duplicates() == 0


def test_a_queue_that_became_another_one_while_its_query_stops_is_not_sent_the_old_ones_completion() -> None:
    """A call with the same start proved it once more, also for the queue that had just been set back."""
    with SimulatedGroup({"t": {"a": 2}}, options={"failOnDataLoss": "false"}) as group:
        for queue in group.cluster.queues():
            group.cluster.produce(queue, 4)
        runner = group.start(group.query("A", maxOffsetsPerTrigger="3"))
        runner.resume(stops=(LOG_OFFSETS,))
        group.cluster.set_reach(Reach.UNRESPONSIVE)
        runner.drain.is_wanted = True
        runner.resume()
        group.cluster.set_reach(Reach.UP)
        group.cluster.recreate("t")
        for queue in group.cluster.queues():
            group.cluster.produce(queue, 1)
        for _ in range(3):
            group.pass_time(11_000)
            runner.resume()
        assert not runner.is_alive
        assert {group.cluster.group_offset(queue) for queue in group.cluster.queues()} == {0}


CHANGING = {"failOnDataLoss": "false"}


def test_what_has_grown_since_the_refresh_is_probed_too() -> None:
    """A queue of a topic that is recreated between a survey and the look: it did not reach to where it was read."""
    with SimulatedGroup({"t": {"a": 2}}, options=CHANGING, checker=MessageDeliveryChecker) as group:
        query = group.query("A")
        produce_everywhere(group, 4)
        group.start(query).resume()
        group.runners[0].kill()
        group.cluster.brokers["a"].restart(lost_messages=3)
        group.cluster.produce(QUEUE, 6)
        group.cluster.lose_connections(group.runners[0])
        group.start(query).resume(stops=("request read offsets",))
        group.cluster.recreate("t")
        produce_everywhere(group, 8)
        group.run_until_idle()


def test_orderly_a_queue_that_goes_is_skipped_though_its_topic_was_recreated_during_its_last_batch() -> None:
    options = {"consumeOrderly": "true"} | CHANGING
    with SimulatedGroup({"t": {"a": 2}}, options=options, checker=MessageDeliveryChecker) as group:
        produce_everywhere(group, 4)
        first, second = group.start(group.query("A")), group.start(group.query("B"))
        first.resume(stops=(WRITE,))
        second.resume()
        first.run_timed_work()
        group.cluster.recreate("t")
        produce_everywhere(group, 8)
        group.run_until_idle()
        assert {held.queue for held in second.membership.process_queues} == {group.cluster.queues()[1]}


def test_of_available_now_runs_none_waits_for_what_another_topic_of_the_same_name_has_not() -> None:
    with SimulatedGroup({"t": {"a": 2}}, options=CHANGING, checker=MessageDeliveryChecker) as group:
        produce_everywhere(group, 9)
        visitor = group.start(group.query("A"))
        visitor.resume(stops=(WRITE,))
        runner = group.start(group.query("B"), available_now=True)
        runner.resume()
        group.cluster.recreate("t")
        produce_everywhere(group, 6)
        for _ in range(4):
            visitor.resume()
            runner.resume()
            group.pass_time(1_000)
        assert not runner.is_alive
        assert runner.error is None


def produce_everywhere(group: SimulatedGroup, count: int) -> None:
    for queue in group.cluster.queues():
        group.cluster.produce(queue, count)
