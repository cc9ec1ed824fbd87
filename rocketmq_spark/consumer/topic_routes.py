"""TopicRoutes: requests to name servers, for the topics of ``subscribePattern`` and for routes. A failed one becomes an
outage."""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from typing import Final

from rocketmq_spark.condition import listed
from rocketmq_spark.consumer.cluster_api import ClusterApi
from rocketmq_spark.consumer.outage_tracker import OutageTracker
from rocketmq_spark.consumer.slave_reads import SlaveReads
from rocketmq_spark.consumer.subscribed_topics import SubscribedTopics
from rocketmq_spark.errors import RocketMQError, RouteError
from rocketmq_spark.model import MessageQueue
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.remoting.error_kinds import is_no_name_server, is_topic_route_lost
from rocketmq_spark.remoting.outage_log import NAME_SERVERS, TOPIC_LIST, broker_subject, topic_subject
from rocketmq_spark.remoting.retry import request_policy

log = logging.getLogger(__name__)

BROKER_REGISTRATION_MS: Final = 15_000
"""Time in which an outage of a route is not logged. A restarted broker serves queues before name servers list it, and a
restarted name server lists brokers only after their registrations. No task waits for either while the queues are
served."""


class TopicRoutes:
    """Requests the routes of ``topics``, and with ``subscribePattern`` the list of topics. Not thread-safe."""

    def __init__(
        self,
        options: ReadOptions,
        cluster: ClusterApi,
        topics: SubscribedTopics,
        slave_reads: SlaveReads,
        outage_tracker: OutageTracker,
    ) -> None:
        self._options = options
        self._cluster = cluster
        self._routes = cluster.routes
        self._topics = topics
        self._slave_reads = slave_reads
        self._outage_tracker = outage_tracker
        self._must_list = topics.has_pattern
        self._limit_ms_of = request_policy(options.cluster_timeout_ms, options.missing_topic_timeout_ms).limit_ms_of

    def list_topics(self) -> bool:
        """Request the topics that ``subscribePattern`` matches, wait, update and log them, and return whether they have
        changed. Drop the routes of deleted topics. Return False, without a request, without a pattern and during the
        pause after a failure. A failure is recorded as an outage, keeps the topics, and returns False. Raises
        OptionError[NOT_A_NAME_SERVER]."""
        if not self._topics.has_pattern or not self._outage_tracker.may_try(TOPIC_LIST):
            return False
        before, version = frozenset(self._topics), self._topics.version
        is_first = not self._topics.is_known
        try:
            listed = self._cluster.name_servers.query_topic_list()
        except RocketMQError as error:
            self._must_list = True
            self._record_unlisted(error)
            return False
        self._must_list = False
        self._outage_tracker.record_success(TOPIC_LIST)
        self._topics.update(listed, self._routes.routes)
        for topic in before.difference(self._topics):
            self._routes.forget(topic)
            self._outage_tracker.discard(topic_subject(topic))
        self._log_changes(before, is_first=is_first)
        return self._topics.version != version

    def _record_unlisted(self, error: RocketMQError) -> None:
        """Record an outage of the topic list. Its limit is ``clusterTimeoutMs`` for a transient error,
        ``missingTopicTimeoutMs`` while no broker is registered. The next metadata refresh raises a permanent error.
        Raises OptionError[NOT_A_NAME_SERVER] at once."""
        if is_no_name_server(error):
            raise error
        self._outage_tracker.record_failure(TOPIC_LIST, error, self._limit_ms_of(error), BROKER_REGISTRATION_MS)

    def _log_changes(self, before: Collection[str], *, is_first: bool) -> None:
        """Log the topics that are not in ``before`` at INFO, and topics of ``before`` that were deleted as a warning.
        At the first list or after a deletion, log another warning if no topic matches."""
        added, removed = [topic for topic in self._topics.selected if topic not in before], set(before)
        removed.difference_update(self._topics)
        if added:
            log.info(
                "TOPICS_ADDED: Reading topics that match 'subscribePattern': topics=%s", listed(added, separator=",")
            )
        if removed:
            log.warning(
                "TOPICS_REMOVED: Topics that match 'subscribePattern' were deleted; their offsets are kept in the "
                "checkpoint: topics=%s",
                listed(sorted(removed), separator=","),
            )
        if not self._topics.selected and (removed or is_first):
            log.warning(
                "NO_TOPIC_MATCHES: No topic of the cluster matches 'subscribePattern'; listing topics again in %g s",
                self._options.rebalance_interval_ms / 1000,
            )

    def refresh(self) -> None:
        """Request the route of every topic and wait. Before, ``list_topics`` if the topics are not known or could not
        be listed last time. A topic without a new route keeps its previous one. Record outages, and their ends, of name
        servers, and of topics without a route or a readable queue. Record outages of brokers without a master that are
        not read at a slave. Update ``SlaveReads``. Raises OptionError[NOT_A_NAME_SERVER]."""
        if self._must_list:
            self.list_topics()
        failures = self._routes.refresh(self._topics)
        for topic in self._topics:
            error = failures.get(topic)
            # A topic without read permission would otherwise count as idle.
            if error is None and not self._routes.queues_of(topic):
                error = RouteError("TOPIC_UNAVAILABLE.NO_READABLE_QUEUE", topic=topic)
            if isinstance(error, RouteError):
                self._record_missing_topic(topic, error)
            elif error is None:
                self._outage_tracker.record_success(topic_subject(topic))
        self._record_name_servers([one for one in failures.values() if not isinstance(one, RouteError)])
        self._outage_tracker.discard_removed_brokers()
        self._slave_reads.update()
        without_master = filter(self._options.reads_from, self._routes.brokers_without_master())
        for broker_name in (name for name in without_master if name not in self._slave_reads.brokers):
            # The broker is listed, so it exists: its master is unavailable.
            topic = self._routes.topics_at(broker_name)[0]
            error = RouteError("MASTER_UNAVAILABLE", broker=broker_name, topic=topic)
            self._outage_tracker.record_failure(broker_subject(broker_name), error, self._limit_ms_of(error))

    def at_current_masters(self, queues: Collection[MessageQueue]) -> set[MessageQueue]:
        """Request the routes of the topics of ``queues`` once, wait, and cache them. Return the queues whose topic has
        a new route that names the broker's previous master. Failures are neither recorded nor raised."""
        masters = {queue: self._routes.master(queue.broker_name) for queue in queues}
        failures = self._routes.refresh(dict.fromkeys(queue.topic for queue in queues))
        return {
            queue
            for queue, address in masters.items()
            if address is not None and queue.topic not in failures and self._routes.is_master(queue, address)
        }

    def _record_name_servers(self, errors: Sequence[RocketMQError]) -> None:
        """Record an outage of the name servers for the first of ``errors``: with ``clusterTimeoutMs`` if it is
        transient, else the next metadata refresh raises it. Without errors record a success. Raises
        OptionError[NOT_A_NAME_SERVER] at once if it is among the errors."""
        for error in errors:
            if is_no_name_server(error):
                raise error
        if errors:
            self._outage_tracker.record_failure(NAME_SERVERS, errors[0], self._limit_ms_of(errors[0]))
        else:
            self._outage_tracker.record_success(NAME_SERVERS)

    def _record_missing_topic(self, topic: str, error: RouteError) -> None:
        """Record the outage of a topic without a route or readable queue. Its limit is ``clusterTimeoutMs`` if it had a
        route before, else ``missingTopicTimeoutMs``. A lost route, and the retry topic, are logged only after
        BROKER_REGISTRATION_MS (15 s): brokers create the retry topic at the first heartbeat of a member."""
        is_quiet = is_topic_route_lost(error) or topic == self._options.retry_topic
        quiet_ms = BROKER_REGISTRATION_MS if is_quiet else 0
        self._outage_tracker.record_failure(topic_subject(topic), error, self._limit_ms_of(error), quiet_ms)
