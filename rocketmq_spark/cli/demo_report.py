"""What the demo says, and the arithmetic behind it. Pure: values in, lines out."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, NamedTuple, Protocol

OBSERVED: Final = "orders"
"""Name of the metric in which a query reports the keys of all rows that a trigger read."""


class Messages(NamedTuple):
    """What became of the messages of a query whose group shares them, since it started."""

    received: int
    waiting: int
    acknowledged: int
    expired: int

    @classmethod
    def from_progress(cls, latest: Mapping[str, Any]) -> Messages | None:
        """None of a query that has queues."""
        return cls(*(latest[name] for name in cls._fields)) if "received" in latest else None

    def text(self) -> str:
        """For the screen."""
        return (
            f"received {self.received:>6}   waiting {self.waiting:>4}   acknowledged {self.acknowledged:>6}   "
            f"expired {self.expired}"
        )


@dataclass(frozen=True, slots=True)
class Trigger:
    """One finished trigger of one query, as its progress tells it.

    ``lag`` counts offsets that the query's own queues hold and no batch has read yet; None: it is not
    known. ``messages``: where the group shares these, and has neither lag nor queues. ``keys`` names every row.
    """

    member: str
    batch_id: int
    row_count: int
    rows_per_s: float
    lag: int | None
    queues: tuple[str, ...]
    keys: tuple[str, ...]
    messages: Messages | None = None

    @classmethod
    def from_progress(cls, progress: Mapping[str, Any]) -> Trigger:
        """Read Spark's StreamingQueryProgress, parsed from its JSON."""
        latest = progress["sources"][0]["latestOffset"] or {}
        return cls(
            member=progress["name"],
            batch_id=progress["batchId"],
            row_count=progress["numInputRows"],
            rows_per_s=progress.get("processedRowsPerSecond") or 0.0,
            lag=latest.get("lag"),
            queues=tuple(queue_names(latest.get("maxOffsets", {}))),
            keys=observed_keys(progress),
            messages=Messages.from_progress(latest),
        )

    def line(self) -> str:
        """For the screen: who, which batch, how much and how fast, what is left, which queues or messages."""
        shown = shown_batch(self.member, self.batch_id, self.row_count, self.rows_per_s)
        if self.messages is not None:
            return f"{shown}   {self.messages.text()}"
        lag = "?" if self.lag is None else self.lag
        return f"{shown}   lag {lag:>4}   queues {shortened(self.queues)}"


@dataclass(frozen=True, slots=True)
class Written:
    """One finished trigger of the query that writes: the broker has stored ``row_count`` rows, those of ``keys``."""

    batch_id: int
    row_count: int
    rows_per_s: float
    keys: tuple[str, ...]

    @classmethod
    def from_progress(cls, progress: Mapping[str, Any]) -> Written:
        """Read Spark's StreamingQueryProgress, parsed from its JSON; of a trigger without a batch it has no rows."""
        return cls(
            batch_id=progress["batchId"],
            row_count=max(0, progress["sink"]["numOutputRows"]),
            rows_per_s=progress.get("processedRowsPerSecond") or 0.0,
            keys=observed_keys(progress),
        )

    def line(self) -> str:
        """For the screen."""
        return f"{shown_batch('billing', self.batch_id, self.row_count, self.rows_per_s)}   written"


def observed_keys(progress: Mapping[str, Any]) -> tuple[str, ...]:
    """Of all rows of a trigger."""
    return tuple(progress["observedMetrics"].get(OBSERVED, {}).get("keys") or ())


def shown_batch(query: str, batch_id: int, row_count: int, rows_per_s: float) -> str:
    """What a line for the screen begins with."""
    return f"{query:<7} batch {batch_id:>3} {row_count:>6} rows {rows_per_s:>8.0f} rows/s"


def queue_names(max_offsets: Mapping[str, Mapping[str, Mapping[str, int]]]) -> Iterator[str]:
    """``broker-a:0`` and so on, of ``{topic: {broker name: {queue id: max offset}}}``."""
    for brokers in max_offsets.values():
        for broker_name, queues in brokers.items():
            yield from (f"{broker_name}:{queue_id}" for queue_id in queues)


def shortened(queues: Iterable[str]) -> str:
    """``broker-a:0,1,3`` for the queues ``broker-a:0``, ``broker-a:1`` and ``broker-a:3``."""
    ids: dict[str, list[str]] = {}
    for queue in queues:
        broker_name, _, queue_id = queue.rpartition(":")
        ids.setdefault(broker_name, []).append(queue_id)
    return " ".join(f"{broker_name}:{','.join(numbers)}" for broker_name, numbers in ids.items()) or "none"


class Shares(Protocol):
    """Who of a group has what, as far as the members have told; a member is silent between its triggers."""

    def hear(self, trigger: Trigger) -> None:
        """What a member says of itself."""

    def left(self, member: str) -> None:
        """It has nothing any more."""

    def is_settled(self) -> bool:
        """Whether each part has found its reader since the group changed, by all that the members say."""

    def is_shared(self) -> bool:
        """It is settled, and several members have parts."""

    def news(self) -> str | None:
        """A line when it has changed since the last one; what is not settled is no news yet."""


class Sharing:
    """``Shares`` of messages: a group is settled when each member has received some since it changed."""

    def __init__(self) -> None:
        self._received: dict[str, int] = {}
        self._before: dict[str, int] = {}
        self._is_shown = False

    def hear(self, trigger: Trigger) -> None:
        """See ``Shares``. Whom nobody has heard yet has joined."""
        if trigger.messages is None:
            return
        if trigger.member not in self._received:
            self._change()
        self._received[trigger.member] = trigger.messages.received

    def left(self, member: str) -> None:
        """See ``Shares``."""
        del self._received[member]
        self._change()

    def _change(self) -> None:
        self._before = dict(self._received)
        self._is_shown = False

    def _since(self) -> dict[str, int]:
        return {member: received - self._before.get(member, 0) for member, received in self._received.items()}

    def is_settled(self) -> bool:
        """See ``Shares``."""
        since = self._since().values()
        return bool(since) and min(since) > 0

    def is_shared(self) -> bool:
        """See ``Shares``."""
        return self.is_settled() and len(self._received) > 1

    def news(self) -> str | None:
        """See ``Shares``."""
        if self._is_shown or not self.is_settled():
            return None
        self._is_shown = True
        return "   ".join(f"{member} receives, {count} by now" for member, count in self._since().items())


class Ownership:
    """``Shares`` of queues: who reads which of a topic's queues, as far as the members have told."""

    def __init__(self, queue_count: int) -> None:
        self._queue_count = queue_count
        self._queues: dict[str, tuple[str, ...]] = {}
        self._shown = ""

    def hear(self, trigger: Trigger) -> None:
        """See ``Shares``."""
        self.tell(trigger.member, trigger.queues)

    def left(self, member: str) -> None:
        """See ``Shares``."""
        self.tell(member, ())

    def tell(self, member: str, queues: tuple[str, ...]) -> None:
        """What a member says of itself; it is silent between its triggers."""
        self._queues[member] = queues

    def is_settled(self) -> bool:
        """Each queue has one reader, by all that the members say."""
        owned = [queue for queues in self._queues.values() for queue in queues]
        return len(owned) == len(set(owned)) == self._queue_count

    def is_shared(self) -> bool:
        """It is settled, and several members have queues."""
        return self.is_settled() and sum(bool(queues) for queues in self._queues.values()) > 1

    def news(self) -> str | None:
        """A line when ownership has changed since the last one; what is not settled is no news yet."""
        line = "   ".join(f"{member} reads {shortened(queues)}" for member, queues in self._queues.items())
        if not self.is_settled() or line == self._shown:
            return None
        self._shown = line
        return line


@dataclass(frozen=True, slots=True)
class Cell:
    """Orders of one product in one window, as one member has counted them."""

    window_start: datetime
    product: str
    orders: int
    amount_cents: int


@dataclass(slots=True)
class WindowTable:
    """The orders of all members by window and product. A member's newer number replaces its older one."""

    _cells: dict[tuple[str, datetime, str], Cell] = field(default_factory=dict)

    def take(self, member: str, cells: Iterable[Cell]) -> None:
        self._cells |= {(member, cell.window_start, cell.product): cell for cell in cells}

    def lines(self, last: int | None = None) -> list[str]:
        """The table, or its ``last`` windows."""
        products = sorted({cell.product for cell in self._cells.values()})
        starts = sorted({cell.window_start for cell in self._cells.values()})
        shown = starts if last is None else starts[-last:]
        header = "window  " + "".join(f"{product:>9}" for product in products) + "   orders       amount"
        return [header, *(self._row(start, products) for start in shown)]

    def _row(self, start: datetime, products: Iterable[str]) -> str:
        cells = [cell for cell in self._cells.values() if cell.window_start == start]
        counts = (sum(cell.orders for cell in cells if cell.product == product) for product in products)
        amount = sum(cell.amount_cents for cell in cells) / 100
        total = sum(cell.orders for cell in cells)
        return f"{start:%H:%M:%S}" + "".join(f"{count:>9}" for count in counts) + f"{total:>9}{amount:>13,.2f}"


class Invoice(NamedTuple):
    """A message in the topic of invoices: its ``msgId``, and its key, which is the order's."""

    id: str
    key: str


@dataclass(frozen=True, slots=True)
class Summary:
    """The last line. ``read`` counts rows, ``distinct`` counts orders; ``written`` counts messages, ``invoices`` their
    ids, and ``billed`` orders that have one."""

    produced: int
    read: int
    distinct: int
    group_lag: int
    written: int
    invoices: int
    billed: int

    @classmethod
    def of(
        cls, produced: Set[str], triggers: Iterable[Trigger], group_lag: int, invoices: Collection[Invoice]
    ) -> Summary:
        """Add up: keys of the orders that were sent, the finished triggers of all members, and all that was written.

        A batch counts once, however often Spark reports it.
        """
        batches = {(trigger.member, trigger.batch_id): trigger.keys for trigger in triggers}
        read = [key for keys in batches.values() for key in keys]
        ids, billed = {invoice.id for invoice in invoices}, {invoice.key for invoice in invoices}
        distinct = len(produced & set(read))
        return cls(len(produced), len(read), distinct, group_lag, len(invoices), len(ids), len(produced & billed))

    @property
    def duplicates(self) -> int:
        return self.read - self.distinct

    @property
    def lost(self) -> int:
        return self.produced - self.distinct

    @property
    def unbilled(self) -> int:
        return self.produced - self.billed

    @property
    def is_clean(self) -> bool:
        return self.lost == 0 and self.group_lag == 0 and self.unbilled == 0

    def line(self) -> str:
        return (
            f"demo: produced={self.produced} read={self.read} distinct={self.distinct} "
            f"duplicates={self.duplicates} lost={self.lost} group_lag={self.group_lag} "
            f"written={self.written} invoices={self.invoices} unbilled={self.unbilled}"
        )


def cause_of(failure: str) -> str:
    """Of a long Spark failure the connector's own sentence, or else its first line.

    A Python traceback names the causes of an error first, and the error itself last.
    """
    lines = failure.strip().splitlines() or [""]
    ours = [line[line.index("[ROCKETMQ_") :] for line in lines if "[ROCKETMQ_" in line]
    return ours[-1] if ours else lines[0]
