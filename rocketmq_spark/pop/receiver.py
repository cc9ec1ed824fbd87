"""Receiver: receives a group's messages for one query, one batch ahead, and tracks them until they are acknowledged.

The thread ``rocketmq-pop`` only receives. A worker refreshes the routes, and one for each broker sends
acknowledgements, extensions and releases (see ``ack_scheduler``). The owner's thread starts and completes batches, and
stops the receiver. Poll responses arrive on reader threads, which only put them into the inbox. ``watch`` is called
every second on ``rocketmq-pop``. ``_changed`` guards messages, polls and failures, and is not held during requests.
"""

from __future__ import annotations

import logging
import platform
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from itertools import count
from queue import Empty, Queue
from typing import Final, NamedTuple

from rocketmq_spark.errors import TransportError
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.pop.ack_scheduler import AckScheduler
from rocketmq_spark.pop.invisible_duration import ExpiryLog, longest_duration_ms
from rocketmq_spark.pop.receipt_handles import ReceiptHandle, ReceivedMessage
from rocketmq_spark.pop.receive_failures import ReceiveFailures
from rocketmq_spark.pop.receive_scheduler import PrefetchLimit, ReceiveRequest, ReceiveScheduler, Target
from rocketmq_spark.pop.transport import IncompleteResponse, ReceiveOutcome, Transport
from rocketmq_spark.pop.unacked_messages import Counts, MessageState, UnackedMessages
from rocketmq_spark.pop.workers import Workers
from rocketmq_spark.remoting.clock import Clock, monotonic_ms
from rocketmq_spark.remoting.outage_log import Outage
from rocketmq_spark.remoting.periodic_work import PeriodicWork, Task

log = logging.getLogger(__name__)

MAX_PREFETCHED: Final = 10_000
MAX_PREFETCHED_BYTES: Final = 64 * 1024 * 1024
"""Limit for messages that are in no batch yet; each poll in flight may add 32 messages beyond it."""

CHECKS_PER_LEASE: Final = 20
"""Number of checks within one invisible duration whether messages need an extension."""

ROUTE_REFRESH: Final = "route-refresh"
"""The worker that refreshes the routes."""

ATTEMPTS: Final = "attempts"
"""Prefix of workers that request ``retryMaxTimes``, each for the messages of one response."""

RELEASING: Final = "left-over"
"""The worker that releases messages of earlier starts."""

WATCH_INTERVAL_MS: Final = 1_000
TICK_S: Final = 0.2

STOP_TIMEOUT_MS: Final = 10_000
"""Time limit of all requests of ``stop``; within it, failing brokers are retried."""

LAST_RESPONSES_MS: Final = 300
"""How long ``stop`` waits after the last response: polls still open most likely bring no messages."""

STOP_TICK_S: Final = 0.05
CLOSING_S: Final = 2.0


class ReceiveResult(NamedTuple):
    """A poll, its outcome, and when that arrived, by the receiver's clock."""

    request: ReceiveRequest
    outcome: ReceiveOutcome
    now_ms: int


class Receiver:
    """A group's receiver for one start of a query, used by ``PopRun``. ``start`` starts it. Threads: see the module."""

    def __init__(
        self,
        options: ReadOptions,
        transport: Transport,
        *,
        is_available_now: bool = False,
        watch: Callable[[], None] = lambda: None,
        clock: Clock = monotonic_ms,
    ) -> None:
        self._options = options
        invisible_ms = options.invisible_duration_ms
        self._transport = transport
        self._clock = clock
        self._prefetch_limit = PrefetchLimit(min(MAX_PREFETCHED, options.max_offsets_per_trigger or MAX_PREFETCHED))
        self._expiry_log = ExpiryLog(invisible_ms)
        self._unacked = UnackedMessages(invisible_ms)
        self._receive_scheduler = ReceiveScheduler(is_available_now, longest_duration_ms(invisible_ms))
        self._targets: list[Target] = []
        self._changed = threading.Condition()
        self._failures = ReceiveFailures(options, self._changed, lambda: self._make_due(self._start_refresh), clock)
        self._workers = Workers(self._changed, self._failures.fail)
        self._ack_scheduler = AckScheduler(
            transport, self._unacked, self._failures, self._workers, self._changed, options, clock
        )
        self._inbox: Queue[ReceiveResult | None] = Queue()  # SimpleQueue.get(timeout) may not end
        self._numbers = count()
        tasks: dict[Task, int] = {
            watch: WATCH_INTERVAL_MS,
            self._start_refresh: transport.route_refresh_interval_ms,
            self._update_messages: min(WATCH_INTERVAL_MS, invisible_ms // CHECKS_PER_LEASE),
            self._ack_scheduler.move_exhausted: WATCH_INTERVAL_MS,
            self._log_failures_and_expiries: WATCH_INTERVAL_MS,
        }
        self._periodic_work = PeriodicWork(tasks, clock)
        self._has_routes = threading.Event()
        self._stopping = threading.Event()
        self._stopped_ms = 0
        self._thread = threading.Thread(target=self._run, name="rocketmq-pop", daemon=True)

    @property
    def counts(self) -> Counts:
        """Return the counts since the start, no copy: they change as messages do."""
        return self._unacked.counts

    def count(self, state: MessageState) -> int:
        with self._changed:
            return self._unacked.count(state)

    @property
    def outages(self) -> tuple[Outage, ...]:
        return self._failures.outages

    @property
    def have_all_responded(self) -> bool:
        """Return whether all brokers once had responded to a poll: no later message is skipped. It stays True."""
        with self._changed:
            return self._receive_scheduler.have_all_responded

    @property
    def is_empty(self) -> bool:
        """Return whether each last poll was empty, no redelivery is expected or requested, all messages IN_FLIGHT."""
        with self._changed:
            are_all_here = self._receive_scheduler.are_all_empty and RELEASING not in self._workers.busy
            return are_all_here and self._unacked.has_only_in_flight

    def check(self) -> None:
        """Raise the fatal error, or a failure that has exceeded its time limit, if there is one."""
        self._failures.raise_failure()

    def wait(self, timeout_s: float) -> None:
        """Wait up to ``timeout_s`` or until a change; return at once with a message for a batch or a fatal error."""
        with self._changed:
            if not (self._unacked.can_start_batch or self._failures.has_fatal_error):
                self._changed.wait(timeout_s)

    def start(self) -> None:
        """Start the thread ``rocketmq-pop``, which polls brokers. Later calls have no effect."""
        if self._thread.ident is None:
            self._thread.start()

    def start_batch(self, batch: int, max_messages: int) -> tuple[ReceivedMessage, ...]:
        """Put the oldest prefetched messages, up to ``max_messages`` and ``maxBytesPerTrigger`` or one larger one, into
        ``batch``; raise the prefetch limit by 32, and return them. Without any, only return ()."""
        with self._changed:
            messages = self._unacked.start_batch(batch, max_messages, self._options.max_bytes_per_trigger)
            if messages:
                self._prefetch_limit.grow()
        self._inbox.put(None)
        return messages

    def mark_completed(self, batch: int) -> None:
        """Mark all batches up to and including ``batch`` as in the sink, acknowledge them, and wait up to
        ``brokerTimeoutMs``. Failing brokers are not awaited, but retried in the background. Raise no error."""
        with self._changed:
            self._unacked.mark_completed(batch)
        self._acknowledge_and_wait()

    def mark_logged_completed(self, handles: Sequence[ReceiptHandle]) -> None:
        """Start the thread; acknowledge a completed batch of an earlier start, and wait as ``mark_completed`` does."""
        with self._changed:
            self._unacked.add_completed(handles)
        self.start()
        self._acknowledge_and_wait()

    def _acknowledge_and_wait(self) -> None:
        """Wait for routes, acknowledge COMPLETED messages and wait, in all ``brokerTimeoutMs``; raise nothing."""
        until_ms = self._clock() + self._options.broker_timeout_ms
        if self._has_routes.wait(self._options.broker_timeout_ms / 1000):
            self._ack_scheduler.wait_until_none(MessageState.COMPLETED, until_ms)

    def replay_batch(self, messages: Sequence[ReceivedMessage]) -> None:
        """Call ``start``; add an earlier start's batch as IN_FLIGHT, extended until ``mark_completed(REPLAYED)``."""
        epoch_ms = int(time.time() * 1000)
        with self._changed:
            self._unacked.replay_batch(messages, self._clock(), epoch_ms)
        self.start()

    def release_logged(self, handles: Sequence[ReceiptHandle]) -> None:
        """Call ``start``; release an earlier start's batch, without polls or a time limit, until brokers confirm; then
        ``expect_redelivery``. Raises what ``check`` does, TransportError[SOURCE_PROCESS_TERMINATED] after ``stop``."""
        with self._changed:
            self._unacked.abandon(handles)
        self.start()
        self._make_due(self._update_messages)
        while self.count(MessageState.ABANDONED):
            self.check()
            if self._stopping.is_set():
                ended_for_ms = self._clock() - self._stopped_ms
                raise TransportError("SOURCE_PROCESS_TERMINATED", host=platform.node(), ended_for_ms=ended_for_ms)
            with self._changed:
                self._changed.wait(TICK_S)
        self.expect_redelivery()

    def try_release(self, handles: Sequence[ReceiptHandle]) -> None:
        """Call ``AckScheduler.try_release`` on a worker, unless one does; ``expect_redelivery`` now, and at its end."""
        self._workers.start(RELEASING, partial(self._ack_scheduler.try_release, handles, self.expect_redelivery))
        self.expect_redelivery()

    def expect_redelivery(self) -> None:
        """For 8 s, in which brokers redeliver released messages, poll empty brokers too; ``is_empty`` is False."""
        with self._changed:
            self._receive_scheduler.expect_redelivery(self._clock())

    def stop(self) -> None:
        """Acknowledge COMPLETED and release PREFETCHED and RETRIES_EXHAUSTED messages, within 10 s; log how many stay
        unreleased. Then close all connections, and wait up to 2 s for each thread. Later calls have no effect."""
        if self._stopping.is_set():
            return
        self._stopped_ms = self._clock()
        self._stopping.set()
        self._inbox.put(None)
        self._ack_scheduler.begin_stop()
        self._finish(self._clock() + STOP_TIMEOUT_MS)
        self._ack_scheduler.close()
        self._transport.close()
        if self._thread.ident is not None:
            self._thread.join(CLOSING_S)  # before its workers: it may start one until it ends
        self._workers.join(CLOSING_S)

    def _finish(self, until_ms: int) -> None:
        """Start due requests and process polls until all have ended, but wait for polls only 300 ms after the last
        response. At ``until_ms``, return, and log how many messages are unreleased, if any."""
        last_response_ms = now_ms = self._clock()
        while now_ms < until_ms:
            last_response_ms = now_ms if self._process_pending() else last_response_ms
            self._ack_scheduler.start_due()
            with self._changed:
                have_all_returned = not self._receive_scheduler.pending_requests
            is_all_sent = self._workers.busy <= {ROUTE_REFRESH} and not self._ack_scheduler.has_due_requests
            if is_all_sent and (have_all_returned or now_ms - last_response_ms >= LAST_RESPONSES_MS):
                return
            with self._changed:
                self._changed.wait(STOP_TICK_S)
            now_ms = self._clock()
        unreleased = self.count(MessageState.PREFETCHED) + self.count(MessageState.RETRIES_EXHAUSTED)
        _warn_of_unreleased(unreleased, self._options.invisible_duration_ms)

    def _run(self) -> None:
        """Run due work, send polls, process the inbox until ``stop``; log an exception and make it the fatal error."""
        try:
            while not self._stopping.is_set():
                self._periodic_work.run_due()
                for request in self._next_requests():
                    self._transport.receive(request, partial(self._enqueue, request))
                self._process_pending(TICK_S)
        except Exception as error:
            log.exception("INTERNAL_ERROR: Unexpected error in thread rocketmq-pop; the query fails. Report it.")
            self._failures.fail(error)

    def _make_due(self, task: Task) -> None:
        """Make the receiver's thread call ``task``, one of ``_periodic_work``, in its next round; wake it."""
        self._periodic_work.make_due(task)
        self._inbox.put(None)

    def _log_failures_and_expiries(self) -> None:
        """Log the lines that are due about failures and about expired messages."""
        with self._changed:
            expired = self._unacked.expired.copy()
            lines = self._receive_scheduler.take_lines()
        for line in (*lines, *self._failures.take_lines(), *self._expiry_log.take_lines(expired, self._clock())):
            log.log(line.level, "%s", line)

    def _start_refresh(self) -> None:
        """Start a route refresh on its worker, unless one runs; in a retry pause, try again in the next round."""
        if self._failures.may_refresh_routes():
            self._workers.start(ROUTE_REFRESH, self._refresh_routes)
        else:
            self._periodic_work.make_due(self._start_refresh)

    def _refresh_routes(self) -> None:
        """Refresh the routes and wait; record failures; replace the targets. Then, also after failures, requests about
        messages may be sent: make ``_update_messages`` due."""
        self._failures.record_route_refresh(failures := self._transport.refresh_routes())
        with self._changed:
            self._targets = self._transport.targets()
            self._receive_scheduler.set_targets(self._targets, failures.keys() & {*self._options.topics})
        self._failures.retain_targets(self._targets)
        self._has_routes.set()
        self._make_due(self._update_messages)

    def _update_messages(self) -> None:
        """Start due requests once there are routes. Remove expired messages; if any were in no batch, lower the
        prefetch limit to the rest and expect redelivery. While that is expected, poll empty targets. Notify threads."""
        if self._has_routes.is_set():
            self._ack_scheduler.start_due()
        with self._changed:
            now_ms = self._clock()
            if self._unacked.expire(now_ms):
                self._prefetch_limit.shrink(self._unacked.prefetched_count)
                self._receive_scheduler.expect_redelivery(now_ms)
            self._receive_scheduler.recheck_empty_targets(now_ms)
            self._changed.notify_all()

    def _next_requests(self) -> list[ReceiveRequest]:
        """Return the polls to send now to targets in no retry pause, and count them as in flight. None while stopping,
        or while a message is ABANDONED. At the prefetch limit (messages, 64 MiB) only those that may end a failure."""
        with self._changed:
            if self._stopping.is_set() or self._unacked.count(MessageState.ABANDONED):
                return []
            is_full = self._unacked.prefetched_bytes >= MAX_PREFETCHED_BYTES
            capacity = 0 if is_full else self._prefetch_limit.max_messages - self._unacked.prefetched_count
            allowed = [one for one in self._targets if self._failures.may_receive(one)]
            return list(self._receive_scheduler.schedule(capacity, allowed, self._failures.awaits_poll))

    def _enqueue(self, request: ReceiveRequest, outcome: ReceiveOutcome) -> None:
        """Put an outcome into the inbox. Its invisible duration counts from now, whenever it is processed."""
        self._inbox.put(ReceiveResult(request, outcome, self._clock()))

    def _process_pending(self, timeout_s: float = 0) -> bool:
        """Wait up to ``timeout_s`` for an entry of the inbox; process all. Return whether any was a poll's outcome."""
        has_result = False
        with suppress(Empty):
            while True:
                has_result = self._process(self._inbox.get(timeout=timeout_s)) or has_result
                timeout_s = 0
        return has_result

    def _process(self, result: ReceiveResult | None) -> bool:
        """Record a poll's outcome: see ``record_poll``. Add its messages here, or on a worker if ``retryMaxTimes`` must
        be requested first. None only wakes the thread: return False for it, else True."""
        if result is None:
            return False
        (request, outcome, now_ms), target = result, result.request.target
        self._failures.record_poll(target, outcome)
        with self._changed:
            if isinstance(outcome, IncompleteResponse):
                self._receive_scheduler.record_incomplete(request, len(outcome.received), outcome.failure, now_ms)
                outcome = outcome.received or outcome.failure
            if isinstance(outcome, Exception):
                self._receive_scheduler.mark_failed(target)
                return True
        if not self._stopping.is_set() and self._transport.dead_letters.needs_broker_call(target, outcome):
            self._workers.start(f"{ATTEMPTS}-{next(self._numbers)}", partial(self._add, target, outcome, now_ms))
        else:
            self._add(target, outcome, now_ms)
        return True

    def _add(self, target: Target, received: Sequence[ReceivedMessage], now_ms: int) -> None:
        """Add messages as PREFETCHED, or RETRIES_EXHAUSTED beyond ``retryMaxTimes``: may request that limit and wait.
        While stopping, add all as PREFETCHED, for their release. Record the response; notify ``_changed``."""
        mover = self._transport.dead_letters
        usable, exhausted = (received, ()) if self._stopping.is_set() else mover.split_exhausted(target, received)
        with self._changed:
            self._unacked.add_received(usable, now_ms)
            self._unacked.add_exhausted(exhausted, now_ms)
            self._receive_scheduler.mark_responded(target, has_messages=bool(received))
            self._changed.notify_all()


def _warn_of_unreleased(count: int, invisible_ms: int) -> None:
    """Log that ``count`` messages could not be released, unless it is 0."""
    if count:
        log.warning(
            "MESSAGES_NOT_RELEASED: Cannot release %d prefetched messages; their brokers redeliver them within "
            "'invisibleDurationMs' (%d ms). No action is required.",
            count,
            invisible_ms,
        )
