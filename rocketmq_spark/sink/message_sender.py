"""Sending messages back, on an executor or wherever rows are: one after another, with patience.

Connections are the process's own, one for each broker; the pulls have theirs beside them.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from rocketmq_spark.errors import RocketMQError
from rocketmq_spark.model import StoredMessage
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.pull.executor_client import ExecutorClient
from rocketmq_spark.remoting.clock import monotonic_ms
from rocketmq_spark.remoting.retry import (
    NAME_SERVERS,
    SENDING_BACK,
    Outlook,
    Patience,
    broker_subject,
    outlook_of_request,
)
from rocketmq_spark.remoting.waits import QUIET_MS, WaitLines
from rocketmq_spark.said.log_lines import speak_as

log = logging.getLogger(__name__)


class MessageSender:
    """Sends messages back from the process in which it is used. Travels to executors: it holds no connection.
    Not thread-safe."""

    def __init__(
        self,
        options: ReadOptions,
        delay_level: int,
        max_reconsume_times: int | None,
        client_of: Callable[[ReadOptions], ExecutorClient] = ExecutorClient.shared,
    ) -> None:
        self._options = options
        self._delay_level = delay_level
        self._max_reconsume_times = max_reconsume_times
        self._client_of = client_of
        self._patience = Patience()
        self._without_route: set[str] = set()
        self._lines = WaitLines()

    def speak_as(self, **task: str) -> None:
        """Of the group, in a process of Spark's: what is waited for is said there."""
        speak_as(self._options.log_level, group=self._options.consumer_group, **task)

    def problem_with(self, message: StoredMessage) -> str | None:
        """Send a message back; why that did not succeed, or None.

        A broker that cannot be reached is tried again for ``clusterTimeoutMs``, and not for each message anew.
        """
        try:
            pause_ms = None
            while not self._is_taken(message):
                self._patience.check(monotonic_ms())
                pause_ms = SENDING_BACK.after(pause_ms)
                time.sleep(pause_ms / 1000)
        except RocketMQError as error:
            return str(error)
        return None

    def _is_taken(self, message: StoredMessage) -> bool:
        """Raises what another attempt would not change."""
        try:
            self._client_of(self._options).send_back(message, self._delay_level, self._max_reconsume_times)
        except RocketMQError as error:
            outlook = outlook_of_request(error)
            if outlook is Outlook.FINAL:
                raise
            self._note(message, error, self._limit_ms(outlook))
            self._say()
            return False
        were_silent = self._is_routed(message.topic)
        if self._patience.succeeded(broker_subject(message.broker_name)) or were_silent:
            self._say()
        return True

    def _note(self, message: StoredMessage, error: RocketMQError, limit_ms: int) -> None:
        """A broker's time begins when a name server answers."""
        subject, now_ms = broker_subject(message.broker_name), monotonic_ms()
        if error.condition == "NO_NAME_SERVER":
            self._without_route.add(message.topic)
            self._patience.excuse((subject,), now_ms, beside_ms=limit_ms)
            subject = NAME_SERVERS
        else:
            self._is_routed(message.topic)
        self._patience.failed(subject, error, now_ms=now_ms, limit_ms=limit_ms, quiet_ms=QUIET_MS)

    def _is_routed(self, topic: str) -> bool:
        """Says whether name servers were failing that have told where ``topic`` is. A route that was known before says
        nothing of them."""
        if topic not in self._without_route:
            return False
        self._without_route.clear()
        return self._patience.succeeded(NAME_SERVERS)

    def _say(self) -> None:
        for line in self._lines.lines(self._patience.waits(), monotonic_ms()):
            log.warning("%s", line)

    def _limit_ms(self, outlook: Outlook) -> int:
        is_unserved = outlook is Outlook.UNSERVED
        return self._options.missing_topic_timeout_ms if is_unserved else self._options.cluster_timeout_ms
