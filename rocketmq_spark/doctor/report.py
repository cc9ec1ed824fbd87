"""The doctor's report: text for a terminal, or JSON for scripts."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rocketmq_spark.condition import one_line
from rocketmq_spark.doctor.diagnosis import Diagnosis, Severity
from rocketmq_spark.doctor.facts import BrokerFacts, Environment, Job, ServerFacts
from rocketmq_spark.wire.remoting.mq_version import release_name

EXECUTORS = "Python, PySpark and network of the executors"


class Report(NamedTuple):
    """The doctor's report: diagnoses in order, and lines of what was checked and what was not."""

    diagnoses: tuple[Diagnosis, ...]
    checked: tuple[str, ...]
    unchecked: tuple[str, ...]

    @property
    def is_sound(self) -> bool:
        """Whether the job has no problem; it may have warnings and notes."""
        return all(one.severity is not Severity.PROBLEM for one in self.diagnoses)


def report_of(
    diagnoses: tuple[Diagnosis, ...], environment: Environment, job: Job | None, servers: ServerFacts
) -> Report:
    """Return the report: ``diagnoses``, the checked machine, name servers, proxies and brokers, and what was not
    checked. ``job``: None if its options could not be parsed, so that no server was checked."""
    checked = [_environment(environment)]
    if job is None:
        return Report(diagnoses, tuple(checked), ("servers: correct the options first", EXECUTORS))
    checked += [f"name server {address}" for address in servers.name_servers]
    checked += [f"proxy {address}" for address in servers.proxies]
    checked += [_broker("broker", broker) for broker in servers.brokers]
    checked += [_broker("slave of broker", slave) for slave in servers.slaves]
    unchecked = [*servers.unchecked, *_unchecked(job, servers), EXECUTORS]
    return Report(diagnoses, tuple(checked), tuple(unchecked))


def _environment(environment: Environment) -> str:
    """Return the line of what was checked on this machine: versions of Python and PySpark, and the decoder."""
    python = ".".join(map(str, environment.python))
    decoder = environment.decoder if isinstance(environment.decoder, str) else "unavailable"
    return f"this machine: Python {python}, PySpark {environment.pyspark or 'missing'}, decoder {decoder}"


def _broker(kind: str, broker: BrokerFacts) -> str:
    """Return the line of a checked broker or slave, without a version if that is 0, unknown."""
    version = f", {release_name(broker.version)}" if broker.version else ""
    return f"{kind} {broker.name} at {broker.server}{version}"


def _unchecked(job: Job, servers: ServerFacts) -> Iterator[str]:
    """Yield a line for each check that was not made: topics, group or write permissions without their options, unknown
    clocks, the permission for redelivery with loadBalance=message, and brokers behind a proxy."""
    if not job.topics:
        yield "topics: none is given, set --topic"
    if not job.is_writing and job.group is None:
        yield "consumer group and read permissions: no group is given, set --group"
    if not job.is_writing and job.topics:
        yield "write permissions: set --write"
    if unknown := [broker.name for broker in servers.brokers if broker.clock_ahead_ms is None and not broker.failure]:
        yield f"clock of {', '.join(unknown)}: the broker does not report it, or not to this user"
    if job.is_message_based and servers.brokers:
        yield f"SUB on Group:{job.group}_<topic> for each topic, which redelivery with loadBalance=message requires"
    if servers.proxies:
        yield "group, permissions, clocks and versions of the brokers behind the proxies"


def as_text(report: Report) -> str:
    """Return the report for a terminal, without a line break at the end. Each diagnosis has its brokers if there are
    several, advice and condition. Then follow the verdict, the checks, and the checks that were not made."""
    lines: list[str] = []
    for one in report.diagnoses:
        lines.append(one.line)
        if len(one.places) > 1:
            lines.append(one_line(f"  on: {', '.join(one.places)}"))
        lines += [one_line(f"  do: {one.advice}"), f"  condition: {one.condition}"]
    lines.append(_verdict(report.diagnoses))
    lines += [one_line(f"checked: {one}") for one in report.checked]
    lines += [one_line(f"not checked: {one}") for one in report.unchecked]
    return "\n".join(lines)


def _verdict(diagnoses: Sequence[Diagnosis]) -> str:
    """Return "sound: no problem found" without a diagnosis. Else return "not sound" if one is a problem, or "sound",
    with the numbers of problems and warnings, and that of notes if there are any."""
    if not diagnoses:
        return "sound: no problem found"
    counts = Counter(one.severity for one in diagnoses)
    problems = counts[Severity.PROBLEM]
    notes = f", notes: {counts[Severity.NOTE]}" if counts[Severity.NOTE] else ""
    verdict = "not sound" if problems else "sound"
    return f"{verdict}: problems: {problems}, warnings: {counts[Severity.WARNING]}{notes}"


def as_json(report: Report) -> str:
    """Return the report as one indented JSON object: ``isSound``, ``diagnoses``, ``checked``, ``notChecked``."""
    diagnoses = [
        {
            "severity": one.severity.value,
            "condition": one.condition,
            "problem": one.problem,
            "cause": one.cause,
            "advice": one.advice,
            "brokers": list(one.places),
        }
        for one in report.diagnoses
    ]
    fields = {"isSound": report.is_sound, "diagnoses": diagnoses}
    return json.dumps(fields | {"checked": report.checked, "notChecked": report.unchecked}, indent=2)
