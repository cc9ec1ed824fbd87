"""PopRun: the life of a query whose group shares messages, in its source runner process.

A batch is frozen, logged by Spark, shipped, and proven when ``latest_offset`` is asked with its end as the start. Its
messages are here until then, and in the spool if there is one: for the next start.

EarlierBatch: what becomes of the batch that an earlier start of the query has logged, and of what it had frozen. Spark
either reads it again, or goes on behind it and so proves it. Read again it has the messages that the spool has kept;
without them it is empty, and before that is said they are given back: else the next start would find the batch done,
and acknowledge what nobody has read.
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
"""How long an idle call waits: Spark asks again at once."""


class PopRun(Run):
    """See the module. ``is_available_now``: it reads what is there, and ends. ``control_before``: see ``SourceRun``.

    Not thread-safe: Spark's source runner is one thread, and the receiver has one of its own.
    """

    def __init__(self, options: ReadOptions, control_before: Control | None = None, *, is_available_now: bool) -> None:
        super().__init__()
        transport = transport_of(options, self._report)
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
            # Spark 4.0 and 4.1 may end that run at the first idle answer, and the start before gave back what it held.
            self._idle_from_ms = monotonic_ms() + REDELIVERY_WITHIN_MS
            self._receiver.expect_redelivery()
        self._earlier = EarlierBatch(self._receiver, self._spool)
        self._drain = DrainRequest(control_before)
        self._start(lambda: None)

    # ------------------------------------------------------------------------------------------ what Spark asks

    def latest_offset(self, start: PopOffset, max_messages: int | None) -> PopOffset:
        """Acknowledge the batch that ends at ``start``, and freeze the next one; ``start`` itself if there is nothing.
        Once a signal has ended the run it is that, a moment later. Raises what the receiver cannot go on with,
        LocalProtocolError[BATCH_SKIPPED] where ``start`` is not the end of the last batch."""
        self._pause_if_ended()
        return self._call_unless_ended(lambda: self._plan(start, max_messages or MAX_PREFETCHED), start)

    def _plan(self, start: PopOffset, max_messages: int) -> PopOffset:
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
            if self._may_return_idle():
                return start
            self._receiver.wait(IDLE_WAIT_S)

    def _may_return_idle(self) -> bool:
        if self._is_available_now:
            return self._receiver.is_empty
        if self._receiver.have_all_responded and monotonic_ms() >= self._idle_from_ms:
            self._receiver.wait(IDLE_WAIT_S)
            return not self._receiver.count(MessageState.PREFETCHED)
        return False

    def _mark_completed(self, start: PopOffset) -> None:
        if start.epoch == self._epoch:
            self._in_flight = ()
            self._receiver.mark_completed(start.number)
            if self._spool is not None:
                self._spool.delete(self._epoch, start.number)
        elif start.handles:
            self._earlier.mark_completed(start)

    def batch(self, end: PopOffset) -> tuple[ReceivedMessage, ...]:
        """The messages of the batch that ends at ``end``; of another start's see ``EarlierBatch``.
        Raises what keeps it from them, TransportError[SOURCE_PROCESS_TERMINATED] for a signal."""
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
        """What the query progress shows as ``latestOffset``: what became of messages since this start, how many are in
        no batch yet and how many in one, and what does not answer. Asks nobody.
        None once a signal has ended the run."""
        return self._call_unless_ended(lambda: self._progress_report(epoch_ms), None)

    def _report(self, deleted: Sequence[QueueRange]) -> None:
        report_undelivered(self._options.consumer_group, deleted, is_failure=self._options.fail_on_data_loss)

    def _progress_report(self, epoch_ms: int) -> dict[str, Any]:
        retained = {
            "prefetched": self._receiver.count(MessageState.PREFETCHED),
            "inFlight": self._receiver.count(MessageState.IN_FLIGHT),
        }
        counts = {_in_camel_case(name): count for name, count in asdict(self._receiver.counts).items()}
        outages = outages_of(self._receiver.outages, monotonic_ms(), epoch_ms)
        return counts | retained | {"outages": outages, CONTROL: self._drain.control._asdict()}

    def _leave(self) -> None:
        try:
            self._receiver.stop()
        finally:
            self._drain.close()
            if self._spool is not None:
                self._spool.close()


def _in_camel_case(name: str) -> str:
    first, *later_words = name.split("_")
    return first + "".join(map(str.title, later_words))


log = logging.getLogger(__name__)


class EarlierBatch:
    """See the module. Not thread-safe. Methods raise what the receiver cannot go on with, and then may be called
    again."""

    def __init__(self, receiver: Receiver, spool: Spool | None) -> None:
        self._receiver = receiver
        self._spool = spool
        self._messages: tuple[ReceivedMessage, ...] | None = None
        """Once Spark has asked for them."""
        self._is_completed = False
        self._has_released = False

    def messages(self, end: PopOffset) -> tuple[ReceivedMessage, ...]:
        """Of the batch that ends at ``end``, the same each time."""
        if self._messages is None:
            self._messages = self._load(end)
        return self._messages

    def _load(self, end: PopOffset) -> tuple[ReceivedMessage, ...]:
        if self._spool is None or (messages := self._spool.load(end.epoch, end.number)) is None:
            self._receiver.release_logged(_without_expired(end.handles))
            return ()
        self._spool.mark_logged(end.epoch, end.number)
        retained = set(_without_expired([one.handle for one in messages]))
        self._receiver.replay_batch([one for one in messages if one.handle in retained])
        return messages

    def release_abandoned(self) -> None:
        """What starts have left that were killed before Spark had logged anything: nobody waits for it, and what
        cannot be given back comes again when its time is over. Once."""
        if self._spool is not None and not self._has_released:
            self._has_released = True
            abandoned = self._spool.recover_abandoned()
            if abandoned:
                log.info("SPOOL_RELEASED: Releasing %d messages that an earlier start left in spoolDir", len(abandoned))
                self._receiver.try_release(_without_expired([one.handle for one in abandoned]))

    def mark_completed(self, end: PopOffset) -> None:
        """The batch is in the sink; what was frozen after it is in none, for Spark has not logged that."""
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
    """Without those of which no server is told: their brokers may be gone, or never were there.

    What is left out once is left out by each later start, so none acknowledges what was delivered to nobody.
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
