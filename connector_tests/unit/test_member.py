"""The member's thread and its connections: it does not die unseen, holds nobody up, and keeps what it has opened."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from connector_tests.support.scripted_broker import ScriptedBroker, build_response
from connector_tests.support.scripted_cluster import NAME_SERVER, ScriptedCluster
from connector_tests.support.timeouts import WAIT_S
from rocketmq_spark.consumer import member as member_module
from rocketmq_spark.consumer.member import Member
from rocketmq_spark.model import BrokerAddress, MessageQueue, QueueRange
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.remoting import pool
from rocketmq_spark.remoting.connection import Connection
from rocketmq_spark.wire.body.task_report import ReportedLoss, TaskReport, encode_task_report
from rocketmq_spark.wire.remoting.codes import RequestCode, ResponseCode
from rocketmq_spark.wire.remoting.command import RemotingCommand

NO_SERVER = "127.0.0.1:1"
WAIT_MS = int(WAIT_S * 1000)
ROUNDS = 3


def fail() -> None:
    raise ZeroDivisionError("the thread")


def options(name_server: str) -> ReadOptions:
    given = {"namesrvAddr": name_server, "consumerGroup": "g", "subscribe": "orders", "brokerTimeoutMs": str(WAIT_MS)}
    return ReadOptions.parse(given)


@contextmanager
def member_of(cluster: ScriptedCluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[Member]:
    """One whose heartbeats follow each other closely."""
    monkeypatch.setattr(pool, "connect_with", lambda _tls: cluster.connect)
    monkeypatch.setattr(member_module, "HEARTBEAT_INTERVAL_MS", 20)
    member = Member(options(NAME_SERVER))
    member.start()
    try:
        yield member
    finally:
        member.stop()


class Heartbeats:
    """What brokers answer to heartbeats: each as usual up to ``limit`` of them, and nothing after that until
    ``resume`` is set."""

    def __init__(self, limit: int) -> None:
        self.resume = threading.Event()
        self.are_enough = threading.Event()
        self._left = limit
        self._counting = threading.Lock()

    def __call__(self, _request: RemotingCommand) -> RemotingCommand:
        with self._counting:
            self._left -= 1
            is_answered = self._left > 0
        if not is_answered:
            self.are_enough.set()
            self.resume.wait(WAIT_S)
        return build_response()


def received_by(brokers: list[ScriptedBroker], script: Callable[[RemotingCommand], RemotingCommand]) -> None:
    for broker in brokers:
        broker.on(RequestCode.HEART_BEAT, script)
        broker.on(RequestCode.UNREGISTER_CLIENT, build_response())


def test_what_ends_the_members_thread_wakes_the_planner_and_is_raised_by_its_next_refresh() -> None:
    member = Member(options(NO_SERVER), fail)
    member.start()
    try:
        assert member.wait_for_change({}, WAIT_MS)
        with pytest.raises(ZeroDivisionError, match="the thread"), member.group_lock() as membership:
            membership.refresh_metadata()
    finally:
        member.stop()


def test_more_than_64_brokers_keep_their_connections_from_one_round_of_heartbeats_to_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They name its members. Each round once connected to all of them again."""
    names = [f"broker-{number}" for number in range(70)]
    beats = Heartbeats(ROUNDS * len(names))
    with ScriptedCluster(*names) as cluster:
        brokers = list(cluster.brokers.values())
        received_by(brokers, beats)
        with member_of(cluster, monkeypatch):
            assert beats.are_enough.wait(WAIT_S)
            beats.resume.set()
        assert {broker.connect_count for broker in brokers} == {1}


def test_lost_connection_is_noticed_before_the_next_request(monkeypatch: pytest.MonkeyPatch) -> None:
    link = (BrokerAddress("broker-a:10911"), 1)
    beats = Heartbeats(limit=2)
    with ScriptedCluster("broker-a") as cluster:
        received_by(list(cluster.brokers.values()), beats)
        with member_of(cluster, monkeypatch) as member:
            assert beats.are_enough.wait(WAIT_S)
            beats.resume.set()
            assert not member.has_lost_connection([link])
            assert not member.has_lost_connection([None])
            member._pool.get("broker-a:10911").close()
            assert member.has_lost_connection([None, link])


def test_an_address_that_does_not_respond_to_a_heartbeat_holds_up_no_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slave that cannot be reached once kept the turn for as long as a request may take, every 30 s."""
    beats = Heartbeats(limit=4)
    with ScriptedCluster("broker-a") as cluster:
        received_by(list(cluster.brokers.values()), beats)
        with member_of(cluster, monkeypatch) as member:
            assert beats.are_enough.wait(WAIT_S)
            has_planned = threading.Event()

            def plan() -> None:
                with member.group_lock():
                    has_planned.set()

            planning = threading.Thread(target=plan)
            planning.start()
            is_free = has_planned.wait(WAIT_S / 4)
            beats.resume.set()
            planning.join()
    assert is_free


@pytest.mark.parametrize("prefix", ["", "0" * 32, None])
def test_report_that_is_not_of_a_task_costs_no_request_in_flight(prefix: str | None) -> None:
    """Any client may have the broker send one. An invalid one ended the connection. ``prefix`` None: the token."""
    member = Member(options(NO_SERVER))
    token = member.report_to.token if prefix is None else prefix
    lost = TaskReport((ReportedLoss(QueueRange(MessageQueue("orders", "broker-a", 0), 0, 2**63 - 1), "c"),))
    bodies = [f"{token}{{".encode(), *([] if prefix is None else [encode_task_report(lost, token)])]
    with ScriptedBroker() as broker:
        broker.unresponsive_on(RequestCode.PULL_MESSAGE)
        connection = Connection("broker-a:10911", broker.connect("broker-a:10911", 0), member._on_request)
        try:
            session = broker.next_session()
            pending = connection.submit(RemotingCommand(RequestCode.PULL_MESSAGE), WAIT_MS)
            pull = session.next_received()
            for opaque, body in enumerate(bodies):
                session.send(RemotingCommand(RequestCode.GET_CONSUMER_RUNNING_INFO, opaque=opaque, body=body))
                response = session.next_received()
                assert (response.opaque, response.code) == (opaque, ResponseCode.SUCCESS)
            session.reply(pull, build_response(remark="pulled"))
            assert pending.result().remark == "pulled"
        finally:
            connection.close()
    with member.group_lock() as membership:
        assert (membership.task_reports.take_losses(), membership.task_reports.take_sizes()) == (set(), [])


def test_each_member_accepts_other_reports() -> None:
    first, second = (Member(options(NO_SERVER)).report_to for _ in range(2))
    assert first.token != second.token
    assert len(first.token) == 2 * member_module.REPORT_TOKEN_BYTES
