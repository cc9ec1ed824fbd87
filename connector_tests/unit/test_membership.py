from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

import pytest

from connector_tests.support.manual_clock import ManualClock
from rocketmq_spark.consumer.local_offset_store import LocalFileOffsetStore, decode_offsets
from rocketmq_spark.consumer.membership import NAMESAKE_LIMIT_MS, Membership
from rocketmq_spark.errors import BrokerError, MembershipError, RocketMQError, TransportError
from rocketmq_spark.model import BrokerData, MessageQueue, QueueBounds, QueueData, TopicRoute
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.wire.body.heartbeat import Heartbeat
from rocketmq_spark.wire.body.running_info import ConsumerRunningInfo
from rocketmq_spark.wire.body.subscription import build_subscription

QUEUES = tuple(MessageQueue("orders", "broker-a", queue_id) for queue_id in range(4))


@dataclass
class OneBroker:
    """A cluster of one broker that answers at once: its lists are what a test says, beside who heartbeats."""

    others: list[str] = field(default_factory=list)
    members: list[str] = field(default_factory=list)
    locked_by_others: set[MessageQueue] = field(default_factory=set)
    locks: set[MessageQueue] = field(default_factory=set)
    offsets: dict[MessageQueue, int] = field(default_factory=dict)
    reset_to: dict[MessageQueue, int] = field(default_factory=dict)
    subscriptions: dict[str, dict[str, str]] = field(default_factory=dict)
    asked: list[list[str]] = field(default_factory=list)
    beats: list[Heartbeat] = field(default_factory=list)

    def topic_route(self, topic: str) -> TopicRoute:
        brokers = (BrokerData("cluster", "broker-a", {0: "a:1"}),)
        return TopicRoute(topic, brokers, (QueueData("broker-a", len(QUEUES), len(QUEUES), 6),))

    def broker(self, address: str) -> OneBroker:
        assert address == "a:1"
        return self

    def heartbeat(self, heartbeat: Heartbeat) -> None:
        self.members = [heartbeat.client_id]
        self.beats.append(heartbeat)

    def unregister(self, client_id: str, group: str) -> None:
        self.members.remove(client_id)

    def consumer_ids(self, group: str) -> list[str]:
        return self.others + self.members

    def running_infos(self, group: str, client_ids: Iterable[str]) -> dict[str, ConsumerRunningInfo]:
        self.asked.append(sorted(client_ids))
        told = {client_id: self.subscriptions[client_id] for client_id in client_ids if client_id in self.subscriptions}
        return {
            client_id: ConsumerRunningInfo(
                properties={}, subscriptions=tuple(build_subscription(topic, tags, 7) for topic, tags in topics.items())
            )
            for client_id, topics in told.items()
        }

    def topic_stats(self, topic: str) -> dict[MessageQueue, QueueBounds]:
        return {queue: QueueBounds(0, 100, 1) for queue in QUEUES}

    def search_offset(self, queue: MessageQueue, timestamp_ms: int) -> int:
        return 100

    def query_offsets(self, group: str, queues: Iterable[MessageQueue]) -> dict[MessageQueue, int | None]:
        known = self.offsets | self.reset_to
        return {queue: known.get(queue) for queue in queues}

    def update_offsets(self, group: str, offsets: Mapping[MessageQueue, int]) -> dict[MessageQueue, RocketMQError]:
        not_taken = {
            queue: BrokerError("OFFSET_NOT_TAKEN", address="a:1", queue=str(queue), group=group, code=0)
            for queue in offsets.keys() & self.reset_to.keys()
        }
        self.offsets |= {queue: offset for queue, offset in offsets.items() if queue not in not_taken}
        return dict(not_taken)

    def take_reset(self, group: str, queue: MessageQueue) -> int | None:
        return self.reset_to.pop(queue, None)

    def reset_offset(self, group: str, queue: MessageQueue, offset: int) -> None:
        self.offsets[queue] = self.reset_to[queue] = offset

    def lock_batch(self, group: str, client_id: str, queues: Collection[MessageQueue]) -> set[MessageQueue]:
        granted = set(queues) - self.locked_by_others
        self.locks |= granted
        return granted

    def unlock_batch(self, group: str, client_id: str, queues: Collection[MessageQueue]) -> None:
        self.locks -= set(queues)


def membership(cluster: OneBroker, clock: ManualClock | None = None, **given: str) -> Membership:
    required = {"namesrvAddr": "n:9876", "consumerGroup": "g", "subscribe": "orders"}
    time = clock or ManualClock()
    return Membership(ReadOptions.parse({**required, **given}), "me", cluster, time, time, started_ms=1)


def test_a_member_alone_owns_every_queue() -> None:
    assert membership(OneBroker()).survey().owned == set(QUEUES)


@pytest.mark.parametrize(
    ("option", "value", "told"),
    [
        ("startingOffsets", "earliest", "CONSUME_FROM_FIRST_OFFSET"),
        ("startingOffsets", "latest", "CONSUME_FROM_LAST_OFFSET"),
        ("startingTimestamp", "5000", "CONSUME_FROM_TIMESTAMP"),
    ],
)
def test_heartbeats_tell_where_the_member_consumes_from(option: str, value: str, told: str) -> None:
    assert membership(OneBroker(), None, **{option: value}).view.consumer.consume_from_where == told


def test_a_newcomer_with_a_taken_client_id_owns_nothing_until_the_other_is_gone() -> None:
    cluster = OneBroker(others=["me"])
    newcomer = membership(cluster)
    assert newcomer.survey().owned == set()
    assert not newcomer.survey().is_complete
    cluster.others = []
    assert newcomer.survey().owned == set(QUEUES)


def test_a_newcomer_with_a_taken_client_id_fails_after_two_minutes_and_names_it() -> None:
    clock = ManualClock()
    newcomer = membership(OneBroker(others=["me"]), clock)
    newcomer.survey()
    clock.advance(NAMESAKE_LIMIT_MS)
    with pytest.raises(MembershipError, match=r"DUPLICATE_CLIENT_ID.*'g'.*'me'"):
        newcomer.survey()


def test_who_was_alone_with_its_client_id_keeps_its_queues_when_another_takes_it() -> None:
    cluster = OneBroker()
    first = membership(cluster)
    first.survey()
    cluster.others = ["me"]
    assert first.survey().owned == set(QUEUES)


def test_an_orderly_member_owns_only_what_it_could_lock() -> None:
    cluster = OneBroker(locked_by_others={QUEUES[1]})
    orderly = membership(cluster, consumeOrderly="true")
    assert orderly.survey().owned == set(QUEUES) - {QUEUES[1]}
    cluster.locked_by_others.clear()
    orderly.retry_locks()
    assert orderly.survey().owned == set(QUEUES)


def test_an_orderly_queue_with_an_unproven_range_is_released_only_when_it_is_proven_and_committed() -> None:
    cluster = OneBroker()
    orderly = membership(cluster, consumeOrderly="true")
    orderly.survey()
    orderly.take({QUEUES[3]: (0, 10)})
    cluster.others = ["you"]
    assert orderly.survey().owned == {QUEUES[0], QUEUES[1]}
    assert cluster.locks == {QUEUES[0], QUEUES[1], QUEUES[3]}
    orderly.prove({QUEUES[3]: 10})
    assert cluster.offsets == {QUEUES[3]: 10}
    assert cluster.locks == {QUEUES[0], QUEUES[1]}


def test_a_concurrent_queue_is_released_at_once_and_what_is_proven_later_is_not_committed() -> None:
    cluster = OneBroker()
    concurrent = membership(cluster)
    concurrent.survey()
    concurrent.take({QUEUES[3]: (0, 10)})
    cluster.others = ["you"]
    assert concurrent.survey().owned == {QUEUES[0], QUEUES[1]}
    concurrent.prove({QUEUES[3]: 10})
    assert cluster.offsets == {}


def test_leaving_keeps_the_locks_of_queues_with_unproven_ranges() -> None:
    cluster = OneBroker()
    orderly = membership(cluster, consumeOrderly="true")
    orderly.survey()
    orderly.take({QUEUES[0]: (0, 10)})
    orderly.leave()
    assert cluster.locks == {QUEUES[0]}
    assert cluster.members == []


def test_a_lock_that_may_have_expired_is_renewed_before_anything_is_planned() -> None:
    clock = ManualClock()
    cluster = OneBroker()
    orderly = membership(cluster, clock, consumeOrderly="true")
    orderly.survey()
    clock.advance(30_000)
    cluster.locked_by_others = {QUEUES[2]}
    assert orderly.survey().owned == set(QUEUES) - {QUEUES[2]}


def test_a_refused_commit_tells_where_the_operator_has_reset_the_queue_to() -> None:
    cluster = OneBroker(reset_to={QUEUES[0]: 7})
    member = membership(cluster)
    member.survey()
    assert member.raise_offsets({QUEUES[0]: 50, QUEUES[1]: 50}) == {QUEUES[1]}
    assert member.take_resets() == {QUEUES[0]: 7}
    assert member.take_resets() == {}
    assert member.lower_offsets({QUEUES[0]: 7}) == {QUEUES[0]}


@dataclass
class LosesOne(OneBroker):
    """Confirms several first offsets that come at once, and has one less then."""

    def update_offsets(self, group: str, offsets: Mapping[MessageQueue, int]) -> dict[MessageQueue, RocketMQError]:
        were_there = bool(self.offsets)
        failures = super().update_offsets(group, offsets)
        if not were_there:
            self.offsets.pop(QUEUES[1])
        return failures


def test_a_first_offset_that_a_broker_confirmed_and_lost_is_told_again() -> None:
    """Its queue looked new then, and with ``latest`` it was read from its first message instead of from its end."""
    cluster = LosesOne()
    member = membership(cluster)
    member.survey()
    assert member.raise_offsets({QUEUES[0]: 50, QUEUES[1]: 60}) == {QUEUES[0], QUEUES[1]}
    assert cluster.offsets == {QUEUES[0]: 50, QUEUES[1]: 60}


def test_a_first_offset_that_cannot_be_looked_at_again_is_not_confirmed() -> None:
    class FallsSilent(LosesOne):
        def query_offsets(self, group: str, queues: Iterable[MessageQueue]) -> dict[MessageQueue, int | None]:
            if self.offsets:
                raise TransportError("CONNECT_FAILED", address="a:1", reason="gone")
            return super().query_offsets(group, queues)

    member = membership(FallsSilent())
    member.survey()
    assert member.raise_offsets({QUEUES[0]: 50, QUEUES[1]: 60}) == set()


def committed_to(cluster: OneBroker, offset: int) -> Membership:
    """A member whose first queue has been read and committed so far, and whose next batch of it is planned."""
    member = membership(cluster)
    member.survey()
    member.take({QUEUES[0]: (0, offset)})
    member.prove({QUEUES[0]: offset})
    member.take({QUEUES[0]: (offset, 2 * offset)})
    return member


@pytest.mark.parametrize("offset", [3, 10, 15])
def test_a_reset_during_a_batch_is_learned_with_its_proof_and_wins_over_it(offset: int) -> None:
    cluster = OneBroker()
    member = committed_to(cluster, 10)
    cluster.reset_offset("g", QUEUES[0], offset)
    before = member.changes
    member.prove({QUEUES[0]: 20})
    assert (cluster.offsets, cluster.reset_to) == ({QUEUES[0]: offset}, {})
    assert member.changes > before
    assert member.take_resets() == {QUEUES[0]: offset}
    assert member.lower_offsets({QUEUES[0]: offset}) == {QUEUES[0]}
    member.persist()
    assert cluster.offsets == {QUEUES[0]: offset}


def test_a_lower_offset_alone_is_no_reset() -> None:
    """A broker that was killed forgets; a ghost commits late."""
    cluster = OneBroker()
    member = committed_to(cluster, 10)
    cluster.offsets[QUEUES[0]] = 3
    member.prove({QUEUES[0]: 20})
    assert cluster.offsets == {QUEUES[0]: 20}
    assert member.take_resets() == {}


def test_a_reset_that_was_not_obeyed_is_put_back_when_the_member_leaves() -> None:
    cluster = OneBroker()
    member = committed_to(cluster, 10)
    cluster.reset_offset("g", QUEUES[0], 3)
    member.prove({QUEUES[0]: 20})
    assert cluster.reset_to == {}
    member.leave()
    assert cluster.reset_to == {QUEUES[0]: 3}


def test_a_reset_is_forgotten_with_its_queue() -> None:
    cluster = OneBroker()
    member = membership(cluster)
    member.survey()
    member.note_reset(QUEUES[3], 3)
    cluster.others = ["you"]
    assert QUEUES[3] not in member.survey().owned
    cluster.others = []
    assert QUEUES[3] in member.survey().owned
    assert member.take_resets() == {}


def test_a_reset_that_was_kept_is_told_again_unless_there_is_a_newer_one() -> None:
    member = membership(OneBroker())
    member.survey()
    member.note_reset(QUEUES[0], 3)
    told = member.take_resets()
    member.note_reset(QUEUES[1], 5)
    member.keep_resets({**told, QUEUES[1]: 4})
    assert member.take_resets() == {QUEUES[0]: 3, QUEUES[1]: 5}


def test_a_recovering_member_finds_marks_before_it_owns_anything() -> None:
    cluster = OneBroker(reset_to={QUEUES[0]: 3})
    member = membership(cluster)
    member.look_for_resets(QUEUES)
    assert cluster.reset_to == {}
    member.survey()
    assert member.take_resets() == {QUEUES[0]: 3}


class NoFile:
    """Offsets that are kept in memory."""

    def read(self) -> tuple[None, None]:
        return None, None

    def write(self, content: bytes, *, keep_last: bool) -> None:
        self.content = content


def test_in_broadcasting_each_member_owns_every_queue_and_the_brokers_keep_no_offset() -> None:
    cluster, file = OneBroker(others=["you"]), NoFile()
    given = {"namesrvAddr": "n:9876", "consumerGroup": "g", "subscribe": "orders", "messageModel": "BROADCASTING"}
    options, clock = ReadOptions.parse({**given, "instanceName": "one"}), ManualClock()
    store = LocalFileOffsetStore(file)
    member = Membership(options, "me", cluster, clock, clock, started_ms=1, local_offsets=store)
    assert member.survey().owned == set(QUEUES)
    assert member.view.consumer.message_model == "BROADCASTING"
    member.take({QUEUES[0]: (0, 10)})
    member.prove({QUEUES[0]: 10})
    assert decode_offsets(file.content) == {QUEUES[0]: 10}
    assert cluster.offsets == {}


# ---------------------------------------------------------------------------------------------------- subscriptions


def told_topics(heartbeat: Heartbeat) -> list[str]:
    return [subscription.topic for subscription in heartbeat.consumers[0].subscriptions]


@pytest.mark.parametrize("reads_it", ["true", "false"])
def test_a_heartbeat_names_the_retry_topic_whoever_reads_it(reads_it: str) -> None:
    cluster = OneBroker()
    member = membership(cluster, retryTopic=reads_it)
    member.survey()
    assert told_topics(cluster.beats[0]) == ["orders", "%RETRY%g"]
    assert ("%RETRY%g" in {one.topic for one in member.view.consumer.subscriptions}) == (reads_it == "true")


def test_a_newcomer_that_differs_owns_nothing_fails_at_once_and_names_both() -> None:
    cluster = OneBroker(others=["you"], subscriptions={"you": {"orders": "TagA", "bills": "*"}})
    newcomer = membership(cluster)
    difference = r"SUBSCRIPTIONS_DIFFER.*'g'.*'me' to orders \(\*\); 'you' to bills \(\*\), orders \(TagA\)"
    with pytest.raises(MembershipError, match=difference):
        newcomer.survey()
    assert newcomer.view.process_queues == ()


def test_who_was_there_first_goes_on_for_its_limit_beside_a_newcomer_that_differs() -> None:
    clock = ManualClock()
    cluster = OneBroker(subscriptions={"you": {"bills": "*"}})
    first = membership(cluster, clock, clusterTimeoutMs="60000")
    first.survey()
    cluster.others = ["you"]
    assert first.survey().owned == set(QUEUES[:2])
    clock.advance(60_000)
    with pytest.raises(MembershipError, match="SUBSCRIPTIONS_DIFFER"):
        first.survey()


def test_a_newcomer_that_differs_and_leaves_is_forgotten() -> None:
    clock = ManualClock()
    cluster = OneBroker(subscriptions={"you": {"bills": "*"}})
    first = membership(cluster, clock)
    first.survey()
    cluster.others = ["you"]
    assert not first.survey().is_complete
    cluster.others = []
    clock.advance(3_600_000)
    assert first.survey().is_complete


def test_members_are_asked_when_the_list_changes_and_not_again_once_they_agree() -> None:
    cluster = OneBroker(others=["silent", "you"], subscriptions={"you": {"orders": "*"}, "new": {"orders": "*"}})
    member = membership(cluster)
    member.survey()
    member.survey()
    cluster.others += ["new"]
    member.survey()
    assert cluster.asked == [["silent", "you"], ["new", "silent"]]


def test_a_member_that_does_not_answer_is_not_asked_for_ever_though_it_comes_and_goes() -> None:
    """A Java consumer that hangs over the question drops out of the group, and all would ask it again."""
    cluster = OneBroker(others=["silent"])
    member = membership(cluster)
    for others in (["silent"], [], ["silent"], [], ["silent"]):
        cluster.others = others
        member.survey()
    assert cluster.asked == [["silent"], ["silent"]]


def test_a_member_that_answers_is_asked_each_time_that_it_comes_back() -> None:
    cluster = OneBroker(subscriptions={"you": {"orders": "*"}})
    member = membership(cluster)
    for others in (["you"], [], ["you"], [], ["you"]):
        cluster.others = others
        member.survey()
    assert cluster.asked == [["you"]] * 3


@pytest.mark.parametrize("reads_it", ["true", "false"])
def test_a_difference_in_the_retry_topic_is_a_warning(reads_it: str, caplog: pytest.LogCaptureFixture) -> None:
    theirs = {"orders": "*"} if reads_it == "true" else {"orders": "*", "%RETRY%g": "*"}
    member = membership(OneBroker(others=["you"], subscriptions={"you": theirs}), retryTopic=reads_it)
    assert member.survey().is_complete
    assert "of client_id=me and client_id=you only one reads topic=%RETRY%g" in caplog.text


@pytest.mark.parametrize(("ours", "theirs"), [("TagA||TagB", "TagB || TagA"), ("*", ""), (" TagA ", "TagA")])
def test_the_same_tags_in_other_words_are_no_difference(ours: str, theirs: str) -> None:
    cluster = OneBroker(others=["you"], subscriptions={"you": {"orders": theirs}})
    assert membership(cluster, subExpression=ours).survey().is_complete
