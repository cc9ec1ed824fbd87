"""Sending messages back, on an executor or wherever rows are: one after another, with patience.

Connections are the process's own, shared with the pulls.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from rocketmq_spark.errors import RocketMQError, RouteError
from rocketmq_spark.model import StoredMessage
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.pull.executor_client import ExecutorClient
from rocketmq_spark.remoting.clock import monotonic_ms
from rocketmq_spark.remoting.patience import Patience
from rocketmq_spark.remoting.retriable import is_retriable

PAUSE_S: Final = 0.25


class MessageSender:
    """Sends messages back from the process in which it is used. Travels to executors: it holds no connection."""

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

    def problem_with(self, message: StoredMessage) -> str | None:
        """Send a message back; why that did not succeed, or None.

        A broker that cannot be reached is tried again for ``clusterTimeoutMs``, and not for each message anew.
        """
        try:
            while not self._is_taken(message):
                self._patience.check(monotonic_ms())
                time.sleep(PAUSE_S)
        except RocketMQError as error:
            return str(error)
        return None

    def _is_taken(self, message: StoredMessage) -> bool:
        """Raises what another attempt would not change."""
        subject = f"broker {message.broker_name}"
        try:
            self._client_of(self._options).send_back(message, self._delay_level, self._max_reconsume_times)
        except RocketMQError as error:
            if not is_retriable(error) and not isinstance(error, RouteError):
                raise
            self._patience.failed(subject, error, now_ms=monotonic_ms(), limit_ms=self._limit_ms(error))
            return False
        self._patience.succeeded(subject)
        return True

    def _limit_ms(self, error: RocketMQError) -> int:
        is_reachable = isinstance(error, RouteError) and not is_retriable(error)
        return self._options.missing_topic_timeout_ms if is_reachable else self._options.cluster_timeout_ms
