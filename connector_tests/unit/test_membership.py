from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

import pytest

from connector_tests.support.manual_clock import ManualClock
from connector_tests.support.refusals import refused
from connector_tests.support.simulated_cluster import (
    ClusterDoor,
    Connection,
    Reach,
    SimulatedBroker,
    SimulatedCluster,
)
from rocketmq_spark.consumer.group_members import (
    GROUP,
    IDENTITY,
    LISTED_WITHIN_MS,
    NAMESAKE_LIMIT_MS,
    NEWCOMER_LIMIT_MS,
    SUBSCRIPTIONS,
)
from rocketmq_spark.consumer.local_offset_store import LocalFileOffsetStore, decode_offsets
from rocketmq_spark.consumer.manner import STRATEGY
from rocketmq_spark.consumer.membership import Membership
from rocketmq_spark.consumer.outages import broker_subject
from rocketmq_spark.errors import BrokerError, MembershipError, TransportError
from rocketmq_spark.model import MessageQueue
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.remoting.retry import ASKING
from rocketmq_spark.wire.remoting.codes import ResponseCode

QUEUES = tuple(MessageQueue("orders", "broker-a", queue_id) for queue_id in range(4))


class Group:
    """A cluster of one broker, with a topic of four queues, and one member of whatever is in its group."""

    def __init__(self, *others: str, subscriptions: dict[str, dict[str, str]] | None = None) -> None:
        self.clock = ManualClock()
        self.cluster = SimulatedCluster(["broker-a"], self.clock)
        self.cluster.create_topic("orders", {"broker-a": len(QUEUES)})
        self.cluster.subscriptions = subscriptions or {}
        self.cluster.set_others(*others)

    @property
    def broker(self) -> SimulatedBroker:
        return self.cluster.brokers["broker-a"]

    @property
    def locked(self) -> set[MessageQueue]:
        """By our member."""
        return {queue for queue, (client_id, _) in self.broker.locks.items() if client_id == "me"}

    def lock_for_another(self, queue: MessageQueue) -> None:
        self.broker.locks[queue] = ("you", self.clock())

    def member(self, **given: str) -> Membership:
        required = {"namesrvAddr": "n:9876", "consumerGroup": "g", "subscribe": "orders"}
        options, door = ReadOptions.parse({**required, **given}), ClusterDoor(self.cluster, "our connection")
        return Membership(options, "me", door, self.clock, self.clock, started_ms=1)


def lives(member: Membership) -> dict[MessageQueue, int]:
    return {held.queue: held.life for held in member.process_queues}


def test_a_member_alone_owns_every_queue() -> None:
    assert Group().member().survey().owned == set(QUEUES)


@pytest.mark.parametrize(
    ("option", "value", "told"),
    [
        ("startingOffsets", "earliest", "CONSUME_FROM_FIRST_OFFSET"),
        ("startingOffsets", "latest", "CONSUME_FROM_LAST_OFFSET"),
        ("startingTimestamp", "5000", "CONSUME_FROM_TIMESTAMP"),
    ],
)
def test_heartbeats_tell_where_the_member_consumes_from(option: str, value: str, told: str) -> None:
    assert Group().member(**{option: value}).members.we.consume_from_where == told


KEYS = {"accessKey": "me", "secretKey": "s"}


@pytest.mark.parametrize(("given", "pending"), [({}, {}), (KEYS, {QUEUES[0]: 3})])
def test_who_signs_looks_for_its_own_group_and_keeps_the_resets_that_it_is_told(
    given: dict[str, str], pending: dict[MessageQueue, int]
) -> None:
    """Else the mark stays, for the first pull."""
    group = Group()
    group.cluster.produce(QUEUES[0], 9)
    member = group.member(**given)
    member.survey()
    group.broker.reset(QUEUES[0], 3)
    assert member.servers.stored_at({QUEUES[0]: 8}).keys() == {QUEUES[0]}
    assert member.pending_resets() == pending
    assert group.broker.marks == ({} if pending else {QUEUES[0]: 3})


def test_a_group_that_a_broker_does_not_know_ends_the_wait_to_be_listed() -> None:
    group = Group()
    group.broker.hears_nothing = True
    member = group.member()
    assert member.survey().owned == set()
    group.broker.group_refusal = BrokerError(
        "GROUP_NOT_FOUND", address="a:1", request="PULL_MESSAGE", code=26, remark="there is no g"
    )
    group.cluster.asked_for_groups.clear()
    with pytest.raises(BrokerError, match=r"GROUP_NOT_FOUND.*there is no g"):
        member.survey()
    assert group.cluster.asked_for_groups == [QUEUES[0].topic]


REFUSED_TO_US = BrokerError("TOPIC_FORBIDDEN", address="a:1", request="PULL", code=16, remark="not you", topic="orders")


def test_what_is_refused_to_us_alone_is_not_waited_for() -> None:
    group = Group()
    member = group.member()
    member.survey()
    group.broker.look_refusal = REFUSED_TO_US
    with pytest.raises(BrokerError, match="TOPIC_FORBIDDEN"):
        member.servers.stored_at({QUEUES[0]: 0})


@pytest.mark.parametrize("condition", ["TLS_WANTED", "CONNECT_FAILED"])
def test_name_servers_that_will_not_let_us_in_are_not_waited_for(condition: str) -> None:
    group = Group()
    group.cluster.name_server_error = TransportError(condition, address="n:9876", reason="it says no more")
    member = group.member()
    if condition == "CONNECT_FAILED":
        assert not member.survey().is_complete
    else:
        with pytest.raises(TransportError, match="TLS_WANTED"):
            member.survey()


def test_a_newcomer_with_a_taken_client_id_owns_nothing_until_the_other_is_gone() -> None:
    group = Group("me")
    newcomer = group.member()
    assert newcomer.survey().owned == set()
    assert not newcomer.survey().is_complete
    group.cluster.set_others()
    assert newcomer.survey().owned == set(QUEUES)


def test_a_newcomer_with_a_taken_client_id_fails_after_two_minutes_and_names_it() -> None:
    group = Group("me")
    newcomer = group.member()
    newcomer.survey()
    group.clock.advance(NAMESAKE_LIMIT_MS)
    with pytest.raises(MembershipError, match=r"DUPLICATE_CLIENT_ID.*'g'.*'me'"):
        newcomer.survey()


def test_who_was_alone_with_its_client_id_keeps_its_queues_when_another_takes_it() -> None:
    group = Group()
    first = group.member()
    first.survey()
    group.cluster.set_others("me")
    assert first.survey().owned == set(QUEUES)


def test_an_orderly_member_owns_only_what_it_could_lock() -> None:
    group = Group()
    group.lock_for_another(QUEUES[1])
    orderly = group.member(consumeOrderly="true")
    assert orderly.survey().owned == set(QUEUES) - {QUEUES[1]}
    del group.broker.locks[QUEUES[1]]
    orderly.retry_locks()
    assert orderly.survey().owned == set(QUEUES)


def test_an_orderly_queue_with_an_unproven_range_is_released_only_when_it_is_proven_and_committed() -> None:
    group = Group()
    orderly = group.member(consumeOrderly="true")
    orderly.survey()
    orderly.take({QUEUES[3]: (0, 10)})
    group.cluster.set_others("you")
    assert orderly.survey().owned == {QUEUES[0], QUEUES[1]}
    assert group.locked == {QUEUES[0], QUEUES[1], QUEUES[3]}
    orderly.prove({QUEUES[3]: 10})
    assert group.broker.offsets == {QUEUES[3]: 10}
    assert group.locked == {QUEUES[0], QUEUES[1]}


def test_a_concurrent_queue_is_released_at_once_and_what_is_proven_later_is_not_committed() -> None:
    group = Group()
    concurrent = group.member()
    concurrent.survey()
    concurrent.take({QUEUES[3]: (0, 10)})
    group.cluster.set_others("you")
    assert concurrent.survey().owned == {QUEUES[0], QUEUES[1]}
    concurrent.prove({QUEUES[3]: 10})
    assert group.broker.offsets == {}
    assert concurrent.late_proofs == 1


def test_a_proof_is_late_when_its_queue_has_another_life_by_then_or_none_and_is_counted_once() -> None:
    group = Group()
    member = group.member()
    member.survey()
    stays, comes_back, goes, _unplanned = QUEUES
    member.take({stays: (0, 10), comes_back: (0, 10), goes: (0, 10)})
    before = lives(member)
    for others in (("x", "y", "z"), (), ("x",)):
        group.cluster.set_others(*others)
        member.survey()
    assert lives(member) == {stays: before[stays], comes_back: 5}
    for _ in range(2):
        member.prove(dict.fromkeys(QUEUES, 10))
    assert member.late_proofs == 2


def test_leaving_keeps_the_locks_of_queues_with_unproven_ranges() -> None:
    group = Group()
    orderly = group.member(consumeOrderly="true")
    orderly.survey()
    orderly.take({QUEUES[0]: (0, 10)})
    orderly.leave()
    assert group.locked == {QUEUES[0]}
    assert group.broker.consumer_ids() == []


def test_a_lock_that_may_have_expired_is_renewed_before_anything_is_planned() -> None:
    group = Group()
    orderly = group.member(consumeOrderly="true")
    orderly.survey()
    group.clock.advance(30_000)
    group.lock_for_another(QUEUES[2])
    assert orderly.survey().owned == set(QUEUES) - {QUEUES[2]}


def test_a_refused_commit_tells_where_the_operator_has_reset_the_queue_to() -> None:
    group = Group()
    group.broker.reset(QUEUES[0], 7)
    member = group.member()
    member.survey()
    assert member.offsets.raise_to({QUEUES[0]: 50, QUEUES[1]: 50}) == {QUEUES[1]}
    assert member.pending_resets() == {QUEUES[0]: 7}
    assert member.offsets.raise_to({QUEUES[0]: 50}) == set(), "nor while it is pending and the mark is gone"
    assert group.broker.offsets[QUEUES[0]] == 7
    assert member.offsets.lower_to({QUEUES[0]: 7}) == {QUEUES[0]}


class LosesOne(SimulatedBroker):
    """Confirms several first offsets that come at once, and has one less then."""

    def store(self, offsets: Mapping[MessageQueue, int]) -> None:
        were_there = bool(self.offsets)
        super().store(offsets)
        if not were_there:
            self.offsets.pop(QUEUES[1])


class FallsSilent(LosesOne):
    """And answers nothing after that."""

    def store(self, offsets: Mapping[MessageQueue, int]) -> None:
        super().store(offsets)
        self.reach = Reach.SILENT


def with_broker(kind: type[SimulatedBroker]) -> Group:
    group = Group()
    group.cluster.brokers["broker-a"] = kind("broker-a", group.clock, stored_ms=group.broker.stored_ms)
    return group


def test_a_first_offset_that_a_broker_confirmed_and_lost_is_told_again() -> None:
    """Its queue looked new then, and with ``latest`` it was read from its first message instead of from its end."""
    group = with_broker(LosesOne)
    member = group.member()
    member.survey()
    assert member.offsets.raise_to({QUEUES[0]: 50, QUEUES[1]: 60}) == {QUEUES[0], QUEUES[1]}
    assert group.broker.offsets == {QUEUES[0]: 50, QUEUES[1]: 60}


def test_a_first_offset_that_cannot_be_looked_at_again_is_not_confirmed() -> None:
    member = with_broker(FallsSilent).member()
    member.survey()
    assert member.offsets.raise_to({QUEUES[0]: 50, QUEUES[1]: 60}) == set()


def committed_to(group: Group, offset: int) -> Membership:
    """A member whose first queue has been read and committed so far, and whose next batch of it is planned."""
    member = group.member()
    member.survey()
    member.take({QUEUES[0]: (0, offset)})
    member.prove({QUEUES[0]: offset})
    member.take({QUEUES[0]: (offset, 2 * offset)})
    return member


@pytest.mark.parametrize("offset", [3, 10, 15])
def test_a_reset_during_a_batch_is_learned_with_its_proof_and_wins_over_it(offset: int) -> None:
    group = Group()
    member = committed_to(group, 10)
    group.broker.reset(QUEUES[0], offset)
    before = member.publish().changes
    member.prove({QUEUES[0]: 20})
    assert (group.broker.offsets, group.broker.marks) == ({QUEUES[0]: offset}, {})
    assert member.publish().changes > before
    assert member.pending_resets() == {QUEUES[0]: offset}
    assert member.offsets.persist(), "what was proven above it needs no telling any more"
    assert member.offsets.lower_to({QUEUES[0]: offset}) == {QUEUES[0]}
    member.offsets.persist()
    assert group.broker.offsets == {QUEUES[0]: offset}


def test_a_lower_offset_over_an_unbroken_connection_is_a_reset_whose_mark_somebody_has_taken() -> None:
    """A pull of an executor was told, and the proof of its batch used to be written over the operator's word."""
    group = Group()
    member = committed_to(group, 10)
    group.broker.reset(QUEUES[0], 3)
    group.broker.marks.clear()
    before = member.publish().changes
    member.prove({QUEUES[0]: 20})
    assert group.broker.offsets == {QUEUES[0]: 3}
    assert member.publish().changes > before
    assert member.pending_resets() == {QUEUES[0]: 3}


def test_a_lower_offset_after_the_connection_was_lost_is_no_reset() -> None:
    """A broker that was killed forgets what was committed in its last seconds."""
    group = Group()
    member = committed_to(group, 10)
    group.broker.restart()
    group.broker.offsets[QUEUES[0]] = 3
    member.prove({QUEUES[0]: 20})
    assert group.broker.offsets == {QUEUES[0]: 20}
    assert member.pending_resets() == {}


def test_a_lower_offset_that_was_never_confirmed_to_us_is_no_reset() -> None:
    """It is how far the last owner has come."""
    group = Group()
    group.broker.offsets[QUEUES[0]] = 3
    member = group.member()
    member.survey()
    assert member.offsets.raise_to({QUEUES[0]: 10}) == {QUEUES[0]}
    assert group.broker.offsets == {QUEUES[0]: 10}


def test_nothing_is_written_where_the_groups_offset_has_vanished() -> None:
    """The topic may be another one of the same name, and the next owner would take our number for its own."""
    group = Group()
    member = committed_to(group, 10)
    group.broker.make_anew(QUEUES[0])
    before = member.publish().changes
    member.prove({QUEUES[0]: 20})
    member.offsets.persist()
    assert group.broker.offsets == {}
    assert member.offsets.doubtful == {QUEUES[0]}
    assert member.publish().changes == before + 1
    member.offsets.forget(QUEUES[0])
    assert member.offsets.raise_to({QUEUES[0]: 20}) == {QUEUES[0]}
    assert group.broker.offsets == {QUEUES[0]: 20}


def test_what_is_proven_is_persisted_before_a_queue_is_dropped() -> None:
    group = Group()
    member = group.member()
    member.survey()
    member.offsets.prove(QUEUES[3], 7)
    group.cluster.set_others("you")
    assert QUEUES[3] not in member.survey().owned
    assert group.broker.offsets == {QUEUES[3]: 7}


def test_what_the_broker_of_a_lost_queue_did_not_store_is_not_written_later() -> None:
    """Its next owner may have begun anew from an operator's reset, or read on: the offset is that member's to tell."""
    group = Group()
    group.broker.write_refusal = TransportError("RESPONSE_TIMED_OUT", address="broker-a:1", request="X", timeout_ms=1)
    member = group.member()
    member.survey()
    member.offsets.prove(QUEUES[0], 7)
    member.offsets.prove(QUEUES[3], 7)
    group.cluster.set_others("you")
    assert QUEUES[3] not in member.survey().owned
    group.broker.write_refusal = None
    group.clock.advance(ASKING.longest_ms)
    assert member.offsets.persist()
    assert group.broker.offsets == {QUEUES[0]: 7}


class LocksSlowly(SimulatedBroker):
    """Ten seconds, within a client's patience."""

    def lock(self, client_id: str, queues: Collection[MessageQueue]) -> set[MessageQueue]:
        granted = super().lock(client_id, queues)
        assert isinstance(self.clock, ManualClock)
        self.clock.advance(10_000)
        return granted


def test_a_locks_time_counts_from_before_it_was_asked_for() -> None:
    """The broker counts from some moment before its answer; from after it, two members could hold one lock."""
    group = with_broker(LocksSlowly)
    orderly = group.member(consumeOrderly="true")
    asked_ms = group.clock()
    orderly.survey()
    told = orderly.publish().view.process_queues
    assert {told[queue].last_lock_timestamp_ms for queue in QUEUES} == {asked_ms}


def test_a_lock_is_forgotten_with_its_queue() -> None:
    """Another member may have it since: trusted on, one queue would have two owners."""
    group = Group()
    orderly = group.member(consumeOrderly="true")
    orderly.survey()
    group.cluster.set_others("you")
    assert QUEUES[3] not in orderly.survey().owned
    group.lock_for_another(QUEUES[3])
    group.cluster.set_others()
    assert orderly.survey().owned == set(QUEUES) - {QUEUES[3]}


def test_a_reset_is_forgotten_with_its_queue() -> None:
    group = Group()
    member = group.member()
    member.survey()
    member.resets.note(QUEUES[3], 3)
    group.cluster.set_others("you")
    assert QUEUES[3] not in member.survey().owned
    group.cluster.set_others()
    assert QUEUES[3] in member.survey().owned
    assert member.pending_resets() == {}


def test_a_recovering_member_finds_marks_before_it_owns_anything() -> None:
    group = Group()
    group.broker.reset(QUEUES[0], 3)
    member = group.member()
    member.resets.look_for(QUEUES)
    assert group.broker.marks == {}
    member.survey()
    assert member.pending_resets() == {QUEUES[0]: 3}


@pytest.mark.parametrize(
    "code", [ResponseCode.INVALID_PARAMETER, ResponseCode.TOPIC_NOT_EXIST, ResponseCode.NO_PERMISSION]
)
def test_a_queue_that_a_broker_does_not_serve_has_no_mark(code: int) -> None:
    """A restart failed at once where a logged queue was gone, and could be told by no option to give it up."""
    group = Group()
    group.broker.look_refusal = refused(code)
    member = group.member()
    member.resets.look_for(QUEUES)
    assert member.pending_resets() == {}
    group.broker.look_refusal = refused(ResponseCode.MESSAGE_ILLEGAL)
    with pytest.raises(BrokerError, match=str(ResponseCode.MESSAGE_ILLEGAL.value)):
        member.resets.look_for(QUEUES)


class NoFile:
    """Offsets that are kept in memory."""

    def read(self) -> tuple[None, None]:
        return None, None

    def write(self, content: bytes, *, keep_last: bool) -> None:
        self.content = content


def test_in_broadcasting_each_member_owns_every_queue_and_the_brokers_keep_no_offset() -> None:
    group, file = Group("you"), NoFile()
    given = {"namesrvAddr": "n:9876", "consumerGroup": "g", "subscribe": "orders", "messageModel": "BROADCASTING"}
    options, door = ReadOptions.parse({**given, "instanceName": "one"}), ClusterDoor(group.cluster, "our connection")
    store = LocalFileOffsetStore(file)
    member = Membership(options, "me", door, group.clock, group.clock, started_ms=1, local_offsets=store)
    assert member.survey().owned == set(QUEUES)
    assert member.members.we.message_model == "BROADCASTING"
    member.take({QUEUES[0]: (0, 10)})
    member.prove({QUEUES[0]: 10})
    assert decode_offsets(file.content) == {QUEUES[0]: 10}
    assert group.broker.offsets == {}


# ---------------------------------------------------------------------------------------------------- subscriptions


def told_topics(connection: Connection) -> list[str]:
    assert connection.heartbeat is not None
    return [subscription.topic for subscription in connection.heartbeat.consumers[0].subscriptions]


@pytest.mark.parametrize("reads_it", ["true", "false"])
def test_a_heartbeat_names_the_retry_topic_whoever_reads_it(reads_it: str) -> None:
    group = Group()
    member = group.member(retryTopic=reads_it)
    member.survey()
    (connection,) = group.broker.connections.values()
    assert told_topics(connection) == ["orders", "%RETRY%g"]
    assert ("%RETRY%g" in {one.topic for one in member.members.we.subscriptions}) == (reads_it == "true")


def test_a_newcomer_that_differs_owns_nothing_fails_soon_and_names_both() -> None:
    group = Group("you", subscriptions={"you": {"orders": "TagA", "bills": "*"}})
    newcomer = group.member()
    assert newcomer.survey().owned == set()
    group.clock.advance(NEWCOMER_LIMIT_MS)
    difference = r"SUBSCRIPTIONS_DIFFER.*'g'.*'me' to orders \(\*\); 'you' to bills \(\*\), orders \(TagA\)"
    with pytest.raises(MembershipError, match=difference):
        newcomer.survey()
    assert newcomer.process_queues == ()


def test_a_newcomer_waits_for_a_predecessor_with_the_old_subscription_that_is_leaving() -> None:
    group = Group("old", subscriptions={"old": {"orders": "TagA"}})
    newcomer = group.member()
    assert newcomer.survey().owned == set()
    group.clock.advance(NEWCOMER_LIMIT_MS - 1)
    assert newcomer.survey().owned == set()
    group.cluster.set_others()
    assert newcomer.survey().owned == set(QUEUES)


def test_a_newcomer_that_differs_waits_no_longer_than_the_user_allows() -> None:
    group = Group("you", subscriptions={"you": {"bills": "*"}})
    newcomer = group.member(clusterTimeoutMs="1000")
    newcomer.survey()
    group.clock.advance(1_000)
    with pytest.raises(MembershipError, match="SUBSCRIPTIONS_DIFFER"):
        newcomer.survey()


def unlisted(group: Group, **given: str) -> Membership:
    """The brokers have lost a member, and list everybody else."""
    member = group.member(**given)
    member.survey()
    group.broker.connections.clear()
    group.broker.hears_nothing = True
    member.survey()
    return member


def test_who_is_not_listed_for_the_clusters_limit_is_named_with_its_group() -> None:
    group = Group()
    member = unlisted(group, clusterTimeoutMs="60000")
    group.clock.advance(59_999)
    assert member.survey().owned == set()
    group.clock.advance(1)
    with pytest.raises(MembershipError) as raised:
        member.survey()
    assert (raised.value.condition, raised.value.context) == ("NOT_LISTED", {"group": "g", "client_id": "me"})


def test_brokers_that_hear_us_again_and_list_us_are_waited_for_no_more() -> None:
    group = Group()
    member = unlisted(group, clusterTimeoutMs="60000")
    (wait,) = member.publish().waits
    assert (wait.what, wait.quiet_ms) == (GROUP, LISTED_WITHIN_MS)
    group.broker.hears_nothing = False
    member.survey()
    assert member.survey().owned == set(QUEUES)
    assert member.publish().waits == ()


@pytest.mark.parametrize(("others", "subject"), [(("you",), SUBSCRIPTIONS), (("me",), IDENTITY)])
def test_what_brokers_said_of_the_group_is_not_held_against_it_while_they_say_nothing(
    others: tuple[str, ...], subject: str
) -> None:
    group = Group(*others, subscriptions={"you": {"bills": "*"}})
    member = group.member()
    member.survey()
    assert {wait.what for wait in member.publish().waits} == {subject}
    group.broker.reach = Reach.SILENT
    group.clock.advance(ASKING.longest_ms)
    member.survey()
    assert {wait.what for wait in member.publish().waits} == {broker_subject("broker-a")}


def test_brokers_that_fall_silent_while_they_do_not_list_us_are_surveyed_with_pauses() -> None:
    group = Group()
    member = unlisted(group)
    group.broker.reach = Reach.SILENT
    surveys = 0
    for _ in range(60 * 80):
        if member.publish().is_due(group.clock()):
            member.survey()
            surveys += 1
        group.clock.advance(12)
    assert surveys < 30


def test_brokers_that_fall_silent_while_they_do_not_list_us_are_what_is_wrong() -> None:
    group = Group()
    member = unlisted(group, clusterTimeoutMs="60000")
    group.broker.reach = Reach.SILENT
    group.clock.advance(30_000)
    member.survey()
    group.clock.advance(30_000)
    member.survey()
    group.clock.advance(30_000)
    with pytest.raises(TransportError, match="CLUSTER_UNREACHABLE"):
        member.survey()


def test_who_was_there_first_goes_on_for_its_limit_beside_a_newcomer_that_differs() -> None:
    group = Group(subscriptions={"you": {"bills": "*"}})
    first = group.member(clusterTimeoutMs="60000")
    first.survey()
    group.cluster.set_others("you")
    assert first.survey().owned == set(QUEUES[:2])
    group.clock.advance(60_000)
    with pytest.raises(MembershipError, match="SUBSCRIPTIONS_DIFFER"):
        first.survey()


def test_a_newcomer_that_differs_and_leaves_is_forgotten() -> None:
    group = Group(subscriptions={"you": {"bills": "*"}})
    first = group.member()
    first.survey()
    group.cluster.set_others("you")
    assert not first.survey().is_complete
    group.cluster.set_others()
    group.clock.advance(3_600_000)
    first.members.heartbeat()
    assert first.survey().is_complete


def test_members_are_asked_when_the_list_changes_and_not_again_once_they_agree() -> None:
    group = Group("silent", "you", subscriptions={"you": {"orders": "*"}, "new": {"orders": "*"}})
    member = group.member()
    member.survey()
    member.survey()
    group.cluster.set_others("silent", "you", "new")
    member.survey()
    assert group.cluster.asked_for_subscriptions == [["silent", "you"], ["new", "silent"]]


def test_a_member_that_does_not_answer_is_not_asked_for_ever_though_it_comes_and_goes() -> None:
    """A Java consumer that hangs over the question drops out of the group, and all would ask it again."""
    group = Group("silent")
    member = group.member()
    for others in (("silent",), (), ("silent",), (), ("silent",)):
        group.cluster.set_others(*others)
        member.survey()
    assert group.cluster.asked_for_subscriptions == [["silent"], ["silent"]]


def test_a_member_that_answers_is_asked_each_time_that_it_comes_back() -> None:
    group = Group(subscriptions={"you": {"orders": "*"}})
    member = group.member()
    for others in (("you",), (), ("you",), (), ("you",)):
        group.cluster.set_others(*others)
        member.survey()
    assert group.cluster.asked_for_subscriptions == [["you"]] * 3


@pytest.mark.parametrize("reads_it", ["true", "false"])
def test_a_difference_in_the_retry_topic_is_a_warning(reads_it: str, caplog: pytest.LogCaptureFixture) -> None:
    theirs = {"orders": "*"} if reads_it == "true" else {"orders": "*", "%RETRY%g": "*"}
    group = Group("you", subscriptions={"you": theirs})
    group.cluster.create_topic("%RETRY%g", {"broker-a": 1})
    assert group.member(retryTopic=reads_it).survey().is_complete
    assert "of client_id=me and client_id=you only one reads topic=%RETRY%g" in caplog.text


@pytest.mark.parametrize(("ours", "theirs"), [("TagA||TagB", "TagB || TagA"), ("*", ""), (" TagA ", "TagA")])
def test_the_same_tags_in_other_words_are_no_difference(ours: str, theirs: str) -> None:
    group = Group("you", subscriptions={"you": {"orders": theirs}})
    assert group.member(subExpression=ours).survey().is_complete


def test_a_survey_of_many_topics_takes_a_few_round_trips() -> None:
    clock = ManualClock()
    cluster = SimulatedCluster(["broker-a", "broker-b"], clock)
    topics = [f"topic-{number}" for number in range(50)]
    for topic in topics:
        cluster.create_topic(topic, {"broker-a": 4, "broker-b": 4})
    given = {"namesrvAddr": "n:9876", "consumerGroup": "g", "subscribe": ",".join(topics)}
    door = ClusterDoor(cluster, "our connection")
    door.round_trip_ms = 20
    member = Membership(ReadOptions.parse(given), "me", door, clock, clock, started_ms=1)
    times_ms = []
    for _ in range(2):
        began_ms = clock()
        assert len(member.survey().bounds) == 400
        times_ms.append(clock() - began_ms)
    assert times_ms == [80, 60]


class RequestLog(ClusterDoor):
    def __init__(self, cluster: SimulatedCluster) -> None:
        super().__init__(cluster, "our connection")
        self.requests: list[str] = []

    def arrive(self, name: str) -> None:
        self.requests.append(name)
        super().arrive(name)


def test_brokers_that_no_plan_needs_are_not_told_of_us_while_a_plan_waits() -> None:
    group = Group()
    group.broker.slaves = 2
    options = ReadOptions.parse({"namesrvAddr": "n:9876", "consumerGroup": "g", "subscribe": "orders"})
    door = RequestLog(group.cluster)
    member = Membership(options, "me", door, group.clock, group.clock, started_ms=1)
    member.survey()
    assert [name for name in door.requests if "heartbeat" in name] == ["heartbeat broker-a"]
    everybody = {"broker-a:10911", "broker-a-slave-1:10911", "broker-a-slave-2:10911"}
    assert set(member.members.next_heartbeats().addresses) == everybody


def test_of_addresses_that_do_not_answer_one_is_told_again_each_round() -> None:
    group = Group()
    group.broker.slaves = 3
    member, door = group.member(), ClusterDoor(group.cluster, "our connection")
    member.survey()
    rounds = []
    for answering in ("", "", "2", "2", "2"):
        group.cluster.answering_slaves = {f"broker-a-slave-{answering}:10911"}
        heartbeats = member.members.next_heartbeats()
        rounds.append([address.partition(":")[0].rpartition("-")[2] for address in heartbeats.addresses])
        member.members.heartbeats_answered(heartbeats, heartbeats.send(door))
    assert rounds == [["1", "2", "3", "a"], ["a", "1"], ["a", "2"], ["2", "a", "3"], ["2", "a", "1"]]


JAVA: Final = "org.apache.rocketmq.client.consumer.rebalance."


@pytest.mark.parametrize(
    ("theirs", "difference"),
    [
        ({"messageModel": "BROADCASTING"}, "'me' with messageModel=CLUSTERING; 'you' with messageModel=BROADCASTING"),
        ({"PROP_CONSUMEORDERLY": "true"}, "'me' with consumeOrderly=false; 'you' with consumeOrderly=true"),
        (
            {STRATEGY: JAVA + "AllocateMessageQueueAveragelyByCircle@1b2c6ec2"},
            "allocateStrategy=AllocateMessageQueueAveragely; 'you' with .*AveragelyByCircle",
        ),
    ],
)
def test_a_newcomer_that_consumes_in_another_manner_owns_nothing_and_fails_soon(
    theirs: dict[str, str], difference: str
) -> None:
    group = Group("you", subscriptions={"you": {"orders": "*"}})
    group.cluster.manners = {"you": theirs}
    newcomer = group.member()
    assert newcomer.survey().owned == set()
    group.clock.advance(NEWCOMER_LIMIT_MS)
    with pytest.raises(MembershipError, match=f"MEMBERS_DIFFER.*{difference}"):
        newcomer.survey()


@pytest.mark.parametrize(
    "theirs",
    [
        {},
        {"messageModel": "CLUSTERING", "PROP_CONSUMEORDERLY": "false", STRATEGY: "AllocateMessageQueueAveragely"},
        {STRATEGY: JAVA + "AllocateMessageQueueAveragely@1b2c6ec2"},
        {STRATEGY: "com.example.OurOwn@1b2c6ec2"},
    ],
)
def test_a_member_of_the_same_manner_or_of_one_that_nobody_can_judge_is_no_difference(theirs: dict[str, str]) -> None:
    group = Group("you", subscriptions={"you": {"orders": "*"}})
    group.cluster.manners = {"you": theirs}
    assert group.member().survey().owned == set(QUEUES[:2])


def test_members_tell_their_own_manner() -> None:
    group = Group()
    told = group.member(consumeOrderly="true", allocateStrategy="AVG_BY_CIRCLE").publish().view.manner
    assert told == {
        "messageModel": "CLUSTERING",
        "PROP_CONSUMEORDERLY": "true",
        STRATEGY: "AllocateMessageQueueAveragelyByCircle",
    }


def with_a_masterless_broker(**given: str) -> tuple[Group, Membership]:
    group = Group()
    group.cluster.brokers["broker-b"] = SimulatedBroker("broker-b", group.clock, master_id=1)
    group.cluster.grow("orders", "broker-b", 1)
    return group, group.member(**given)


def test_a_broker_that_is_listed_without_a_master_is_silent_and_not_absent() -> None:
    """A first AvailableNow run used to end without its messages, and ``latest`` to begin wrong."""
    group, member = with_a_masterless_broker()
    assert not member.survey().is_complete
    group.cluster.brokers["broker-b"].master_id = 0
    group.clock.advance(ASKING.longest_ms)
    member.survey()
    assert member.survey().is_complete


def test_a_broker_that_stays_without_a_master_is_named_after_the_clusters_limit() -> None:
    group, member = with_a_masterless_broker(clusterTimeoutMs="60000")
    member.survey()
    group.clock.advance(60_000)
    with pytest.raises(TransportError, match=r"CLUSTER_UNREACHABLE.*NO_MASTER.*broker-b"):
        member.survey()


def test_queues_that_were_read_are_away_while_their_broker_has_no_master() -> None:
    queue = MessageQueue("orders", "broker-b", 0)
    group, member = with_a_masterless_broker(clusterTimeoutMs="60000")
    for _ in range(2):
        survey = member.survey([queue])
        assert set(survey.away) == {queue}
        assert survey.is_complete
        group.clock.advance(60_000)


def test_a_lock_that_was_too_old_and_is_renewed_is_news() -> None:
    """A survey in which it grew too old left its queue out, and nothing made the next survey: the query stood still."""
    group = Group()
    member = group.member(consumeOrderly="true")
    member.survey()
    group.clock.advance(30_000)
    before = member.publish().changes
    member.renew_locks()
    assert member.publish().changes == before + 1
    member.renew_locks()
    assert member.publish().changes == before + 1
