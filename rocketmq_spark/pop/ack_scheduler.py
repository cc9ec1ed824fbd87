"""Scheduling of acknowledgements, releases, extensions and dead-letter moves of received messages, by broker.

A release sets the invisible duration to 1 ms: the broker redelivers the message within seconds, and does not count it
as a delivery attempt. Each broker has a worker thread while requests to it are due. An unresponsive broker thus delays
neither other brokers nor receiving, and gets its next request only after a pause.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final

from rocketmq_spark.errors import RocketMQError
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.pop.receipt_handles import BrokerHandle, ReceiptHandle, is_unverified
from rocketmq_spark.pop.receive_failures import ReceiveFailures
from rocketmq_spark.pop.transport import ChangeOutcome, Transport
from rocketmq_spark.pop.unacked_messages import Claimed, MessageState, UnackedMessages
from rocketmq_spark.pop.workers import Workers
from rocketmq_spark.remoting.clock import Clock
from rocketmq_spark.remoting.error_kinds import is_response_lost
from rocketmq_spark.remoting.retry import REQUEST_PAUSES, Retryability, retryability_of_request

MAX_CONCURRENT_CALLS: Final = 1_000
"""Maximum number of single-message requests in flight to one broker."""

RELEASED_INVISIBLE_MS: Final = 1
"""Invisible duration of a released message, in ms; brokers redeliver it some seconds later."""


class AckScheduler:
    """Sender of all requests about the ``unacked_messages`` of one receiver, on one worker thread for each broker.

    Threads: any. ``changed`` guards ``unacked_messages`` and is not held during requests; a worker that ends notifies
    it.
    """

    def __init__(
        self,
        transport: Transport,
        unacked_messages: UnackedMessages,
        receive_failures: ReceiveFailures,
        workers: Workers,
        changed: threading.Condition,
        options: ReadOptions,
        clock: Clock,
    ) -> None:
        self._transport = transport
        self._unacked = unacked_messages
        self._failures = receive_failures
        self._workers = workers
        self._changed = changed
        self._options = options
        self._clock = clock
        self._is_stopping = False
        self._is_closed = False

    # ------------------------------------------------------------------------------------------ scheduling

    def start_due(self) -> None:
        """For each broker with due acknowledgements, releases or extensions, start a worker that sends them
        (``_send_all``). Skip brokers in a retry pause after a failure, and those whose worker runs. Do not wait."""
        self._start_workers(self._brokers_due(), self._send_all)

    def move_exhausted(self) -> None:
        """For each broker with messages in RETRIES_EXHAUSTED, start a worker that moves up to 1,000 of them to the
        dead-letter topic. Skip brokers in a retry pause, and those whose worker runs. Do not wait."""
        with self._changed:
            broker_names = self._unacked.brokers_with(MessageState.RETRIES_EXHAUSTED)
        self._start_workers(broker_names, self._move)

    def _start_workers(self, broker_names: Iterable[str], do: Callable[[str], None]) -> None:
        """Start ``do(broker_name)`` on a worker for each broker. Skip brokers in a retry pause, and those whose worker
        runs."""
        for broker_name in broker_names:
            if self._failures.may_send(broker_name):
                self._workers.start(broker_name, partial(do, broker_name))

    def _brokers_due(self) -> set[str]:
        """Return the names of brokers with due requests: ``UnackedMessages.brokers_due``. After ``begin_stop`` return
        ``UnackedMessages.brokers_due_at_stop`` instead; after ``close`` return none."""
        with self._changed:
            if self._is_closed:
                return set()
            if self._is_stopping:
                return self._unacked.brokers_due_at_stop()
            return self._unacked.brokers_due(self._clock())

    def try_release(self, handles: Sequence[ReceiptHandle], released: Callable[[], None]) -> None:
        """Request the release (redelivery within seconds) of messages that ``unacked_messages`` does not track, wait,
        and in any case call ``released`` at the end. Repeat requests for which ``_may_repeat``, after growing pauses,
        until ``begin_stop``, the message's expiry, ``invisibleDurationMs`` or ``clusterTimeoutMs``. Ignore later
        failures and all other errors: the messages are redelivered when they expire."""
        limit_ms = min(self._options.invisible_duration_ms, self._options.cluster_timeout_ms)
        until_ms, pause_ms = self._clock() + limit_ms, None
        while handles := _without_expired(self._try_release_once(handles)):
            pause_ms = REQUEST_PAUSES.after(pause_ms)
            with self._changed:
                is_stopping = self._changed.wait_for(lambda: self._is_stopping, pause_ms / 1000)
            if is_stopping or self._clock() >= until_ms:
                break
        released()

    def _try_release_once(self, handles: Sequence[ReceiptHandle]) -> list[ReceiptHandle]:
        """Request the release of these messages, 1,000 at a time, and wait; after ``begin_stop`` send no more. Count
        those released. Return the handles of requests for which ``_may_repeat``."""
        failed: list[ReceiptHandle] = []
        for first in range(0, len(handles), MAX_CONCURRENT_CALLS):
            if self._is_stopping:
                break
            part = handles[first : first + MAX_CONCURRENT_CALLS]
            outcomes = self._transport.change_invisible_duration(part, RELEASED_INVISIBLE_MS, suspend=True)
            count = sum(map(_is_confirmed, outcomes))
            with self._changed:
                self._unacked.counts.released += count
            failed += [handle for handle, outcome in zip(part, outcomes, strict=True) if _may_repeat(outcome)]
        return failed

    # ------------------------------------------------------------------------------------------ waiting, stopping

    def wait_until_none(self, state: MessageState, until_ms: int) -> None:
        """Call ``start_due`` and wait, repeatedly, until no message in ``state`` is at a broker that works. All brokers
        count as failing while no name server responds. Return earlier, without an error, at ``until_ms`` of the
        scheduler's clock, after ``close``, or after a fatal error."""
        while True:
            self.start_due()
            with self._changed:
                awaited = [name for name in self._unacked.brokers_with(state) if not self._failures.is_failing(name)]
                remaining_ms = until_ms - self._clock()
                if not awaited or remaining_ms <= 0 or self._is_closed or self._failures.has_fatal_error:
                    return
                if self._workers.busy.issuperset(awaited):
                    self._changed.wait(remaining_ms / 1000)

    def begin_stop(self) -> None:
        """Change what ``start_due`` sends from now on: releases of PREFETCHED and RETRIES_EXHAUSTED messages, no
        extensions, no releases of ABANDONED ones; acknowledgements as before. ``try_release`` sends no further request,
        also if called later. Send nothing."""
        with self._changed:
            self._is_stopping = True
            self._changed.notify_all()

    @property
    def has_due_requests(self) -> bool:
        """Return whether a broker, even in a retry pause, has due requests that no worker is sending yet. False after
        ``close``. False does not mean that all workers have ended."""
        return bool(self._brokers_due())

    def close(self) -> None:
        """Claim no more messages for acknowledgements, releases or extensions, so that no more of these are sent. Wait
        for nothing: requests in flight end when the transport is closed."""
        self._is_closed = True

    # ------------------------------------------------------------------------------------------ requests to one broker

    def _send_all(self, broker_name: str) -> None:
        """Repeat until the broker has no due requests or one fails: acknowledge, release, extend, up to 1,000 messages
        each, and wait for the responses. After a failure skip the rest."""
        is_responding = True
        while is_responding and broker_name in self._brokers_due():
            is_responding = self._acknowledge(broker_name) and self._release(broker_name) and self._extend(broker_name)

    def _acknowledge(self, broker_name: str) -> bool:
        """Claim up to 1,000 of the broker's COMPLETED messages, acknowledge them and wait. Remove those acknowledged or
        expired, unclaim those whose request failed, and record the failure or success of the broker. Without messages
        send and record nothing. Return whether no request failed."""
        claimed = self._claim(self._unacked.claim_completed, broker_name)
        outcomes = self._transport.acknowledge([handle for _, handle in claimed])
        outcomes_by_number = list(zip((number for number, _ in claimed), outcomes, strict=True))
        with self._changed:
            self._unacked.mark_acknowledged(number for number, outcome in outcomes_by_number if outcome is True)
            self._unacked.mark_expired(number for number, outcome in outcomes_by_number if outcome is False)
            self._unacked.unclaim(
                [number for number, outcome in outcomes_by_number if isinstance(outcome, RocketMQError)]
            )
        return self._record_outcomes(broker_name, claimed, outcomes)

    def _release(self, broker_name: str) -> bool:
        """Claim up to 1,000 of the broker's ABANDONED messages or, after ``begin_stop``, of its PREFETCHED and
        RETRIES_EXHAUSTED ones. Request their release and wait. Remove messages without an error; those that the broker
        confirmed count as released. Unclaim messages with an error. Record the failure or success of the broker.
        Without messages send and record nothing. Return whether no request failed."""
        claim = self._unacked.claim_outside_batches if self._is_stopping else self._unacked.claim_abandoned
        claimed = self._claim(claim, broker_name)
        outcomes = self._transport.change_invisible_duration(
            [handle for _, handle in claimed], RELEASED_INVISIBLE_MS, suspend=True
        )
        with self._changed:
            for (number, _), outcome in zip(claimed, outcomes, strict=True):
                if isinstance(outcome, RocketMQError):
                    self._unacked.unclaim([number])
                else:
                    self._unacked.mark_released([number], are_confirmed=outcome is not None)
        return self._record_outcomes(broker_name, claimed, outcomes)

    def _extend(self, broker_name: str) -> bool:
        """Claim up to 1,000 of the broker's messages whose extension is due, request the invisible duration from now
        on, and wait. Store the new handles; schedule a retry for messages that failed, or whose handle is no longer
        valid; an invalid handle is no error. Record the failure or success of the broker, and return whether no request
        had an error. Without messages send and record nothing. After ``begin_stop`` only return True."""
        if self._is_stopping:
            return True
        requested_ms = self._clock()
        claimed = self._claim(partial(self._unacked.claim_due, requested_ms), broker_name)
        outcomes = self._transport.change_invisible_duration(
            [handle for _, handle in claimed], self._options.invisible_duration_ms, suspend=False
        )
        with self._changed:
            for (number, _), outcome in zip(claimed, outcomes, strict=True):
                if outcome is None or isinstance(outcome, RocketMQError):
                    self._unacked.mark_extension_failed(number, self._clock())
                else:
                    self._unacked.mark_extended(number, outcome, requested_ms)
        return self._record_outcomes(broker_name, claimed, outcomes)

    def _move(self, broker_name: str) -> None:
        """Claim up to 1,000 of the broker's RETRIES_EXHAUSTED messages, have the transport move them to the dead-letter
        topic, and wait. Moved messages become COMPLETED, rejected ones PREFETCHED; failed ones stay. All are unclaimed.
        Record nothing about the broker."""
        with self._changed:
            claimed = self._unacked.claim_exhausted(MAX_CONCURRENT_CALLS, broker_name)
        outcomes = self._transport.dead_letters.move([one for _, one in claimed])
        with self._changed:
            self._unacked.record_moves((number, move) for (number, _), move in zip(claimed, outcomes, strict=True))

    def _claim(self, claim: Callable[[int, str], list[Claimed]], broker_name: str) -> list[Claimed]:
        """Call ``claim`` for up to 1,000 messages of the broker; after ``close`` only return []."""
        with self._changed:
            return [] if self._is_closed else claim(MAX_CONCURRENT_CALLS, broker_name)

    def _record_outcomes(self, broker_name: str, claimed: Sequence[Claimed], outcomes: Sequence[object]) -> bool:
        """Record the first RocketMQError among ``outcomes`` as failure of the broker, or its success if there is none.
        Record nothing if there was no request, as for unverified handles. Return whether there is no RocketMQError."""
        failure = next((one for one in outcomes if isinstance(one, RocketMQError)), None)
        if not all(is_unverified(handle) for _, handle in claimed):
            self._failures.record_outcome(broker_name, failure)
        return failure is None


def _is_confirmed(outcome: ChangeOutcome) -> bool:
    """Return whether the server has changed the message's invisible duration."""
    return outcome is not None and not isinstance(outcome, RocketMQError)


def _may_repeat(outcome: ChangeOutcome) -> bool:
    """Return whether ``outcome`` is an error after which the same request may succeed later. False if a response was
    lost: the server may have made the change. A second change by the same handle makes the broker deliver the message
    twice."""
    if not isinstance(outcome, RocketMQError) or is_response_lost(outcome):
        return False
    return retryability_of_request(outcome) is not Retryability.PERMANENT


def _without_expired(handles: Sequence[ReceiptHandle]) -> list[ReceiptHandle]:
    """Return the handles, in order, without the brokers' handles that have expired by this host's clock; opaque ones
    stay."""
    epoch_ms = int(time.time() * 1000)
    return [one for one in handles if not (isinstance(one, BrokerHandle) and one.expires_ms <= epoch_ms)]
