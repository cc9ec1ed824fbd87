"""BatchSender: sends the batches of a task, several in flight at once, and retries each until a broker has stored it.

Brokers process the requests of one connection in parallel, so the store order of batches in flight is undefined.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Final

from rocketmq_spark.errors import BrokerError, RocketMQError, TransportError
from rocketmq_spark.model import BrokerAddress, MessageQueue
from rocketmq_spark.options import WriteOptions
from rocketmq_spark.remoting.clock import Clock, monotonic_ms
from rocketmq_spark.remoting.cluster_client import ClusterClient
from rocketmq_spark.remoting.error_kinds import is_busy, is_name_server_outage, is_too_large
from rocketmq_spark.remoting.failures import Failures, FailureTracker, Sleep
from rocketmq_spark.remoting.future import Future
from rocketmq_spark.remoting.outage_log import topic_subject
from rocketmq_spark.remoting.pool import ConnectionPool, shared_pool
from rocketmq_spark.remoting.producer import RANDOM_INDEX
from rocketmq_spark.remoting.retry import WRITE_PAUSES, Policy, retryability_of_write
from rocketmq_spark.remoting.route_table import RouteHistory, history_of
from rocketmq_spark.remoting.write_queues import WriteQueues
from rocketmq_spark.sink.send_batches import SendBatch
from rocketmq_spark.sink.topic_lookup import TopicLookup
from rocketmq_spark.wire.remoting.send import SendResult, SendStatus

IN_FLIGHT_BYTES: Final = 4 * 1024 * 1024
"""Maximum number of body bytes of a task in flight. A single batch may be larger."""

IN_FLIGHT_REQUESTS: Final = 512
"""Maximum number of requests in flight, for many single messages: a broker rejects excess requests with SYSTEM_BUSY."""


@dataclass(frozen=True, slots=True)
class _Attempt:
    """A batch in flight to ``queue`` at ``address``. ``outcome``: its pending response, or the error that prevented
    sending it, after which ``queue`` or ``address`` may be None."""

    batch: SendBatch
    queue: MessageQueue | None
    address: BrokerAddress | None
    outcome: Future[SendResult] | RocketMQError


class BatchSender:
    """Sends the batches of one write task, several in flight, and retries each until a broker has stored it. The task
    calls ``send`` for each batch, and ``finish`` at its end. The constructor opens nothing. Threads: the task's own."""

    def __init__(
        self,
        options: WriteOptions,
        pool: ConnectionPool,
        clock: Clock = monotonic_ms,
        sleep: Sleep = time.sleep,
        history: RouteHistory | None = None,
        initial_queue_index: Callable[[], int] = RANDOM_INDEX,
    ) -> None:
        self._options = options
        self._clock = clock
        self._sleep = sleep
        self._cluster = ClusterClient.of(options, pool, history=history)
        self._routes = self._cluster.routes
        limit_ms = options.cluster_timeout_ms
        unavailable_ms = min(limit_ms, options.missing_topic_timeout_ms)
        self._failures = Failures(Policy(retryability_of_write, WRITE_PAUSES, limit_ms, unavailable_ms), clock)
        self._queues = WriteQueues(self._routes, clock, initial_queue_index)
        self._brokers = FailureTracker(retryability_of_write)
        """Pauses of brokers after failures."""
        self.topics: Final = TopicLookup(self._routes, self._failures, sleep, self._query_is_compacted)
        self._in_flight: deque[_Attempt] = deque()
        self._bytes_in_flight = 0

    @staticmethod
    def of_this_process(options: WriteOptions) -> BatchSender:
        """Return a new sender, with the connections and the route history that the process keeps between tasks. Open
        nothing."""
        pool = shared_pool(options.broker_timeout_ms, options.security)
        return BatchSender(options, pool, history=history_of(options.name_servers))

    @property
    def bytes_in_flight(self) -> int:
        """Return the body bytes of the batches in flight: passed to ``send``, and not awaited so far."""
        return self._bytes_in_flight

    def send(self, batch: SendBatch) -> None:
        """Request a route and open a connection if required, send ``batch``, and do not wait for its response. Errors
        of these steps are not raised here: the call that waits for the batch retries it.

        Before, wait until the oldest batches in flight are stored, as long as these and ``batch`` would exceed
        IN_FLIGHT_BYTES or IN_FLIGHT_REQUESTS. Unless ``batch.queue`` is None, wait also while a batch for this queue is
        in flight. A batch that alone exceeds IN_FLIGHT_BYTES is sent when no other is in flight. Raises the errors of
        ``finish``, for these earlier batches; ``batch`` is then not sent.
        """
        while self._in_flight and self._is_full_for(batch):
            self._await_oldest()
        while batch.queue is not None and any(attempt.batch.queue == batch.queue for attempt in self._in_flight):
            self._await_oldest()
        self._in_flight.append(self._send_attempt(batch))
        self._bytes_in_flight += len(batch.body)

    def _is_full_for(self, batch: SendBatch) -> bool:
        """Return whether sending ``batch`` now would exceed IN_FLIGHT_BYTES, even if no other is in flight, or
        IN_FLIGHT_REQUESTS."""
        too_large = self.bytes_in_flight + len(batch.body) > IN_FLIGHT_BYTES
        return too_large or len(self._in_flight) >= IN_FLIGHT_REQUESTS

    def finish(self) -> None:
        """Wait until all batches in flight are stored, oldest first; return at once if there are none. After a
        retryable failure of a batch, pause and send it again.

        Raises TransportError[CLUSTER_TIMEOUT] if transient failures of a batch last longer than ``clusterTimeoutMs``.
        Raises the failure itself if it is permanent, or if the topic has been unavailable for ``missingTopicTimeoutMs``
        (at most ``clusterTimeoutMs``). The failed batch is then no longer in flight. Later ones stay in flight, not
        awaited or retried.
        """
        while self._in_flight:
            self._await_oldest()

    def _await_oldest(self) -> None:
        """Remove the oldest batch in flight, of which there must be one, and wait until it is stored. After a retryable
        failure, pause and send it again. Raises the errors of ``finish``, with the note of ``_not_stored_note``."""
        attempt = self._in_flight.popleft()
        self._bytes_in_flight -= len(attempt.batch.body)
        batch = attempt.batch
        attempts = chain([attempt], map(self._send_attempt, repeat(batch)))
        try:
            self._failures.retry_until_success(
                lambda: self._await_attempt(next(attempts)), _subject(batch), batch.topic, self._sleep
            )
        except RocketMQError as final_error:
            final_error.add_note(_not_stored_note(batch, final_error))
            raise

    # ---------------------------------------------------------------------------------------------- one attempt

    def _send_attempt(self, batch: SendBatch) -> _Attempt:
        """Send the batch to ``batch.queue``, or for None to the topic's next queue. Return the attempt without waiting
        for the response. Raises no RocketMQError: it becomes the attempt's ``outcome``."""
        queue, address = None, None
        try:
            queue = batch.queue or self._select_queue(batch.topic)
            address = self._routes.find_master(queue)
            broker = self._cluster.broker(address, self._options.send_timeout_ms)
            response = broker.submit_send(
                batch.body,
                queue,
                self._options.producer_group,
                sys_flag=batch.sys_flag,
                properties=batch.properties,
            )
            return _Attempt(batch, queue, address, response)
        except RocketMQError as error:
            return _Attempt(batch, queue, address, error)

    def _await_attempt(self, attempt: _Attempt) -> None:
        """Wait for the response of ``attempt``. Record the success of its broker, or the failure, after which
        ``_select_queue`` skips the broker for a while. An outage of all name servers is no failure of the broker.
        Invalidate the topic's route after an error that an outdated address may cause. Do not retry.

        Raises ``attempt.outcome`` if that is an error, and the error of the request. Raises
        BrokerError[MESSAGE_NOT_DURABLE] for a status other than SEND_OK, unless ``acceptNotDurable`` is set.
        """
        try:
            if isinstance(attempt.outcome, RocketMQError):
                raise attempt.outcome
            result = attempt.outcome.result()
            self._brokers.record_success(result.queue.broker_name)
            if result.status is not SendStatus.SEND_OK and not self._options.accept_not_durable:
                raise BrokerError(
                    "MESSAGE_NOT_DURABLE",
                    address=str(attempt.address),
                    queue=str(result.queue),
                    status=result.status.name,
                    code=int(result.status.value),
                )
        except RocketMQError as error:
            if attempt.queue is not None and not is_name_server_outage(error):
                self._record_failure(attempt.queue.broker_name, error)
            self._routes.invalidate_on_error(attempt.batch.topic, error)
            raise

    # ---------------------------------------------------------------------------------------------- brokers

    def _select_queue(self, topic: str) -> MessageQueue:
        """Return the next queue for the topic's batches to any queue, of a broker that is not in its pause after a
        failure if possible. Raises the errors of ``WriteQueues.select_queue``."""
        now_ms = self._clock()
        return self._queues.select_queue(topic, lambda broker_name: self._brokers.may_try(broker_name, now_ms))

    def _record_failure(self, broker_name: str, error: RocketMQError) -> None:
        """Begin a pause of the broker, longer with each failure since its last success."""
        self._brokers.record_failure(broker_name, error, now_ms=self._clock(), limit_ms=0)

    def _query_is_compacted(self, topic: str) -> bool:
        """Request the topic's settings, and return whether the topic keeps only the last message of each key
        (compaction). Try the brokers of its writable queues, one after another, until one responds and is not busy.
        Record each other one as failed. Return False if the broker responds with an error: brokers of RocketMQ 4 do not
        support the request, and ACL may forbid it. Raises the last broker's error if all are busy or do not respond,
        and the errors of ``_select_queue`` and ``RouteTable.find_master``.
        """
        queues = (self._select_queue(topic), *self._queues.writable_queues(topic))
        failures: list[RocketMQError] = []
        for name, queue in {queue.broker_name: queue for queue in queues}.items():
            broker = self._cluster.broker(self._routes.find_master(queue))
            try:
                return broker.query_topic_settings(topic).keeps_last_of_key
            except RocketMQError as error:
                if not isinstance(error, TransportError) and not is_busy(error):
                    return False
                self._record_failure(name, error)
                failures.append(error)
        raise failures[-1]


def _not_stored_note(batch: SendBatch, error: RocketMQError) -> str:
    """Return the text to add to the error of ``batch``: its topic, the number of its rows and of the first one in the
    task. If the broker rejected the batch as too large, add the option to set."""
    hint = " Set 'maxMessageBytes' to the 'maxMessageSize' of the broker." if is_too_large(error) else ""
    return (
        f"A batch of {batch.row_count} rows for topic {batch.topic}, the first of them row {batch.first_row} of the "
        f"task, was not stored; rows behind it may not be either.{hint}"
    )


def _subject(batch: SendBatch) -> str:
    """Return what fails with ``batch``, for the failure tracker: its queue if it names one, else its topic."""
    return topic_subject(batch.topic) if batch.queue is None else f"queue {batch.queue}"
