"""With a single rule left out, the group comes to harm: a short story for each rule.

Each story ends well with the product as it is. docs/dev/offsets.md has the same table in words.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import pytest
from hypothesis import Phase, settings

from connector_tests.support import omitted_rules as without
from connector_tests.support.delivery_checker import GuaranteeViolationError, MessageDeliveryChecker, Violation
from connector_tests.support.join_machine import (
    ChangingGroup,
    ChangingOldGroup,
    FailingGroup,
    HealthyGroup,
    interleave,
)
from connector_tests.support.misled_group import BEYOND, MisledGroup
from connector_tests.support.pattern_group import PATTERN, PatternGroup
from connector_tests.support.simulated_cluster import FLUSH_MS, OLD_VERSION, Fate, Reach
from connector_tests.support.simulated_group import SimulatedGroup
from connector_tests.support.simulated_query import IDLE, LOG_COMMITS, LOG_OFFSETS, READ, WRITE, Parts, SourceRunner
from rocketmq_spark.model import MessageQueue
from rocketmq_spark.remoting.retry import REQUEST_PAUSES

QUEUE: Final = MessageQueue("t", "a", 0)
COMMIT: Final = "request write offsets"
ORDERLY: Final = {"consumeOrderly": "true"}


def one_queue(parts: Parts, starting_offsets: str = "earliest", **options: str) -> SimulatedGroup:
    """A topic with one queue of five messages. Of two members "A" gets it, whoever came first."""
    group = SimulatedGroup({"t": {"a": 1}}, starting_offsets=starting_offsets, parts=parts, options=options)
    group.cluster.produce(QUEUE, 5)
    return group


def started(group: SimulatedGroup, name: str, **options: str) -> SourceRunner:
    return group.start(group.query(name, **options))


def read_and_left(group: SimulatedGroup, name: str) -> SourceRunner:
    """A member that comes, reads all there is and leaves gracefully."""
    visitor = started(group, name)
    visitor.resume()
    visitor.drain.is_wanted = True
    for _ in range(2):
        visitor.resume()
    return visitor


def killed_before_its_commit(group: SimulatedGroup, runner: SourceRunner) -> None:
    """After ``commits/N``, before the broker has the commit."""
    runner.resume(stops=(LOG_COMMITS,))
    runner.resume(stops=(COMMIT,))
    gone(group, runner)


def gone(group: SimulatedGroup, runner: SourceRunner) -> None:
    """Killed, and the brokers have noticed."""
    runner.kill()
    group.cluster.lose_connections(runner)


def unheard(newcomer: SourceRunner, stop: str) -> None:
    """Goes on, and its next heartbeat is lost."""
    newcomer.resume(stops=("request heartbeat", IDLE))
    if newcomer.spark.at != IDLE:
        newcomer.client.fates.append(Fate.LOST)
        newcomer.resume(stops=(stop, IDLE))


# ------------------------------------------------------------------------------------------ the stories


def killed_while_idle(parts: Parts) -> None:
    with one_queue(parts) as group:
        first = started(group, "B")
        first.resume()
        gone(group, first)
        started(group, "A").resume()
        group.run_until_idle()


def answer_of_a_commit_lost(parts: Parts) -> None:
    """Another broker goes on answering, so that nothing is planned anew for that."""
    with SimulatedGroup({"t": {"a": 1, "b": 1}}, parts=parts) as group:
        group.cluster.produce(QUEUE, 5)
        first = started(group, "B")
        first.resume(stops=(LOG_COMMITS,))
        first.resume(stops=(COMMIT,))
        first.client.fates.append(Fate.LOST)
        first.resume()
        group.run_until_idle()


def answer_of_the_last_commit_lost(parts: Parts) -> None:
    with one_queue(parts, **ORDERLY) as group:
        first = started(group, "B")
        first.resume(stops=(LOG_COMMITS,))
        first.drain.is_wanted = True
        first.resume(stops=(COMMIT,))
        first.client.fates.append(Fate.LOST)
        first.resume()
        group.query("A")
        group.run_until_idle(without=frozenset({first.query} if not first.is_alive else ()))
        group.checker.check_nothing_twice()


def late_proof_of_a_queue_that_moved(parts: Parts) -> None:
    with one_queue(parts) as group:
        first = started(group, "B")
        first.resume(stops=(WRITE,))
        group.cluster.produce(QUEUE, 3)
        read_and_left(group, "A")
        first.resume()
        group.run_until_idle()


def late_proof_of_a_queue_that_is_lost(parts: Parts) -> None:
    with one_queue(parts) as group:
        first, second = started(group, "B"), started(group, "A")
        first.resume(stops=(WRITE,))
        second.resume(stops=(WRITE,))
        first.run_timed_work()
        first.resume(stops=(COMMIT, IDLE))
        group.cluster.produce(QUEUE, 3)
        second.resume()
        first.resume()
        gone(group, second)
        first.run_timed_work()
        first.resume()
        group.run_until_idle()


def a_visitor_read_on(parts: Parts) -> None:
    """Nobody told the owner of the visitor."""
    with one_queue(parts) as group:
        first = started(group, "B")
        first.resume()
        group.cluster.produce(QUEUE, 3)
        read_and_left(group, "A")
        group.cluster.produce(QUEUE, 1)
        first.resume()
        group.run_until_idle()


def restarted_before_its_commit(parts: Parts) -> None:
    with one_queue(parts) as group:
        query = group.query("B")
        killed_before_its_commit(group, group.start(query))
        group.cluster.produce(QUEUE, 3)
        group.start(query).resume()
        group.run_until_idle()


def killed_again_after_its_next_plan(parts: Parts) -> None:
    with one_queue(parts) as group:
        query = group.query("B")
        killed_before_its_commit(group, group.start(query))
        group.cluster.produce(QUEUE, 3)
        again = group.start(query)
        again.resume(stops=(READ,))
        gone(group, again)
        started(group, "A").resume()
        group.run_until_idle()


def killed_after_the_first_offset(parts: Parts) -> None:
    with one_queue(parts, "latest") as group:
        first = started(group, "B")
        first.resume(stops=(READ,))
        gone(group, first)
        group.cluster.produce(QUEUE, 3)
        started(group, "A").resume()
        group.run_until_idle()


def a_topic_appears(parts: Parts) -> None:
    with SimulatedGroup({"t": {"a": 1}}, starting_offsets="latest", parts=parts, options=PATTERN) as group:
        started(group, "A").resume()
        group.cluster.create_topic("v0", {"a": 1})
        group.checker.appeared("v0")
        group.cluster.produce(MessageQueue("v0", "a", 0), 3)
        group.run_until_idle()


def a_topic_grows(parts: Parts) -> None:
    with one_queue(parts, "latest") as group:
        first = started(group, "B")
        first.resume()
        group.cluster.grow("t", "a", 1)
        group.cluster.produce(MessageQueue("t", "a", 1), 4)
        first.run_timed_work()
        first.resume()
        group.run_until_idle()


def a_topic_grows_while_its_other_broker_is_silent(parts: Parts) -> None:
    topics = {"t": {"a": 1, "b": 0}}
    with SimulatedGroup(topics, starting_offsets="latest", parts=parts) as group:
        group.cluster.produce(QUEUE, 5)
        first = started(group, "B")
        first.resume()
        gone(group, first)
        group.cluster.grow("t", "b", 1)
        group.cluster.produce(MessageQueue("t", "b", 0), 4)
        group.cluster.brokers["a"].reach = Reach.UNRESPONSIVE
        started(group, "A").resume()
        group.run_until_idle()


def idle_after_a_batch(parts: Parts) -> None:
    with one_queue(parts) as group:
        started(group, "B").resume()
        group.run_until_idle()


def killed_after_a_batch_of_another_queue(parts: Parts) -> None:
    with SimulatedGroup({"t": {"a": 1, "b": 1}}, parts=parts) as group:
        query = group.query("B")
        group.cluster.produce(QUEUE, 5)
        first = group.start(query)
        first.resume(stops=(LOG_COMMITS,))
        first.resume(stops=(COMMIT,))
        first.client.fates.append(Fate.LOST)
        group.cluster.produce(MessageQueue("t", "b", 0), 5)
        first.resume(stops=(READ,))
        gone(group, first)
        group.run_until_idle()


def killed_during_a_batch(parts: Parts) -> None:
    with one_queue(parts) as group:
        query = group.query("B")
        first = group.start(query)
        first.resume(stops=(READ,))
        gone(group, first)
        group.start(query).resume()
        group.run_until_idle()


def nobody_hears_of_a_newcomer(parts: Parts) -> None:
    with one_queue(parts) as group:
        first, newcomer = started(group, "B"), started(group, "A")
        for _ in range(3):
            first.resume(stops=(LOG_OFFSETS, IDLE))
            unheard(newcomer, LOG_OFFSETS)
            first.resume()
            unheard(newcomer, IDLE)
            group.cluster.produce(QUEUE, 2)
        group.run_until_idle()


def two_queries_of_one_name(parts: Parts) -> None:
    with SimulatedGroup({"t": {"a": 2}}, parts=parts) as group:
        started(group, "B", instanceName="one").resume()
        started(group, "C", instanceName="one").resume()
        for queue in group.cluster.queues():
            group.cluster.produce(queue, 3)
        for _ in range(4):  # not so long that the newcomer gives up
            group.pass_time(11_000)
            for runner in group.alive():
                runner.resume()
        assert len(group.alive()) == 2
        group.checker.check_at_rest()


def restarted_beside_its_orphan(parts: Parts) -> None:
    with one_queue(parts) as group:
        query = group.query("B", instanceName="B")
        orphan = group.start(query)
        orphan.resume(stops=(LOG_COMMITS,))
        orphan.resume(stops=(COMMIT,))
        orphan.lose_jvm()
        group.cluster.produce(QUEUE, 3)
        again = group.start(query)
        again.resume()
        orphan.resume()
        gone(group, again)
        started(group, "A").resume()
        group.run_until_idle()


def rebalanced_in_the_middle_of_a_plan(parts: Parts) -> None:
    with one_queue(parts, **ORDERLY) as group:
        first, second = started(group, "B"), started(group, "A")
        first.resume(stops=(without.WITHOUT_GROUP_LOCK, READ))
        second.resume()
        first.run_timed_work()
        second.run_timed_work()
        second.resume(stops=(READ, IDLE))
        first.resume()
        group.run_until_idle()
        group.checker.check_nothing_twice()


def a_join_during_a_batch(parts: Parts) -> None:
    with one_queue(parts, **ORDERLY) as group:
        first, second = started(group, "B"), started(group, "A")
        first.resume(stops=(WRITE,))
        second.resume()
        first.run_timed_work()
        second.run_timed_work()
        second.resume()
        first.resume()
        group.run_until_idle()
        group.checker.check_nothing_twice()


def a_join_while_a_commit_is_not_answered(parts: Parts) -> None:
    with one_queue(parts, **ORDERLY) as group:
        first, second = started(group, "B"), started(group, "A")
        first.resume(stops=(LOG_COMMITS,))
        first.resume(stops=(COMMIT,))
        first.client.fates.append(Fate.LOST)
        first.resume()
        second.resume()
        group.clock.advance(1_000)
        first.start_timed_work(first.in_turn(first.membership.rebalance))
        assert first.timer is not None
        first.timer.run(stops=(COMMIT,))
        first.client.fates.append(Fate.LOST)
        first.resume_timed_work()
        group.run_until_idle()
        group.checker.check_nothing_twice()


def a_commit_while_another_gains_the_queue(parts: Parts) -> None:
    with one_queue(parts, **ORDERLY) as group:
        first, second = started(group, "B"), started(group, "A")
        first.resume(stops=(LOG_COMMITS,))
        second.resume(stops=("request lock",))
        first.resume()
        first.run_timed_work()
        second.resume()
        group.run_until_idle()
        group.checker.check_nothing_twice()


CHANGING: Final = {"failOnDataLoss": "false"}


def messages_of(parts: Parts, queues: int = 1) -> SimulatedGroup:
    """A topic with five messages a queue, of which each must be read that is there in the end."""
    group = SimulatedGroup({"t": {"a": queues}}, parts=parts, options=CHANGING, checker=MessageDeliveryChecker)
    for queue in group.cluster.queues():
        group.cluster.produce(queue, 5)
    return group


def made_anew_and_outgrown(parts: Parts) -> None:
    with messages_of(parts) as group:
        runner = started(group, "A")
        runner.resume()
        group.cluster.recreate("t")
        group.cluster.produce(QUEUE, 8)
        group.run_until_idle()


def made_anew_and_outgrown_at_an_old_broker(parts: Parts) -> None:
    with messages_of(parts) as group:
        group.cluster.brokers["a"].version = OLD_VERSION
        started(group, "A").resume()
        group.cluster.recreate("t")
        group.cluster.produce(QUEUE, 8)
        group.run_until_idle()


def a_tail_lost_and_outgrown(parts: Parts) -> None:
    with messages_of(parts) as group:
        runner = started(group, "A")
        runner.resume()
        group.cluster.brokers["a"].restart(lost_messages=2)
        group.cluster.produce(QUEUE, 8)
        group.run_until_idle()


def a_tail_lost_and_written_over_while_idle(parts: Parts) -> None:
    """The queue is as long as before."""
    with messages_of(parts) as group:
        runner = started(group, "A")
        for _ in range(3):
            runner.resume()
        group.cluster.brokers["a"].restart(lost_messages=2)
        group.cluster.produce(QUEUE, 2)
        group.run_until_idle()


def a_tail_lost_in_the_middle_of_a_plan(parts: Parts) -> None:
    """The query is started again before it goes on, and lowers the group's offset. Its orphan's snapshot is older."""
    with messages_of(parts) as group:
        orphan = started(group, "A")
        for _ in range(3):
            orphan.resume()
        group.cluster.produce(QUEUE, 1)
        orphan.resume(stops=("request read offsets",))
        orphan.lose_jvm()
        group.cluster.lose_connections(orphan)
        group.cluster.brokers["a"].restart(lost_messages=3)
        restarted = group.start(orphan.query)
        for _ in range(6):
            restarted.resume()
        assert group.cluster.group_offset(QUEUE) == 3
        orphan.resume()
        group.cluster.produce(QUEUE, 4)
        group.run_until_idle()


def made_anew_in_the_middle_of_a_plan_whose_batch_nobody_reads(parts: Parts) -> None:
    with messages_of(parts) as group:
        first = started(group, "B")
        first.resume()
        group.cluster.produce(QUEUE, 1)
        for _ in range(2):
            first.resume(stops=("request read offsets",))
        group.cluster.recreate("t")
        group.cluster.produce(QUEUE, 8)
        first.resume(stops=(READ,))
        gone(group, first)
        group.query("A")
        group.run_until_idle(without=frozenset({first.query}))


def made_anew_during_a_batch_of_a_queue_that_moved(parts: Parts) -> None:
    """Its new owner is in the middle of the new topic when the proof for the old one comes."""
    with messages_of(parts) as group:
        first = started(group, "B")
        first.resume(stops=(LOG_COMMITS,))
        group.cluster.recreate("t")
        group.cluster.produce(QUEUE, 8)
        second = started(group, "A", maxOffsetsPerTrigger="3")
        second.resume(stops=(WRITE,))
        first.resume()
        group.run_until_idle()


def emptied_by_retention_and_made_anew_while_nobody_looks(parts: Parts) -> None:
    with messages_of(parts, queues=2) as group:
        runner = started(group, "A")
        runner.resume()
        group.cluster.brokers["a"].retain()
        group.cluster.produce(group.cluster.queues()[1], 1)
        runner.resume()
        gone(group, runner)
        group.cluster.brokers["a"].recreate(QUEUE)
        group.cluster.produce(QUEUE, 8)
        group.run_until_idle()


def restarted_after_a_wrong_commit(parts: Parts) -> None:
    with one_queue(parts, failOnDataLoss="false") as group:
        runner = started(group, "A")
        runner.resume()
        gone(group, runner)
        group.cluster.produce(QUEUE, 2)
        group.cluster.brokers["a"].offsets[QUEUE] = BEYOND
        group.run_until_idle()


def made_anew_with_a_wrong_commit(parts: Parts) -> None:
    """Somebody commits for the new topic before the query looks: the group's offset has not vanished."""
    with messages_of(parts) as group:
        runner = started(group, "A")
        for _ in range(3):
            runner.resume()
        group.cluster.recreate("t")
        group.cluster.produce(QUEUE, 8)
        group.cluster.brokers["a"].offsets[QUEUE] = BEYOND
        group.run_until_idle()


def killed_between_its_response_and_the_record(parts: Parts) -> None:
    """The other broker's response is awaited then. The killed one has not flushed the offset that it returned."""
    with SimulatedGroup({"t": {"a": 1, "b": 1}}, parts=parts) as group:
        group.cluster.produce(QUEUE, 5)
        runner = started(group, "A")
        runner.resume()
        group.clock.advance(FLUSH_MS)
        for broker_name in "ab":
            group.cluster.produce(MessageQueue("t", broker_name, 0), 3)
        runner.resume(stops=(COMMIT,))
        runner.client.fates += [Fate.NO_RESPONSE, Fate.LOST]
        runner.resume()
        group.clock.advance(REQUEST_PAUSES.longest_ms)
        runner.start_timed_work(runner.in_turn(runner.membership.offsets.persist))
        assert runner.timer is not None
        runner.timer.run(stops=(COMMIT,))
        for broker in group.cluster.brokers.values():
            if runner.timer.at != f"{COMMIT} {broker.name}":
                broker.kill()
        group.repair()
        group.run_until_idle()


# ------------------------------------------------------------------------------------------ the table


def cut_off_from_one_broker(parts: Parts) -> None:
    with SimulatedGroup({"t": {"a": 1, "b": 2}}, parts=parts) as group:
        cut, other = started(group, "A"), started(group, "B")
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
        group.run_until_idle()
        group.checker.check_nothing_twice()


def brokers_exchange_addresses(parts: Parts) -> None:
    """The name server does not know it yet."""
    with SimulatedGroup({"t": {"a": 1, "b": 1}}, parts=parts) as group:
        group.cluster.produce(MessageQueue("t", "b", 0), 9)
        group.cluster.produce(QUEUE, 5)
        runner = started(group, "A")
        runner.resume()
        group.cluster.exchange_addresses("a", "b", is_published=False)
        group.cluster.produce(QUEUE, 10)
        runner.resume()
        group.run_until_idle()


@dataclass(frozen=True)
class Rule:
    """A rule, what it is like without it, the story in which that shows, the harm, and the machine that comes upon it
    by chance; None: it takes what the machine does not do, two live queries of one name, or a query that stands still
    between a read and its write (``write_after_read``), or does once in many thousand interleavings."""

    text: str
    without: Parts
    story: Callable[[Parts], None]
    violation: Violation
    machine: type[HealthyGroup] | None = FailingGroup

    def __str__(self) -> str:
        return self.text


RULES: Final = (
    Rule(
        "what start proves is committed before anything else",
        Parts(membership=without.CommitsLater),
        killed_while_idle,
        Violation.READ_TWICE,
    ),
    Rule(
        "a commit counts when it is answered",
        Parts(membership=without.TreatsTimeoutAsResponse, planner=without.ChecksOnce),
        answer_of_a_commit_lost,
        Violation.UNCOMPLETED_COMMIT,
    ),
    Rule(
        "who leaves gracefully waits for the answer to its last commit",
        Parts(member=without.LeavesWithoutResponse),
        answer_of_the_last_commit_lost,
        Violation.READ_TWICE,
        HealthyGroup,
    ),
    Rule(
        "read before write, only upwards",
        Parts(membership=without.WritesUnread),
        late_proof_of_a_queue_that_moved,
        Violation.READ_TWICE,
    ),
    Rule(
        "the link of a commit is the one before its requests",
        Parts(membership=without.TakesLinksLate),
        killed_between_its_response_and_the_record,
        Violation.READ_TWICE_BY_ONE,
        None,
    ),
    Rule(
        "a dropped queue's progress is not committed",
        Parts(membership=without.CommitsDroppedQueues),
        late_proof_of_a_queue_that_is_lost,
        Violation.READ_TWICE,
    ),
    Rule(
        "a plan starts at the larger of checkpoint and broker: the broker",
        Parts(planner=without.TrustsTheCheckpoint),
        a_visitor_read_on,
        Violation.READ_TWICE,
    ),
    Rule(
        "a plan starts at the larger of checkpoint and broker: the checkpoint",
        Parts(planner=without.TrustsTheBroker),
        restarted_before_its_commit,
        Violation.READ_TWICE_BY_ONE,
    ),
    Rule(
        "the broker is asked also where we think that we never lost the queue",
        Parts(planner=without.TrustsCachedPositions),
        a_visitor_read_on,
        Violation.READ_TWICE,
    ),
    Rule(
        "the broker is raised to a range's begin before the range is logged",
        Parts(member=without.RaisesNothing),
        killed_again_after_its_next_plan,
        Violation.READ_TWICE,
    ),
    Rule(
        "first positions are at the broker before an offset is returned",
        Parts(member=without.KeepsFirstPositions),
        killed_after_the_first_offset,
        Violation.LOST,
    ),
    Rule(
        "a new queue starts at its min offset",
        Parts(planner=without.StartsNewQueuesAtTheirEnd),
        a_topic_grows,
        Violation.LOST,
    ),
    Rule(
        "a topic that a pattern matches later starts at its first message",
        Parts(planner=without.StartsLaterTopicsAsConfigured),
        a_topic_appears,
        Violation.LOST,
        PatternGroup,
    ),
    Rule(
        "a topic is new only by complete knowledge",
        Parts(planner=without.DecidesOnResponses),
        a_topic_grows_while_its_other_broker_is_silent,
        Violation.LOST,
    ),
    Rule(
        "nothing to plan, nothing changed in the offset",
        Parts(planner=without.RemovesLastRanges),
        idle_after_a_batch,
        Violation.EMPTY_BATCH,
    ),
    Rule(
        "positions that stay",
        Parts(planner=without.ForgetsQueues),
        killed_after_a_batch_of_another_queue,
        Violation.READ_TWICE_BY_ONE,
    ),
    Rule(
        "end alone gives the ranges, and they are read in full",
        Parts(runner=without.ReadsOnlyOwnedQueues),
        killed_during_a_batch,
        Violation.LOST,
    ),
    Rule(
        "whether a queue is still the same is looked at again after a sign",
        Parts(planner=without.ChecksOnlyAtStart),
        made_anew_and_outgrown,
        Violation.LOST,
        ChangingGroup,
    ),
    Rule(
        "it is also where brokers keep the offsets of a deleted topic, and a queue has grown",
        Parts(planner=without.TrustsOldBrokers),
        made_anew_and_outgrown_at_an_old_broker,
        Violation.LOST,
        ChangingOldGroup,
    ),
    Rule(
        "a connection that was lost is such a sign",
        Parts(planner=without.IgnoresReconnection),
        a_tail_lost_and_outgrown,
        Violation.LOST,
        ChangingGroup,
    ),
    Rule(
        "an idle query notices that it was lost",
        Parts(member=without.NoticesNoLostConnection),
        a_tail_lost_and_written_over_while_idle,
        Violation.LOST,
        ChangingGroup,
    ),
    Rule(
        "a plan raises the broker only over the connection of its refresh, and by responses over it",
        Parts(planner=without.RaisesOverAnyConnection, membership=without.UsesAnyResponse),
        a_tail_lost_in_the_middle_of_a_plan,
        Violation.LOST,
        None,
    ),
    Rule(
        "nothing is written where the group's offset has vanished",
        Parts(membership=without.RewritesVanishedOffsets),
        made_anew_in_the_middle_of_a_plan_whose_batch_nobody_reads,
        Violation.LOST,
        ChangingGroup,
    ),
    Rule(
        "a proof is written only while its last message is the one that was planned",
        Parts(membership=without.WritesLateCompletions),
        made_anew_during_a_batch_of_a_queue_that_moved,
        Violation.LOST,
        ChangingGroup,
    ),
    Rule(
        "the last store time is never forgotten",
        Parts(planner=without.ForgetsStoreTimes),
        emptied_by_retention_and_made_anew_while_nobody_looks,
        Violation.LOST,
        ChangingGroup,
    ),
    Rule(
        "a group offset beyond the end leaves the checkpoint that is verified",
        Parts(planner=without.JudgesByTheGroupsOffset),
        restarted_after_a_wrong_commit,
        Violation.READ_TWICE_BY_ONE,
        MisledGroup,
    ),
    Rule(
        "it is a sign to check the queue",
        Parts(planner=without.TrustsQueuesBeyondTheirEnd),
        made_anew_with_a_wrong_commit,
        Violation.LOST,
        None,
    ),
    Rule(
        "a connection is asked who is there before anything is told over it",
        Parts(membership=without.TrustsAddresses),
        brokers_exchange_addresses,
        Violation.LOST,
    ),
    Rule(
        "own id missing in the list: decide nothing",
        Parts(membership=without.DecidesUnlisted),
        nobody_hears_of_a_newcomer,
        Violation.READ_TWICE,
    ),
    Rule(
        "of the lists of all brokers that answer, whoever is in any is a member",
        Parts(membership=without.TrustsOneBroker),
        cut_off_from_one_broker,
        Violation.READ_TWICE,
        None,
    ),
    Rule(
        "ids are de-duplicated before allocation",
        Parts(membership=without.CountsConnections),
        two_queries_of_one_name,
        Violation.STUCK,
        None,
    ),
    Rule(
        "one id, one member: the newcomer waits",
        Parts(membership=without.IgnoresDuplicateClientId),
        restarted_beside_its_orphan,
        Violation.READ_TWICE,
        None,
    ),
    Rule(
        "plan and release exclude each other",
        Parts(membership=without.PlansReassignedQueues, planner=without.PlansWithoutGroupLock),
        rebalanced_in_the_middle_of_a_plan,
        Violation.READ_TWICE,
        HealthyGroup,
    ),
    Rule(
        "orderly: a queue with an unproven range stays",
        Parts(membership=without.ReleasesUncompleted),
        a_join_during_a_batch,
        Violation.READ_TWICE,
        HealthyGroup,
    ),
    Rule(
        "orderly: unlock only after the commit is answered",
        Parts(membership=without.ReleasesUncommitted),
        a_join_while_a_commit_is_not_answered,
        Violation.READ_TWICE,
        HealthyGroup,
    ),
    Rule(
        "orderly: lock, then read the offset",
        Parts(membership=without.ReadsBeforeItLocks, member=without.PlansWithEarlyOffsets),
        a_commit_while_another_gains_the_queue,
        Violation.READ_TWICE,
        HealthyGroup,
    ),
)


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_without_the_rule_the_group_comes_to_harm(rule: Rule) -> None:
    with pytest.raises(GuaranteeViolationError) as broken:
        rule.story(rule.without)
    assert broken.value.violation is rule.violation


@pytest.mark.parametrize("story", dict.fromkeys(rule.story for rule in RULES))
def test_with_all_rules_the_story_ends_well(story: Callable[[Parts], None]) -> None:
    story(Parts())


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("machine", "parts"), [pytest.param(rule.machine, rule.without, id=str(rule)) for rule in RULES if rule.machine]
)
def test_the_machine_comes_upon_the_harm_by_chance(machine: type[HealthyGroup], parts: Parts) -> None:
    how = settings(stateful_step_count=80, max_examples=10_000, phases=[Phase.generate], database=None, deadline=None)
    with pytest.raises(GuaranteeViolationError):
        interleave(machine, how, parts)
