"""Receiver: what a query holds of its group's messages. The shell of this room that has a thread and a lock.

The thread ``rocketmq-pop`` receives, one batch ahead, renews, and acknowledges again what was not acknowledged; the
owner's thread freezes, proves and ends. Answers arrive on reader threads and are only put into the inbox there.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from queue import Empty, SimpleQueue
from typing import Final, TypeVar

from rocketmq_spark.errors import RocketMQError
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.pop.handles import AnyHandle, Received
from rocketmq_spark.pop.ledger import Counts, Ledger, State
from rocketmq_spark.pop.polls import Poll, Polls, Target
from rocketmq_spark.pop.transport import Answer, Transport
from rocketmq_spark.remoting.clock import Clock, monotonic_ms
from rocketmq_spark.remoting.retry import (
    Outlook,
    Patience,
    broker_subject,
    outlook_of_pull,
    refreshes_route,
    topic_subject,
)
from rocketmq_spark.remoting.waits import Wait, WaitLines

log = logging.getLogger(__name__)

T = TypeVar("T")

MOST_WAITING: Final = 10_000
MOST_WAITING_BYTES: Final = 64 * 1024 * 1024
"""What is received and in no batch yet; each poll that is on its way may bring 32 messages more."""

AT_ONCE: Final = 1_000
"""Requests for single messages that are in flight together."""

LOOKS_IN_A_LEASE: Final = 20
"""How often it is looked while a message is invisible whether it is to be renewed."""

WATCH_INTERVAL_MS: Final = 1_000
TICK_S: Final = 0.2
LAST_WORK_S: Final = 10.0

MISSING_TOPIC: Final = frozenset({"TOPIC_NOT_FOUND", "TOPIC_NOT_SERVED"})
"""It may be made, for which there is a limit of its own."""

GIVEN_BACK_MS: Final = 1
"""For how long what is given back stays invisible; brokers take some seconds to give it out again."""


class Receiver:
    """Of one query start. ``start`` begins to receive, ``stop`` gives back what is in no batch.

    ``watch`` is called every second, on the receiver's thread. ``most_waiting``: messages of a batch.

    Threads: see the module. ``_news`` covers ledger, polls and patience, and is held for no request; who waits for a
    message waits for it.
    """

    def __init__(
        self,
        options: ReadOptions,
        transport: Transport,
        *,
        looks_once: bool = False,
        watch: Callable[[], None] = lambda: None,
        clock: Clock = monotonic_ms,
    ) -> None:
        self._options = options
        self._transport = transport
        self._watch = watch
        self._clock = clock
        self._most_waiting = min(MOST_WAITING, options.max_offsets_per_trigger or MOST_WAITING)
        self._renewal_interval_ms = min(WATCH_INTERVAL_MS, options.invisible_duration_ms // LOOKS_IN_A_LEASE)
        self._ledger = Ledger(options.invisible_duration_ms)
        self._polls = Polls(looks_once)
        self._patience = Patience(outlook_of_pull)
        self._lines = WaitLines()
        self._crash: Exception | None = None
        self._news = threading.Condition()
        self._inbox: SimpleQueue[tuple[Target, Answer] | None] = SimpleQueue()
        self._due_ms: dict[Callable[[], None], int] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="rocketmq-pop", daemon=True)

    # ------------------------------------------------------------------------------------------ what is known

    @property
    def counts(self) -> Counts:
        return self._ledger.counts

    def count(self, state: State) -> int:
        with self._news:
            return self._ledger.count(state)

    @property
    def waits(self) -> tuple[Wait, ...]:
        """What does not answer."""
        with self._news:
            return self._patience.waits()

    @property
    def has_begun(self) -> bool:
        """Whether each broker has been asked, and so knows where the group begins."""
        with self._news:
            return self._polls.have_all_answered

    @property
    def is_dry(self) -> bool:
        """Whether there is nothing: neither at the brokers, nor here."""
        with self._news:
            return self._polls.are_dry and self._ledger.is_done

    def check(self) -> None:
        """Raises what went wrong for good, or for too long."""
        with self._news:
            if self._crash is not None:
                raise self._crash
            self._patience.check(self._clock())

    def wait(self, timeout_s: float) -> None:
        """Until there is a message for a batch, or something has gone wrong, or so long."""
        with self._news:
            if not self._ledger.can_freeze and self._crash is None:
                self._news.wait(timeout_s)

    # ------------------------------------------------------------------------------------------ batches

    def start(self) -> None:
        """Begin to receive; may be called again."""
        if self._thread.ident is None:
            self._thread.start()

    def freeze(self, batch: int, most: int) -> tuple[Received, ...]:
        """See ``Ledger.freeze``."""
        with self._news:
            frozen = self._ledger.freeze(batch, most, self._options.max_bytes_per_trigger)
        self._inbox.put(None)
        return frozen

    def prove(self, batch: int) -> None:
        """All up to ``batch`` is in the sink: acknowledge it, answers awaited. What fails is tried again by itself."""
        with self._news:
            self._ledger.prove(batch)
        self._acknowledge()

    def prove_logged(self, handles: Sequence[AnyHandle]) -> None:
        """The same, of a batch that an earlier start has logged."""
        with self._news:
            self._ledger.adopt(handles)
        self._acknowledge()

    def freeze_again(self, messages: Sequence[Received]) -> None:
        """Of a batch that an earlier start has logged and that is read now: ours until ``prove(BEFORE_ALL)``."""
        epoch_ms = int(time.time() * 1000)
        with self._news:
            self._ledger.freeze_again(messages, self._clock(), epoch_ms)
        self.start()

    def give_back_logged(self, handles: Sequence[AnyHandle]) -> None:
        """Of a batch that an earlier start has frozen and that is in no sink: each is answered when this returns.
        Raises what keeps them from that, a silent broker after ``clusterTimeoutMs``."""
        left = list(handles)
        while left:
            some, left = left[:AT_ONCE], left[AT_ONCE:]
            failed = self._given_back(some)
            self.check()
            left += failed
            if failed:
                self._stopping.wait(TICK_S)
        self.counts.given_back += len(handles)

    def _given_back(self, handles: Sequence[AnyHandle]) -> list[AnyHandle]:
        """Those that are not."""
        outcomes = self._transport.change(handles, GIVEN_BACK_MS, suspend=True)
        self._note_all(handles, outcomes)
        return [handle for handle, outcome in zip(handles, outcomes, strict=True) if isinstance(outcome, RocketMQError)]

    def stop(self) -> None:
        """Acknowledge what is proven, give back what is in no batch, answers awaited, and close all connections. May be
        called again."""
        if not self._stopping.is_set():
            self._stopping.set()
            self._inbox.put(None)
            if self._thread.ident is not None:
                self._thread.join(LAST_WORK_S)
            self._take_all()
            self._acknowledge()
            self._give_back_waiting()
            self._transport.close()

    def _give_back_waiting(self) -> None:
        while taken := self._taken(self._ledger.take_waiting):
            left = set(self._given_back([handle for _, handle in taken]))
            with self._news:
                self._ledger.given_back([number for number, handle in taken if handle not in left])
            if left:
                log.warning("%d messages could not be given back: they come again when their time is over", len(left))

    # ------------------------------------------------------------------------------------------ the thread

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._do_timed_work()
                self._ask()
                self._take_all(TICK_S)
        except Exception as error:
            log.exception("the receiver's thread failed")
            self._fail(error)

    def _do_timed_work(self) -> None:
        work = (
            (self._watch, WATCH_INTERVAL_MS),
            (self._look, self._transport.look_interval_ms),
            (self._renew, self._renewal_interval_ms),
            (self._move_spent, WATCH_INTERVAL_MS),
            (self._acknowledge, WATCH_INTERVAL_MS),
            (self._say, WATCH_INTERVAL_MS),
        )
        for do, interval_ms in work:
            now_ms = self._clock()
            if now_ms >= self._due_ms.get(do, 0):
                self._due_ms[do] = now_ms + interval_ms
                do()

    def _say(self) -> None:
        """Log what is to be said of what does not answer, see ``WaitLines``. Nobody waits for what ends the query."""
        for line in [] if self._crash else self._lines.lines(self.waits, self._clock()):
            log.warning("%s", line)

    def _look(self) -> None:
        """Ask where the topics are; where that has just failed, after a pause."""
        if not all(self._patience.may_try(topic_subject(topic), self._clock()) for topic in self._options.topics):
            self._due_ms[self._look] = 0
            return
        failures = self._transport.look()
        for topic in self._options.topics:
            self._note(topic_subject(topic), failures.get(topic))
        with self._news:
            self._polls.aim(self._transport.targets())

    def _ask(self) -> None:
        for poll in self._wanted():
            self._transport.poll(poll, partial(self._put, poll.target))

    def _wanted(self) -> list[Poll]:
        with self._news:
            is_full = self._ledger.waiting_bytes >= MOST_WAITING_BYTES
            room = 0 if is_full else self._most_waiting - self._ledger.waiting
            now_ms = self._clock()
            may_ask = [
                target
                for target in self._transport.targets()
                if self._patience.may_try(broker_subject(target.broker_name), now_ms)
            ]
            return list(self._polls.wanted(room, may_ask))

    def _put(self, target: Target, outcome: Answer) -> None:
        self._inbox.put((target, outcome))

    def _take_all(self, timeout_s: float = 0) -> None:
        """What has come; waits for the first of it."""
        try:
            told = self._inbox.get(timeout=timeout_s) if timeout_s else self._inbox.get_nowait()
            while True:
                if told is not None:
                    self._take(*told)
                told = self._inbox.get_nowait()
        except Empty:
            pass

    def _take(self, target: Target, outcome: Answer) -> None:
        self._note(broker_subject(target.broker_name), outcome)
        if isinstance(outcome, RocketMQError):
            with self._news:
                self._polls.failed(target)
            return
        wanted, spent = self._transport.dead_letters.by_attempts(target, outcome)
        with self._news:
            self._ledger.receive(wanted, self._clock())
            self._ledger.receive_spent(spent, self._clock())
            self._polls.answered(target, has_found=bool(outcome))
            self._news.notify_all()

    def _move_spent(self) -> None:
        taken = self._taken(self._ledger.take_spent)
        moves = self._transport.dead_letters.move([one for _, one in taken])
        with self._news:
            self._ledger.settle((number, move) for (number, _), move in zip(taken, moves, strict=True))

    # ------------------------------------------------------------------------------------------ both threads

    def _renew(self) -> None:
        while taken := self._taken(lambda most: self._ledger.take_due(self._clock(), most)):
            asked_ms = self._clock()
            handles = [handle for _, handle in taken]
            outcomes = self._transport.change(handles, self._options.invisible_duration_ms, suspend=False)
            self._note_all(handles, outcomes)
            with self._news:
                for (number, _), outcome in zip(taken, outcomes, strict=True):
                    if outcome is None or isinstance(outcome, RocketMQError):
                        self._ledger.not_renewed(number, self._clock())
                    else:
                        self._ledger.renewed(number, outcome, asked_ms)
        with self._news:
            self._ledger.expire(self._clock())
            self._news.notify_all()

    def _acknowledge(self) -> None:
        failed: list[int] = []
        while taken := self._taken(self._ledger.take_proven):
            handles = [handle for _, handle in taken]
            outcomes = self._transport.acknowledge(handles)
            self._note_all(handles, outcomes)
            told = list(zip((number for number, _ in taken), outcomes, strict=True))
            failed += [number for number, outcome in told if isinstance(outcome, RocketMQError)]
            with self._news:
                self._ledger.acknowledged(number for number, outcome in told if outcome is True)
                self._ledger.too_late(number for number, outcome in told if outcome is False)
        with self._news:
            self._ledger.put_back(failed)

    def _taken(self, take: Callable[[int], list[T]]) -> list[T]:
        with self._news:
            return take(AT_ONCE)

    def _note_all(self, handles: Sequence[AnyHandle], outcomes: Sequence[object]) -> None:
        for broker_name, outcome in _by_broker(handles, outcomes).items():
            self._note(broker_subject(broker_name), outcome)

    def _note(self, subject: str, outcome: object) -> None:
        """That something answers, or how it fails."""
        if not isinstance(outcome, RocketMQError):
            with self._news:
                self._patience.succeeded(subject)
            return
        if outlook_of_pull(outcome) is Outlook.FINAL:
            self._fail(outcome)
        is_missing = outcome.condition in MISSING_TOPIC
        limit_ms = self._options.missing_topic_timeout_ms if is_missing else self._options.cluster_timeout_ms
        with self._news:
            self._patience.failed(subject, outcome, now_ms=self._clock(), limit_ms=limit_ms)
        if refreshes_route(outcome):
            self._due_ms[self._look] = 0

    def _fail(self, error: Exception) -> None:
        with self._news:
            self._crash = self._crash or error
            self._news.notify_all()


def _by_broker(handles: Sequence[AnyHandle], outcomes: Sequence[object]) -> dict[str, object]:
    """Of each broker one outcome: a failure, if there is one."""
    by_broker: dict[str, object] = {}
    for handle, outcome in zip(handles, outcomes, strict=True):
        if isinstance(outcome, RocketMQError) or handle.broker_name not in by_broker:
            by_broker[handle.broker_name] = outcome
    return by_broker
