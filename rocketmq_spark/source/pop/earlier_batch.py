"""EarlierBatch: what becomes of the batch that an earlier start of the query has logged, and of what it had frozen.

Spark either reads it again, or goes on behind it and so proves it. Read again it has the messages that the spool has
kept; without them it is empty, and before that is said they are given back: else the next start would find the batch
done, and acknowledge what nobody has read.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Sequence

from rocketmq_spark.pop.handles import AnyHandle, Handle, Received
from rocketmq_spark.pop.ledger import BEFORE_ALL
from rocketmq_spark.pop.receiver import Receiver
from rocketmq_spark.pop.spool import Spool
from rocketmq_spark.source.pop.pop_offsets import PopOffset

log = logging.getLogger(__name__)


class EarlierBatch:
    """See the module. Not thread-safe. Methods raise what the receiver cannot go on with, and then may be called
    again."""

    def __init__(self, receiver: Receiver, spool: Spool | None) -> None:
        self._receiver = receiver
        self._spool = spool
        self._messages: tuple[Received, ...] | None = None
        """Once Spark has asked for them."""
        self._is_proven = False
        self._has_given_back = False

    def messages(self, end: PopOffset) -> tuple[Received, ...]:
        """Of the batch that ends at ``end``, the same each time."""
        if self._messages is None:
            self._messages = self._kept(end)
        return self._messages

    def _kept(self, end: PopOffset) -> tuple[Received, ...]:
        if self._spool is None or (kept := self._spool.kept(end.epoch, end.number)) is None:
            self._receiver.give_back_logged(_held(end.handles))
            return ()
        self._spool.logged(end.epoch, end.number)
        held = set(_held([one.handle for one in kept]))
        self._receiver.freeze_again([one for one in kept if one.handle in held])
        return kept

    def give_back_abandoned(self) -> None:
        """What starts have left that were killed before Spark had logged anything: nobody waits for it, and what
        cannot be given back comes again when its time is over. Once."""
        if self._spool is not None and not self._has_given_back:
            self._has_given_back = True
            abandoned = self._spool.take_abandoned()
            if abandoned:
                log.info("%d messages are given back that a start has left in the spool", len(abandoned))
                self._receiver.try_to_give_back(_held([one.handle for one in abandoned]))

    def prove(self, end: PopOffset) -> None:
        """The batch is in the sink; what was frozen after it is in none, for Spark has not logged that."""
        if self._is_proven:
            return
        if self._messages is None:
            self._receiver.prove_logged(_held(end.handles))
        self._receiver.prove(BEFORE_ALL)
        if self._spool is not None:
            later = self._spool.after(end.epoch, end.number)
            self._receiver.give_back_logged(_held([one.handle for one in later]))
            self._spool.forget(end.epoch)
        self._is_proven = True


def _held(handles: Sequence[AnyHandle]) -> list[AnyHandle]:
    """Without those of which no server is told: their brokers may be gone, or never were there.

    What is left out once is left out by each later start, so none acknowledges what was delivered to nobody.
    """
    epoch_ms = int(time.time() * 1000)
    held = [one for one in handles if not (isinstance(one, Handle) and one.is_long_over(epoch_ms))]
    left = Counter(one.broker_name for one in handles) - Counter(one.broker_name for one in held)
    if left:
        brokers = ", ".join(f"{count} of broker {name}" for name, count in sorted(left.items()))
        log.warning(
            "%d messages of an earlier batch are left to their brokers, for their invisible durations are long over: "
            "%s. Those that were not acknowledged are redelivered.",
            left.total(),
            brokers,
        )
    return held
