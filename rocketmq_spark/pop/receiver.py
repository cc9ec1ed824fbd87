"""Receiver: what a query holds of its group's messages.

The thread ``rocketmq-pop`` receives, one batch ahead, and waits for nothing else: a worker asks where topics are, and
one for each broker tells it what is to be told (see ``errands``). The owner's thread freezes, proves and ends. Answers
to polls arrive on reader threads and are only put into the inbox there.
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

from rocketmq_spark.errors import RocketMQError, TransportError
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.pop.errands import Errands, Workers
from rocketmq_spark.pop.handles import AnyHandle, Received
from rocketmq_spark.pop.invisible_duration import ExpiredLines
from rocketmq_spark.pop.ledger import Counts, Ledger, State
from rocketmq_spark.pop.polls import Ahead, Poll, Polls, Target
from rocketmq_spark.pop.transport import Answer, Transport
from rocketmq_spark.pop.troubles import Troubles
from rocketmq_spark.remoting.clock import Clock, monotonic_ms
from rocketmq_spark.remoting.waits import Wait

log = logging.getLogger(__name__)

MOST_WAITING: Final = 10_000
MOST_WAITING_BYTES: Final = 64 * 1024 * 1024
"""What is received and in no batch yet; each poll that is on its way may bring 32 messages more."""

LOOKS_IN_A_LEASE: Final = 20
"""How often it is looked while a message is invisible whether it is to be renewed."""

LOOKING: Final = "look"
"""The worker that asks where the topics are."""

ATTEMPTS: Final = "attempts"
"""Workers that ask how often messages may come again; each has those of one answer meanwhile."""

LEFT_OVER: Final = "left-over"
"""The worker that gives back what others have left."""

WATCH_INTERVAL_MS: Final = 1_000
TICK_S: Final = 0.2

LAST_WORK_MS: Final = 10_000
"""For all that is told at the end. A broker that fails is tried again until then."""

LAST_ANSWERS_MS: Final = 300
"""How long polls are awaited at the end while none is answered: there is nothing for those, most likely."""

LAST_TICK_S: Final = 0.05
CLOSING_S: Final = 2.0


class Told(NamedTuple):
    """What came of a poll, and when."""

    target: Target
    outcome: Answer
    now_ms: int


class Receiver:
    """Of one query start. ``start`` begins to receive, ``stop`` releases the messages in no batch.

    ``watch`` is called every second, on the receiver's thread. ``most_waiting``: messages of a batch.
    Threads: see the module. ``_news`` covers ledger, polls and failures, and is held during no request.
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
        invisible_ms = options.invisible_duration_ms
        self._transport = transport
        self._watch = watch
        self._clock = clock
        self._ahead = Ahead(min(MOST_WAITING, options.max_offsets_per_trigger or MOST_WAITING))
        self._expired = ExpiredLines(invisible_ms)
        self._renewal_interval_ms = min(WATCH_INTERVAL_MS, invisible_ms // LOOKS_IN_A_LEASE)
        self._ledger = Ledger(invisible_ms)
        self._polls = Polls(looks_once)
        self._targets: list[Target] = []
        self._news = threading.Condition()
        self._troubles = Troubles(options, self._news, lambda: self._hasten(self._look), clock)
        self._workers = Workers(self._news, self._troubles.fail)
        self._errands = Errands(
            transport, self._ledger, self._troubles, self._workers, self._news, invisible_ms=invisible_ms, clock=clock
        )
        self._inbox: Queue[Told | None] = Queue()  # SimpleQueue.get(timeout) never ends if another thread was quicker
        self._numbers = count()
        self._due_ms: dict[Callable[[], None], int] = {}
        self._has_looked = threading.Event()
        self._stopping = threading.Event()
        self._stopped_ms = 0
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
        return self._troubles.waits

    @property
    def has_begun(self) -> bool:
        """Whether each broker has been asked, and so knows where the group begins."""
        with self._news:
            return self._polls.have_all_answered

    @property
    def is_dry(self) -> bool:
        """Whether there is nothing: neither at the brokers, nor here, nor on its way back to us."""
        with self._news:
            return self._polls.are_dry and self._ledger.is_done

    def check(self) -> None:
        """Raises what went wrong for good, or for too long."""
        self._troubles.check()

    def wait(self, timeout_s: float) -> None:
        """Until there is a message for a batch, or something has gone wrong, or so long."""
        with self._news:
            if not (self._ledger.can_freeze or self._troubles.is_final):
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
            if frozen:
                self._ahead.frozen()
        self._inbox.put(None)
        return frozen

    def prove(self, batch: int) -> None:
        """All up to ``batch`` is in the sink: acknowledge it, answers awaited of brokers that do not fail. What fails
        is tried again by itself."""
        with self._news:
            self._ledger.prove(batch)
        self._acknowledge()

    def prove_logged(self, handles: Sequence[AnyHandle]) -> None:
        """The same, of a batch that an earlier start has logged."""
        with self._news:
            self._ledger.adopt(handles)
        self.start()
        self._acknowledge()

    def _acknowledge(self) -> None:
        until_ms = self._clock() + self._options.broker_timeout_ms
        if self._has_looked.wait(self._options.broker_timeout_ms / 1000):
            self._errands.settle(State.PROVEN, until_ms)

    def freeze_again(self, messages: Sequence[Received]) -> None:
        """Of a batch that an earlier start has logged and that is read now: ours until ``prove(BEFORE_ALL)``."""
        epoch_ms = int(time.time() * 1000)
        with self._news:
            self._ledger.freeze_again(messages, self._clock(), epoch_ms)
        self.start()

    def give_back_logged(self, handles: Sequence[AnyHandle]) -> None:
        """Release the messages of an earlier start's batch; receive nothing before; log outages.

        Raises what prevents it after ``clusterTimeoutMs``; TransportError[SOURCE_PROCESS_TERMINATED] after ``stop``."""
        with self._news:
            self._ledger.disown(handles)
        self.start()
        self._hasten(self._tell)
        while self.count(State.DISOWNED):
            self.check()
            if self._stopping.is_set():
                ended_for_ms = self._clock() - self._stopped_ms
                raise TransportError("SOURCE_PROCESS_TERMINATED", host=platform.node(), ended_for_ms=ended_for_ms)
            with self._news:
                self._news.wait(TICK_S)
        self.expect_again()

    def try_to_give_back(self, handles: Sequence[AnyHandle]) -> None:
        """Once, by a worker; what fails comes again when its time is over."""
        self._workers.begin(LEFT_OVER, partial(self._errands.try_to_give_back, handles))
        self.expect_again()

    def expect_again(self) -> None:
        """Something went back to its broker, and is redelivered soon: until then there may be more than is seen."""
        with self._news:
            self._polls.expect_again(self._clock())

    # ------------------------------------------------------------------------------------------ the end

    def stop(self) -> None:
        """Acknowledge completed messages, release prefetched ones, and close all connections. May be called again."""
        if self._stopping.is_set():
            return
        self._stopped_ms = self._clock()
        self._stopping.set()
        self._inbox.put(None)
        self._errands.leave()
        self._finish(self._clock() + LAST_WORK_MS)
        self._errands.close()
        self._transport.close()
        self._workers.join(CLOSING_S)
        if self._thread.ident is not None:
            self._thread.join(CLOSING_S)

    def _finish(self, until_ms: int) -> None:
        """What polls bring that are answered meanwhile is given back too."""
        heard_ms = now_ms = self._clock()
        while now_ms < until_ms:
            heard_ms = now_ms if self._take_all() else heard_ms
            self._errands.run()
            with self._news:
                are_back = not self._polls.on_the_way
            are_told = self._workers.busy <= {LOOKING} and self._errands.are_done
            if are_told and (are_back or now_ms - heard_ms >= LAST_ANSWERS_MS):
                return
            with self._news:
                self._news.wait(LAST_TICK_S)
            now_ms = self._clock()
        left = self.count(State.RECEIVED) + self.count(State.SPENT)
        if left:
            _warn_of_unreleased(left, self._options.invisible_duration_ms)

    # ------------------------------------------------------------------------------------------ the thread

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._do_timed_work()
                self._ask()
                self._await_some()
        except Exception as error:
            log.exception("INTERNAL_ERROR: Unexpected error in thread rocketmq-pop; the query fails")
            self._troubles.fail(error)

    def _do_timed_work(self) -> None:
        work = (
            (self._watch, WATCH_INTERVAL_MS),
            (self._look, self._transport.look_interval_ms),
            (self._tell, self._renewal_interval_ms),
            (self._errands.move_spent, WATCH_INTERVAL_MS),
            (self._say, WATCH_INTERVAL_MS),
        )
        for do, interval_ms in work:
            now_ms = self._clock()
            if now_ms >= self._due_ms.get(do, 0):
                self._due_ms[do] = now_ms + interval_ms
                do()

    def _hasten(self, do: Callable[[], None]) -> None:
        """It is due now."""
        self._due_ms[do] = 0
        self._inbox.put(None)

    def _say(self) -> None:
        with self._news:
            expired = self._ledger.expired.copy()
        for line in (*self._troubles.lines(), *self._expired.lines(expired, self._clock())):
            log.log(line.level, "%s", line)

    def _look(self) -> None:
        """Have it asked where the topics are; where that has just failed, after a pause."""
        if self._troubles.may_look():
            self._workers.begin(LOOKING, self._find)
        else:
            self._due_ms[self._look] = 0

    def _find(self) -> None:
        failures = self._transport.look()
        self._troubles.note_look(failures)
        with self._news:
            self._targets = self._transport.targets()
            self._polls.aim(self._targets)
        self._has_looked.set()
        self._hasten(self._tell)

    def _tell(self) -> None:
        if self._has_looked.is_set():
            self._errands.run()
        with self._news:
            now_ms = self._clock()
            if self._ledger.expire(now_ms):
                self._ahead.expired(self._ledger.waiting)
                self._polls.expect_again(now_ms)
            self._polls.pass_time(now_ms)
            self._news.notify_all()

    def _ask(self) -> None:
        for poll in self._wanted():
            self._transport.poll(poll, partial(self._put, poll.target))

    def _wanted(self) -> list[Poll]:
        with self._news:
            is_full = self._ledger.waiting_bytes >= MOST_WAITING_BYTES
            is_ready = not (is_full or self._stopping.is_set() or self._ledger.count(State.DISOWNED))
            room = self._ahead.most - self._ledger.waiting if is_ready else 0
            may_ask = [one for one in self._targets if self._troubles.may_ask(one.broker_name)]
            return list(self._polls.wanted(room, may_ask))

    def _put(self, target: Target, outcome: Answer) -> None:
        """Its messages are ours from now on, whoever takes it out when."""
        self._inbox.put(Told(target, outcome, self._clock()))

    def _await_some(self) -> None:
        """Take what has come, once something has."""
        with suppress(Empty):
            self._take(self._inbox.get(timeout=TICK_S))
        self._take_all()

    def _take_all(self) -> bool:
        """Whether something had come."""
        has_come = False
        with suppress(Empty):
            while True:
                has_come = self._take(self._inbox.get_nowait()) or has_come
        return has_come

    def _take(self, told: Told | None) -> bool:
        """Whether it is an answer."""
        if told is None:
            return False
        target, outcome, now_ms = told
        self._troubles.note(target.broker_name, outcome)
        if isinstance(outcome, RocketMQError):
            with self._news:
                self._polls.failed(target)
            return True
        if not self._stopping.is_set() and self._transport.dead_letters.is_to_be_asked(target, outcome):
            self._workers.begin(f"{ATTEMPTS}-{next(self._numbers)}", partial(self._hold, target, outcome, now_ms))
        else:
            self._hold(target, outcome, now_ms)
        return True

    def _hold(self, target: Target, received: Sequence[Received], now_ms: int) -> None:
        dead_letters = self._transport.dead_letters
        wanted, spent = (received, ()) if self._stopping.is_set() else dead_letters.by_attempts(target, received)
        with self._news:
            self._ledger.receive(wanted, now_ms)
            self._ledger.receive_spent(spent, now_ms)
            self._polls.answered(target, has_found=bool(received))
            self._news.notify_all()


def _warn_of_unreleased(count: int, invisible_ms: int) -> None:
    log.warning(
        "MESSAGES_NOT_RELEASED: %d prefetched messages are not released; their brokers redeliver them within "
        "'invisibleDurationMs' (%d ms)",
        count,
        invisible_ms,
    )
