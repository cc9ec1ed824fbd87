"""What is stored before it is read, and how much of everything a run of the benchmark does."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

RARE_TAG: Final = "Rare"
RARE_EVERY: Final = 100
MESSAGES_A_PULL: Final = 32
"""What a broker answers with at most, unless its operator states otherwise."""


@dataclass(frozen=True, slots=True)
class Workload:
    """Messages in one topic, and how many of them the broker delivers at once."""

    body_bytes: int
    count: int
    queues: int = 4
    is_compressed: bool = False
    messages_a_pull: int = MESSAGES_A_PULL
    is_cold: bool = False
    """The broker takes all of it for what is not in its memory, and delivers 8 messages or 64 KiB at once."""
    has_headers: bool = False
    """Whether Kafka has the same messages with headers too, in a topic of their own."""

    @property
    def name(self) -> str:
        size = f"{self.body_bytes} B" if self.body_bytes < 1024 else f"{self.body_bytes // 1024} KiB"
        queues = f"{self.queues} queue" + ("s" if self.queues > 1 else "")
        pulls = "" if self.messages_a_pull == MESSAGES_A_PULL else f", {self.messages_a_pull} messages a pull"
        marks = (", compressed" if self.is_compressed else "") + (", cold" if self.is_cold else "")
        return f"{size}, {queues}{marks}{pulls}"

    def empty(self) -> Workload:
        """The same with no message in it yet."""
        return replace(self, count=0)


@dataclass(frozen=True, slots=True)
class Scale:
    """How much is measured. Everybody reads ``bases``; ``variations``, read by Spark alone, differ in one factor;
    ``cold`` is read by Spark and by pulls."""

    rounds: int
    bases: tuple[Workload, ...]
    variations: tuple[Workload, ...]
    cold: tuple[Workload, ...]
    writing: tuple[Workload, ...]
    small_batches: int
    latency_seconds: int
    latency_rates_per_second: tuple[int, ...]
    decode_rounds: int
    memory: Workload
    idle_topics: tuple[int, ...]
    idle_seconds: int

    def times(self, factor: float) -> Scale:
        """The same with more or fewer messages."""
        return replace(
            self,
            bases=tuple(_times(workload, factor) for workload in self.bases),
            variations=tuple(_times(workload, factor) for workload in self.variations),
            cold=tuple(_times(workload, factor) for workload in self.cold),
            writing=tuple(_times(workload, factor) for workload in self.writing),
            memory=_times(self.memory, factor),
        )


def _times(workload: Workload, factor: float) -> Workload:
    return replace(workload, count=round(workload.count * factor / RARE_EVERY) * RARE_EVERY)


FULL: Final = Scale(
    rounds=4,
    bases=(Workload(100, 3_000_000, has_headers=True), Workload(1024, 1_000_000, has_headers=True)),
    variations=(
        Workload(100, 1_200_000, messages_a_pull=1024),
        Workload(1024, 400_000, messages_a_pull=1024),
        Workload(16 * 1024, 50_000),
        Workload(100, 600_000, queues=1),
        Workload(100, 600_000, queues=32),
        Workload(1024, 300_000, queues=1),
        Workload(1024, 300_000, queues=32),
        Workload(100, 200_000, is_compressed=True),
        Workload(1024, 200_000, is_compressed=True),
    ),
    cold=(Workload(100, 600_000, is_cold=True), Workload(1024, 300_000, is_cold=True)),
    writing=(Workload(100, 1_000_000), Workload(1024, 300_000)),
    small_batches=4,
    latency_seconds=6,
    latency_rates_per_second=(100, 10_000),
    decode_rounds=10,
    memory=Workload(100, 10_000_000, queues=1),
    idle_topics=(1, 10, 50),
    idle_seconds=15,
)
"""About an hour on two cores: an estimate from the rates of an earlier run, of which two thirds are reading."""

QUICK: Final = Scale(
    rounds=1,
    bases=(Workload(100, 400_000, has_headers=True),),
    variations=(Workload(1024, 100_000),),
    cold=(Workload(100, 100_000, is_cold=True),),
    writing=(Workload(100, 100_000),),
    small_batches=3,
    latency_seconds=3,
    latency_rates_per_second=(100,),
    decode_rounds=3,
    memory=Workload(100, 500_000, queues=1),
    idle_topics=(10,),
    idle_seconds=8,
)
"""Less than 5 minutes. One round shows that everything works; what it shows of speed is no more than a hint."""
