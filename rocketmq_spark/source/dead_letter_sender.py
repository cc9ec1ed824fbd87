"""DeadLetterSender: how executors send dead letters, with as much patience for a broker as anywhere."""

from __future__ import annotations

import time

from rocketmq_spark.model import MessageQueue
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.pull.executor_client import ExecutorClient
from rocketmq_spark.remoting.clock import monotonic_ms
from rocketmq_spark.remoting.failures import Failures, Policy
from rocketmq_spark.remoting.retry import SENDING_BACK, broker_subject, outlook_of_request
from rocketmq_spark.source.dead_letter import dead_letter
from rocketmq_spark.wire.arrow.bad_messages import BadMessage


class DeadLetterSender:
    """That of one task, or one range of it. Not thread-safe."""

    def __init__(self, options: ReadOptions, client: ExecutorClient) -> None:
        limits_ms = options.cluster_timeout_ms, options.missing_topic_timeout_ms
        self._failures = Failures(Policy(outlook_of_request, SENDING_BACK, *limits_ms), monotonic_ms)
        self._client = client

    def send(self, bad: BadMessage, queue: MessageQueue) -> None:
        """Returns when ``bad``, met in ``queue``, is in the group's dead letter topic on that broker.

        Raises what keeps it from there: a refusal that will not pass, RouteError for a topic that nobody serves for
        ``missingTopicTimeoutMs``, TransportError[CLUSTER_UNREACHABLE] for a broker, or name servers, that are silent
        for ``clusterTimeoutMs``.
        """
        letter, subject = dead_letter(bad, queue), broker_subject(queue.broker_name)
        self._failures.retrying(lambda: self._client.send_dead_letter(queue, letter), subject, queue.topic, time.sleep)
