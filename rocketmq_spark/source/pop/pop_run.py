"""PopRun: one run of a query with message-based load balancing, in its source runner process.

A batch is started, logged by Spark, and sent to executors. It is completed when ``latest_offset`` is called with its
end as the start. Its messages are kept until then, and in the spool, if configured, for the next start.

EarlierBatch: the batch that an earlier start of the query logged, and those that it only started. Spark either replays
the logged batch, or starts after it, which completes it. A replayed batch has the messages of the spool. Without these
it is empty, and its messages are released before it is returned: otherwise the next start would treat the batch as
completed, and acknowledge messages that are in no sink.
"""

from __future__ import annotations

import logging
import platform
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final
from uuid import uuid4

from rocketmq_spark.diagnostics import set_log_context
from rocketmq_spark.errors import LocalProtocolError, TransportError
from rocketmq_spark.model import QueueRange
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.pop.receipt_handles import BrokerHandle, ReceiptHandle, ReceivedMessage
from rocketmq_spark.pop.receive_scheduler import REDELIVERY_WITHIN_MS
from rocketmq_spark.pop.receiver import MAX_PREFETCHED, Receiver
from rocketmq_spark.pop.spool import Spool, spool_of
from rocketmq_spark.pop.transports import transport_of
from rocketmq_spark.pop.unacked_messages import REPLAYED, MessageState
from rocketmq_spark.remoting.clock import monotonic_ms
from rocketmq_spark.source.data_loss import report_undelivered
from rocketmq_spark.source.pop.pop_offsets import PopOffset
from rocketmq_spark.source.stream.drain import CONTROL, Control
from rocketmq_spark.source.stream.graceful_stop import DrainRequest
from rocketmq_spark.source.stream.progress import outages_of
from rocketmq_spark.source.stream.source_run import Run

IDLE_WAIT_S: Final = 0.2
"""How long a call waits for messages, in seconds: after an idle one, Spark calls again at once."""


class PopRun(Run):
    """Run of a query with message-based load balancing: starts and completes batches for ``RocketMQPopReader``.

    Construction installs signal handlers and creates the control folder and the spool's folder, but starts no thread;
    it raises OptionError[SPOOL_DIR_UNUSABLE]. ``is_available_now``: read existing messages, then end.
    ``control_before``: see ``SourceRun``. Not thread-safe: Spark's source runner is one thread, and the receiver has
    its own.
    """

    def __init__(self, options: ReadOptions, control_before: Control | None = None, *, is_available_now: bool) -> None:
        super().__init__()
        transport = transport_of(options, self._report_deleted)
        self.client_id = transport.client_id
        set_log_context(options.log_level, group=options.consumer_group, clientId=self.client_id)
        self._options = options
        self._is_available_now = is_available_now
        self._epoch = uuid4().hex
        self._number = 0
        self._in_flight: tuple[ReceivedMessage, ...] = ()
        self._spool = spool_of(options)
        self._receiver = Receiver(
            options, transport, is_available_now=is_available_now, watch=self._parent.leave_as_orphan
        )
        self._idle_from_ms = 0
        if control_before is not None:
            # Spark 4.0 and 4.1 may end that run at its first idle call; the start before it released its messages.
            self._idle_from_ms = monotonic_ms() + REDELIVERY_WITHIN_MS
            self._receiver.expect_redelivery()
        self._earlier = EarlierBatch(self._receiver, self._spool)
        self._drain = DrainRequest(control_before)
        self._start(lambda: None)

    # ------------------------------------------------------------------------------------------ Spark's calls

    def latest_offset(self, start: PopOffset, max_messages: int | None) -> PopOffset:
        """Acknowledge the batch that ends at ``start``, start the next one, store it in the spool if there is one, and
        return its end. ``max_messages``: None: MAX_PREFETCHED (10,000).

        Without messages, wait and return ``start``: with ``is_available_now`` once the brokers are empty, else once all
        have responded. With ``control_before`` wait at least ``REDELIVERY_WITHIN_MS`` after the construction. On a stop
        request, start no batch: return ``start`` within ``IDLE_WAIT_S``, and stop receiving once completed messages are
        acknowledged. After a signal has ended the run, return ``start`` after a short pause. Raises what ``Receiver``
        does, and LocalProtocolError[BATCH_SKIPPED] if ``start`` is not the end of the last batch.
        """
        self._pause_if_ended()
        return self._call_unless_ended(lambda: self._plan(start, max_messages or MAX_PREFETCHED), start)

    def _plan(self, start: PopOffset, max_messages: int) -> PopOffset:
        """Do what ``latest_offset`` describes, without its checks for a signal. Start to receive, and release messages
        that killed starts left in the spool. Wait in steps of ``IDLE_WAIT_S`` for messages, a stop request, or the end
        of an idle call. Return the batch's end, or ``start`` itself if there is no batch. Raises the errors of
        ``latest_offset``."""
        if self._in_flight and (start.epoch, start.number) != (self._epoch, self._number):
            raise LocalProtocolError("BATCH_SKIPPED", number=self._number)
        self._mark_completed(start)
        self._receiver.start()
        self._earlier.release_abandoned()
        while True:
            self._receiver.check()
            if self._drain.check_request():
                if not self._receiver.count(MessageState.COMPLETED) and self._drain.claim():
                    self._receiver.stop()
                    self._drain.finish()
                self._receiver.wait(IDLE_WAIT_S)
                return start
            batch_messages = self._receiver.start_batch(self._number + 1, max_messages)
            if batch_messages:
                self._number += 1
                self._in_flight = batch_messages
                if self._spool is not None:
                    self._spool.store(self._epoch, self._number, batch_messages)
                handles = tuple(one.handle for one in batch_messages)
                return PopOffset(start.consumer_group, self._epoch, self._number, handles)
            if self._try_become_idle():
                return start
            self._receiver.wait(IDLE_WAIT_S)

    def _try_become_idle(self) -> bool:
        """Return whether the call may end without a batch. With ``is_available_now`` return whether the brokers are
        empty, without waiting. Otherwise return False at once until all brokers have responded, and the time to await
        redelivery after a restart is over. From then on wait up to ``IDLE_WAIT_S``, and return whether no message is
        prefetched."""
        if self._is_available_now:
            return self._receiver.is_empty
        if self._receiver.have_all_responded and monotonic_ms() >= self._idle_from_ms:
            self._receiver.wait(IDLE_WAIT_S)
            return not self._receiver.count(MessageState.PREFETCHED)
        return False

    def _mark_completed(self, start: PopOffset) -> None:
        """Mark the batch that ends at ``start`` as completed. If it is this start's, drop its messages, acknowledge
        them and wait (``Receiver.mark_completed``), and delete it and earlier ones from the spool. For an earlier
        start's call ``EarlierBatch.mark_completed``. Do nothing for one without handles, such as the initial offset."""
        if start.epoch == self._epoch:
            self._in_flight = ()
            self._receiver.mark_completed(start.number)
            if self._spool is not None:
                self._spool.delete(self._epoch, start.number)
        elif start.handles:
            self._earlier.mark_completed(start)

    def batch(self, end: PopOffset) -> tuple[ReceivedMessage, ...]:
        """Mark the batch that ends at ``end`` as logged in the spool, and return its messages; () if it has none. An
        earlier start's batch: see ``EarlierBatch.messages``, which may wait and raise; after a signal raises
        TransportError[SOURCE_PROCESS_TERMINATED]."""
        if end.epoch == self._epoch:
            if self._spool is not None:
                self._spool.mark_logged(self._epoch, end.number)
            return self._in_flight
        if not end.handles:
            return ()
        messages = self._call_unless_ended(lambda: self._earlier.messages(end), None)
        if messages is None:
            raise TransportError("SOURCE_PROCESS_TERMINATED", host=platform.node(), ended_for_ms=self._ended_for_ms)
        return messages

    def report(self, epoch_ms: int) -> dict[str, Any] | None:
        """Return the fields that the query progress shows as ``latestOffset``, without any request. They are message
        counts since this start, numbers of prefetched and in-flight messages, outages, and the control folder. None
        once the run has ended."""
        return self._call_unless_ended(lambda: self._progress_report(epoch_ms), None)

    def _report_deleted(self, deleted: Sequence[QueueRange]) -> None:
        """Log ranges that were deleted before delivery; with ``failOnDataLoss`` raise instead: see
        ``report_undelivered``. Called by the transport."""
        report_undelivered(self._options.consumer_group, deleted, is_failure=self._options.fail_on_data_loss)

    def _progress_report(self, epoch_ms: int) -> dict[str, Any]:
        """Return the fields of ``report``. ``epoch_ms``: the current time since 1970."""
        retained = {
            "prefetched": self._receiver.count(MessageState.PREFETCHED),
            "inFlight": self._receiver.count(MessageState.IN_FLIGHT),
        }
        counts = {_in_camel_case(name): count for name, count in asdict(self._receiver.counts).items()}
        outages = outages_of(self._receiver.outages, monotonic_ms(), epoch_ms)
        return counts | retained | {"outages": outages, CONTROL: self._drain.control._asdict()}

    def _leave(self) -> None:
        """Stop the receiver, which waits (``Receiver.stop``). Then, even after an error, remove the control folder and
        close the spool."""
        try:
            self._receiver.stop()
        finally:
            self._drain.close()
            if self._spool is not None:
                self._spool.close()


def _in_camel_case(name: str) -> str:
    """Return ``aFieldName`` for ``a_field_name``."""
    first, *later_words = name.split("_")
    return first + "".join(map(str.title, later_words))


log = logging.getLogger(__name__)


class EarlierBatch:
    """The batch that an earlier start of the query logged last; Spark replays it, or treats it as completed. Not
    thread-safe. Methods raise what the receiver does, and may be called again afterwards.
    """

    def __init__(self, receiver: Receiver, spool: Spool | None) -> None:
        self._receiver = receiver
        self._spool = spool
        self._messages: tuple[ReceivedMessage, ...] | None = None
        """Set once Spark has requested them."""
        self._is_completed = False
        self._has_released = False

    def messages(self, end: PopOffset) -> tuple[ReceivedMessage, ...]:
        """Return the messages of the batch that ends at ``end``. The first call loads them, see ``_load``, and may
        wait; later ones return the same messages, whatever ``end`` is."""
        if self._messages is None:
            self._messages = self._load(end)
        return self._messages

    def _load(self, end: PopOffset) -> tuple[ReceivedMessage, ...]:
        """If the spool has the batch, mark it as logged there and return all its messages. Those that are not long
        expired are extended from now on, until ``mark_completed``. Otherwise release the messages in ``end``, wait
        until brokers have confirmed the release (``Receiver.release_logged``), and return ()."""
        if self._spool is None or (messages := self._spool.load(end.epoch, end.number)) is None:
            self._receiver.release_logged(_without_expired(end.handles))
            return ()
        self._spool.mark_logged(end.epoch, end.number)
        retained = set(_without_expired([one.handle for one in messages]))
        self._receiver.replay_batch([one for one in messages if one.handle in retained])
        return messages

    def release_abandoned(self) -> None:
        """In the first call, delete from the spool the batches of starts that ended before Spark had logged any of
        their batches. Log it, and start to release their messages, without waiting. Messages that cannot be released
        are redelivered when they expire. Do nothing in later calls, and without a spool. Raises
        OptionError[SPOOL_DIR_UNUSABLE] if a batch cannot be deleted."""
        if self._spool is not None and not self._has_released:
            self._has_released = True
            abandoned = self._spool.recover_abandoned()
            if abandoned:
                log.info(
                    "SPOOL_RELEASED: Releasing %d messages that an earlier start left in spoolDir; brokers redeliver "
                    "them",
                    len(abandoned),
                )
                self._receiver.try_release(_without_expired([one.handle for one in abandoned]))

    def mark_completed(self, end: PopOffset) -> None:
        """Acknowledge the batch that ends at ``end`` and wait, see ``Receiver.mark_completed``. With a spool, then
        release the messages of the same start's later batches and wait (``Receiver.release_logged``): Spark has not
        logged them, so they are in no sink. Then delete all batches of that start from the spool. Do nothing once this
        has succeeded. Raises OptionError[SPOOL_DIR_UNUSABLE] too."""
        if self._is_completed:
            return
        if self._messages is None:
            self._receiver.mark_logged_completed(_without_expired(end.handles))
        self._receiver.mark_completed(REPLAYED)
        if self._spool is not None:
            later = self._spool.load_after(end.epoch, end.number)
            self._receiver.release_logged(_without_expired([one.handle for one in later]))
            self._spool.delete(end.epoch)
        self._is_completed = True


def _without_expired(handles: Sequence[ReceiptHandle]) -> list[ReceiptHandle]:
    """Return ``handles`` without those for which ``is_long_expired`` is True, and log the number of these by broker.
    They get no request: their brokers may be removed, or never existed. A handle that is omitted once is omitted by
    each later start, so none acknowledges a message that no sink received.
    """
    epoch_ms = int(time.time() * 1000)
    retained = [one for one in handles if not (isinstance(one, BrokerHandle) and one.is_long_expired(epoch_ms))]
    expired = Counter(one.broker_name for one in handles) - Counter(one.broker_name for one in retained)
    if expired:
        brokers = ", ".join(f"broker={name} count={count}" for name, count in sorted(expired.items()))
        log.warning(
            "RECEIPT_HANDLES_EXPIRED: %d messages of an earlier batch are neither acknowledged nor released, because "
            "their invisible durations expired long ago: %s. Brokers redeliver those that were not acknowledged.",
            expired.total(),
            brokers,
        )
    return retained
