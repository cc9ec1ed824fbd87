"""One query of several sources, for stories that differ in their options alone: a process, a batch and a checkpoint
serve them all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path

from pyspark.sql import DataFrame

from connector_tests.support.streams import Stream


@dataclass
class SeveralSources(Stream):
    """A query of the union of ``sources``, which have topics, groups and options of their own."""

    sources: Sequence[Stream] = ()

    @classmethod
    def of(cls, sources: Sequence[Stream], folder: Path) -> SeveralSources:
        """The query of ``sources`` that writes below ``folder``."""
        first = sources[0]
        return cls(first.spark, first.cluster, first.topic, first.group, folder, sources=sources)

    def load(self) -> DataFrame:
        return reduce(DataFrame.unionAll, (source.load() for source in self.sources))
