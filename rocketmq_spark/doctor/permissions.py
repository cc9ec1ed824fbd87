"""Diagnoses of requests that brokers refuse: credentials, and the permission that is missing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from rocketmq_spark.doctor.diagnosis import Area, Diagnosis, Severity, diagnosis_of
from rocketmq_spark.doctor.facts import BrokerFacts, ServerFacts, Trial
from rocketmq_spark.errors import BrokerError


def permission_diagnoses(servers: ServerFacts) -> list[Diagnosis]:
    """Return the diagnoses of refused trials, each permission once for each broker."""
    return [
        build(broker, trial, trial.error)
        for broker in servers.brokers
        for trial in broker.trials
        if isinstance(trial.error, BrokerError) and (build := _BY_CONDITION.get(trial.error.condition))
    ]


def _credentials(broker: BrokerFacts, _trial: Trial, error: BrokerError) -> Diagnosis:
    return diagnosis_of(Area.CREDENTIALS, error, place=broker.name)


def _topic_denied(broker: BrokerFacts, trial: Trial, error: BrokerError) -> Diagnosis:
    return _denied(broker, trial, error, f"Topic:{error.context['topic']}")


def _group_denied(broker: BrokerFacts, trial: Trial, error: BrokerError) -> Diagnosis:
    return _denied(broker, trial, error, f"Group:{error.context['group']}")


def _denied(broker: BrokerFacts, trial: Trial, error: BrokerError, resource: str) -> Diagnosis:
    """Return the diagnosis that names the permission and the command that grants it."""
    return Diagnosis(
        area=Area.PERMISSIONS,
        condition=error.condition,
        problem=f"The user of 'accessKey' lacks {trial.action} on {resource}",
        cause=f"{error.context['address']} denied {error.context['request']}, required for {trial.purpose}",
        advice=f"Grant it on every broker: 'mqadmin updateAcl -s User:<accessKey> -r {resource} -a {trial.action} -d "
        "Allow -c <cluster>', with all other actions that the user already has.",
        severity=Severity.PROBLEM if trial.is_required else Severity.WARNING,
        place=broker.name,
        subject=f"{trial.action} on {resource}",
    )


def _refused(broker: BrokerFacts, _trial: Trial, error: BrokerError) -> Diagnosis:
    return diagnosis_of(Area.GROUP, error, place=broker.name)


def _reserved(broker: BrokerFacts, _trial: Trial, error: BrokerError) -> Diagnosis:
    return diagnosis_of(Area.TOPICS, error, place=broker.name)


_BY_CONDITION: Final[Mapping[str, Callable[[BrokerFacts, Trial, BrokerError], Diagnosis]]] = MappingProxyType(
    {
        "CREDENTIALS_MISSING": _credentials,
        "CREDENTIALS_REJECTED": _credentials,
        "TOPIC_DENIED": _topic_denied,
        "GROUP_DENIED": _group_denied,
        "GROUP_NOT_FOUND.BROKER": _refused,
        "PULL_REJECTED": _refused,
        "TOPIC_RESERVED": _reserved,
    }
)
"""Other refusals are effects of a trial, which uses queues that no topic has."""
