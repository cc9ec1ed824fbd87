"""DeadLetterSender: how executors send dead letters, with as much patience for a broker as anywhere."""

from __future__ import annotations

import logging
import time

from rocketmq_spark.errors import RocketMQError
from rocketmq_spark.model import MessageQueue
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.pull.executor_client import ExecutorClient
from rocketmq_spark.remoting.clock import monotonic_ms
from rocketmq_spark.remoting.retry import SENDING_BACK, Outlook, Patience, broker_subject, outlook_of_request
from rocketmq_spark.remoting.waits import WaitLines
from rocketmq_spark.source.dead_letter import dead_letter
from rocketmq_spark.wire.arrow.bad_messages import BadMessage

log = logging.getLogger(__name__)


class DeadLetterSender:
    """That of one task, or one range of it. Not thread-safe."""

    def __init__(self, options: ReadOptions, client: ExecutorClient) -> None:
        self._limit_ms = options.cluster_timeout_ms
        self._client = client
        self._patience = Patience()
        self._lines = WaitLines()

    def send(self, bad: BadMessage, queue: MessageQueue) -> None:
        """Returns when ``bad``, met in ``queue``, is in the group's dead letter topic on that broker.

        Raises what keeps it from there: a refusal that will not pass, TransportError[CLUSTER_UNREACHABLE] for a broker
        that is silent for ``clusterTimeoutMs``.
        """
        pause_ms = None
        while not self._is_taken(bad, queue):
            self._say()
            self._patience.check(monotonic_ms())
            pause_ms = SENDING_BACK.after(pause_ms)
            time.sleep(pause_ms / 1000)
        self._say()

    def _say(self) -> None:
        for line in self._lines.lines(self._patience.waits(), monotonic_ms()):
            log.warning("%s", line)

    def _is_taken(self, bad: BadMessage, queue: MessageQueue) -> bool:
        subject = broker_subject(queue.broker_name)
        try:
            self._client.send_dead_letter(queue, dead_letter(bad, queue))
        except RocketMQError as error:
            if outlook_of_request(error) is Outlook.FINAL:
                raise
            self._patience.failed(subject, error, now_ms=monotonic_ms(), limit_ms=self._limit_ms)
            return False
        self._patience.succeeded(subject)
        return True
