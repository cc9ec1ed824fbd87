"""Send-back with queue-based load balancing, on an executor or the driver: one message after another, with retries.

Each process has one connection to each broker for this, separate from those of pulls.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress

from rocketmq_spark.diagnostics import set_log_context
from rocketmq_spark.errors import RocketMQError, RouteError
from rocketmq_spark.model import MessageQueue, StoredMessage
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.remoting.broker import Broker
from rocketmq_spark.remoting.clock import Clock, monotonic_ms
from rocketmq_spark.remoting.cluster_client import ClusterClient
from rocketmq_spark.remoting.failures import Failures, Sleep
from rocketmq_spark.remoting.outage_log import broker_subject
from rocketmq_spark.remoting.retry import send_back_policy


class SendBackClient:
    """Client that sends failed rows back with queue-based load balancing, on an executor or the driver.

    ``delay_level``, ``max_reconsume_times``: see ``Broker.send_back``. Executors get a pickled copy: it holds no
    connection. Not thread-safe.
    """

    def __init__(
        self,
        options: ReadOptions,
        delay_level: int,
        max_reconsume_times: int | None,
        client_of: Callable[[ReadOptions], ClusterClient] = ClusterClient.shared,
        clock: Clock = monotonic_ms,
        sleep: Sleep = time.sleep,
    ) -> None:
        self._options = options
        self._delay_level = delay_level
        self._max_reconsume_times = max_reconsume_times
        self._client_of = client_of
        self._sleep = sleep
        policy = send_back_policy(options.cluster_timeout_ms, options.missing_topic_timeout_ms)
        self._failures = Failures(policy, clock)

    def set_log_context(self, **task: str) -> None:
        """Set this process's log context, the query's group and ``task``, and its log level, for log lines of outages.
        See ``diagnostics.set_log_context``."""
        set_log_context(self._options.log_level, group=self._options.consumer_group, **task)

    def try_send_back(self, message: StoredMessage) -> str | None:
        """Send a message back and wait until its broker has stored it. Return None, or the reason of the failure, also
        of a permanent error of the broker. Raise no RocketMQError. An unresponsive broker or name server is retried,
        with pauses, for ``clusterTimeoutMs`` in all, not for each message. Its further messages then fail at once,
        except one per pause of up to 5 s, which is sent. A topic without a route is retried for
        ``missingTopicTimeoutMs``.
        """

        def send_back(broker: Broker) -> None:
            broker.send_back(
                self._options.consumer_group,
                message,
                delay_level=self._delay_level,
                max_reconsume_times=self._max_reconsume_times,
            )

        subject = broker_subject(message.broker_name)
        if (unresponsive_error := self._failures.unresponsive_error(subject, message.topic)) is not None:
            return unresponsive_error.summary
        try:
            self._failures.retry_until_success(
                lambda: self._call_broker(message, send_back), subject, message.topic, self._sleep
            )
        except RocketMQError as error:
            return error.summary
        return None

    def _call_broker(self, message: StoredMessage, send_back: Callable[[Broker], None]) -> None:
        """Call ``send_back`` with a client of the broker in the route of the message's topic. After a RouteError, if
        the query reads the group's retry topic, use the route of the retry topic instead. Raises the first RouteError
        if neither route has the broker, and the errors of ``send_back``.

        The topic of a redelivered message is the property RETRY_TOPIC, which brokers keep if a producer wrote it.
        """
        client, retry_topic = self._client_of(self._options), self._options.retry_topic
        try:
            client.call(MessageQueue(message.topic, message.broker_name, 0), send_back)
        except RouteError:
            if retry_topic in self._options.read_topics:
                with suppress(RouteError):
                    client.call(MessageQueue(retry_topic, message.broker_name, 0), send_back)
                    return
            raise
