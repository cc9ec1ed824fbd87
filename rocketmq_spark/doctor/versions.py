"""Diagnoses of versions and clocks: Python, PySpark, the decoder, brokers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from rocketmq_spark.doctor.diagnosis import Area, Diagnosis, Severity, diagnosis_of
from rocketmq_spark.doctor.facts import BrokerFacts, Environment, Job, ServerFacts
from rocketmq_spark.wire.remoting.mq_version import V4_9_0_SNAPSHOT, V5_0_0_SNAPSHOT, release_name

OLDEST_PYTHON: Final = (3, 11)
NEWEST_PYTHON: Final = (3, 13)
OLDEST_PYSPARK: Final = (4, 0)
NEWEST_PYSPARK: Final = (4, 3)
NEWEST_BROKER: Final = 513
"""V5_5_0."""
WARNED_CLOCK_MS: Final = 1_000
MAX_POP_CLOCK_MS: Final = 2_000
"""A broker rejects a poll whose time is over by its own clock."""

_NUMBERS: Final = re.compile(r"(\d+)\.(\d+)")


def environment_diagnoses(environment: Environment) -> list[Diagnosis]:
    """Return the diagnoses of the driver's Python, PySpark and decoder, in this order; [] if all are supported."""
    return [*_python(environment), *_pyspark(environment), *_decoder(environment)]


def _python(environment: Environment) -> Iterator[Diagnosis]:
    """Yield a problem for Python before 3.11, a warning after 3.13."""
    shown = ".".join(map(str, environment.python))
    if environment.python[:2] < OLDEST_PYTHON:
        yield _environment("UNSUPPORTED_PYTHON_VERSION", f"Python {shown} is too old", "Use Python 3.11 or newer.")
    elif environment.python[:2] > NEWEST_PYTHON:
        yield _environment(
            "UNTESTED_PYTHON_VERSION", f"Python {shown} is untested", "Use Python 3.11 to 3.13.", Severity.WARNING
        )


def _pyspark(environment: Environment) -> Iterator[Diagnosis]:
    """Yield a problem if PySpark is not installed or before 4.0, a warning after 4.3; nothing if its version has no
    numbers."""
    if environment.pyspark is None:
        advice = "Run this command in the environment of the driver, or install 'pyspark'."
        yield _environment("PYSPARK_MISSING", "PySpark is not installed in this Python", advice)
        return
    found = _NUMBERS.match(environment.pyspark)
    version = (int(found[1]), int(found[2])) if found else OLDEST_PYSPARK
    if version < OLDEST_PYSPARK:
        advice = "Use PySpark 4.0 or newer, which has Python data sources."
        yield _environment("UNSUPPORTED_SPARK_VERSION", f"PySpark {environment.pyspark} is too old", advice)
    elif version > NEWEST_PYSPARK:
        problem = f"PySpark {environment.pyspark} is untested"
        yield _environment("UNTESTED_SPARK_VERSION", problem, "Use PySpark 4.0 to 4.3.", Severity.WARNING)


def _decoder(environment: Environment) -> Iterator[Diagnosis]:
    """Yield the error of loading the decoder as a problem; nothing if it was loaded."""
    if not isinstance(environment.decoder, str):
        yield diagnosis_of(Area.ENVIRONMENT, environment.decoder)


def _environment(condition: str, problem: str, advice: str, severity: Severity = Severity.PROBLEM) -> Diagnosis:
    """Return a diagnosis of this machine with these texts, in the area ENVIRONMENT."""
    return Diagnosis(area=Area.ENVIRONMENT, condition=condition, problem=problem, advice=advice, severity=severity)


def broker_version_diagnoses(job: Job, servers: ServerFacts) -> list[Diagnosis]:
    """Return the diagnoses of the brokers' versions of RocketMQ, see ``_broker_version``; a broker of unknown version
    has none."""
    return [diagnosis for broker in servers.brokers if broker.version for diagnosis in _broker_version(job, broker)]


def _broker_version(job: Job, broker: BrokerFacts) -> Iterator[Diagnosis]:
    """Yield a problem for RocketMQ before 4.9, or before 5.0 with loadBalance=message, a warning after 5.5.0."""
    shown = f"Broker '{broker.name}' has {release_name(broker.version)}"
    if broker.version < V4_9_0_SNAPSHOT:
        yield _version(broker, "UNSUPPORTED_BROKER_VERSION", f"{shown}, which is too old", "Use RocketMQ 4.9 or newer.")
    elif job.is_message_based and broker.version < V5_0_0_SNAPSHOT:
        advice = "Set 'loadBalance' to 'queue', or use RocketMQ 5."
        yield _version(broker, "UNSUPPORTED_BROKER_VERSION", f"{shown}, and loadBalance=message needs 5.0", advice)
    elif broker.version > NEWEST_BROKER:
        advice = "Use RocketMQ 4.9 to 5.5, or test the job on this version."
        yield _version(broker, "UNTESTED_BROKER_VERSION", f"{shown}, which is untested", advice, Severity.WARNING)


def _version(
    broker: BrokerFacts, condition: str, problem: str, advice: str, severity: Severity = Severity.PROBLEM
) -> Diagnosis:
    """Return a diagnosis of the broker's version with these texts; brokers of one version have the same subject."""
    return Diagnosis(
        area=Area.VERSIONS,
        condition=condition,
        problem=problem,
        advice=advice,
        severity=severity,
        place=broker.name,
        subject=str(broker.version),
    )


def clock_diagnoses(job: Job, servers: ServerFacts) -> list[Diagnosis]:
    """Return a diagnosis for each broker whose clock differs from this machine's by more than 1 s. It is a problem if
    the clock is at least 2 s ahead and the job has loadBalance=message, because the broker then rejects polls.
    Otherwise it is a warning. An unknown clock has none."""
    diagnoses = []
    for broker in servers.brokers:
        ahead_ms = broker.clock_ahead_ms or 0
        if abs(ahead_ms) <= WARNED_CLOCK_MS:
            continue
        is_fatal = job.is_message_based and ahead_ms >= MAX_POP_CLOCK_MS
        direction = "ahead of" if ahead_ms > 0 else "behind"
        diagnoses.append(
            Diagnosis(
                area=Area.CLOCK,
                condition="CLOCK_SKEW",
                problem=f"The clock of broker '{broker.name}' is {abs(ahead_ms) // 1000} s or more {direction} this "
                "machine's",
                advice="Synchronize both clocks with NTP: start positions by time, delays and "
                "loadBalance=message compare them.",
                severity=Severity.PROBLEM if is_fatal else Severity.WARNING,
                place=broker.name,
            )
        )
    return diagnoses
