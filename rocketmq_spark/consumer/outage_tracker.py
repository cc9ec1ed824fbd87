"""OutageTracker: which servers and conditions fail, since when, and which queues are unavailable because of them. It
sends no request.

A queue is *unavailable* when the name servers' route lacks it, or its topic is deleted. A broker is *unresponsive*, and
so are its queues, when the route lists it and it does not respond. A subject is a name server, a topic, a broker, or a
condition that must hold in the group. The caller that records a subject's failure sets its limit.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from rocketmq_spark.errors import RocketMQError
from rocketmq_spark.model import BrokerAddress, MessageQueue
from rocketmq_spark.remoting.error_kinds import is_unanswered
from rocketmq_spark.remoting.failures import FailureTracker
from rocketmq_spark.remoting.outage_log import Outage, broker_subject, master_subject, topic_subject
from rocketmq_spark.remoting.route_table import RouteTable

if TYPE_CHECKING:
    from rocketmq_spark.remoting.clock import Clock

log = logging.getLogger(__name__)


class OutageTracker:
    """Current failures by subject while ``topics`` are read, and the outages that are logged and published. Not
    thread-safe."""

    def __init__(self, topics: Collection[str], routes: RouteTable, clock: Clock) -> None:
        self._topics = topics
        self._routes = routes
        self._clock = clock
        self._tracker = FailureTracker()
        self._commits: set[str] = set()
        """Subjects that are failed commits."""
        self._explained: frozenset[str] = frozenset()
        self._queue_outages: tuple[Outage, ...] = ()
        self.changes = 0
        """Number of times that a failing subject recovered or reached its limit."""

    def record_failure(self, subject: str, error: RocketMQError, limit_ms: int, quiet_ms: int = 0) -> None:
        """Record that ``subject`` did not respond, or responded wrongly, log ``error`` at DEBUG, and delay its next
        request by a growing pause. ``limit_ms``: time from the first failure until ``raise_expired`` raises its error;
        reaching it counts as a change. If all brokers of the subject, a topic, are failing, the limit restarts now.
        ``quiet_ms``: shorter outages are not logged."""
        log.debug("REQUEST_FAILED: Request to %s failed: %s", subject, error)
        now_ms = self._clock()
        self.changes += self._tracker.record_failure(
            subject, error, now_ms=now_ms, limit_ms=limit_ms, quiet_ms=quiet_ms
        )
        self._tracker.extend_deadline(self._topics_without_brokers() & {subject}, now_ms)

    def record_success(self, subject: str) -> None:
        """End the subject's failure, which counts as a change; do nothing if it is not failing."""
        self.changes += self._tracker.record_success(subject)

    def discard(self, *subjects: str) -> None:
        """Discard failures of subjects that are no longer relevant, or on which there is no current information. The
        end of their outages is not logged as a recovery, and not counted in ``changes``."""
        for subject in subjects:
            self._tracker.discard(subject)

    def postpone_due(self) -> None:
        """Move ``next_try_ms`` of subjects that are still due to the end of a growing pause. Call it when all possible
        requests were sent: these subjects could not be tried. ``may_try`` still allows them."""
        self._tracker.postpone(self._clock())

    def commit_failed(self, queue: MessageQueue, error: RocketMQError, limit_ms: int) -> None:
        """Record that a queue's offset was not stored, with a subject and limit of its own, because its broker may
        respond to other requests. ``may_commit`` is False during a growing pause."""
        subject = _commit_subject(queue)
        self._commits.add(subject)
        self.changes += self._tracker.record_failure(subject, error, now_ms=self._clock(), limit_ms=limit_ms)

    def commit_succeeded(self, queue: MessageQueue) -> None:
        """Record that the queue's offset is stored. If its last commit failed, end that failure, and count it in
        ``changes``: the queue may be planned again. Else do nothing."""
        if self._commits:
            self._commits.discard(_commit_subject(queue))
            self.changes += self._tracker.record_success(_commit_subject(queue))

    def discard_commit_failure(self, queue: MessageQueue) -> None:
        """Discard a failed commit of a queue that this member no longer owns; do nothing if there is none. It counts as
        a change, and its end is not logged as a recovery."""
        if self._commits:
            self._commits.discard(_commit_subject(queue))
            self.changes += self._tracker.is_failing(_commit_subject(queue))
            self._tracker.discard(_commit_subject(queue))

    def discard_removed_brokers(self) -> None:
        """Discard failures of brokers that a route listed before and none lists now: they receive no requests."""
        for broker_name in self._routes.removed_brokers():
            self._tracker.discard(broker_subject(broker_name))

    def may_try(self, subject: str) -> bool:
        """Return whether the subject is not failing, or the pause after its failure is over."""
        return self._tracker.may_try(subject, self._clock())

    def is_unanswered(self, broker_name: str) -> bool:
        """Return whether the broker's last request failed without a response; False if it is not failing."""
        error = self._tracker.error_of(broker_subject(broker_name))
        return error is not None and is_unanswered(error)

    def may_call(self, broker_name: str) -> bool:
        """Return whether the broker's last request did not fail, or the pause after its failure is over."""
        return self.may_try(broker_subject(broker_name))

    def may_commit(self, queue: MessageQueue) -> bool:
        """Return whether the queue's last commit did not fail, or the pause after its failure is over."""
        return not self._commits or self._tracker.may_try(_commit_subject(queue), self._clock())

    @property
    def next_try_ms(self) -> int | None:
        """Earliest time of the next request to a failing subject, failed commits included, or None while none fails."""
        return self._tracker.next_try_ms

    def responsive_masters(self) -> dict[str, BrokerAddress]:
        """Return the addresses of the masters in the routes, by broker name. Omit brokers that failed at their last
        request, and masters whose slave is read instead."""
        return {
            broker_name: address
            for broker_name, address in self._routes.masters().items()
            if not self._tracker.is_failing(broker_subject(broker_name))
            and not self._tracker.is_failing(master_subject(broker_name))
        }

    # ------------------------------------------------------------------------------------------ reports

    def set_queue_outages(self, outages: Iterable[Outage]) -> None:
        """Replace the outages of unavailable queues. They are reported last. The caller decides their limits."""
        self._queue_outages = tuple(outages)

    @property
    def outages(self) -> tuple[Outage, ...]:
        """All current outages: of servers and conditions, then of commits, then of queues. Missing are subjects that
        the last ``raise_expired`` excepted, and topics whose brokers are all failing."""
        outages = self._tracker.outages(self._explained | self._topics_without_brokers())
        commits = (outage for outage in outages if outage.resource in self._commits)
        return (*(outage for outage in outages if outage.resource not in self._commits), *commits, *self._queue_outages)

    def _topics_without_brokers(self) -> frozenset[str]:
        """Return the subjects of topics with only failing brokers: the brokers' outages are reported instead."""
        routes = self._routes.routes.items() if self._tracker.is_anything_failing else ()
        return frozenset(
            topic_subject(topic)
            for topic, route in routes
            if all(self._tracker.is_failing(broker_subject(broker.broker_name)) for broker in route.brokers)
        )

    def log_outages(self) -> None:
        """Log the lines about ``outages`` that are due now, mostly none: at their starts, at growing intervals, at
        their ends; see ``OutageLog``."""
        for line in self._tracker.take_lines(self._clock(), self.outages):
            log.log(line.level, "%s", line)

    # ------------------------------------------------------------------------------------------ effects on plans

    def is_complete(self, unavailable: Collection[MessageQueue] = ()) -> bool:
        """Return whether every topic has a route and no subject is failing. Failed commits, and subjects that explain
        why queues are ``unavailable``, do not count."""
        explained = self._explained_by(unavailable)
        has_routes = all(topic in self._routes or topic_subject(topic) in explained for topic in self._topics)
        return has_routes and self._tracker.subjects - self._commits <= explained

    def raise_expired(self, unavailable: Collection[MessageQueue] = ()) -> None:
        """Raise the error of the first subject that failed for its whole limit (``FailureTracker.expired_error``), if
        there is one. Before, find the subjects that explain why queues are ``unavailable``, and these queues' failed
        commits. Restart their limits, which count from the queues' return, and omit them from ``outages``."""
        self._explained = frozenset(self._explained_by(unavailable) | {_commit_subject(queue) for queue in unavailable})
        self._tracker.extend_deadline(self._explained, self._clock())
        self._tracker.raise_expired(self._clock())

    def unavailable(self, queues: Iterable[MessageQueue], bounds: Collection[MessageQueue]) -> dict[MessageQueue, str]:
        """Return the ``queues`` that the route lacks or whose topic is deleted, each with the last address of its
        broker's master. Queues in ``bounds`` are available. Omits queues of unresponsive brokers, of topics that are
        not subscribed, and of topics of which no name server has reported anything."""
        return {
            queue: self._routes.last_address(queue.broker_name)
            for queue in queues
            if queue not in bounds and self._is_reported(queue.topic) and not self._is_unresponsive(queue)
        }

    def _is_reported(self, topic: str) -> bool:
        """Return whether the topic is subscribed, and the name servers have returned a route of it, or that there is
        none."""
        return topic in self._topics and (topic in self._routes or self._is_topic_missing(topic))

    def _is_topic_missing(self, topic: str) -> bool:
        """Return whether the topic is failing: it has no route, or no readable queue."""
        return self._tracker.is_failing(topic_subject(topic))

    def _is_unresponsive(self, queue: MessageQueue) -> bool:
        """Return whether the broker's last request failed, in any way, although the route lists a master of the broker
        and the queue as readable. False while the queue's topic is failing."""
        if self._is_topic_missing(queue.topic) or not self._routes.is_readable(queue):
            return False
        has_master = self._routes.master(queue.broker_name) is not None
        return has_master and self._tracker.is_failing(broker_subject(queue.broker_name))

    def _explained_by(self, unavailable: Collection[MessageQueue]) -> set[str]:
        """Return the subjects that explain why queues are ``unavailable``: all their topics, and their brokers without
        a master in any route. Routes of failing topics do not count."""
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
    """Return the subject of the queue's commits, apart from that of its broker."""
    return f"the offset store of {queue}"
