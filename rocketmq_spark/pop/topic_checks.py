"""TopicChecks: whether topics may be polled at brokers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from rocketmq_spark.errors import OptionError, RocketMQError, TransportError
from rocketmq_spark.model import BrokerAddress, TopicRoute
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.remoting.pop_broker import PopBroker
from rocketmq_spark.remoting.read_checks import submit_filter_check
from rocketmq_spark.remoting.retry import Retryability, retryability_of_request
from rocketmq_spark.wire.body.topics import FIFO

log = logging.getLogger(__name__)


class TopicChecks:
    """Checks, before a topic's first poll, whether message-based load balancing can read the topic.

    ``new_broker``: returns the client of a master. Used by one thread.
    """

    def __init__(self, options: ReadOptions, new_broker: Callable[[BrokerAddress], PopBroker]) -> None:
        self._options = options
        self._new_broker = new_broker
        self._readable: set[str] = set()

    def find_error(self, topic: str, route: TopicRoute) -> RocketMQError | None:
        """Return, not raise, why the topic must not be read now, or None. Reasons: a proxy serves it, a master rejects
        the SQL92 filter or does not respond to its check, the topic is FIFO or has batch consume queues, each request
        for its settings fails temporarily. After None, later calls for the topic return None at once, unless the route
        had no master. Send requests to the masters in ``route`` and wait."""
        if topic in self._readable:
            return None
        names = {queue.broker_name for queue in route.read_queues()}
        addresses = [address for name in sorted(names) if (address := route.master_address(name)) is not None]
        if any(address.broker_name is not None for address in addresses):
            reason = "its remoting port does not support loadBalance=message"
            return TransportError("PROXY_REQUIRES_ENDPOINTS", address=addresses[0].server, reason=reason)
        error = self._find_filter_error(topic, addresses) or self._find_settings_error(topic, addresses)
        if error is None and addresses:
            self._readable.add(topic)
        return error

    def _find_filter_error(self, topic: str, addresses: Iterable[BrokerAddress]) -> RocketMQError | None:
        """If the query has a SQL92 filter, send it to each master to be compiled, one by one, and wait. Return the
        first error, not raised, or None."""
        group, message_filter = self._options.consumer_group, self._options.message_filter
        if message_filter.is_sql:
            for address in addresses:
                try:
                    submit_filter_check(self._new_broker(address), group, topic, message_filter).result()
                except RocketMQError as error:
                    return error
        return None

    def _find_settings_error(self, topic: str, addresses: Iterable[BrokerAddress]) -> RocketMQError | None:
        """Request the topic's settings from the masters, one by one until one responds. Return, not raise, the error of
        a FIFO topic or of one with batch consume queues, or the last master's error if none responds. If a master
        refuses permanently, log its refusal and return None. Return None without masters."""
        failure: RocketMQError | None = None
        for address in addresses:
            try:
                settings = self._new_broker(address).query_topic_settings(topic)
            except RocketMQError as error:
                failure = error
                if retryability_of_request(error) is not Retryability.PERMANENT:
                    continue
                log.info(
                    "TOPIC_CHECK_SKIPPED: Cannot check whether topic=%s is FIFO or has batch consume queues; reading "
                    "its messages in any order: %s",
                    topic,
                    error,
                )
                return None
            if settings.message_type == FIFO:
                return OptionError("FIFO_NOT_SUPPORTED", subject=f"Topic {topic!r}")
            return OptionError("BATCH_QUEUES_NOT_SUPPORTED", topic=topic) if settings.has_batch_queues else None
        return failure
