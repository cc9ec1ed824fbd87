"""EarlierBatch: what becomes of the batch that an earlier start of the query has logged, and of what it had frozen.

Spark either reads it again, or goes on behind it and so proves it. Read again it has the messages that the spool has
kept; without them it is empty, and before that is said they are given back: else the next start would find the batch
done, and acknowledge what nobody has read.
"""

from __future__ import annotations

from rocketmq_spark.pop.handles import Received
from rocketmq_spark.pop.ledger import BEFORE_ALL
from rocketmq_spark.pop.receiver import Receiver
from rocketmq_spark.pop.spool import Spool
from rocketmq_spark.source.pop.pop_offsets import PopOffset


class EarlierBatch:
    """See the module. Not thread-safe. Methods raise what the receiver cannot go on with, and then may be called
    again."""

    def __init__(self, receiver: Receiver, spool: Spool | None) -> None:
        self._receiver = receiver
        self._spool = spool
        self._messages: tuple[Received, ...] | None = None
        """Once Spark has asked for them."""
        self._is_proven = False

    def messages(self, end: PopOffset) -> tuple[Received, ...]:
        """Of the batch that ends at ``end``, the same each time."""
        if self._messages is None:
            self._messages = self._kept(end)
        return self._messages

    def _kept(self, end: PopOffset) -> tuple[Received, ...]:
        kept = None if self._spool is None else self._spool.kept(end.epoch, end.number)
        if kept is None:
            self._receiver.give_back_logged(end.handles)
            return ()
        self._receiver.freeze_again(kept)
        return kept

    def prove(self, end: PopOffset) -> None:
        """The batch is in the sink; what was frozen after it is in none, for Spark has not logged that."""
        if self._is_proven:
            return
        if self._messages is None:
            self._receiver.prove_logged(end.handles)
        self._receiver.prove(BEFORE_ALL)
        if self._spool is not None:
            self._receiver.give_back_logged([one.handle for one in self._spool.after(end.epoch, end.number)])
            self._spool.forget(end.epoch)
        self._is_proven = True
