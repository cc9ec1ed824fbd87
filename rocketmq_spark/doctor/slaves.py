"""Diagnoses of masters and slaves: brokers without a master, and slaves that do not serve a job with ``readFrom``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from rocketmq_spark.doctor.connections import slave_failure_diagnosis
from rocketmq_spark.doctor.diagnosis import Area, Diagnosis, Severity
from rocketmq_spark.doctor.facts import BrokerFacts, Job, ServerFacts, Trial
from rocketmq_spark.doctor.permissions import refusal_diagnosis
from rocketmq_spark.doctor.topics import usable_queues
from rocketmq_spark.errors import BrokerError, RocketMQError
from rocketmq_spark.model import BrokerAddress, BrokerData, TopicRoute
from rocketmq_spark.remoting.error_kinds import (
    is_pull_forbidden,
    is_slave_read_disabled,
    is_topic_missing_at_broker,
    is_unanswered,
)
from rocketmq_spark.remoting.replicas import FROM_SLAVE
from rocketmq_spark.remoting.retry import Retryability, retryability_of_pull
from rocketmq_spark.wire.remoting.mq_version import V4_9_0_SNAPSHOT, release_name

_MASTER_EFFECT: Final = MappingProxyType(
    {
        True: "Until then readFrom=slave reads at the master.",
        False: "Until then readFrom=auto has no slave to read if the master becomes unavailable.",
    }
)
"""What the job does while its slave does not serve and its master does, by whether it has readFrom=slave."""


def replica_diagnoses(job: Job, servers: ServerFacts) -> list[Diagnosis]:
    """Return the diagnoses of each broker on which one of the job's topics has a queue that the job uses: of its slave
    first, then of its master. [] if the broker has a master and either the job reads no slaves, or its slave serves."""
    return [
        diagnosis
        for route in servers.routes().values()
        if isinstance(route, TopicRoute) and route.topic in job.topics
        for data in usable_queues(job, route)
        for broker in route.brokers
        if broker.broker_name == data.broker_name
        for diagnosis in _Replicas(job, servers, route.topic, broker).diagnoses()
    ]


class _Replicas:
    """The servers of one broker: its master, and its slave with the lowest ID, the only one that the job chooses."""

    def __init__(self, job: Job, servers: ServerFacts, topic: str, broker: BrokerData) -> None:
        self._job = job
        self._servers = servers
        self._topic = topic
        self._name = broker.broker_name
        self._master = broker.master_address
        self._slave = next(iter(broker.slave_addresses.values()), None)
        self._master_facts = _facts_of(servers.brokers, broker.broker_name, self._master)
        self._slave_facts = _facts_of(servers.slaves, broker.broker_name, self._slave)

    def diagnoses(self) -> Iterator[Diagnosis]:
        """Yield the diagnosis of the slave if the job reads slaves, then that of the master, each if there is one."""
        unusable = self._slave_diagnosis() if self._job.reads_slaves else None
        if unusable is not None:
            yield unusable
        if self._master is None:
            yield self._master_missing(serves=unusable is None and self._slave_facts is not None)
        elif unusable is None and self._slave_facts is not None and self._is_read_instead():
            yield self._reading_from_slave(f"The master of broker '{self._name}' does not respond")

    def _has_usable_master(self) -> bool:
        """Return whether the route has a master, and it was not found unusable."""
        return self._master is not None and (self._master_facts is None or self._master_facts.failure is None)

    def _is_read_instead(self) -> bool:
        """Return whether the job reads the slave although the route has a master, because this does not respond."""
        failure = None if self._master_facts is None else self._master_facts.failure
        return failure is not None and is_unanswered(failure) and not self._job.waits_for_master

    # ------------------------------------------------------------------------------------------------- the master

    def _master_missing(self, *, serves: bool) -> Diagnosis:
        """Return the diagnosis of a missing master: a warning if the job reads its slave, which ``serves``, else a
        problem."""
        problem = f"Broker '{self._name}' of topic '{self._topic}' has no master in the route"
        if serves and not self._job.waits_for_master:
            return self._reading_from_slave(problem)
        advice = "Start the broker's master, and check that it registers with the name servers."
        if self._may_read_slaves():
            advice += " 'readFrom=auto' reads a slave meanwhile, if it has 'slaveReadEnable=true'."
        cause = self._why_waiting(serves=serves)
        return self._diagnosis("MASTER_UNAVAILABLE", problem, cause, advice, subject=self._name)

    def _may_read_slaves(self) -> bool:
        """Return whether the job would read the slave of this broker with another ``readFrom``."""
        job = self._job
        needs_master = job.is_writing or job.is_message_based or job.waits_for_master or job.reads_slaves
        return not needs_master and self._slave is not None

    def _why_waiting(self, *, serves: bool) -> str:
        """Return as text why the job does not read the slave; "" if there is none, if its own diagnosis shows that, or
        if the job has no such option."""
        if self._may_read_slaves():
            return f"readFrom={self._job.read_from} does not read its slave {self._slave}"
        if not self._job.reads_slaves or self._slave is None:
            return ""
        if serves:
            return f"batch reads and 'consumeOrderly' wait for the master, also with its slave {self._slave}"
        return f"its slave {self._slave} was not checked" if self._slave_facts is None else ""

    def _reading_from_slave(self, problem: str) -> Diagnosis:
        """Return the warning that the job reads the slave, because of ``problem``, and what waits for the master."""
        return self._diagnosis(
            "READING_FROM_SLAVE",
            problem,
            f"readFrom={self._job.read_from} reads what its slave {self._slave} has copied, and only queues that the "
            "query has read before",
            "Start the broker's master, and check that it registers with the name servers. Until then the query "
            "commits no offsets on this broker, and an 'availableNow' run and a graceful stop fail after "
            "'clusterTimeoutMs'.",
            Severity.WARNING,
            subject=self._name,
        )

    # -------------------------------------------------------------------------------------------------- the slave

    def _slave_diagnosis(self) -> Diagnosis | None:
        """Return the diagnosis of a slave that is missing or does not serve the job; None if it serves, or was not
        checked. Its advice ends with what the job does meanwhile, if the broker has a usable master."""
        if self._slave is None:
            return self._slave_missing()
        if self._slave_facts is None or (found := self._unusable(self._slave_facts)) is None:
            return None
        diagnosis, is_permanent = found
        severity = self._severity(is_permanent=is_permanent)
        effect = "" if is_permanent or not self._has_usable_master() else f" {self._effect()}"
        return replace(diagnosis, severity=severity, advice=f"{diagnosis.advice}{effect}")

    def _severity(self, *, is_permanent: bool) -> Severity:
        """Return the severity of a slave that does not serve: PROBLEM without a usable master, or if its error is
        permanent and the job prefers the slave, because tasks then fail; NOTE if the job prefers the master and the
        error is not permanent; else WARNING."""
        prefers_slave = self._job.read_from == FROM_SLAVE
        if not self._has_usable_master() or (prefers_slave and is_permanent):
            return Severity.PROBLEM
        return Severity.WARNING if prefers_slave or is_permanent else Severity.NOTE

    def _effect(self) -> str:
        """Return what the job does while the slave does not serve and the master does."""
        return _MASTER_EFFECT[self._job.read_from == FROM_SLAVE]

    def _slave_missing(self) -> Diagnosis:
        """Return the diagnosis of a broker without a slave in the route."""
        if not self._has_usable_master():
            cause = ""
        elif self._job.read_from == FROM_SLAVE:
            cause = "readFrom=slave reads at its master"
        else:
            cause = "with readFrom=auto its queues wait while the master is unavailable"
        return self._diagnosis(
            "SLAVE_UNAVAILABLE",
            f"Broker '{self._name}' of topic '{self._topic}' has no slave in the route",
            cause,
            "Start a slave of the broker with 'slaveReadEnable=true', and check that it registers with the name "
            "servers. Without replicas set 'readFrom' to master.",
            self._severity(is_permanent=False),
        )

    def _unusable(self, slave: BrokerFacts) -> tuple[Diagnosis, bool] | None:
        """Return the diagnosis of a slave that does not serve (its failure, version or first refusal), and whether the
        job fails when it reads there. None if it serves. A refusal that the master sent too has its own diagnosis."""
        if slave.failure is not None:
            return slave_failure_diagnosis(self._servers, slave), _is_permanent(slave.failure)
        if slave.version and slave.version < V4_9_0_SNAPSHOT:
            problem = f"{self._title()} has {release_name(slave.version)}, which is too old"
            return self._diagnosis("UNSUPPORTED_BROKER_VERSION", problem, "", "Use RocketMQ 4.9 or newer."), True
        known = set() if self._master_facts is None else {_key(trial) for trial in self._master_facts.trials}
        for trial in slave.trials:
            if trial.is_required and isinstance(trial.error, BrokerError) and _key(trial) not in known:
                diagnosis = self._refused(slave, trial, trial.error)
                if diagnosis is not None:
                    return diagnosis, _is_permanent(trial.error)
        return None

    def _refused(self, slave: BrokerFacts, trial: Trial, error: BrokerError) -> Diagnosis | None:
        """Return the diagnosis of a refusal that keeps the job from reading at the slave; None for another
        one, an effect of a trial."""
        general = refusal_diagnosis(self._job, slave, trial)
        remark = str(error.context["remark"])
        if general is not None:
            problem = f"{self._title()} does not serve this job: {general.problem}"
            return replace(general, area=Area.BROKERS, problem=problem)
        if is_slave_read_disabled(error):
            advice = (
                f"Set it to true: 'mqadmin updateBrokerConfig -b {self._slave} -k slaveReadEnable -v true', and in the "
                "slave's configuration file."
            )
            problem = f"{self._title()} rejects all pulls"
            return self._diagnosis("SLAVE_READ_DISABLED", problem, "its 'slaveReadEnable' is false", advice)
        if is_topic_missing_at_broker(error):
            advice = (
                "Wait 60 s, the time in which a slave copies topics, and run the command again. If the slave still "
                "lacks the topic, check its log and its connection to the master."
            )
            problem = f"{self._title()} has not copied a topic from its master"
            return self._diagnosis("SLAVE_LACKS_TOPIC", problem, remark, advice)
        if is_pull_forbidden(error):
            advice = (
                f"Set its 'brokerPermission' to 6: 'mqadmin updateBrokerConfig -b {self._slave} -k brokerPermission -v "
                "6'. If it forbids the topic, give the topic read permission on the master, from which it copies it."
            )
            return self._diagnosis("SLAVE_PULL_FORBIDDEN", f"{self._title()} forbids pulls", remark, advice)
        return None

    def _title(self) -> str:
        """Return the slave's address and broker, to begin a sentence."""
        return f"Slave {self._slave} of broker '{self._name}'"

    def _diagnosis(
        self,
        condition: str,
        problem: str,
        cause: str,
        advice: str,
        severity: Severity = Severity.PROBLEM,
        subject: str = "",
    ) -> Diagnosis:
        """Return a diagnosis of this broker with these texts."""
        return Diagnosis(
            area=Area.BROKERS,
            condition=condition,
            problem=problem,
            cause=cause.rstrip("."),
            advice=advice,
            severity=severity,
            place=self._name,
            subject=subject,
        )


def _facts_of(checked: tuple[BrokerFacts, ...], name: str, address: BrokerAddress | None) -> BrokerFacts | None:
    """Return the facts of the broker ``name`` at ``address``; None if it was not checked, or ``address`` is None."""
    server = None if address is None else address.server
    return next((facts for facts in checked if (facts.name, facts.server) == (name, server)), None)


def _key(trial: Trial) -> tuple[str, str, str]:
    """Return a key, equal for trials with the same refusal: purpose, condition and code."""
    error = trial.error
    code = str(error.code) if isinstance(error, BrokerError) else ""
    return trial.purpose, "" if error is None else error.condition, code


def _is_permanent(error: RocketMQError) -> bool:
    """Return whether a task fails with ``error`` of a pull, instead of pulling from another server."""
    return retryability_of_pull(error) is Retryability.PERMANENT
