"""Who is in the group, as one member sees it: listed, a namesake, of one mind; and whom it reports of itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pytest

from connector_tests.support.one_broker_group import QUEUES, Group, refreshes_per_minute
from connector_tests.support.simulated_cluster import (
    Connection,
    Reach,
    SimulatedCluster,
    SimulatedClusterClient,
    address_of,
)
from rocketmq_spark.condition import MAX_LISTED
from rocketmq_spark.consumer.group_members import OTHER_MEMBERS
from rocketmq_spark.consumer.membership import Membership
from rocketmq_spark.consumer.membership_state import (
    DUPLICATE_CLIENT_ID_LIMIT_MS,
    GROUP,
    IDENTITY,
    JOINING_LIMIT_MS,
    LISTED_WITHIN_MS,
    SUBSCRIPTIONS,
)
from rocketmq_spark.consumer.subscribed_topics import warn_of_batch_queues
from rocketmq_spark.consumer.subscription_check import STRATEGY
from rocketmq_spark.errors import BrokerError, MembershipError, TransportError
from rocketmq_spark.model import MessageFilter
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.remoting.outage_log import broker_subject
from rocketmq_spark.remoting.retry import REQUEST_PAUSES
from rocketmq_spark.wire.body.running_info import PROP_CHECKPOINT


@pytest.mark.parametrize(
    ("option", "value", "reported"),
    [
        ("startingOffsets", "earliest", "CONSUME_FROM_FIRST_OFFSET"),
        ("startingOffsets", "latest", "CONSUME_FROM_LAST_OFFSET"),
        ("startingTimestamp", "5000", "CONSUME_FROM_TIMESTAMP"),
    ],
)
def test_heartbeats_contain_where_the_member_consumes_from(option: str, value: str, reported: str) -> None:
    assert Group().member(**{option: value}).members.consumer_data.consume_from_where == reported


def test_a_group_that_a_broker_does_not_have_ends_the_wait_to_be_listed() -> None:
    group = Group()
    group.broker.ignores_heartbeats = True
    member = group.member()
    assert member.refresh_metadata().owned == set()
    group.broker.group_refusal = BrokerError(
        "GROUP_NOT_FOUND.BROKER", address="a:1", request="PULL_MESSAGE", code=26, remark="there is no g"
    )
    group.cluster.group_list_requests.clear()
    with pytest.raises(BrokerError, match=r"GROUP_NOT_FOUND\.BROKER.*there is no g"):
        member.refresh_metadata()
    assert group.cluster.group_list_requests == [QUEUES[0].topic]


def test_a_joining_member_with_a_duplicate_client_id_owns_nothing_until_the_other_has_left() -> None:
    group = Group("me")
    joining = group.member()
    assert joining.refresh_metadata().owned == set()
    assert not joining.refresh_metadata().is_complete
    group.cluster.set_others()
    assert joining.refresh_metadata().owned == set(QUEUES)


def test_a_joining_member_with_a_duplicate_client_id_fails_after_two_minutes_and_names_it() -> None:
    group = Group("me")
    joining = group.member()
    joining.refresh_metadata()
    group.clock.advance(DUPLICATE_CLIENT_ID_LIMIT_MS)
    with pytest.raises(MembershipError, match=r"DUPLICATE_CLIENT_ID.*'g'.*'me'"):
        joining.refresh_metadata()


def test_a_member_that_was_alone_with_its_client_id_keeps_its_queues_when_another_takes_it() -> None:
    group = Group()
    first = group.member()
    first.refresh_metadata()
    group.cluster.set_others("me")
    assert first.refresh_metadata().owned == set(QUEUES)


def test_a_member_that_shares_the_group_is_named_and_of_many_some() -> None:
    others = [f"you-{number}" for number in range(MAX_LISTED + 1)]
    group = Group(*others)
    member = group.member()
    member.refresh_metadata()
    assert member.members.record_other_members()
    (wait,) = member.log_and_snapshot().outages
    assert (wait.resource, wait.until_ms) == (OTHER_MEMBERS, group.clock() + DUPLICATE_CLIENT_ID_LIMIT_MS)
    assert (
        f"offsets of group 'g', because the group has other members: {', '.join(others[:MAX_LISTED])}. Stop"
        in wait.reason
    )
    group.cluster.set_others()
    member.refresh_metadata()
    assert not member.members.record_other_members()
    assert member.log_and_snapshot().outages == ()


SQL: Mapping[str, str] = {"subExpression": "price > 5", "expressionType": "SQL92"}


def test_each_broker_compiles_sql92_once_and_before_queues_are_owned() -> None:
    group = Group()
    member = group.member(**SQL)
    group.broker.filter_refusal = BrokerError(
        "FILTER_EXPRESSION_INVALID", address="a:1", request="", code=23, remark=""
    )
    with pytest.raises(BrokerError, match="FILTER_EXPRESSION_INVALID"):
        member.refresh_metadata()
    group.broker.filter_refusal = None
    for _ in range(2):
        assert member.refresh_metadata().owned == set(QUEUES)
    assert group.broker.checked_filters == [MessageFilter("price > 5", "SQL92")] * 2


def test_heartbeat_has_sql92_of_topics_but_not_of_retry_topic() -> None:
    group = Group()
    group.member(**SQL).refresh_metadata()
    (connection,) = group.broker.connections.values()
    assert connection.heartbeat is not None
    (reported,) = connection.heartbeat.consumers
    assert [(one.topic, one.expression_type, one.sub_string) for one in reported.subscriptions] == [
        ("orders", "SQL92", "price > 5"),
        ("%RETRY%g", "TAG", "*"),
    ]


def test_tags_are_not_compiled() -> None:
    group = Group()
    group.member(subExpression="TagA").refresh_metadata()
    assert group.broker.checked_filters == []


def test_filter_on_batch_consume_queues_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    group = Group()
    group.cluster.topics_with_batch_queues.add("orders")
    warn_of_batch_queues.cache_clear()
    member = group.member(subExpression="TagA")
    for _ in range(2):
        member.refresh_metadata()
    (line,) = (line for line in caplog.messages if line.startswith("BATCHES_FILTERED"))
    assert "Topic=orders has batch consume queues" in line
    caplog.clear()
    group.member().refresh_metadata()
    assert not [line for line in caplog.messages if line.startswith("BATCHES_FILTERED")]


def received_topics(connection: Connection) -> list[str]:
    assert connection.heartbeat is not None
    return [subscription.topic for subscription in connection.heartbeat.consumers[0].subscriptions]


@pytest.mark.parametrize("reads_it", ["true", "false"])
def test_a_heartbeat_names_the_retry_topic_whichever_reader_there_is(reads_it: str) -> None:
    group = Group()
    member = group.member(retryTopic=reads_it)
    member.refresh_metadata()
    (connection,) = group.broker.connections.values()
    assert received_topics(connection) == ["orders", "%RETRY%g"]
    assert ("%RETRY%g" in {one.topic for one in member.members.consumer_data.subscriptions}) == (reads_it == "true")


def test_a_heartbeat_contains_how_and_to_what_the_member_subscribes_and_since_when() -> None:
    group = Group()
    group.cluster.create_topic("payments", {"broker-a": 1})
    member = group.member(subscribe="orders,payments", subExpression="TagA")
    member.refresh_metadata()
    (connection,) = group.broker.connections.values()
    assert connection.heartbeat is not None
    (reported,) = connection.heartbeat.consumers
    assert (reported.group, reported.consume_type, reported.message_model) == ("g", "CONSUME_ACTIVELY", "CLUSTERING")
    assert [(one.topic, one.sub_string, one.version_ms) for one in reported.subscriptions] == [
        ("orders", "TagA", 1),
        ("payments", "TagA", 1),
        ("%RETRY%g", "*", 1),
    ]
    assert member.members.consumer_data.subscriptions == reported.subscriptions[:2]


def test_a_joining_member_that_differs_owns_nothing_fails_soon_and_names_both() -> None:
    group = Group("you", subscriptions={"you": {"orders": "TagA", "bills": "*"}})
    joining = group.member()
    assert joining.refresh_metadata().owned == set()
    group.clock.advance(JOINING_LIMIT_MS)
    theirs = r"'you' subscribes to bills \(\*\), orders \(TagA\)"
    difference = rf"INCONSISTENT_SUBSCRIPTION.*'g'.*'me' subscribes to orders \(\*\); {theirs}"
    with pytest.raises(MembershipError, match=difference):
        joining.refresh_metadata()
    assert joining.process_queues == ()


def test_a_joining_member_waits_for_a_predecessor_with_the_old_subscription_that_is_leaving() -> None:
    group = Group("old", subscriptions={"old": {"orders": "TagA"}})
    joining = group.member()
    assert joining.refresh_metadata().owned == set()
    group.clock.advance(JOINING_LIMIT_MS - 1)
    assert joining.refresh_metadata().owned == set()
    group.cluster.set_others()
    assert joining.refresh_metadata().owned == set(QUEUES)


def test_a_joining_member_that_differs_waits_no_longer_than_the_user_allows() -> None:
    group = Group("you", subscriptions={"you": {"bills": "*"}})
    joining = group.member(clusterTimeoutMs="1000")
    joining.refresh_metadata()
    group.clock.advance(1_000)
    with pytest.raises(MembershipError, match="INCONSISTENT_SUBSCRIPTION"):
        joining.refresh_metadata()


def unlisted(group: Group, **given: str) -> Membership:
    """The brokers have lost a member, and list everybody else."""
    member = group.member(**given)
    member.refresh_metadata()
    group.broker.connections.clear()
    group.broker.ignores_heartbeats = True
    member.refresh_metadata()
    return member


def test_a_member_that_is_not_listed_for_the_clusters_limit_is_named_with_its_group() -> None:
    group = Group()
    member = unlisted(group, clusterTimeoutMs="60000")
    group.clock.advance(59_999)
    assert member.refresh_metadata().owned == set()
    group.clock.advance(1)
    with pytest.raises(MembershipError) as raised:
        member.refresh_metadata()
    assert (raised.value.condition, raised.value.context) == (
        "NOT_REGISTERED_IN_GROUP",
        {"group": "g", "client_id": "me"},
    )


def test_a_member_that_is_listed_by_some_brokers_only_is_not_listed() -> None:
    """The others may have given its queues away."""
    group = Group(brokers=2)
    group.cluster.brokers["broker-b"].ignores_heartbeats = True
    member = group.member()
    assert member.refresh_metadata().owned == set()
    assert [wait.resource for wait in member.log_and_snapshot().outages] == [GROUP]
    group.cluster.brokers["broker-b"].ignores_heartbeats = False
    member.refresh_metadata()
    assert member.refresh_metadata().owned == set(group.cluster.queues())


@pytest.mark.parametrize("received_by", ["broker-a", "broker-b"])
def test_a_member_that_is_listed_by_one_broker_only_is_a_member(received_by: str) -> None:
    """It reads what lies there, whatever it is cut off from."""
    group = Group(brokers=2)
    group.cluster.brokers[received_by].connections["theirs"] = Connection("you", group.clock())
    member = group.member()
    assert len(member.refresh_metadata().owned) == 4
    assert member.members.query_members() == ["me", "you"]


def test_brokers_that_receive_our_heartbeats_again_and_list_us_are_waited_for_no_more() -> None:
    group = Group()
    member = unlisted(group, clusterTimeoutMs="60000")
    (wait,) = member.log_and_snapshot().outages
    assert (wait.resource, wait.quiet_ms) == (GROUP, LISTED_WITHIN_MS)
    group.broker.ignores_heartbeats = False
    member.refresh_metadata()
    assert member.refresh_metadata().owned == set(QUEUES)
    assert member.log_and_snapshot().outages == ()


@pytest.mark.parametrize(("others", "subject"), [(("you",), SUBSCRIPTIONS), (("me",), IDENTITY)])
def test_what_brokers_reported_of_the_group_is_not_held_against_it_while_they_report_nothing(
    others: tuple[str, ...], subject: str
) -> None:
    group = Group(*others, subscriptions={"you": {"bills": "*"}})
    member = group.member()
    member.refresh_metadata()
    assert {wait.resource for wait in member.log_and_snapshot().outages} == {subject}
    group.broker.reach = Reach.UNRESPONSIVE
    group.clock.advance(REQUEST_PAUSES.longest_ms)
    member.refresh_metadata()
    assert {wait.resource for wait in member.log_and_snapshot().outages} == {broker_subject("broker-a")}


def test_brokers_that_become_unresponsive_while_they_do_not_list_us_are_probed_with_pauses() -> None:
    group = Group()
    member = unlisted(group)
    group.broker.reach = Reach.UNRESPONSIVE
    assert refreshes_per_minute(group, member) < 30


def test_brokers_that_become_unresponsive_while_they_do_not_list_us_are_what_is_wrong() -> None:
    group = Group()
    member = unlisted(group, clusterTimeoutMs="60000")
    group.broker.reach = Reach.UNRESPONSIVE
    group.clock.advance(30_000)
    member.refresh_metadata()
    group.clock.advance(30_000)
    member.refresh_metadata()
    group.clock.advance(30_000)
    with pytest.raises(TransportError, match="CLUSTER_TIMEOUT"):
        member.refresh_metadata()


def test_a_member_that_was_there_first_resumes_for_its_limit_beside_a_joining_member_that_differs() -> None:
    group = Group(subscriptions={"you": {"bills": "*"}})
    first = group.member(clusterTimeoutMs="60000")
    first.refresh_metadata()
    group.cluster.set_others("you")
    assert first.refresh_metadata().owned == set(QUEUES[:2])
    group.clock.advance(60_000)
    with pytest.raises(MembershipError, match="INCONSISTENT_SUBSCRIPTION"):
        first.refresh_metadata()


def test_a_joining_member_that_differs_and_leaves_is_forgotten() -> None:
    group = Group(subscriptions={"you": {"bills": "*"}})
    first = group.member()
    first.refresh_metadata()
    group.cluster.set_others("you")
    assert not first.refresh_metadata().is_complete
    group.cluster.set_others()
    group.clock.advance(3_600_000)
    first.members.heartbeat()
    assert first.refresh_metadata().is_complete


def test_members_are_called_when_the_list_changes_and_not_again_once_they_agree() -> None:
    group = Group("silent", "you", subscriptions={"you": {"orders": "*"}, "new": {"orders": "*"}})
    member = group.member()
    member.refresh_metadata()
    member.refresh_metadata()
    group.cluster.set_others("silent", "you", "new")
    member.refresh_metadata()
    assert group.cluster.running_info_requests == [["silent", "you"], ["new", "silent"]]


def test_a_member_that_does_not_respond_is_not_called_for_ever_though_it_joins_and_leaves() -> None:
    """A Java consumer that hangs over the question drops out of the group, and all would ask it again."""
    group = Group("silent")
    member = group.member()
    for others in (("silent",), (), ("silent",), (), ("silent",)):
        group.cluster.set_others(*others)
        member.refresh_metadata()
    assert group.cluster.running_info_requests == [["silent"], ["silent"]]


def test_a_member_that_responds_is_called_each_time_that_it_comes_back() -> None:
    group = Group(subscriptions={"you": {"orders": "*"}})
    member = group.member()
    for others in (("you",), (), ("you",), (), ("you",)):
        group.cluster.set_others(*others)
        member.refresh_metadata()
    assert group.cluster.running_info_requests == [["you"]] * 3


@pytest.mark.parametrize("reads_it", ["true", "false"])
def test_a_difference_in_the_retry_topic_is_a_warning(reads_it: str, caplog: pytest.LogCaptureFixture) -> None:
    theirs = {"orders": "*"} if reads_it == "true" else {"orders": "*", "%RETRY%g": "*"}
    group = Group("you", subscriptions={"you": theirs})
    group.cluster.create_topic("%RETRY%g", {"broker-a": 1})
    assert group.member(retryTopic=reads_it).refresh_metadata().is_complete
    assert caplog.messages == [
        (
            "RETRY_TOPIC_INCONSISTENT: Only one of the members clientId=me and clientId=you reads topic=%RETRY%g. "
            "Messages sent back for retry can remain unread there. Set 'retryTopic' to the same value on all members."
        )
    ]


@pytest.mark.parametrize(("ours", "theirs"), [("TagA||TagB", "TagB || TagA"), ("*", ""), (" TagA ", "TagA")])
def test_the_same_tags_in_other_words_are_no_difference(ours: str, theirs: str) -> None:
    group = Group("you", subscriptions={"you": {"orders": theirs}})
    assert group.member(subExpression=ours).refresh_metadata().is_complete


class RequestLog(SimulatedClusterClient):
    def __init__(self, cluster: SimulatedCluster) -> None:
        super().__init__(cluster, "our connection")
        self.requests: list[str] = []

    def arrive(self, name: str) -> None:
        self.requests.append(name)
        super().arrive(name)


def test_brokers_that_no_plan_needs_get_no_heartbeat_while_a_plan_waits() -> None:
    group = Group()
    group.broker.slaves = 2
    options = ReadOptions.parse({"namesrvAddr": "n:9876", "consumerGroup": "g", "subscribe": "orders"})
    client = RequestLog(group.cluster)
    member = Membership(options, "me", client, group.clock, group.clock, started_ms=1)
    member.refresh_metadata()
    assert [name for name in client.requests if "heartbeat" in name] == ["heartbeat broker-a"]
    all_members = set(map(address_of, ("broker-a", "broker-a-slave-1", "broker-a-slave-2")))
    assert set(member.members.next_heartbeats().addresses) == all_members


def test_of_addresses_that_do_not_respond_one_is_reported_again_each_round() -> None:
    group = Group()
    group.broker.slaves = 3
    member, client = group.member(), SimulatedClusterClient(group.cluster, "our connection")
    member.refresh_metadata()
    rounds = []
    for answering in ("", "", "2", "2", "2"):
        group.cluster.responding_slaves = {f"broker-a-slave-{answering}:10911"}
        heartbeats = member.members.next_heartbeats()
        rounds.append([address.server.partition(":")[0].rpartition("-")[2] for address in heartbeats.addresses])
        member.members.record_acknowledged(heartbeats, heartbeats.send(client))
    assert rounds == [["1", "2", "3", "a"], ["a", "1"], ["a", "2"], ["2", "a", "3"], ["2", "a", "1"]]


def test_a_joining_member_with_a_copied_checkpoint_owns_nothing_and_fails_soon() -> None:
    group = Group("you", subscriptions={"you": {"orders": "*"}})
    group.cluster.consumer_settings = {"you": {PROP_CHECKPOINT: "6f1e"}}
    options = ReadOptions.parse({"namesrvAddr": "n:9876", "consumerGroup": "g", "subscribe": "orders"})
    client = SimulatedClusterClient(group.cluster, "our connection")
    joining = Membership(options, "me", client, group.clock, group.clock, started_ms=1, checkpoint_id="6f1e")
    assert joining.refresh_metadata().owned == set()
    group.clock.advance(JOINING_LIMIT_MS)
    with pytest.raises(MembershipError, match=r"CHECKPOINT_SHARED.*'me' and 'you' of group 'g'"):
        joining.refresh_metadata()


JAVA: Final = "org.apache.rocketmq.client.consumer.rebalance."


@pytest.mark.parametrize(
    ("theirs", "difference"),
    [
        ({"messageModel": "BROADCASTING"}, "'me' has messageModel=CLUSTERING; 'you' has messageModel=BROADCASTING"),
        ({"PROP_CONSUMEORDERLY": "true"}, "'me' has consumeOrderly=false; 'you' has consumeOrderly=true"),
        (
            {STRATEGY: JAVA + "AllocateMessageQueueAveragelyByCircle@1b2c6ec2"},
            "allocateStrategy=AllocateMessageQueueAveragely; 'you' has .*AveragelyByCircle",
        ),
    ],
)
def test_a_joining_member_that_consumes_with_other_settings_owns_nothing_and_fails_soon(
    theirs: dict[str, str], difference: str
) -> None:
    group = Group("you", subscriptions={"you": {"orders": "*"}})
    group.cluster.consumer_settings = {"you": theirs}
    joining = group.member()
    assert joining.refresh_metadata().owned == set()
    group.clock.advance(JOINING_LIMIT_MS)
    with pytest.raises(MembershipError, match=f"INCONSISTENT_GROUP_SETTINGS.*{difference}"):
        joining.refresh_metadata()


@pytest.mark.parametrize(
    "theirs",
    [
        {},
        {"messageModel": "CLUSTERING", "PROP_CONSUMEORDERLY": "false", STRATEGY: "AllocateMessageQueueAveragely"},
        {STRATEGY: JAVA + "AllocateMessageQueueAveragely@1b2c6ec2"},
        {STRATEGY: "com.example.OurOwn@1b2c6ec2"},
    ],
)
def test_a_member_of_the_same_settings_or_of_unknown_settings_is_no_difference(theirs: dict[str, str]) -> None:
    group = Group("you", subscriptions={"you": {"orders": "*"}})
    group.cluster.consumer_settings = {"you": theirs}
    assert group.member().refresh_metadata().owned == set(QUEUES[:2])


def test_members_send_their_own_settings() -> None:
    group = Group()
    reported = (
        group.member(consumeOrderly="true", allocateStrategy="AVG_BY_CIRCLE").log_and_snapshot().view.consumer_settings
    )
    assert reported == {
        "messageModel": "CLUSTERING",
        "PROP_CONSUMEORDERLY": "true",
        STRATEGY: "AllocateMessageQueueAveragelyByCircle",
    }


@pytest.mark.parametrize(("others", "subject"), [(("you",), SUBSCRIPTIONS), (("me",), IDENTITY)])
def test_a_joining_member_that_is_listed_at_last_waits_for_that_no_more_whatever_else_is_wrong(
    others: tuple[str, ...], subject: str
) -> None:
    """Else it fails too soon, and with the wrong words."""
    group = Group(subscriptions={"you": {"bills": "*"}}, brokers=2)
    group.cluster.brokers["broker-b"].ignores_heartbeats = True
    member = group.member(clusterTimeoutMs="8000")
    member.refresh_metadata()
    assert [wait.resource for wait in member.log_and_snapshot().outages] == [GROUP]
    group.cluster.brokers["broker-b"].ignores_heartbeats = False
    group.cluster.set_others(*others)
    member.members.heartbeat()
    group.clock.advance(5_000)
    member.refresh_metadata()
    assert [wait.resource for wait in member.log_and_snapshot().outages] == [subject]
    group.clock.advance(5_000)
    assert member.refresh_metadata().owned == set()


def test_a_member_that_was_there_first_resumes_beside_a_joining_member_that_differs_for_longer_than_that_waits() -> (
    None
):
    group = Group(subscriptions={"you": {"bills": "*"}})
    first = group.member(clusterTimeoutMs="60000")
    first.refresh_metadata()
    group.cluster.set_others("you")
    first.refresh_metadata()
    group.clock.advance(59_999)
    assert first.refresh_metadata().owned == set(QUEUES[:2])


def test_a_joining_member_with_a_duplicate_client_id_owns_its_queues_once_the_differing_member_has_left() -> None:
    group = Group("you", subscriptions={"you": {"bills": "*"}})
    joining = group.member()
    joining.refresh_metadata()
    group.cluster.set_others("me")
    assert joining.refresh_metadata().owned == set(QUEUES)


def test_a_joining_member_that_is_not_listed_any_more_waits_no_more_for_the_former_owner_of_its_client_id() -> None:
    group = Group("me")
    joining = group.member()
    joining.refresh_metadata()
    group.broker.connections.clear()
    group.broker.ignores_heartbeats = True
    joining.refresh_metadata()
    assert [wait.resource for wait in joining.log_and_snapshot().outages] == [GROUP]


def test_a_member_that_is_not_registered_at_a_broker_does_not_count_a_duplicate_client_id_there() -> None:
    """A broker that was silent is asked again before it is greeted again."""
    group = Group()
    group.broker.reach = Reach.UNRESPONSIVE
    joining = group.member()
    joining.refresh_metadata()
    group.broker.reach = Reach.UP
    group.clock.advance(REQUEST_PAUSES.longest_ms)
    group.cluster.set_others("me")
    assert joining.refresh_metadata().owned == set()
    assert joining.refresh_metadata().owned == set()
    assert [wait.resource for wait in joining.log_and_snapshot().outages] == [IDENTITY]
    group.cluster.set_others()
    assert joining.refresh_metadata().owned == set(QUEUES)
