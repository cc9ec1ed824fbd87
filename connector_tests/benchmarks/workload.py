"""What is stored before it is read, and how much of everything a run of the benchmark does."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

RARE_TAG: Final = "Rare"
RARE_EVERY: Final = 100


@dataclass(frozen=True, slots=True)
class Workload:
    """Messages in one topic."""

    body_bytes: int
    count: int
    queues: int = 4
    is_compressed: bool = False

    @property
    def name(self) -> str:
        size = f"{self.body_bytes} B" if self.body_bytes < 1024 else f"{self.body_bytes // 1024} KiB"
        queues = f"{self.queues} queue" + ("s" if self.queues > 1 else "")
        return f"{size}, {queues}" + (", compressed" if self.is_compressed else "")


@dataclass(frozen=True, slots=True)
class Scale:
    """How much is measured. ``variations`` differ from a base workload in one factor each."""

    rounds: int
    bases: tuple[Workload, ...]
    variations: tuple[Workload, ...]
    small_batches: int
    latency_seconds: int
    latency_rates_per_second: tuple[int, ...]
    decode_rounds: int

    def times(self, factor: float) -> Scale:
        """The same with more or fewer messages."""
        return replace(
            self,
            bases=tuple(_times(workload, factor) for workload in self.bases),
            variations=tuple(_times(workload, factor) for workload in self.variations),
        )


def _times(workload: Workload, factor: float) -> Workload:
    return replace(workload, count=round(workload.count * factor / RARE_EVERY) * RARE_EVERY)


FULL: Final = Scale(
    rounds=5,
    bases=(Workload(100, 4_000_000), Workload(1024, 2_000_000)),
    variations=(
        Workload(16 * 1024, 100_000),
        Workload(100, 2_000_000, queues=1),
        Workload(100, 2_000_000, queues=32),
        Workload(1024, 1_000_000, queues=1),
        Workload(1024, 1_000_000, queues=32),
        Workload(100, 500_000, is_compressed=True),
        Workload(1024, 500_000, is_compressed=True),
    ),
    small_batches=30,
    latency_seconds=20,
    latency_rates_per_second=(100, 10_000),
    decode_rounds=30,
)

QUICK: Final = Scale(
    rounds=2,
    bases=(Workload(100, 1_000_000), Workload(1024, 400_000)),
    variations=(),
    small_batches=10,
    latency_seconds=8,
    latency_rates_per_second=(100,),
    decode_rounds=10,
)
