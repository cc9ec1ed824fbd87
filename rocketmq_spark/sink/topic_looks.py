"""TopicLooks: what a task learns of topics before it sends to them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from functools import cache

from rocketmq_spark.errors import RocketMQError
from rocketmq_spark.model import MessageQueue
from rocketmq_spark.remoting.retry import WRITING, topic_subject
from rocketmq_spark.remoting.routes import KnownTopics
from rocketmq_spark.sink.queue_choice import sharded_queues
from rocketmq_spark.sink.topic_checks import Wanted, lost_without_keys, no_such_queue
from rocketmq_spark.sink.write_waits import WriteWaits


class TopicLooks:
    """Asks about each topic once, and waits for those that are not there together. Threads: the task's own.

    ``is_compacted``: whether a topic keeps the last message of each key only, by one of its brokers; False where nobody
    tells.
    """

    def __init__(
        self,
        routes: KnownTopics,
        waits: WriteWaits,
        sleep: Callable[[float], None],
        is_compacted: Callable[[str], bool],
    ) -> None:
        self._routes = routes
        self._waits = waits
        self._sleep = sleep
        self._is_compacted = cache(is_compacted)
        self._named: dict[str, tuple[MessageQueue, ...]] = {}
        self._queues: dict[str, tuple[MessageQueue, ...]] = {}
        self._unserved: dict[str, RocketMQError] = {}

    def sharded_queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """Those among which its keys are shared: what the task learns first, and keeps to.

        Raises what makes the topic a problem, and what ``problems`` does.
        """
        self.problems([Wanted(topic, has_keys=True)])
        if topic in self._unserved:
            raise self._unserved[topic]
        return self._queues[topic]

    def problems(self, wanted: Collection[Wanted], *, first_only: bool = False) -> dict[Wanted, str]:
        """What of ``wanted`` cannot be had, and why: nobody serves its topic or lets us write when
        ``missingTopicTimeoutMs`` is over; the topic has no such queue; it is compacted, and loses what has no keys.
        ``first_only``: as soon as there is any, the others are not waited for.

        Raises TransportError[CLUSTER_UNREACHABLE] for what may pass and has not in ``clusterTimeoutMs``, and at once
        what another attempt would not change.
        """
        waiting: list[str] = list(dict.fromkeys(one.topic for one in wanted))
        pause_ms = None
        while True:
            failures = self._failures(waiting)
            given_up = self._waits.given_up(failures)
            self._unserved |= {topic: failures[topic] for topic in given_up}
            waiting = [topic for topic in failures if topic not in given_up]
            problems = {one: problem for one in wanted if (problem := self._problem(one)) is not None}
            if not waiting or (first_only and problems):
                break
            pause_ms = WRITING.after(pause_ms)
            self._sleep(pause_ms / 1000)
        for topic in waiting:
            self._waits.is_over(topic_subject(topic))
        return problems

    def _failures(self, topics: Iterable[str]) -> dict[str, RocketMQError]:
        """Why topics are not known yet. While no name server answers, one is enough to find that."""
        failures: dict[str, RocketMQError] = {}
        for topic in topics:
            try:
                self._learn(topic)
            except RocketMQError as error:
                if error.condition == "NO_NAME_SERVER":
                    return dict.fromkeys(topics, error)
                failures[topic] = error
            else:
                self._waits.is_over(topic_subject(topic))
        return failures

    def _learn(self, topic: str) -> None:
        """One attempt. Raises why it is to be made again."""
        if topic not in self._queues and topic not in self._unserved:
            self._queues[topic] = sharded_queues(self._routes.route(topic))

    def _problem(self, wanted: Wanted) -> str | None:
        if wanted.topic in self._unserved:
            return str(self._unserved[wanted.topic])
        if wanted.topic not in self._queues:
            return None
        problem = no_such_queue(wanted, self._queues[wanted.topic])
        if problem is not None:
            problem = no_such_queue(wanted, self._queues_by_now(wanted.topic))
        if problem is None and not wanted.has_keys and self._is_compacted(wanted.topic):
            return lost_without_keys(wanted.topic)
        return problem

    def _queues_by_now(self, topic: str) -> tuple[MessageQueue, ...]:
        """For named queues, once: the topic may have got more since the process has learnt of it."""
        if topic not in self._named:
            self._routes.forget(topic)
            try:
                self._named[topic] = sharded_queues(self._routes.route(topic))
            except RocketMQError:  # whoever sends to it waits for it, or says so
                self._named[topic] = self._queues[topic]
        return self._named[topic]
