"""What the doctor makes of facts: one problem at a time, and the order of several."""

from __future__ import annotations

import socket
from dataclasses import replace
from typing import Any

import pytest

from rocketmq_spark.doctor.diagnosis import Area, Diagnosis, Severity, in_order
from rocketmq_spark.doctor.facts import BrokerFacts, Environment, Job, RouteResult, ServerFacts, Trial
from rocketmq_spark.doctor.judgement import judge
from rocketmq_spark.errors import (
    BrokerError,
    OptionError,
    RemoteProtocolError,
    RocketMQError,
    RouteError,
    TransportError,
)
from rocketmq_spark.model import BrokerData, MessageFilter, MessageQueue, QueueBounds, QueueData, TopicRoute
from rocketmq_spark.wire.body.connections import GroupConnections, MemberConnection
from rocketmq_spark.wire.body.inspection import GroupSwitches
from rocketmq_spark.wire.body.subscription import SubscriptionData, build_subscription

SOUND = Environment((3, 11, 7), "4.3.0", "native")
READING = Job(topics=("orders",), group="g", is_member=True)
WRITING = Job(topics=("orders",), is_writing=True)
NS = "ns:9876"


def route(
    permission: int = 6, queues: int = 4, *, master: str | None = "a:10911", name: str = "broker-a"
) -> TopicRoute:
    addresses = {1: "b:10911"} if master is None else {0: master}
    return TopicRoute("orders", (BrokerData("c", name, addresses),), (QueueData(name, queues, queues, permission),))


def with_brokers(*brokers: BrokerFacts) -> ServerFacts:
    return ServerFacts(name_servers={NS: {"orders": route()}}, brokers=brokers)


def named(**results: RouteResult) -> ServerFacts:
    """Name servers ``a`` and ``b`` with their results for the topic."""
    return ServerFacts(name_servers={f"{name}:9876": {"orders": result} for name, result in results.items()})


def broker(name: str = "broker-a", **facts: Any) -> BrokerFacts:
    return BrokerFacts(name=name, server=f"{name}:10911", **facts)


def caused_by(cause: BaseException, error: RocketMQError) -> RocketMQError:
    error.__cause__ = cause
    return error


def connect_failed(cause: BaseException, reason: str = "it failed", address: str = NS) -> RocketMQError:
    return caused_by(cause, TransportError("CONNECT_FAILED", address=address, reason=reason))


def lines(
    servers: ServerFacts = ServerFacts(),  # noqa: B008  # frozen
    job: Job = READING,
    environment: Environment = SOUND,
    errors: tuple[OptionError, ...] = (),
) -> list[str]:
    return [one.line for one in judge(errors, environment, job, servers)]


def only(servers: ServerFacts, job: Job = READING, environment: Environment = SOUND) -> Diagnosis:
    (one,) = judge((), environment, job, servers)
    return one


def connections(client_ids: tuple[str, ...], model: str, *subscriptions: SubscriptionData) -> GroupConnections:
    members = tuple(MemberConnection(client_id, "h:1", "JAVA", 513) for client_id in client_ids)
    return GroupConnections(members, "CONSUME_PASSIVELY", model, {one.topic: one for one in subscriptions})


def test_a_sound_job_has_no_diagnosis() -> None:
    facts = broker(
        version=513,
        clock_ahead_ms=0,
        trials=(Trial("SUB", "reading", None),),
        switches=GroupSwitches(True, True),
        connections=connections(("m",), "CLUSTERING", build_subscription("orders", "*", 1)),
    )
    assert lines(with_brokers(facts)) == []


# ------------------------------------------------------------------------------------------------------- connections


@pytest.mark.parametrize(
    ("error", "line", "advice"),
    [
        (
            connect_failed(socket.gaierror()),
            "Cannot connect to name server ns:9876: the host name does not resolve.",
            "Correct 'namesrvAddr', or correct DNS on this machine.",
        ),
        (
            connect_failed(ConnectionRefusedError()),
            "Cannot connect to name server ns:9876: the host refuses connections on this port.",
            "Correct 'namesrvAddr', or start the server.",
        ),
        (
            connect_failed(TimeoutError()),
            "Cannot connect to name server ns:9876: no response to the attempt to connect.",
            "Correct 'namesrvAddr', or open the firewall between this machine and the server.",
        ),
        (
            connect_failed(OSError(), "Network is unreachable"),
            "Cannot connect to name server ns:9876: Network is unreachable.",
            "Correct 'namesrvAddr', and check the network.",
        ),
        (
            TransportError("RESPONSE_TIMED_OUT", address=NS, request="R", timeout_ms=3000),
            "No response from name server ns:9876: it accepts connections, and returned nothing for 3000 ms.",
            "Correct 'namesrvAddr' if that is not RocketMQ's port, else check the server's log and load.",
        ),
        (
            TransportError("CONNECTION_LOST", address=NS, reason="the server closed it."),
            "The connection to name server ns:9876 ended without a response: the server closed it.",
            "Correct 'namesrvAddr' if that is not RocketMQ's port, else check the server's log.",
        ),
        (
            RemoteProtocolError("FRAME_TOO_LARGE", peer=NS, length_bytes=9, limit_bytes=1),
            "Not a RocketMQ server: name server ns:9876: it responds in another protocol.",
            (
                "Correct 'namesrvAddr': RocketMQ's name servers use port 9876 by default, brokers 10911, proxies 8080 "
                "and 8081."
            ),
        ),
        (
            RemoteProtocolError("MALFORMED_FRAME", peer=NS, problem="short"),
            "Not a RocketMQ server: name server ns:9876: it responds in another protocol.",
            (
                "Correct 'namesrvAddr': RocketMQ's name servers use port 9876 by default, brokers 10911, proxies 8080 "
                "and 8081."
            ),
        ),
        (
            TransportError("TLS_CERTIFICATE_UNTRUSTED", address=NS, reason="certificate has expired"),
            "The TLS certificate of name server ns:9876 has expired.",
            "Renew the server's certificate. If it is valid, correct this machine's clock.",
        ),
        (
            TransportError("TLS_CERTIFICATE_UNTRUSTED", address=NS, reason="self-signed certificate"),
            "The certificate of ns:9876 is not trusted: self-signed certificate.",
            "Set 'tlsTrustCertPath' to a PEM file with this certificate, or with the certificate that signed it.",
        ),
        (
            TransportError("TLS_REQUIRED", address=NS),
            "ns:9876 requires TLS: it closed a plain connection without a response, and accepts TLS.",
            "Set 'useTLS' to true, and 'tlsTrustCertPath' unless the system trusts its certificate.",
        ),
        (
            TransportError("TLS_NOT_SUPPORTED", address=NS, reason="EOF"),
            (
                "The job has useTLS=true, and name server ns:9876 does not support TLS: it responds to plain "
                "requests only."
            ),
            "Set 'useTLS' to false, or set the server's 'tls.server.mode' to permissive or enforcing.",
        ),
        (
            OptionError("NOT_A_NAME_SERVER", address=NS, request="R"),
            "ns:9876 is not a name server, but probably a broker: it does not support R.",
            "Set 'namesrvAddr' to the name server's address. Its port is 9876 by default, a broker's is 10911.",
        ),
    ],
)
def test_a_name_server_that_fails_is_a_problem_with_its_cause(error: RocketMQError, line: str, advice: str) -> None:
    found = only(ServerFacts(name_servers={NS: {"orders": error}}))
    assert (found.line, found.advice) == (f"problem: {line}", advice)
    assert (found.condition, found.area) == (error.condition, Area.NAME_SERVERS)


DOWN = "warning: Cannot connect to name server a:9876: the host refuses connections on this port."
MISSING = RouteError("TOPIC_NOT_FOUND", topic="orders", address=NS)


def test_a_name_server_is_a_warning_if_another_one_responds() -> None:
    assert lines(named(a=connect_failed(ConnectionRefusedError()), b=route())) == [DOWN]


def test_a_name_server_that_has_no_route_responds() -> None:
    assert lines(named(a=connect_failed(ConnectionRefusedError()), b=MISSING)) == [
        "problem: Topic 'orders' not found: ns:9876 returned no route.",
        DOWN,
    ]


def test_a_route_counts_whichever_name_server_has_it() -> None:
    assert lines(named(a=MISSING, b=route())) == []
    assert lines(named(a=route(), b=MISSING)) == []


def test_a_broker_that_is_unreachable_is_reported_with_its_advertised_address() -> None:
    failed = connect_failed(TimeoutError(), address="broker-a:10911")
    found = only(with_brokers(broker(failure=failed)))
    assert found.line == (
        "problem: Cannot connect to broker 'broker-a' at its advertised address broker-a:10911: no response to the "
        "attempt to connect."
    )
    assert found.advice.startswith("Set the broker's 'brokerIP1' to an address that the driver and all executors can ")
    assert (found.area, found.places) == (Area.BROKERS, ("broker-a",))


def test_a_mapped_broker_that_is_unreachable_is_reported_with_its_address_in_the_map() -> None:
    failed = connect_failed(TimeoutError(), address="localhost:20911")
    mapped = with_brokers(replace(broker(failure=failed), server="localhost:20911"))
    found = only(replace(mapped, address_map={"172.17.0.3:10911": "localhost:20911"}))
    assert "broker 'broker-a' at its address in 'brokerAddressMap' localhost:20911" in found.line


def test_addresses_of_the_map_that_no_broker_advertises_are_a_warning() -> None:
    address_map = {"172.17.0.3:10911": "localhost:20911", "172.17.0.4:10911": "localhost:20912"}
    servers = ServerFacts(address_map=address_map, advertised=frozenset({"172.17.0.3:10911", "172.17.0.5:10911"}))
    found = only(servers)
    assert found.line == (
        "warning: 'brokerAddressMap' has addresses that no broker of these topics advertises: 172.17.0.4:10911."
    )
    assert found.advice == "Correct or remove them. Advertised are: 172.17.0.3:10911, 172.17.0.5:10911."
    assert lines(ServerFacts(address_map=address_map)) == []


def test_servers_that_were_not_checked_are_a_warning() -> None:
    assert lines(ServerFacts(unchecked=("broker b at b:1", "broker c at c:1"))) == [
        "warning: Not all servers were checked within the time limit: broker b at b:1, broker c at c:1."
    ]


def test_a_proxy_is_reported_with_each_of_its_errors() -> None:
    error = OptionError("NOT_A_GRPC_PROXY", address="p:8081", reason="it uses RocketMQ's remoting protocol")
    found = only(ServerFacts(proxies={"p:8081": (error,)}))
    assert found.line == (
        "problem: p:8081 is not the gRPC address of a RocketMQ 5 proxy: it uses RocketMQ's remoting protocol."
    )
    refused = connect_failed(ConnectionRefusedError(), address="q:8081")
    assert lines(ServerFacts(proxies={"p:8081": (), "q:8081": (refused,)})) == [
        "warning: Cannot connect to proxy q:8081: the host refuses connections on this port."
    ]


@pytest.mark.parametrize(
    ("reason", "cause"),
    [
        ("Connection refused", "the host refuses connections on this port"),
        ("DNS resolution failed for p:8081", "the host name does not resolve"),
        ("Domain name not found", "the host name does not resolve"),
        ("Network is unreachable", "Network is unreachable"),
    ],
)
def test_the_reasons_of_grpc_are_classified_by_their_texts(reason: str, cause: str) -> None:
    error = TransportError("CONNECT_FAILED", address="p:8081", reason=reason)
    found = only(ServerFacts(proxies={"p:8081": (error,)}))
    assert (found.problem, found.cause) == ("Cannot connect to proxy p:8081", cause)


# ------------------------------------------------------------------------------------------------------------ topics


@pytest.mark.parametrize(
    ("job", "permission", "queues", "line", "condition"),
    [
        (
            READING,
            2,
            4,
            "no read permission, or no read queue, on 'broker-a': permission 2 (write only), 4 read",
            "READ",
        ),
        (READING, 6, 0, "no read permission, or no read queue, on 'broker-a': permission 6 (both), 0 read", "READ"),
        (
            WRITING,
            4,
            4,
            "no write permission, or no write queue, on 'broker-a': permission 4 (read only), 4 write",
            "WRIT",
        ),
        (WRITING, 0, 4, "no write permission, or no write queue, on 'broker-a': permission 0 (none), 4 write", "WRIT"),
    ],
)
def test_a_topic_without_permission_is_a_problem(
    job: Job, permission: int, queues: int, line: str, condition: str
) -> None:
    found = only(ServerFacts(name_servers={NS: {"orders": route(permission, queues)}}), job)
    assert found.line == f"problem: Topic 'orders' has {line} queues."
    assert found.condition == f"TOPIC_UNAVAILABLE.NO_{condition}ABLE_QUEUE"
    assert "mqadmin updateTopic -t orders -p 6" in found.advice


def test_a_topic_that_one_of_two_brokers_does_not_let_read_is_a_warning() -> None:
    both = TopicRoute(
        "orders",
        (BrokerData("c", "a", {0: "a:1"}), BrokerData("c", "b", {0: "b:1"})),
        (QueueData("a", 4, 4, 6), QueueData("b", 4, 4, 2)),
    )
    found = only(ServerFacts(name_servers={NS: {"orders": both}}))
    assert (found.severity, "on 'b': permission 2 (write only)" in found.line) == (Severity.WARNING, True)


def test_a_broker_without_a_master_is_a_problem() -> None:
    found = only(ServerFacts(name_servers={NS: {"orders": route(master=None)}}))
    assert found.line == (
        "problem: Broker 'broker-a' of topic 'orders' has no master in the route: readFrom=master does not read its "
        "slave b:10911."
    )


# ------------------------------------------------------------------------------------------------------- permissions


def refused(condition: str, **context: str) -> BrokerError:
    return BrokerError(condition, address="a:10911", request="PULL_MESSAGE", code=16, remark="no", **context)


def test_a_denied_topic_is_reported_with_the_missing_permission() -> None:
    trial = Trial("SUB", "reading topic 'orders'", refused("TOPIC_DENIED", topic="orders"))
    found = only(with_brokers(broker(trials=(trial,))))
    assert found.line == (
        "problem: The user of 'accessKey' lacks SUB on Topic:orders: a:10911 denied PULL_MESSAGE, required for reading "
        "topic 'orders'."
    )
    assert "mqadmin updateAcl -s User:<accessKey> -r Topic:orders -a SUB -d Allow" in found.advice


def test_a_denied_group_is_a_warning_if_the_job_runs_without_it() -> None:
    trial = Trial("GET", "comparing members", refused("GROUP_DENIED", group="g"), is_required=False)
    found = only(with_brokers(broker(trials=(trial,))))
    assert found.line.startswith("warning: The user of 'accessKey' lacks GET on Group:g: ")


@pytest.mark.parametrize(
    ("error", "line", "area"),
    [
        (refused("CREDENTIALS_REJECTED"), "a:10911 rejected the credentials of PULL_MESSAGE: no", Area.CREDENTIALS),
        (
            refused("CREDENTIALS_MISSING"),
            "a:10911 requires signed requests, and PULL_MESSAGE was not signed: no",
            Area.CREDENTIALS,
        ),
        (
            refused("GROUP_NOT_FOUND.BROKER"),
            (
                "Group 'g' does not exist: broker 'broker-a' does not create it, because its "
                "'autoCreateSubscriptionGroup' is false"
            ),
            Area.GROUP,
        ),
        (
            refused("PULL_REJECTED"),
            "Broker 'broker-a' rejects all pulls: its 'rejectPullConsumerEnable' is true",
            Area.GROUP,
        ),
        (
            refused("TOPIC_RESERVED", topic="orders"),
            "a:10911 rejected PULL_MESSAGE: topic 'orders' is reserved for RocketMQ itself. no",
            Area.TOPICS,
        ),
    ],
)
def test_a_refusal_is_reported_with_the_advice_of_its_condition(error: BrokerError, line: str, area: Area) -> None:
    found = only(with_brokers(broker(trials=(Trial("SUB", "reading", error),))))
    assert (found.line, found.area, found.condition) == (f"problem: {line}.", area, error.condition)


def test_a_disabled_group_is_found_by_its_pull_too() -> None:
    """Its settings require GET on the group."""
    error = BrokerError(
        "BROKER_ERROR",
        address="a",
        request="PULL_MESSAGE",
        code=16,
        code_name="NO_PERMISSION",
        remark="subscription group no permission, g",
    )
    facts = broker(trials=(Trial("SUB", "reading", error),), switches=GroupSwitches(False, True))
    assert only(with_brokers(facts)).condition == "GROUP_CONSUME_DISABLED"
    assert only(with_brokers(broker(trials=facts.trials))).condition == "GROUP_CONSUME_DISABLED"


def test_other_refusals_of_a_trial_are_no_problem() -> None:
    """The trial's queue does not exist."""
    error = BrokerError(
        "BROKER_ERROR", address="a", request="SEND_MESSAGE_V2", code=1, code_name="SYSTEM_ERROR", remark="illegal queue"
    )
    assert lines(with_brokers(broker(trials=(Trial("PUB", "writing", error),))), WRITING) == []


# ------------------------------------------------------------------------------------------------------------- group


def test_a_disabled_group_is_a_problem() -> None:
    found = only(with_brokers(broker(switches=GroupSwitches(False, True))))
    assert (
        found.line == "problem: Group 'g' is not allowed to consume: its 'consumeEnable' is false on broker 'broker-a'."
    )
    assert "mqadmin updateSubGroup -g g -c <cluster> -s true" in found.advice


def test_a_group_that_must_not_broadcast_is_a_problem_of_a_job_that_does() -> None:
    facts = with_brokers(broker(switches=GroupSwitches(True, False)))
    assert lines(facts) == []
    broadcasting = Job(topics=("orders",), group="g", is_member=True, message_model="BROADCASTING")
    assert lines(facts, broadcasting) == [
        (
            "problem: Group 'g' is not allowed to consume with messageModel=BROADCASTING: its "
            "'consumeBroadcastEnable' is false on broker 'broker-a'."
        )
    ]


def connected(*subscriptions: SubscriptionData, model: str = "CLUSTERING") -> ServerFacts:
    return with_brokers(broker(connections=connections(("m2", "m1"), model, *subscriptions)))


def test_members_with_another_message_model_are_a_problem() -> None:
    found = only(connected(build_subscription("orders", "*", 1), model="BROADCASTING"))
    assert found.line == (
        "problem: Group 'g' has members with messageModel=BROADCASTING, and this job has CLUSTERING: member m1 and 1 "
        "more on broker 'broker-a'."
    )


@pytest.mark.parametrize(
    ("theirs", "shown"),
    [
        ((build_subscription("payments", "*", 1),), "payments (*)"),
        ((build_subscription("orders", "B || A", 1),), "orders (A || B)"),
        ((SubscriptionData("orders", "a > 1", frozenset(), frozenset(), 1, "SQL92"),), "orders (a > 1)"),
        ((), "nothing"),
    ],
)
def test_members_with_another_subscription_are_a_problem(theirs: tuple[SubscriptionData, ...], shown: str) -> None:
    found = only(connected(*theirs))
    assert found.line.startswith(
        f"problem: Group 'g' has members with another subscription: {shown}, and this job has orders (*): member m1 "
    )
    assert found.condition == "INCONSISTENT_SUBSCRIPTION"


def test_members_that_differ_in_the_retry_topic_only_are_sound() -> None:
    theirs = (build_subscription("orders", "A||B", 1), build_subscription("%RETRY%g", "*", 1))
    job = Job(topics=("orders",), group="g", is_member=True, message_filter=MessageFilter("B || A", "TAG"))
    assert lines(connected(*theirs), job) == []


def test_a_job_that_is_no_member_is_not_compared() -> None:
    assert lines(connected(), Job(topics=("orders",), group="g")) == []
    assert lines(connected(), Job(topics=("orders",))) == []


def test_offsets_that_are_deleted_and_not_read_are_a_problem() -> None:
    first, second, third = (MessageQueue("orders", "broker-a", queue_id) for queue_id in range(3))
    bounds = {first: QueueBounds(9, 20), second: QueueBounds(7, 20), third: QueueBounds(5, 20)}
    facts = with_brokers(broker(bounds=bounds, committed={third: 4, second: 7, first: 2}))
    starting = replace(READING, starts_at_group=True)
    found = only(facts, starting)
    assert found.line == (
        "problem: Broker 'broker-a' has deleted 8 offsets that group 'g' has not read: retention deleted "
        "orders@broker-a:0[2,9), the first of 2 ranges."
    )
    assert found.condition == "DATA_LOSS.OFFSETS_UNAVAILABLE"
    assert lines(facts) == []
    assert lines(with_brokers(broker(bounds=bounds, committed={second: 7})), starting) == []


# ------------------------------------------------------------------------------------------- clocks and versions


@pytest.mark.parametrize(
    ("ahead_ms", "is_message_based", "line"),
    [
        (1_000, False, None),
        (-1_000, False, None),
        (1_001, False, "warning: The clock of broker 'broker-a' is 1 s or more ahead of this machine's."),
        (-5_200, False, "warning: The clock of broker 'broker-a' is 5 s or more behind this machine's."),
        (1_999, True, "warning: The clock of broker 'broker-a' is 1 s or more ahead of this machine's."),
        (2_000, True, "problem: The clock of broker 'broker-a' is 2 s or more ahead of this machine's."),
        (-9_000, True, "warning: The clock of broker 'broker-a' is 9 s or more behind this machine's."),
    ],
)
def test_clock_skew_over_a_second_is_reported(ahead_ms: int, is_message_based: bool, line: str | None) -> None:
    job = Job(topics=("orders",), group="g", is_message_based=is_message_based)
    assert lines(with_brokers(broker(clock_ahead_ms=ahead_ms)), job) == ([] if line is None else [line])


@pytest.mark.parametrize(
    ("version", "is_message_based", "line"),
    [
        (0, False, None),
        (391, False, "problem: Broker 'broker-a' has a RocketMQ before 4.9, which is too old."),
        (392, False, None),
        (407, False, None),
        (407, True, "problem: Broker 'broker-a' has RocketMQ 4.9.7, and loadBalance=message needs 5.0."),
        (412, True, None),
        (513, False, None),
        (533, False, "warning: Broker 'broker-a' has RocketMQ 5.6.0, which is untested."),
    ],
)
def test_the_version_of_a_broker_is_checked(version: int, is_message_based: bool, line: str | None) -> None:
    job = Job(topics=("orders",), group="g", is_message_based=is_message_based)
    assert lines(with_brokers(broker(version=version)), job) == ([] if line is None else [line])


@pytest.mark.parametrize(
    ("environment", "line"),
    [
        (Environment((3, 10, 1), "4.3.0", "native"), "problem: Python 3.10.1 is too old."),
        (Environment((3, 14, 0), "4.3.0", "native"), "warning: Python 3.14.0 is untested."),
        (Environment((3, 13, 0), "4.0.1", "python"), None),
        (Environment((3, 11, 7), None, "native"), "problem: PySpark is not installed in this Python."),
        (Environment((3, 11, 7), "3.5.1", "native"), "problem: PySpark 3.5.1 is too old."),
        (Environment((3, 11, 7), "4.4.0", "native"), "warning: PySpark 4.4.0 is untested."),
        (Environment((3, 11, 7), "unknown", "native"), None),
    ],
)
def test_python_and_pyspark_are_checked(environment: Environment, line: str | None) -> None:
    assert lines(environment=environment) == ([] if line is None else [line])


def test_a_decoder_that_is_configured_and_missing_is_a_problem() -> None:
    error = OptionError("NATIVE_DECODER_UNAVAILABLE", variable="ROCKETMQ_SPARK_IMPL", problem="not built")
    found = only(ServerFacts(), environment=Environment((3, 11, 7), "4.3.0", error))
    assert (found.condition, found.area) == ("NATIVE_DECODER_UNAVAILABLE", Area.ENVIRONMENT)


# ------------------------------------------------------------------------------------------------------------- order


def test_the_most_likely_cause_is_first() -> None:
    trials = (
        Trial("GET", "offsets", refused("TOPIC_DENIED", topic="orders")),
        Trial("SUB", "reading", refused("CREDENTIALS_REJECTED")),
    )
    error = OptionError("UNKNOWN_OPTION", option="subscibe", suggestion="Did you mean 'subscribe'?")
    facts = with_brokers(broker(trials=trials, clock_ahead_ms=9_000, switches=GroupSwitches(False, True)))
    found = judge((error,), Environment((3, 10, 0), "4.3.0", "python"), READING, facts)
    assert [one.area for one in found] == [
        Area.OPTIONS,
        Area.ENVIRONMENT,
        Area.CREDENTIALS,
        Area.PERMISSIONS,
        Area.GROUP,
        Area.CLOCK,
    ]


def diagnosis(problem: str, place: str = "", severity: Severity = Severity.PROBLEM, subject: str = "") -> Diagnosis:
    return Diagnosis(
        area=Area.GROUP, condition="C", problem=problem, advice="do", place=place, severity=severity, subject=subject
    )


def test_brokers_that_share_a_problem_are_listed_once() -> None:
    (one,) = in_order([diagnosis("at a", "a"), diagnosis("at b", "b"), diagnosis("at b", "b")])
    assert (one.problem, one.places) == ("at a", ("a", "b"))


def test_different_problems_of_one_condition_stay_apart() -> None:
    warning, first = diagnosis("w", severity=Severity.WARNING), diagnosis("x", "a", subject="x")
    found = in_order([warning, first, diagnosis("y", "a", subject="y"), diagnosis("z"), diagnosis("v")])
    shown = ["problem: x.", "problem: y.", "problem: z.", "problem: v.", "warning: w."]
    assert [one.line for one in found] == shown


def test_a_line_is_one_line() -> None:
    assert diagnosis("a\nb").line == r"problem: a\nb."
