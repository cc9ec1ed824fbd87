"""Scheduling of acknowledgements, releases, extensions and dead-letter moves of received messages, by broker.

Each broker has a worker thread while requests to it are due. An unresponsive broker thus delays neither other brokers
nor receiving, and gets its next request only after a pause.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final

from rocketmq_spark.errors import RocketMQError
from rocketmq_spark.pop.receipt_handles import ReceiptHandle
from rocketmq_spark.pop.receive_failures import ReceiveFailures
from rocketmq_spark.pop.transport import Transport
from rocketmq_spark.pop.unacked_messages import Claimed, MessageState, UnackedMessages
from rocketmq_spark.remoting.clock import Clock

MAX_CONCURRENT_CALLS: Final = 1_000
"""Maximum number of single-message requests in flight to one broker."""

RELEASED_INVISIBLE_MS: Final = 1
"""Invisible duration of a released message, in ms; brokers redeliver it some seconds later."""


class AckScheduler:
    """Scheduler of requests for messages in ``unacked_messages``. ``invisible_ms``: the duration by which it extends.

    Threads: any. ``changed`` guards ``unacked_messages`` and is released during requests; a worker that ends notifies
    it.
    """

    def __init__(
        self,
        transport: Transport,
        unacked_messages: UnackedMessages,
        receive_failures: ReceiveFailures,
        workers: Workers,
        changed: threading.Condition,
        invisible_ms: int,
        clock: Clock,
    ) -> None:
        self._transport = transport
        self._unacked = unacked_messages
        self._failures = receive_failures
        self._workers = workers
        self._changed = changed
        self._invisible_ms = invisible_ms
        self._clock = clock
        self._is_stopping = False
        self._is_closed = False

    # ------------------------------------------------------------------------------------------ scheduling

    def run(self) -> None:
        """Start a worker for each broker with due requests, unless it has a worker or is in a retry pause. Do not
        wait."""
        self._start_workers(self._brokers_due(), self._send_all)

    def move_exhausted(self) -> None:
        """Start a worker for each broker with messages in RETRIES_EXHAUSTED, to move these to the dead-letter topic. Do
        not wait."""
        with self._changed:
            broker_names = self._unacked.brokers_with(MessageState.RETRIES_EXHAUSTED)
        self._start_workers(broker_names, self._move)

    def _start_workers(self, broker_names: Iterable[str], do: Callable[[str], None]) -> None:
        """Start ``do(broker_name)`` on a worker for each broker, unless it is in a retry pause or its worker runs."""
        for broker_name in broker_names:
            if self._failures.may_send(broker_name):
                self._workers.start(broker_name, partial(do, broker_name))

    def _brokers_due(self) -> set[str]:
        """Return the brokers with due requests: after ``begin_stop`` those with messages to acknowledge or in no batch,
        none after ``close``."""
        with self._changed:
            if self._is_closed:
                return set()
            if self._is_stopping:
                return self._unacked.brokers_due_at_stop()
            return self._unacked.brokers_due(self._clock())

    def try_release(self, handles: Sequence[ReceiptHandle]) -> None:
        """Request the release of messages that ``unacked_messages`` does not track, once; wait for the responses and
        count the successes. Failures are ignored: those messages are redelivered when they expire."""
        outcomes = self._transport.change_invisible_duration(handles, RELEASED_INVISIBLE_MS, suspend=True)
        released = sum(not isinstance(outcome, RocketMQError) for outcome in outcomes)
        with self._changed:
            self._unacked.counts.released += released

    # ------------------------------------------------------------------------------------------ waiting, stopping

    def wait_until_none(self, state: MessageState, until_ms: int) -> None:
        """Block and run the scheduler until no message is in ``state`` at brokers that do not fail. Return earlier,
        without an error, at ``until_ms`` of the scheduler's clock, after ``close``, or after a fatal error."""
        while True:
            self.run()
            with self._changed:
                awaited = [name for name in self._unacked.brokers_with(state) if not self._failures.is_failing(name)]
                remaining_ms = until_ms - self._clock()
                if not awaited or remaining_ms <= 0 or self._is_closed or self._failures.has_fatal_error:
                    return
                if self._workers.busy.issuperset(awaited):
                    self._changed.wait(remaining_ms / 1000)

    def begin_stop(self) -> None:
        """Change what is due: from now on messages in no batch are released and no invisible duration is extended. Send
        nothing."""
        self._is_stopping = True

    @property
    def has_due_requests(self) -> bool:
        """Return whether requests are due that no worker has claimed. False does not mean that all workers have
        ended."""
        return bool(self._brokers_due())

    def close(self) -> None:
        """Claim no more messages, so that no more requests are sent. Wait for nothing: requests in flight end when the
        transport is closed."""
        self._is_closed = True

    # ------------------------------------------------------------------------------------------ requests to one broker

    def _send_all(self, broker_name: str) -> None:
        """Send all due requests to a broker, and wait for their responses, until none is due or one fails."""
        is_responding = True
        while is_responding and broker_name in self._brokers_due():
            is_responding = self._acknowledge(broker_name) and self._release(broker_name) and self._extend(broker_name)

    def _acknowledge(self, broker_name: str) -> bool:
        """Claim up to 1,000 completed messages, acknowledge them and wait; remove those acknowledged or expired,
        unclaim those whose request failed. Return whether no request failed."""
        claimed = self._claim(self._unacked.claim_completed, broker_name)
        outcomes = self._transport.acknowledge([handle for _, handle in claimed])
        outcomes_by_number = list(zip((number for number, _ in claimed), outcomes, strict=True))
        with self._changed:
            self._unacked.mark_acknowledged(number for number, outcome in outcomes_by_number if outcome is True)
            self._unacked.mark_expired(number for number, outcome in outcomes_by_number if outcome is False)
            self._unacked.unclaim(
                [number for number, outcome in outcomes_by_number if isinstance(outcome, RocketMQError)]
            )
        return self._record_outcomes(broker_name, outcomes)

    def _release(self, broker_name: str) -> bool:
        """Claim up to 1,000 abandoned messages, or after ``begin_stop`` all in no batch, request their release and
        wait; remove the released ones, unclaim those whose request failed. Return whether no request failed."""
        claim = self._unacked.claim_outside_batches if self._is_stopping else self._unacked.claim_abandoned
        claimed = self._claim(claim, broker_name)
        outcomes = self._transport.change_invisible_duration(
            [handle for _, handle in claimed], RELEASED_INVISIBLE_MS, suspend=True
        )
        outcomes_by_number = list(zip((number for number, _ in claimed), outcomes, strict=True))
        with self._changed:
            self._unacked.mark_released(
                [number for number, outcome in outcomes_by_number if not isinstance(outcome, RocketMQError)]
            )
            self._unacked.unclaim(
                [number for number, outcome in outcomes_by_number if isinstance(outcome, RocketMQError)]
            )
        return self._record_outcomes(broker_name, outcomes)

    def _extend(self, broker_name: str) -> bool:
        """Claim up to 1,000 messages whose extension is due, extend their invisible duration and wait. Those that
        failed or expired stay, for a later retry. Return whether no request failed. After ``begin_stop`` only return
        True."""
        if self._is_stopping:
            return True
        requested_ms = self._clock()
        claimed = self._claim(lambda limit, name: self._unacked.claim_due(requested_ms, limit, name), broker_name)
        outcomes = self._transport.change_invisible_duration(
            [handle for _, handle in claimed], self._invisible_ms, suspend=False
        )
        with self._changed:
            for (number, _), outcome in zip(claimed, outcomes, strict=True):
                if outcome is None or isinstance(outcome, RocketMQError):
                    self._unacked.mark_extension_failed(number, self._clock())
                else:
                    self._unacked.mark_extended(number, outcome, requested_ms)
        return self._record_outcomes(broker_name, outcomes)

    def _move(self, broker_name: str) -> None:
        """Claim up to 1,000 messages with exhausted retries, move them to the dead-letter topic, wait, and record
        outcomes."""
        with self._changed:
            claimed = self._unacked.claim_exhausted(MAX_CONCURRENT_CALLS, broker_name)
        outcomes = self._transport.dead_letters.move([one for _, one in claimed])
        with self._changed:
            self._unacked.record_moves((number, move) for (number, _), move in zip(claimed, outcomes, strict=True))

    def _claim(self, claim: Callable[[int, str], list[Claimed]], broker_name: str) -> list[Claimed]:
        with self._changed:
            return [] if self._is_closed else claim(MAX_CONCURRENT_CALLS, broker_name)

    def _record_outcomes(self, broker_name: str, outcomes: Sequence[object]) -> bool:
        """Record the first RocketMQError among ``outcomes`` as the broker's failure, else a success; nothing if empty.
        Return whether there is no RocketMQError."""
        failure = next((one for one in outcomes if isinstance(one, RocketMQError)), None)
        if outcomes:
            self._failures.record_outcome(broker_name, failure)
        return failure is None


log = logging.getLogger(__name__)

PREFIX: Final = "rocketmq-pop-"


class Workers:
    """Worker threads, at most one of each name. ``fail`` is called with any exception that a worker raises.

    Threads: any. ``changed`` guards the set of workers, and is notified when one ends.
    """

    def __init__(self, changed: threading.Condition, fail: Callable[[Exception], None]) -> None:
        self._changed = changed
        self._fail = fail
        self._busy: dict[str, threading.Thread] = {}

    @property
    def busy(self) -> set[str]:
        """Return the names of the running workers."""
        with self._changed:
            return set(self._busy)

    def start(self, name: str, do: Callable[[], None]) -> None:
        """Run ``do`` on a daemon thread of this name; do nothing if one is running. Do not wait, except where no thread
        can be started, as while Python 3.12 exits: run ``do`` here."""
        thread = threading.Thread(target=self._work, args=(name, do), name=f"{PREFIX}{name}", daemon=True)
        this_thread = threading.current_thread()
        with self._changed:
            if self._busy.setdefault(name, thread) is not thread:
                return
            try:
                thread.start()  # before another thread can join it
            except RuntimeError:
                self._busy[name] = this_thread
            else:
                return
        self._work(name, do)

    def _work(self, name: str, do: Callable[[], None]) -> None:
        """Run ``do``; log an exception and pass it to ``fail``. Then remove this worker, so that ``start`` may start it
        again, and notify ``changed``."""
        try:
            do()
        except Exception as error:
            log.exception("INTERNAL_ERROR: Unexpected error in thread %s%s; the query fails. Report it.", PREFIX, name)
            self._fail(error)
        finally:
            with self._changed:
                self._busy.pop(name)
                self._changed.notify_all()

    def join(self, timeout_s: float) -> None:
        """Wait until the workers that run now have ended, at most ``timeout_s`` for each; those that still run
        continue."""
        with self._changed:
            threads = list(self._busy.values())
        for thread in threads:
            thread.join(timeout_s)
