"""What the doctor reports of masters and slaves, by the job's ``readFrom``."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rocketmq_spark.doctor.diagnosis import Diagnosis, Severity
from rocketmq_spark.doctor.facts import BrokerFacts, Environment, Job, ServerFacts, Trial
from rocketmq_spark.doctor.judgement import judge
from rocketmq_spark.errors import BrokerError, RocketMQError, TransportError
from rocketmq_spark.model import BrokerData, QueueData, TopicRoute
from rocketmq_spark.wire.remoting.codes import ResponseCode

SOUND = Environment((3, 11, 7), "4.3.0", "native")
FROM_SLAVE = Job(topics=("orders",), group="g", is_member=True, read_from="slave")
AUTO = replace(FROM_SLAVE, read_from="auto")
FROM_MASTER = replace(FROM_SLAVE, read_from="master")
WRITING = Job(topics=("orders",), is_writing=True)
BOTH = {0: "a:10911", 1: "b:10911", 2: "c:10911"}
ONLY_MASTER = {0: "a:10911"}
ONLY_SLAVES = {1: "b:10911", 2: "c:10911"}
MASTER = BrokerFacts(name="broker-a", server="a:10911", version=513)
SLAVE = BrokerFacts(name="broker-a", server="b:10911", version=513)
REFUSED = TransportError("CONNECT_FAILED", address="b:10911", reason="it failed")
REFUSED.__cause__ = ConnectionRefusedError()
HANGING = TransportError("RESPONSE_TIMED_OUT", address="a:10911", request="R", timeout_ms=3000)
UNTRUSTED = TransportError("TLS_CERTIFICATE_UNTRUSTED", address="b:10911", reason="self-signed certificate")
UNREACHABLE = "Cannot connect to slave of broker 'broker-a' at its advertised address b:10911: the host refuses "
NO_MASTER = "Broker 'broker-a' of topic 'orders' has no master in the route"


def servers(
    addresses: dict[int, str],
    *slaves: BrokerFacts,
    masters: tuple[BrokerFacts, ...] = (MASTER,),
    is_acting: bool = False,
    permission: int = 6,
) -> ServerFacts:
    brokers = (BrokerData("c", "broker-a", addresses, is_acting=is_acting),)
    route = TopicRoute("orders", brokers, (QueueData("broker-a", 4, 4, permission),))
    return ServerFacts(name_servers={"ns:9876": {"orders": route}}, brokers=masters, slaves=slaves)


def found(job: Job, facts: ServerFacts) -> tuple[Diagnosis, ...]:
    return judge((), SOUND, job, facts)


def lines(job: Job, facts: ServerFacts) -> list[str]:
    return [one.line for one in found(job, facts)]


def refusing(condition: str, code: int = ResponseCode.NO_PERMISSION, remark: str = "no", **context: str) -> BrokerFacts:
    """The slave, where the job's pull is refused."""
    name = ResponseCode(code).name
    error = BrokerError(
        condition, address="b:10911", request="PULL_MESSAGE", code=code, code_name=name, remark=remark, **context
    )
    return replace(SLAVE, trials=(Trial("SUB", "reading topic 'orders'", error),))


@pytest.mark.parametrize("job", [FROM_SLAVE, AUTO, FROM_MASTER])
def test_a_master_and_a_slave_that_serve_are_sound(job: Job) -> None:
    assert lines(job, servers(BOTH, SLAVE)) == []


@pytest.mark.parametrize("job", [FROM_MASTER, WRITING])
def test_a_job_at_masters_needs_no_slave(job: Job) -> None:
    assert lines(job, servers(ONLY_MASTER)) == []


def test_without_topics_no_broker_is_judged() -> None:
    """The route is then that of a topic which each broker has."""
    assert lines(replace(FROM_SLAVE, topics=()), servers(ONLY_SLAVES, masters=())) == []


# ------------------------------------------------------------------------------------------------- without a slave


def test_a_missing_slave_is_reported_with_where_the_job_reads_instead() -> None:
    (one,) = found(FROM_SLAVE, servers(ONLY_MASTER))
    assert one.line == (
        "warning: Broker 'broker-a' of topic 'orders' has no slave in the route: readFrom=slave reads at its master."
    )
    assert one.advice == (
        "Start a slave of the broker with 'slaveReadEnable=true', and check that it registers with the name servers. "
        "Without replicas set 'readFrom' to master."
    )
    assert (one.condition, one.places) == ("SLAVE_UNAVAILABLE", ("broker-a",))


def test_a_missing_slave_is_a_note_with_auto() -> None:
    (one,) = found(AUTO, servers(ONLY_MASTER))
    assert one.line == (
        "note: Broker 'broker-a' of topic 'orders' has no slave in the route: with readFrom=auto its queues wait "
        "while the master is unavailable."
    )


def test_a_broker_without_any_server_is_a_problem_that_names_both() -> None:
    facts = servers({}, masters=())
    assert lines(FROM_SLAVE, facts) == [
        "problem: Broker 'broker-a' of topic 'orders' has no slave in the route.",
        f"problem: {NO_MASTER}.",
    ]


def test_a_missing_slave_is_named_before_a_clock_that_differs() -> None:
    late = replace(MASTER, clock_ahead_ms=-9_000)
    assert [one.condition for one in found(FROM_SLAVE, servers(ONLY_MASTER, masters=(late,)))] == [
        "SLAVE_UNAVAILABLE",
        "CLOCK_SKEW",
    ]


def test_a_broker_where_the_topic_is_not_readable_needs_no_slave() -> None:
    (one,) = found(FROM_SLAVE, servers(ONLY_MASTER, permission=2))
    assert one.condition == "TOPIC_UNAVAILABLE.NO_READABLE_QUEUE"


# ----------------------------------------------------------------------------------------------- a slave that fails


@pytest.mark.parametrize(
    ("job", "severity", "effect"),
    [
        (FROM_SLAVE, "warning", "Until then readFrom=slave reads at the master."),
        (AUTO, "note", "Until then readFrom=auto has no slave to read if the master becomes unavailable."),
    ],
)
def test_an_unreachable_slave_is_reported_with_its_address(job: Job, severity: str, effect: str) -> None:
    (one,) = found(job, servers(BOTH, replace(SLAVE, failure=REFUSED)))
    assert one.line == f"{severity}: {UNREACHABLE}connections on this port."
    assert one.advice == (
        "Set the slave's 'brokerIP1' to an address that the driver and all executors can reach, or set "
        f"'brokerAddressMap', or start the server. {effect}"
    )
    assert (one.condition, one.places) == ("CONNECT_FAILED", ("broker-a",))


@pytest.mark.parametrize("job", [FROM_SLAVE, AUTO])
def test_an_unreachable_slave_without_a_master_is_a_problem_named_first(job: Job) -> None:
    facts = servers(ONLY_SLAVES, replace(SLAVE, failure=REFUSED), masters=())
    first, second = found(job, facts)
    assert (first.line, second.line) == (
        f"problem: {UNREACHABLE}connections on this port.",
        f"problem: {NO_MASTER}.",
    )
    assert "Until then" not in first.advice


def test_an_unreachable_slave_of_an_unreachable_master_is_a_problem() -> None:
    facts = servers(BOTH, replace(SLAVE, failure=REFUSED), masters=(replace(MASTER, failure=HANGING),))
    assert [(one.severity, one.condition) for one in found(AUTO, facts)] == [
        (Severity.PROBLEM, "CONNECT_FAILED"),
        (Severity.PROBLEM, "RESPONSE_TIMED_OUT"),
    ]


@pytest.mark.parametrize(("job", "severity"), [(FROM_SLAVE, Severity.PROBLEM), (AUTO, Severity.WARNING)])
def test_a_failure_that_fails_the_job_at_the_slave_is_severer(job: Job, severity: Severity) -> None:
    (one,) = found(job, servers(BOTH, replace(SLAVE, failure=UNTRUSTED)))
    assert (one.severity, one.condition) == (severity, "TLS_CERTIFICATE_UNTRUSTED")
    assert "Until then" not in one.advice


@pytest.mark.parametrize(("job", "severity"), [(FROM_SLAVE, Severity.PROBLEM), (AUTO, Severity.WARNING)])
def test_a_slave_that_is_too_old_is_reported(job: Job, severity: Severity) -> None:
    (one,) = found(job, servers(BOTH, replace(SLAVE, version=391)))
    assert (one.severity, one.condition) == (severity, "UNSUPPORTED_BROKER_VERSION")
    assert one.problem == "Slave b:10911 of broker 'broker-a' has a RocketMQ before 4.9, which is too old"


def test_a_slave_of_unknown_version_serves() -> None:
    assert lines(FROM_SLAVE, servers(BOTH, replace(SLAVE, version=0))) == []


def test_a_slave_that_may_not_be_read_is_reported_with_its_setting() -> None:
    slave = refusing("BROKER_ERROR", ResponseCode.SYSTEM_BUSY, "[REJECTREQUEST]system busy, start flow control")
    (one,) = found(FROM_SLAVE, servers(BOTH, slave))
    assert one.line == (
        "warning: Slave b:10911 of broker 'broker-a' rejects all pulls: its 'slaveReadEnable' is false."
    )
    assert one.advice == (
        "Set it to true: 'mqadmin updateBrokerConfig -b b:10911 -k slaveReadEnable -v true', and in the slave's "
        "configuration file. Until then readFrom=slave reads at the master."
    )
    assert one.condition == "SLAVE_READ_DISABLED"


def test_a_slave_that_is_busy_serves() -> None:
    assert lines(FROM_SLAVE, servers(BOTH, refusing("BROKER_ERROR", ResponseCode.SYSTEM_BUSY, "[OVERLOAD]busy"))) == []


def test_a_slave_that_has_not_copied_the_topic_is_reported() -> None:
    slave = refusing("BROKER_ERROR", ResponseCode.TOPIC_NOT_EXIST, "topic[orders] not exist")
    (one,) = found(FROM_SLAVE, servers(BOTH, slave))
    assert one.line == (
        "warning: Slave b:10911 of broker 'broker-a' has not copied a topic from its master: topic[orders] not exist."
    )
    assert one.advice == (
        "Wait 60 s, the time in which a slave copies topics, and run the command again. If the slave still lacks the "
        "topic, check its log and its connection to the master. Until then readFrom=slave reads at the master."
    )
    assert one.condition == "SLAVE_LACKS_TOPIC"


def test_a_slave_without_read_permission_is_reported() -> None:
    slave = refusing("BROKER_ERROR", remark="the broker[1.1.1.1] pulling message is forbidden")
    (one,) = found(AUTO, servers(BOTH, slave))
    assert one.line == (
        "note: Slave b:10911 of broker 'broker-a' forbids pulls: the broker[1.1.1.1] pulling message is forbidden."
    )
    assert one.advice.startswith(
        "Set its 'brokerPermission' to 6: 'mqadmin updateBrokerConfig -b b:10911 -k brokerPermission -v 6'. "
    )
    assert one.condition == "SLAVE_PULL_FORBIDDEN"


def test_a_refusal_that_fails_the_job_is_reported_with_its_own_advice() -> None:
    (one,) = found(FROM_SLAVE, servers(BOTH, refusing("TOPIC_DENIED", topic="orders")))
    assert one.line == (
        "problem: Slave b:10911 of broker 'broker-a' does not serve this job: The user of 'accessKey' lacks SUB on "
        "Topic:orders: b:10911 denied PULL_MESSAGE, required for reading topic 'orders'."
    )
    assert "mqadmin updateAcl -s User:<accessKey> -r Topic:orders -a SUB -d Allow" in one.advice
    assert one.condition == "TOPIC_DENIED"


def test_a_disabled_group_at_a_slave_is_reported_as_such() -> None:
    (one,) = found(FROM_SLAVE, servers(BOTH, refusing("BROKER_ERROR", remark="subscription group no permission, g")))
    assert (one.severity, one.condition) == (Severity.WARNING, "GROUP_CONSUME_DISABLED")


def test_what_the_master_refuses_too_is_reported_once() -> None:
    slave = refusing("TOPIC_DENIED", topic="orders")
    (one,) = found(FROM_SLAVE, servers(BOTH, slave, masters=(replace(MASTER, trials=slave.trials),)))
    assert one.problem == "The user of 'accessKey' lacks SUB on Topic:orders"


def test_a_pull_of_a_queue_that_does_not_exist_is_refused_by_slaves_too() -> None:
    for code in (ResponseCode.SYSTEM_ERROR, ResponseCode.INVALID_PARAMETER):
        assert lines(FROM_SLAVE, servers(BOTH, refusing("BROKER_ERROR", code, "queueId[9] is illegal"))) == []


def test_a_refusal_that_the_job_does_not_need_is_ignored() -> None:
    slave = refusing("TOPIC_DENIED", topic="orders")
    optional = replace(slave, trials=tuple(trial._replace(is_required=False) for trial in slave.trials))
    assert lines(FROM_SLAVE, servers(BOTH, optional)) == []


def test_a_slave_that_was_not_checked_is_not_judged() -> None:
    assert lines(FROM_SLAVE, servers(BOTH)) == []


def test_only_the_slave_with_the_lowest_id_is_judged() -> None:
    other = replace(SLAVE, server="c:10911", failure=REFUSED)
    assert lines(FROM_SLAVE, servers(BOTH, other)) == []


# ---------------------------------------------------------------------------------------------- without a master


@pytest.mark.parametrize("job", [FROM_SLAVE, AUTO])
@pytest.mark.parametrize(("addresses", "is_acting"), [(ONLY_SLAVES, False), ({0: "b:10911", 2: "c:10911"}, True)])
def test_a_slave_that_serves_without_a_master_is_what_the_job_reads(
    job: Job, addresses: dict[int, str], is_acting: bool
) -> None:
    (one,) = found(job, servers(addresses, SLAVE, masters=(), is_acting=is_acting))
    assert one.line == (
        f"warning: {NO_MASTER}: readFrom={job.read_from} reads what its slave b:10911 has copied, and only queues that "
        "the query has read before."
    )
    assert one.advice == (
        "Start the broker's master, and check that it registers with the name servers. Until then the query commits "
        "no offsets on this broker, and an 'availableNow' run and a graceful stop fail after 'clusterTimeoutMs'."
    )
    assert (one.condition, one.places) == ("READING_FROM_SLAVE", ("broker-a",))


def test_a_master_that_hangs_is_a_problem_and_the_job_reads_its_slave() -> None:
    problem, warning = found(AUTO, servers(BOTH, SLAVE, masters=(replace(MASTER, failure=HANGING),)))
    assert (problem.severity, problem.condition) == (Severity.PROBLEM, "RESPONSE_TIMED_OUT")
    assert warning.line == (
        "warning: The master of broker 'broker-a' does not respond: readFrom=auto reads what its slave b:10911 has "
        "copied, and only queues that the query has read before."
    )
    assert warning.condition == "READING_FROM_SLAVE"


def test_a_master_that_fails_in_another_way_is_not_replaced_by_its_slave() -> None:
    (one,) = found(AUTO, servers(BOTH, SLAVE, masters=(replace(MASTER, failure=UNTRUSTED),)))
    assert one.condition == "TLS_CERTIFICATE_UNTRUSTED"


@pytest.mark.parametrize("job", [FROM_SLAVE, AUTO])
def test_a_job_that_waits_for_masters_has_a_problem_without_one(job: Job) -> None:
    facts = servers(ONLY_SLAVES, SLAVE, masters=())
    (one,) = found(replace(job, waits_for_master=True), facts)
    assert one.line == (
        f"problem: {NO_MASTER}: batch reads and 'consumeOrderly' wait for the master, also with its slave b:10911."
    )
    assert one.condition == "MASTER_UNAVAILABLE"


def test_a_job_that_waits_for_masters_reads_no_slave_of_one_that_hangs() -> None:
    facts = servers(BOTH, SLAVE, masters=(replace(MASTER, failure=HANGING),))
    (one,) = found(replace(AUTO, waits_for_master=True), facts)
    assert one.condition == "RESPONSE_TIMED_OUT"


def test_a_master_is_missing_for_a_job_that_does_not_read_slaves() -> None:
    (one,) = found(FROM_MASTER, servers(ONLY_SLAVES, masters=()))
    assert one.line == f"problem: {NO_MASTER}: readFrom=master does not read its slave b:10911."
    assert one.advice == (
        "Start the broker's master, and check that it registers with the name servers. 'readFrom=auto' reads a slave "
        "meanwhile, if it has 'slaveReadEnable=true'."
    )


@pytest.mark.parametrize(
    "job",
    [WRITING, replace(FROM_MASTER, is_message_based=True), replace(FROM_MASTER, waits_for_master=True)],
)
def test_no_slave_helps_a_job_that_needs_masters(job: Job) -> None:
    (one,) = found(job, servers(ONLY_SLAVES, masters=()))
    assert one.line == f"problem: {NO_MASTER}."
    assert "readFrom" not in one.advice


def test_a_missing_master_whose_slave_was_not_checked_is_a_problem() -> None:
    (one,) = found(AUTO, servers(ONLY_SLAVES, masters=()))
    assert one.line == f"problem: {NO_MASTER}: its slave b:10911 was not checked."


def failed(error: RocketMQError) -> ServerFacts:
    return servers(BOTH, replace(SLAVE, failure=error))


def test_an_error_of_a_slave_names_the_map_of_addresses() -> None:
    mapped = replace(failed(REFUSED), address_map={"172.17.0.3:10911": "b:10911"})
    (one,) = found(AUTO, mapped)
    assert "slave of broker 'broker-a' at its address in 'brokerAddressMap' b:10911" in one.line
