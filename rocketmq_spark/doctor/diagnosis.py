"""One problem that the doctor reports: what fails, why, and what to do; and the order of several problems."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum, IntEnum, auto
from typing import Final

from rocketmq_spark.condition import one_line
from rocketmq_spark.conditions import CONDITIONS
from rocketmq_spark.errors import RocketMQError


class Severity(Enum):
    """``PROBLEM``: the job fails, or loses rows, because of it. ``WARNING``: the job runs, with less than
    its options request. ``NOTE``: the job runs as its options define; a server is missing that it may need later."""

    PROBLEM = "problem"
    WARNING = "warning"
    NOTE = "note"


class Area(IntEnum):
    """Subject of a diagnosis. The first in this order is the most likely cause of those after it."""

    OPTIONS = auto()
    ENVIRONMENT = auto()
    NAME_SERVERS = auto()
    CREDENTIALS = auto()
    TOPICS = auto()
    BROKERS = auto()
    PERMISSIONS = auto()
    GROUP = auto()
    CLOCK = auto()
    VERSIONS = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """A problem, warning or note of the doctor's report. ``problem``, ``cause`` and ``advice`` are sentences, the first
    two without a final period. ``condition``: key for scripts. ``place``: the broker that has it, empty for the
    cluster. ``places``: all brokers that have it, after ``in_order``. ``subject``: its object, such as a permission."""

    area: Area
    condition: str
    problem: str
    advice: str
    cause: str = ""
    severity: Severity = Severity.PROBLEM
    place: str = ""
    subject: str = ""
    places: tuple[str, ...] = ()

    @property
    def line(self) -> str:
        """Return "problem: <problem>: <cause>." on one line, or "warning: " or "note: " instead, by severity; without
        ": <cause>" if that is empty."""
        cause = f": {self.cause}" if self.cause else ""
        return one_line(f"{self.severity.value}: {self.problem}{cause}.")


def diagnosis_of(area: Area, error: RocketMQError, *, place: str = "") -> Diagnosis:
    """Return a PROBLEM with condition, summary and fix of ``error``, and ``place``; without cause and subject."""
    condition = CONDITIONS[error.condition]
    return Diagnosis(
        area=area,
        condition=error.condition,
        problem=condition.summary(error.context).rstrip("."),
        advice=condition.fix(error.context),
        place=place,
    )


_SEVERITIES: Final = {severity: number for number, severity in enumerate(Severity)}


def in_order(diagnoses: Iterable[Diagnosis]) -> tuple[Diagnosis, ...]:
    """Sort diagnoses: severity PROBLEM before WARNING before NOTE, then by area, else in the order given. Merge
    diagnoses with a ``place`` and the same area, severity, condition and subject into a copy of the first; its
    ``places`` lists their brokers. Of diagnoses without a place, keep the first for each area, severity, condition and
    ``problem`` text."""
    merged: dict[tuple[Area, Severity, str, bool, str], Diagnosis] = {}
    for one in diagnoses:
        has_place = bool(one.place)
        key = one.area, one.severity, one.condition, has_place, one.subject if has_place else one.problem
        first = merged.setdefault(key, one)
        if one.place and one.place not in first.places:
            merged[key] = replace(first, places=(*first.places, one.place))
    return tuple(sorted(merged.values(), key=lambda one: (_SEVERITIES[one.severity], one.area)))
