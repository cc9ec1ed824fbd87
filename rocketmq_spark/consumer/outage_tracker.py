"""Outages: who does not answer, or not as it must, since when; and which queues are away because of it. Asks nobody.

A queue is *away* when nobody serves it: the name servers' route is without it, or its topic is gone. A broker that the
route names and that does not answer is only *silent*, and so are its queues. A subject is a name server, a topic, a
broker, or something that must hold in the group; how long it may be silent says who notes it.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from rocketmq_spark.errors import RocketMQError
from rocketmq_spark.model import BrokerAddress, MessageQueue
from rocketmq_spark.remoting.failures import FailureTracker
from rocketmq_spark.remoting.outage_log import Outage
from rocketmq_spark.remoting.retry import broker_subject, topic_subject
from rocketmq_spark.remoting.route_table import RouteTable

if TYPE_CHECKING:
    from rocketmq_spark.remoting.clock import Clock

log = logging.getLogger(__name__)


class OutageTracker:
    """What fails now while ``topics`` are read. Not thread-safe."""

    def __init__(self, topics: Collection[str], routes: RouteTable, clock: Clock) -> None:
        self._topics = topics
        self._routes = routes
        self._clock = clock
        self._tracker = FailureTracker()
        self._commits: set[str] = set()
        """Those subjects that are offsets which were not stored."""
        self._explained: frozenset[str] = frozenset()
        self._queue_outages: tuple[Outage, ...] = ()
        self.changes = 0
        """How often something has answered that had been silent, or has been silent for its limit."""

    def record_failure(self, subject: str, error: RocketMQError, limit_ms: int, quiet_ms: int = 0) -> None:
        """Remember that ``subject`` did not answer, or not as it must. ``quiet_ms``: see ``Outage``."""
        log.debug("REQUEST_FAILED: Request to %s failed: %s", subject, error)
        now_ms = self._clock()
        self.changes += self._tracker.record_failure(
            subject, error, now_ms=now_ms, limit_ms=limit_ms, quiet_ms=quiet_ms
        )
        self._tracker.extend_deadline(self._topics_without_brokers() & {subject}, now_ms)

    def record_success(self, subject: str) -> None:
        """``subject`` has answered."""
        self.changes += self._tracker.record_success(subject)

    def discard(self, *subjects: str) -> None:
        """They are not our business any more, or nobody says now what is the matter with them."""
        for subject in subjects:
            self._tracker.discard(subject)

    def postpone_due(self) -> None:
        """Everybody who could be asked has been: what is still due could not, and is not due at once again."""
        self._tracker.postpone(self._clock())

    def commit_failed(self, queue: MessageQueue, error: RocketMQError, limit_ms: int) -> None:
        """A queue's offset was not stored. The broker may answer everything else, so its limit counts by itself."""
        subject = _commit_subject(queue)
        self._commits.add(subject)
        self.changes += self._tracker.record_failure(subject, error, now_ms=self._clock(), limit_ms=limit_ms)

    def commit_succeeded(self, queue: MessageQueue) -> None:
        """The queue's offset is stored. Where it was refused before, that is news: the queue may be planned again."""
        if self._commits:
            self._commits.discard(_commit_subject(queue))
            self.changes += self._tracker.record_success(_commit_subject(queue))

    def discard_commit_failure(self, queue: MessageQueue) -> None:
        """The queue's offset is another member's to store."""
        if self._commits:
            self._commits.discard(_commit_subject(queue))
            self.changes += self._tracker.is_failing(_commit_subject(queue))
            self._tracker.discard(_commit_subject(queue))

    def discard_removed_brokers(self) -> None:
        """No route names them any more, so they are not asked."""
        for broker_name in self._routes.removed_brokers():
            self._tracker.discard(broker_subject(broker_name))

    def may_call(self, broker_name: str) -> bool:
        """Whether a broker was not silent when it was last asked, or that was long enough ago."""
        return self._tracker.may_try(broker_subject(broker_name), self._clock())

    def may_commit(self, queue: MessageQueue) -> bool:
        """Whether a queue's last commit was not refused, or that was long enough ago."""
        return not self._commits or self._tracker.may_try(_commit_subject(queue), self._clock())

    @property
    def next_try_ms(self) -> int | None:
        """When something that did not answer is to be asked again; None while everything answers."""
        return self._tracker.next_try_ms

    def responsive_masters(self) -> dict[str, BrokerAddress]:
        """Masters' addresses by broker name, without the brokers that were silent when they were last asked."""
        return {
            broker_name: address
            for broker_name, address in self._routes.masters().items()
            if not self._tracker.is_failing(broker_subject(broker_name))
        }

    # ------------------------------------------------------------------------------------------ what is said of it

    def set_queue_outages(self, outages: Iterable[Outage]) -> None:
        """How long queues that are away are waited for: their owner's to say, in place of what is behind that."""
        self._queue_outages = tuple(outages)

    @property
    def outages(self) -> tuple[Outage, ...]:
        """All that is waited for now."""
        outages = self._tracker.outages(self._explained | self._topics_without_brokers())
        commits = (outage for outage in outages if outage.resource in self._commits)
        return (*(outage for outage in outages if outage.resource not in self._commits), *commits, *self._queue_outages)

    def _topics_without_brokers(self) -> frozenset[str]:
        """Topics that are gone because all their brokers are, which are waited for by themselves."""
        routes = self._routes.routes.items() if self._tracker.is_anything_failing else ()
        return frozenset(
            topic_subject(topic)
            for topic, route in routes
            if all(self._tracker.is_failing(broker_subject(broker.broker_name)) for broker in route.brokers)
        )

    def log_outages(self) -> None:
        """Log what is due of that, see ``OutageLog``."""
        for line in self._tracker.lines(self._clock(), self.outages):
            log.log(line.level, "%s", line)

    # ------------------------------------------------------------------------------------------ what it means

    def is_complete(self, unavailable: Collection[MessageQueue] = ()) -> bool:
        """Whether every topic has a route and nobody who was asked is silent, beside what explains that queues are
        ``unavailable``."""
        explained = self._explained_by(unavailable)
        has_routes = all(topic in self._routes or topic_subject(topic) in explained for topic in self._topics)
        return has_routes and self._tracker.subjects - self._commits <= explained

    def check(self, unavailable: Collection[MessageQueue] = ()) -> None:
        """Raise for what has been silent for its whole limit, see ``FailureTracker.check``; not for what explains that
        queues are ``unavailable``, whose time begins anew when they are back."""
        self._explained = frozenset(self._explained_by(unavailable) | {_commit_subject(queue) for queue in unavailable})
        self._tracker.extend_deadline(self._explained, self._clock())
        self._tracker.check(self._clock())

    def unavailable(self, queues: Iterable[MessageQueue], bounds: Collection[MessageQueue]) -> dict[MessageQueue, str]:
        """Those of ``queues`` that nobody serves, with the last address of their broker. What is in ``bounds`` is
        served."""
        return {
            queue: self._routes.last_address(queue.broker_name)
            for queue in queues
            if queue not in bounds and self._is_reported(queue.topic) and not self._is_unresponsive(queue)
        }

    def _is_reported(self, topic: str) -> bool:
        """Whether the name servers have said anything of a subscribed topic."""
        return topic in self._topics and (topic in self._routes or self._is_topic_missing(topic))

    def _is_topic_missing(self, topic: str) -> bool:
        return self._tracker.is_failing(topic_subject(topic))

    def _is_unresponsive(self, queue: MessageQueue) -> bool:
        if self._is_topic_missing(queue.topic) or not self._routes.is_readable(queue):
            return False
        has_master = self._routes.master(queue.broker_name) is not None
        return has_master and self._tracker.is_failing(broker_subject(queue.broker_name))

    def _explained_by(self, unavailable: Collection[MessageQueue]) -> set[str]:
        """Subjects whose silence goes with queues that are away: their topics, and brokers of which no route names a
        master."""
        named = {
            broker.broker_name
            for topic, route in self._routes.routes.items()
            for broker in route.brokers
            if broker.master_address is not None and not self._is_topic_missing(topic)
        }
        brokers = {queue.broker_name for queue in unavailable} - named
        return {
            *(topic_subject(topic) for topic in {queue.topic for queue in unavailable}),
            *map(broker_subject, brokers),
        }


def _commit_subject(queue: MessageQueue) -> str:
    return f"the offset store of {queue}"
