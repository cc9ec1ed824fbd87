"""All diagnoses of a job, from facts."""

from __future__ import annotations

from collections.abc import Sequence

from rocketmq_spark.doctor.connections import (
    address_map_diagnoses,
    broker_diagnoses,
    name_server_diagnoses,
    proxy_diagnoses,
    unchecked_diagnoses,
)
from rocketmq_spark.doctor.diagnosis import Area, Diagnosis, diagnosis_of, in_order
from rocketmq_spark.doctor.facts import Environment, Job, ServerFacts
from rocketmq_spark.doctor.groups import group_diagnoses
from rocketmq_spark.doctor.permissions import permission_diagnoses
from rocketmq_spark.doctor.slaves import replica_diagnoses
from rocketmq_spark.doctor.topics import topic_diagnoses
from rocketmq_spark.doctor.versions import broker_version_diagnoses, clock_diagnoses, environment_diagnoses
from rocketmq_spark.errors import OptionError


def judge(
    option_errors: Sequence[OptionError], environment: Environment, job: Job, servers: ServerFacts
) -> tuple[Diagnosis, ...]:
    """Return all diagnoses from these facts, as ``in_order`` sorts them: problems first, the likeliest cause first."""
    return in_order(
        [
            *(diagnosis_of(Area.OPTIONS, error) for error in option_errors),
            *environment_diagnoses(environment),
            *name_server_diagnoses(servers),
            *proxy_diagnoses(servers),
            *topic_diagnoses(job, servers),
            *replica_diagnoses(job, servers),
            *broker_diagnoses(servers),
            *address_map_diagnoses(servers),
            *unchecked_diagnoses(servers),
            *permission_diagnoses(job, servers),
            *group_diagnoses(job, servers),
            *clock_diagnoses(job, servers),
            *broker_version_diagnoses(job, servers),
        ]
    )
