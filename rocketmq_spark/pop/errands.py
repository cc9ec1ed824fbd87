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
from rocketmq_spark.pop.handles import AnyHandle
from rocketmq_spark.pop.ledger import Ledger, State, Taken
from rocketmq_spark.pop.transport import Transport
from rocketmq_spark.pop.troubles import Troubles
from rocketmq_spark.remoting.clock import Clock

AT_ONCE: Final = 1_000
"""Requests for single messages of a broker that are in flight together."""

GIVEN_BACK_MS: Final = 1
"""For how long what is given back stays invisible; brokers take some seconds to give it out again."""


class Errands:
    """See the module. ``invisible_ms``: for how long messages are ours.

    Threads: any. ``news`` covers the ledger, and is held for no request; who waits here is woken when a worker ends.
    """

    def __init__(
        self,
        transport: Transport,
        ledger: Ledger,
        troubles: Troubles,
        workers: Workers,
        news: threading.Condition,
        *,
        invisible_ms: int,
        clock: Clock,
    ) -> None:
        self._transport = transport
        self._ledger = ledger
        self._troubles = troubles
        self._workers = workers
        self._news = news
        self._invisible_ms = invisible_ms
        self._clock = clock
        self._is_leaving = False
        self._is_closed = False

    # ------------------------------------------------------------------------------------------ whom to ask

    def run(self) -> None:
        """Ask those for whom there is something, and who are neither just being asked nor have failed just now."""
        self._begin(self._wanted(), self._tell_all)

    def move_spent(self) -> None:
        """Have what came again too often stored in the dead letter topic."""
        with self._news:
            broker_names = self._ledger.brokers_of(State.SPENT)
        self._begin(broker_names, self._move)

    def _begin(self, broker_names: Iterable[str], do: Callable[[str], None]) -> None:
        for broker_name in broker_names:
            if self._troubles.may_ask(broker_name):
                self._workers.begin(broker_name, partial(do, broker_name))

    def _wanted(self) -> set[str]:
        with self._news:
            if self._is_closed:
                return set()
            if self._is_leaving:
                return self._ledger.to_be_asked_at_the_end()
            return self._ledger.to_be_asked(self._clock())

    def try_to_give_back(self, handles: Sequence[AnyHandle]) -> None:
        """Of nobody's batch, wherever they are: once, and who fails is not waited for."""
        outcomes = self._transport.change(handles, GIVEN_BACK_MS, suspend=True)
        given_back = sum(not isinstance(outcome, RocketMQError) for outcome in outcomes)
        with self._news:
            self._ledger.counts.released += given_back

    # ------------------------------------------------------------------------------------------ who waits

    def settle(self, state: State, until_ms: int) -> None:
        """Until no message is so far any more, but those of brokers that fail; ``until_ms`` at the latest."""
        while True:
            self.run()
            with self._news:
                awaited = [name for name in self._ledger.brokers_of(state) if not self._troubles.is_failing(name)]
                left_ms = until_ms - self._clock()
                if not awaited or left_ms <= 0 or self._is_closed or self._troubles.is_final:
                    return
                if self._workers.busy.issuperset(awaited):
                    self._news.wait(left_ms / 1000)

    def leave(self) -> None:
        """From here on what is in no batch is given back, and nothing is renewed."""
        self._is_leaving = True

    @property
    def are_done(self) -> bool:
        """There is nothing for anybody who is not just being asked."""
        return not self._wanted()

    def close(self) -> None:
        """Ask nobody any more. What is on its way ends when the transport is closed."""
        self._is_closed = True

    # ------------------------------------------------------------------------------------------ what brokers are told

    def _tell_all(self, broker_name: str) -> None:
        """Until there is nothing more, or it fails."""
        answers = True
        while answers and broker_name in self._wanted():
            answers = self._acknowledge(broker_name) and self._give_back(broker_name) and self._renew(broker_name)

    def _acknowledge(self, broker_name: str) -> bool:
        """Whether it answers."""
        taken = self._taken(self._ledger.take_proven, broker_name)
        outcomes = self._transport.acknowledge([handle for _, handle in taken])
        told = list(zip((number for number, _ in taken), outcomes, strict=True))
        with self._news:
            self._ledger.acknowledged(number for number, outcome in told if outcome is True)
            self._ledger.too_late(number for number, outcome in told if outcome is False)
            self._ledger.put_back([number for number, outcome in told if isinstance(outcome, RocketMQError)])
        return self._answers(broker_name, outcomes)

    def _give_back(self, broker_name: str) -> bool:
        take = self._ledger.take_waiting if self._is_leaving else self._ledger.take_disowned
        taken = self._taken(take, broker_name)
        outcomes = self._transport.change([handle for _, handle in taken], GIVEN_BACK_MS, suspend=True)
        told = list(zip((number for number, _ in taken), outcomes, strict=True))
        with self._news:
            self._ledger.given_back([number for number, outcome in told if not isinstance(outcome, RocketMQError)])
            self._ledger.put_back([number for number, outcome in told if isinstance(outcome, RocketMQError)])
        return self._answers(broker_name, outcomes)

    def _renew(self, broker_name: str) -> bool:
        if self._is_leaving:
            return True
        asked_ms = self._clock()
        taken = self._taken(lambda most, name: self._ledger.take_due(asked_ms, most, name), broker_name)
        outcomes = self._transport.change([handle for _, handle in taken], self._invisible_ms, suspend=False)
        with self._news:
            for (number, _), outcome in zip(taken, outcomes, strict=True):
                if outcome is None or isinstance(outcome, RocketMQError):
                    self._ledger.not_renewed(number, self._clock())
                else:
                    self._ledger.renewed(number, outcome, asked_ms)
        return self._answers(broker_name, outcomes)

    def _move(self, broker_name: str) -> None:
        with self._news:
            taken = self._ledger.take_spent(AT_ONCE, broker_name)
        moves = self._transport.dead_letters.move([one for _, one in taken])
        with self._news:
            self._ledger.settle((number, move) for (number, _), move in zip(taken, moves, strict=True))

    def _taken(self, take: Callable[[int, str], list[Taken]], broker_name: str) -> list[Taken]:
        with self._news:
            return [] if self._is_closed else take(AT_ONCE, broker_name)

    def _answers(self, broker_name: str, outcomes: Sequence[object]) -> bool:
        """Whether there is no failure among these; the first is noted."""
        failure = next((one for one in outcomes if isinstance(one, RocketMQError)), None)
        if outcomes:
            self._troubles.note(broker_name, failure)
        return failure is None


log = logging.getLogger(__name__)

PREFIX: Final = "rocketmq-pop-"


class Workers:
    """``fail`` is told what a worker raises.

    Threads: any. ``news`` covers who works, and is notified when somebody has ended.
    """

    def __init__(self, news: threading.Condition, fail: Callable[[Exception], None]) -> None:
        self._news = news
        self._fail = fail
        self._busy: dict[str, threading.Thread] = {}

    @property
    def busy(self) -> set[str]:
        """Who works just now."""
        with self._news:
            return set(self._busy)

    def begin(self, name: str, do: Callable[[], None]) -> None:
        """Have it done by a thread of this name, unless there is one."""
        thread = threading.Thread(target=self._work, args=(name, do), name=f"{PREFIX}{name}", daemon=True)
        with self._news:
            if self._busy.setdefault(name, thread) is thread:
                thread.start()  # before anybody can wait for it

    def _work(self, name: str, do: Callable[[], None]) -> None:
        try:
            do()
        except Exception as error:
            log.exception("INTERNAL_ERROR: Unexpected error in thread %s%s; the query fails", PREFIX, name)
            self._fail(error)
        finally:
            with self._news:
                self._busy.pop(name)
                self._news.notify_all()

    def join(self, timeout_s: float) -> None:
        """Until nobody works; each has so long at most."""
        with self._news:
            threads = list(self._busy.values())
        for thread in threads:
            thread.join(timeout_s)
