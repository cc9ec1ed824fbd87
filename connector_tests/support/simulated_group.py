"""A consumer group in memory: a cluster, queries, a witness, and what may happen to them."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Final

from connector_tests.support.delivery_checker import DeliveryChecker, GuaranteeViolationError, Violation
from connector_tests.support.manual_clock import ManualClock
from connector_tests.support.simulated_cluster import Reach, SimulatedCluster
from connector_tests.support.simulated_query import IDLE, Parts, SimulatedQuery, SourceRunner
from rocketmq_spark.options import ReadOptions

START_MS: Final = 1_000_000
ROUNDS: Final = 25
ALLOWED_FAILURES: Final = frozenset(
    {
        "CLUSTER_TIMEOUT",
        "NOT_REGISTERED_IN_GROUP",
        "DUPLICATE_CLIENT_ID",
        "TOPIC_UNAVAILABLE.NO_READABLE_QUEUE",
        "QUEUES_UNAVAILABLE.FAIL",
        "QUEUES_UNAVAILABLE.TIMEOUT",
    }
)
"""What a query may report when something was the matter for its whole limit."""


class SimulatedGroup:
    """Context manager, so that no strand is left behind.

    Parameters
    ----------
    topics : queue counts by broker name, by topic
    """

    def __init__(
        self,
        topics: Mapping[str, Mapping[str, int]],
        *,
        starting_offsets: str = "earliest",
        parts: Parts | None = None,
        options: Mapping[str, str] | None = None,
        checker: type[DeliveryChecker] = DeliveryChecker,
    ) -> None:
        self.clock = ManualClock(START_MS)
        brokers = sorted({name for counts in topics.values() for name in counts})
        self.cluster = SimulatedCluster(brokers, self.clock)
        for topic, counts in topics.items():
            self.cluster.create_topic(topic, counts)
        self.checker = checker(self.cluster, starts_at_first=starting_offsets == "earliest")
        self.queries: list[SimulatedQuery] = []
        self.runners: list[SourceRunner] = []
        self._parts = parts or Parts()
        self._options = {
            "namesrvAddr": "ns:9876",
            "consumerGroup": "g",
            **({} if "subscribePattern" in (options or {}) else {"subscribe": ",".join(topics)}),
            "startingOffsets": starting_offsets,
            **(options or {}),
        }

    def __enter__(self) -> SimulatedGroup:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def query(self, name: str, **options: str) -> SimulatedQuery:
        """One more query; ``options`` beside the group's."""
        parsed = ReadOptions.parse(self._options | options)
        query = SimulatedQuery(name, parsed, self.cluster, self.checker, self._parts)
        self.queries.append(query)
        return query

    def start(self, query: SimulatedQuery, *, available_now: bool = False, once: bool = False) -> SourceRunner:
        """``once``: ``Trigger.Once``, which PySpark tells a source nothing of."""
        runner = query.start(available_now=available_now, once=once)
        self.runners.append(runner)
        return runner

    def alive(self) -> list[SourceRunner]:
        """All starts of queries whose source runner is not gone, orphans included."""
        return [runner for runner in self.runners if runner.is_alive]

    def pass_time(self, ms: int) -> None:
        """Advance the clock by ``ms``, then let each runner whose group lock is free do all its timed work."""
        self.clock.advance(ms)
        for runner in self.alive():
            if runner.member.lock.is_free:
                runner.run_timed_work()

    def run_until_idle(self, *, without: frozenset[SimulatedQuery] = frozenset()) -> None:
        """Repair everything, start all queries but those ``without``, give it time, and ask the witness."""
        self.repair()
        for runner in self.runners:
            self._end_orphan(runner)
        quiet_rounds = 0
        for _ in range(ROUNDS):
            self._one_quiet_round(without)
            quiet_rounds = quiet_rounds + 1 if self._is_at_rest() else 0
            if quiet_rounds == 3:
                break
        self.checker.check_at_rest()

    @property
    def is_whole(self) -> bool:
        """Whether everybody knows where each broker is, and can reach it."""
        return (
            self.cluster.is_up
            and self.cluster.are_addresses_published
            and not any(runner.client.cut_off for runner in self.runners)
        )

    def repair(self) -> None:
        """Let every member reach every broker, and name servers have their addresses."""
        self.cluster.set_reach(Reach.UP)
        self.cluster.publish_addresses()
        for runner in self.runners:
            runner.client.cut_off.clear()

    def _end_orphan(self, runner: SourceRunner) -> None:
        runner.client.fates.clear()
        if runner.is_terminating:
            runner.resume(stops=(IDLE,))
            runner.kill()
        if not runner.is_alive:
            self.cluster.lose_connections(runner)

    def _one_quiet_round(self, without: frozenset[SimulatedQuery]) -> None:
        for query in self.queries:
            if query not in without and (query.run is None or not query.run.is_alive):
                self.start(query)
        self.pass_time(11_000)
        for runner in self.alive():
            runner.resume()
        self.check()

    def check(self) -> None:
        """Raise GuaranteeViolationError for a query that failed with a condition that is not in ALLOWED_FAILURES."""
        for runner in self.runners:
            if runner.error is not None and runner.error.condition not in ALLOWED_FAILURES:
                raise GuaranteeViolationError(Violation.FAILED, str(runner.error)) from runner.error

    @property
    def is_broken(self) -> bool:
        """Whether a strand has ended with an error that Spark would not get, such as a violation."""
        return any(runner.crash is not None for runner in self.runners)

    def _is_at_rest(self) -> bool:
        return self.checker.is_all_read() and self.checker.is_all_committed()

    def close(self) -> None:
        for runner in self.runners:
            runner.kill()
