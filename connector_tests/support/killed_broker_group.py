"""The state machine of a group whose brokers are killed before they have flushed the group's offsets."""

from __future__ import annotations

from typing import Final

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from connector_tests.support.join_machine import NUMBERS, FailingGroup, _one_of
from connector_tests.support.simulated_cluster import FLUSH_MS, Fate, SimulatedBroker
from connector_tests.support.simulated_query import IDLE
from rocketmq_spark.remoting.retry import REQUEST_PAUSES

COMMIT: Final = "request write offsets"


class KilledBrokerGroup(FailingGroup):
    """Offsets that no member has in memory are lost then, so others read again: this holds for a query alone."""

    starts: tuple[str, ...] = ("earliest",)
    fewest_queries = most_queries = 1

    @precondition(lambda self: self.group.cluster.is_up)
    @rule(number=NUMBERS, is_back=st.booleans())
    def kill_broker(self, number: int, is_back: bool) -> None:
        self._kill_broker(_one_of(list(self.group.cluster.brokers.values()), number), is_back)

    @precondition(lambda self: self.group.is_whole and self.group.alive())
    @rule(number=NUMBERS, is_back=st.booleans())
    def kill_broker_during_commit(self, number: int, is_back: bool) -> None:
        """After its response, that the offset is stored, while another broker's is awaited: both were sent a commit
        before, of which one was not acknowledged and one was lost."""
        runner = self.runner(number)
        self.group.clock.advance(FLUSH_MS)
        for queue in self.group.cluster.queues():
            self.group.cluster.produce(queue, 2)
        runner.resume(stops=(COMMIT, IDLE))
        runner.client.fates += [Fate.NO_RESPONSE, Fate.LOST] if runner.spark.at.startswith(COMMIT) else []
        runner.resume(stops=(IDLE,))
        self.group.clock.advance(REQUEST_PAUSES.longest_ms)
        runner.resume_timed_work()
        runner.start_timed_work(runner.in_turn(runner.membership.offsets.persist))
        if runner.timer is not None and runner.timer.run(stops=(COMMIT,)):
            for broker in self.group.cluster.brokers.values():
                if not runner.timer.at.endswith(f" {broker.name}"):
                    self._kill_broker(broker, is_back)
        runner.resume_timed_work()

    def _kill_broker(self, broker: SimulatedBroker, is_back: bool) -> None:
        reach = broker.reach
        self.event_counts["group offsets were lost"] += broker.flushed != broker.offsets
        broker.kill()
        if is_back:
            broker.reach = reach
