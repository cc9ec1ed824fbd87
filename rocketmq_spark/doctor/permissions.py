"""Diagnoses of requests that brokers refuse: credentials, and the permission that is missing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from rocketmq_spark.doctor.diagnosis import Area, Diagnosis, Severity, diagnosis_of
from rocketmq_spark.doctor.facts import BrokerFacts, Job, ServerFacts, Trial
from rocketmq_spark.doctor.groups import disabled_group_diagnosis
from rocketmq_spark.errors import BrokerError

_DISABLED: Final = "subscription group no permission"
"""Begin of a broker's remark. Source: ``broker/processor/PullMessageProcessor.java``."""


class _Refusal(NamedTuple):
    """A trial of the job that a broker refused."""

    job: Job
    broker: BrokerFacts
    trial: Trial
    error: BrokerError


def permission_diagnoses(job: Job, servers: ServerFacts) -> list[Diagnosis]:
    """Return a diagnosis for each trial that a broker refused with a condition of ``_BY_CONDITION``. Other refusals
    have none: they are effects of a trial, which uses queues that no topic has."""
    diagnoses = (refusal_diagnosis(job, broker, trial) for broker in servers.brokers for trial in broker.trials)
    return [diagnosis for diagnosis in diagnoses if diagnosis is not None]


def refusal_diagnosis(job: Job, broker: BrokerFacts, trial: Trial) -> Diagnosis | None:
    """Return the diagnosis of one trial, as ``permission_diagnoses`` does; None if the broker did not refuse it, or for
    another condition."""
    if not isinstance(trial.error, BrokerError):
        return None
    return _BY_CONDITION.get(trial.error.condition, _ignored)(_Refusal(job, broker, trial, trial.error))


def _ignored(_refusal: _Refusal) -> None:
    """Return None: other refusals are effects of a trial, which uses queues that no topic has."""


def _credentials(refusal: _Refusal) -> Diagnosis:
    """Return the problem of missing or rejected credentials, in the area CREDENTIALS."""
    return diagnosis_of(Area.CREDENTIALS, refusal.error, place=refusal.broker.name)


def _topic_denied(refusal: _Refusal) -> Diagnosis:
    """Return ``_denied`` on the topic that the error names."""
    return _denied(refusal, f"Topic:{refusal.error.context['topic']}")


def _group_denied(refusal: _Refusal) -> Diagnosis:
    """Return ``_denied`` on the group that the error names."""
    return _denied(refusal, f"Group:{refusal.error.context['group']}")


def _denied(refusal: _Refusal, resource: str) -> Diagnosis:
    """Return the diagnosis that names the missing permission on ``resource`` and the command that grants it; a warning
    if the job runs without the request."""
    action, context = refusal.trial.action, refusal.error.context
    return Diagnosis(
        area=Area.PERMISSIONS,
        condition=refusal.error.condition,
        problem=f"The user of 'accessKey' lacks {action} on {resource}",
        cause=f"{context['address']} denied {context['request']}, required for {refusal.trial.purpose}",
        advice=f"Grant it on every broker: 'mqadmin updateAcl -s User:<accessKey> -r {resource} -a {action} -d Allow "
        "-c <cluster>', with all other actions that the user already has there.",
        severity=Severity.PROBLEM if refusal.trial.is_required else Severity.WARNING,
        place=refusal.broker.name,
        subject=f"{action} on {resource}",
    )


def _group_missing(refusal: _Refusal) -> Diagnosis:
    """Return the problem of a group that a broker does not have and does not create on demand."""
    group = refusal.job.group
    return Diagnosis(
        area=Area.GROUP,
        condition=refusal.error.condition,
        problem=f"Group '{group}' does not exist",
        cause=f"broker '{refusal.broker.name}' does not create it, because its 'autoCreateSubscriptionGroup' is false",
        advice=f"Create it on every broker of the topics: 'mqadmin updateSubGroup -g {group} -c <cluster>'.",
        place=refusal.broker.name,
    )


def _pulls_rejected(refusal: _Refusal) -> Diagnosis:
    """Return the diagnosis that the broker's property 'rejectPullConsumerEnable' rejects the pulls of all groups."""
    return Diagnosis(
        area=Area.GROUP,
        condition=refusal.error.condition,
        problem=f"Broker '{refusal.broker.name}' rejects all pulls",
        cause="its 'rejectPullConsumerEnable' is true",
        advice="Set it to false on every broker of the topics: 'mqadmin updateBrokerConfig -c <cluster> -k "
        "rejectPullConsumerEnable -v false'.",
        place=refusal.broker.name,
    )


def _topic_refused(refusal: _Refusal) -> Diagnosis:
    """Return the problem of a reserved topic or a filter that the broker rejects, with the error's own texts."""
    return diagnosis_of(Area.TOPICS, refusal.error, place=refusal.broker.name)


def _other(refusal: _Refusal) -> Diagnosis | None:
    """Return the problem of a group with ``consumeEnable`` false if the broker's remark reports it, or None for another
    remark. Brokers report it also to a user without permission to read the group's settings."""
    if not str(refusal.error.context["remark"]).startswith(_DISABLED):
        return None
    return disabled_group_diagnosis(refusal.job, refusal.broker)


_BY_CONDITION: Final[Mapping[str, Callable[[_Refusal], Diagnosis | None]]] = MappingProxyType(
    {
        "CREDENTIALS_MISSING": _credentials,
        "CREDENTIALS_REJECTED": _credentials,
        "TOPIC_DENIED": _topic_denied,
        "GROUP_DENIED": _group_denied,
        "GROUP_NOT_FOUND.BROKER": _group_missing,
        "PULL_REJECTED": _pulls_rejected,
        "TOPIC_RESERVED": _topic_refused,
        "FILTER_EXPRESSION_INVALID": _topic_refused,
        "PROPERTY_FILTER_DISABLED": _topic_refused,
        "BROKER_ERROR": _other,
    }
)
