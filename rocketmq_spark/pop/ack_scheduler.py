"""Errands: what brokers are told of messages that are held: that they are done, go back, are still needed, or go to the
dead letter topic.

Each broker has a worker of its own while there is something for it. So who is silent holds up neither the others nor
who receives, and is asked again after a pause only.
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
"""Requests for single messages of a broker that are in flight together."""

RELEASED_INVISIBLE_MS: Final = 1
"""For how long what is given back stays invisible; brokers take some seconds to give it out again."""


class AckScheduler:
    """See the module. ``invisible_ms``: for how long messages are ours.

    Threads: any. ``changed`` covers the ledger, and is held for no request; who waits here is woken when a worker ends.
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

    # ------------------------------------------------------------------------------------------ whom to ask

    def run(self) -> None:
        """Ask those for whom there is something, and who are neither just being asked nor have failed just now."""
        self._start_workers(self._brokers_due(), self._send_all)

    def move_exhausted(self) -> None:
        """Have what came again too often stored in the dead letter topic."""
        with self._changed:
            broker_names = self._unacked.brokers_with(MessageState.RETRIES_EXHAUSTED)
        self._start_workers(broker_names, self._move)

    def _start_workers(self, broker_names: Iterable[str], do: Callable[[str], None]) -> None:
        for broker_name in broker_names:
            if self._failures.may_send(broker_name):
                self._workers.start(broker_name, partial(do, broker_name))

    def _brokers_due(self) -> set[str]:
        with self._changed:
            if self._is_closed:
                return set()
            if self._is_stopping:
                return self._unacked.brokers_due_at_stop()
            return self._unacked.brokers_due(self._clock())

    def try_release(self, handles: Sequence[ReceiptHandle]) -> None:
        """Of nobody's batch, wherever they are: once, and who fails is not waited for."""
        outcomes = self._transport.change_invisible_duration(handles, RELEASED_INVISIBLE_MS, suspend=True)
        released = sum(not isinstance(outcome, RocketMQError) for outcome in outcomes)
        with self._changed:
            self._unacked.counts.released += released

    # ------------------------------------------------------------------------------------------ who waits

    def wait_until_none(self, state: MessageState, until_ms: int) -> None:
        """Until no message is so far any more, but those of brokers that fail; ``until_ms`` at the latest."""
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
        """From here on what is in no batch is given back, and nothing is renewed."""
        self._is_stopping = True

    @property
    def is_idle(self) -> bool:
        """There is nothing for anybody who is not just being asked."""
        return not self._brokers_due()

    def close(self) -> None:
        """Ask nobody any more. What is on its way ends when the transport is closed."""
        self._is_closed = True

    # ------------------------------------------------------------------------------------------ what brokers are told

    def _send_all(self, broker_name: str) -> None:
        """Until there is nothing more, or it fails."""
        is_responding = True
        while is_responding and broker_name in self._brokers_due():
            is_responding = self._acknowledge(broker_name) and self._release(broker_name) and self._extend(broker_name)

    def _acknowledge(self, broker_name: str) -> bool:
        """Whether it answers."""
        claimed = self._claim(self._unacked.claim_completed, broker_name)
        outcomes = self._transport.acknowledge([handle for _, handle in claimed])
        outcomes_by_number = list(zip((number for number, _ in claimed), outcomes, strict=True))
        with self._changed:
            self._unacked.mark_acknowledged(number for number, outcome in outcomes_by_number if outcome is True)
            self._unacked.mark_expired(number for number, outcome in outcomes_by_number if outcome is False)
            self._unacked.unclaim(
                [number for number, outcome in outcomes_by_number if isinstance(outcome, RocketMQError)]
            )
        return self._note_outcomes(broker_name, outcomes)

    def _release(self, broker_name: str) -> bool:
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
        return self._note_outcomes(broker_name, outcomes)

    def _extend(self, broker_name: str) -> bool:
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
        return self._note_outcomes(broker_name, outcomes)

    def _move(self, broker_name: str) -> None:
        with self._changed:
            claimed = self._unacked.claim_exhausted(MAX_CONCURRENT_CALLS, broker_name)
        outcomes = self._transport.dead_letters.move([one for _, one in claimed])
        with self._changed:
            self._unacked.record_moves((number, move) for (number, _), move in zip(claimed, outcomes, strict=True))

    def _claim(self, claim: Callable[[int, str], list[Claimed]], broker_name: str) -> list[Claimed]:
        with self._changed:
            return [] if self._is_closed else claim(MAX_CONCURRENT_CALLS, broker_name)

    def _note_outcomes(self, broker_name: str, outcomes: Sequence[object]) -> bool:
        """Whether there is no failure among these; the first is noted."""
        failure = next((one for one in outcomes if isinstance(one, RocketMQError)), None)
        if outcomes:
            self._failures.note(broker_name, failure)
        return failure is None


log = logging.getLogger(__name__)

PREFIX: Final = "rocketmq-pop-"


class Workers:
    """``fail`` is told what a worker raises.

    Threads: any. ``changed`` covers who works, and is notified when somebody has ended.
    """

    def __init__(self, changed: threading.Condition, fail: Callable[[Exception], None]) -> None:
        self._changed = changed
        self._fail = fail
        self._busy: dict[str, threading.Thread] = {}

    @property
    def busy(self) -> set[str]:
        """Who works just now."""
        with self._changed:
            return set(self._busy)

    def start(self, name: str, do: Callable[[], None]) -> None:
        """Have it done by a thread of this name, unless there is one."""
        thread = threading.Thread(target=self._work, args=(name, do), name=f"{PREFIX}{name}", daemon=True)
        with self._changed:
            if self._busy.setdefault(name, thread) is thread:
                thread.start()  # before anybody can wait for it

    def _work(self, name: str, do: Callable[[], None]) -> None:
        try:
            do()
        except Exception as error:
            log.exception("INTERNAL_ERROR: Unexpected error in thread %s%s; the query fails", PREFIX, name)
            self._fail(error)
        finally:
            with self._changed:
                self._busy.pop(name)
                self._changed.notify_all()

    def join(self, timeout_s: float) -> None:
        """Until nobody works; each has so long at most."""
        with self._changed:
            threads = list(self._busy.values())
        for thread in threads:
            thread.join(timeout_s)
