"""TopicLooks: what a task learns of topics before it sends to them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping

from rocketmq_spark.errors import RocketMQError, RouteError
from rocketmq_spark.model import MessageQueue, TopicRoute
from rocketmq_spark.remoting.failures import Failures, Sleep
from rocketmq_spark.remoting.retry import (
    Outlook,
    is_unknown_broker,
    is_without_route,
    outlook_of_write,
    topic_subject,
)
from rocketmq_spark.remoting.route_table import RouteTable
from rocketmq_spark.sink.send_batches import sharded_queues
from rocketmq_spark.sink.topic_checks import Wanted, lost_without_keys, no_such_broker, no_such_queue


class TopicLooks:
    """Asks about each topic once, and waits for those that are not there together. Threads: the task's own.

    ``is_compacted``: whether a topic keeps the last message of each key only, by one of its brokers; False where these
    do not tell. It raises what may pass, such as that none of them can be reached.
    """

    def __init__(
        self,
        routes: RouteTable,
        failures: Failures,
        sleep: Sleep,
        is_compacted: Callable[[str], bool],
    ) -> None:
        self._routes = routes
        self._failures = failures
        self._sleep = sleep
        self._is_compacted = is_compacted
        self._compacted: dict[str, bool] = {}
        self._queues: dict[str, tuple[MessageQueue, ...]] = {}
        self._routed: dict[str, TopicRoute] = {}
        self._strangers: defaultdict[str, set[str]] = defaultdict(set)
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
        """What of ``wanted`` cannot be had, and why: nobody serves its topic or lets us write, or the broker that it
        names has nothing of it, when ``missingTopicTimeoutMs`` is over; the topic has no such queue; it is compacted,
        and loses what has no keys. ``first_only``: as soon as there is any, the others are not waited for.

        A broker that the process knows the topic to have been on, or where nobody may write now, is no problem: whoever
        sends waits for it. Raises TransportError[CLUSTER_TIMEOUT] for what may pass and has not in
        ``clusterTimeoutMs``, and at once what another attempt would not change.
        """
        by_topic: defaultdict[str, list[Wanted]] = defaultdict(list)
        for one in wanted:
            by_topic[one.topic].append(one)
        waiting: Mapping[str, Collection[Wanted]] = by_topic
        for _ in self._failures.attempts(self._sleep):
            waiting = {topic: by_topic[topic] for topic in self._failing(waiting)}
            problems = {one: problem for one in wanted if (problem := self._problem(one)) is not None}
            if not waiting or (first_only and problems):
                break
        for topic in waiting:
            self._failures.succeeded(topic_subject(topic), topic)
        return problems

    def _failing(self, waiting: Mapping[str, Collection[Wanted]]) -> list[str]:
        """Return the topics that are worth another attempt. One that no broker has served in time has a problem; what
        else has lasted too long is raised."""
        failing: list[str] = []
        for topic, error in self._tried(waiting).items():
            over = self._failures.failed(topic_subject(topic), topic, error)
            if over is None:
                failing.append(topic)
            elif outlook_of_write(error) is Outlook.UNSERVED:
                self._give_up(topic, error, waiting[topic])
                self._failures.succeeded(topic_subject(topic), topic)
            else:
                raise over
        return failing

    def _tried(self, waiting: Mapping[str, Collection[Wanted]]) -> dict[str, RocketMQError]:
        """Why topics are not known yet. While no name server answers, one is enough to find that."""
        failures: dict[str, RocketMQError] = {}
        for topic, wanted in waiting.items():
            try:
                self._learn(topic, wanted)
            except RocketMQError as error:
                if is_without_route(error):
                    return dict.fromkeys(waiting, error)
                self._routes.doubt(topic, error)
                failures[topic] = error
            else:
                self._failures.succeeded(topic_subject(topic), topic)
        return failures

    def _learn(self, topic: str, wanted: Collection[Wanted]) -> None:
        """One attempt.

        Raises RouteError[UNKNOWN_BROKER], and what a route, ``sharded_queues`` and ``is_compacted`` do.
        """
        if topic in self._unserved:
            return
        if topic not in self._queues:
            self._routed[topic] = self._routes.route(topic)
            self._queues[topic] = sharded_queues(self._routed[topic])
        if topic not in self._compacted and not all(one.has_keys for one in wanted):
            self._compacted[topic] = self._is_compacted(topic)
        if any(no_such_queue(one, self._routed[topic]) for one in wanted) or self._unheard_of(topic, wanted):
            self._routed[topic] = self._routes.route(topic, refresh=True)
        for broker in self._unheard_of(topic, wanted):
            raise RouteError("UNKNOWN_BROKER", topic=topic, broker=broker)

    def _unheard_of(self, topic: str, wanted: Iterable[Wanted]) -> list[str]:
        """Brokers that are named, and that nobody knows to have the topic; unless they were waited for in vain."""
        named = {one.broker_name for one in wanted if one.broker_name is not None}
        return sorted(named - self._routes.known_brokers(topic) - self._strangers[topic])

    def _give_up(self, topic: str, error: RocketMQError, wanted: Iterable[Wanted]) -> None:
        """Its time is over: that of the topic, or that of the brokers that are named and are not in its route."""
        if is_unknown_broker(error):
            self._strangers[topic].update(self._unheard_of(topic, wanted))
        else:
            self._unserved[topic] = error

    def _problem(self, wanted: Wanted) -> str | None:
        topic = wanted.topic
        if topic in self._unserved:
            return self._unserved[topic].summary
        if topic not in self._routed:
            return None
        if wanted.broker_name in self._strangers[topic] - self._routes.known_brokers(topic):
            return no_such_broker(wanted, self._routed[topic])
        problem = no_such_queue(wanted, self._routed[topic])
        if problem is None and not wanted.has_keys and self._compacted.get(topic, False):
            return lost_without_keys(topic)
        return problem
