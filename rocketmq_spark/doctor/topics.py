"""Diagnoses of topics: missing, not readable or not writable."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rocketmq_spark.doctor.diagnosis import Area, Diagnosis, Severity, diagnosis_of
from rocketmq_spark.doctor.facts import Job, ServerFacts
from rocketmq_spark.errors import RouteError
from rocketmq_spark.model import PERM_READ, PERM_WRITE, QueueData, TopicRoute

_PERMISSIONS: Final = {0: "none", PERM_WRITE: "write only", PERM_READ: "read only", PERM_READ | PERM_WRITE: "both"}


def topic_diagnoses(job: Job, servers: ServerFacts) -> list[Diagnosis]:
    """Return the diagnoses of each of the job's topics: those of its route or, if no name server has a route, one of
    the RouteError. A topic with only other errors has none here."""
    diagnoses: list[Diagnosis] = []
    routes = servers.routes()
    for topic in job.topics:
        result = routes.get(topic)
        if isinstance(result, TopicRoute):
            diagnoses += _route_diagnoses(job, result)
        elif isinstance(result, RouteError):
            diagnoses.append(diagnosis_of(Area.TOPICS, result))
    return diagnoses


def _route_diagnoses(job: Job, route: TopicRoute) -> Iterator[Diagnosis]:
    """Yield one diagnosis of all brokers, if there are any, on which the topic has no queue that the job can read, or
    write with ``is_writing``: a warning if another broker has one, else a problem."""
    verb = "write" if job.is_writing else "read"
    usable = usable_queues(job, route)
    unusable = [data for data in route.queues if data not in usable]
    if unusable:
        yield Diagnosis(
            area=Area.TOPICS,
            condition=f"TOPIC_UNAVAILABLE.NO_{verb.upper()}ABLE_QUEUE".replace("WRITEABLE", "WRITABLE"),
            problem=f"Topic '{route.topic}' has no {verb} permission, or no {verb} queue, on {_brokers(unusable)}",
            cause="; ".join(_permission(job, data) for data in unusable),
            advice=f"Give it {verb} permission and at least one {verb} queue: 'mqadmin updateTopic -t {route.topic} "
            "-p 6 -r 4 -w 4 -c <cluster>'.",
            severity=Severity.WARNING if usable else Severity.PROBLEM,
        )


def usable_queues(job: Job, route: TopicRoute) -> list[QueueData]:
    """Return the entries of the brokers on which the topic has a queue that the job can read, or write with
    ``is_writing``, with or without a master."""
    permission = PERM_WRITE if job.is_writing else PERM_READ
    return [data for data in route.queues if data.permission & permission and _count(job, data)]


def _count(job: Job, data: QueueData) -> int:
    """Return the number of write queues on the broker if the job writes, else of read queues, for any permission."""
    return data.write_queue_count if job.is_writing else data.read_queue_count


def _brokers(queues: list[QueueData]) -> str:
    """Return the quoted broker names of ``queues``, in the order of ``queues``, separated by commas."""
    return ", ".join(f"'{data.broker_name}'" for data in queues)


def _permission(job: Job, data: QueueData) -> str:
    """Return the topic's permission on the broker, as number and words, and ``_count``, as text."""
    shown = _PERMISSIONS.get(data.permission & (PERM_READ | PERM_WRITE))
    return f"permission {data.permission} ({shown}), {_count(job, data)} {'write' if job.is_writing else 'read'} queues"
