"""What the texts of a condition want to be told."""

from __future__ import annotations

from string import Formatter

from rocketmq_spark.condition import Condition


def parameters_of(condition: Condition) -> frozenset[str]:
    """Return the names that ``what`` and ``advice`` expect in the context."""
    fields = (*Formatter().parse(condition.what), *Formatter().parse(condition.advice))
    return frozenset(name for _, name, _, _ in fields if name)
