from __future__ import annotations

import pytest

from rocketmq_spark.consumer.allocation import AllocateMessageQueueAveragely
from rocketmq_spark.consumer.subscription_check import (
    MAX_UNANSWERED_QUERIES,
    MESSAGE_MODEL,
    STRATEGY,
    SubscriptionCheck,
    comparable_settings,
    consumer_settings_of,
    differences,
)
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.wire.body.running_info import (
    PROP_CHECKPOINT,
    PROP_CONSUME_ORDERLY,
    PROP_TOPIC_PATTERN,
    ConsumerRunningInfo,
)
from rocketmq_spark.wire.body.subscription import SubscriptionData, build_subscription

RETRY = "%RETRY%g"


def tags(topic: str, *names: str) -> SubscriptionData:
    return build_subscription(topic, " || ".join(names), version_ms=1)


def sql(topic: str, text: str) -> SubscriptionData:
    return SubscriptionData(topic, text, frozenset(), frozenset(), 1, "SQL92")


def check(*ours: SubscriptionData) -> SubscriptionCheck:
    return SubscriptionCheck("g", "me", ours or (tags("orders"),), {}, RETRY)


def response(subject: SubscriptionCheck, reported: dict[str, list[SubscriptionData]]) -> None:
    subject.record_running_infos(
        {one: ConsumerRunningInfo(properties={}, subscriptions=tuple(of_one)) for one, of_one in reported.items()}
    )


def difference(ours: SubscriptionData, theirs: SubscriptionData) -> tuple[object, object] | None:
    subject = check(ours)
    response(subject, {"other": [theirs]})
    error = subject.difference()
    return None if error is None else (error.context["ours"], error.context["theirs"])


def test_others_are_called_once_they_are_listed_and_we_never() -> None:
    subject = check()
    assert subject.start_queries(["me"]) == frozenset()
    assert subject.start_queries(["me", "a", "b"]) == {"a", "b"}
    assert subject.start_queries(["me", "b", "a"]) == frozenset(), "the same members"


def test_a_member_that_is_alone_from_the_first_has_no_member_to_call() -> None:
    assert check().start_queries([]) == frozenset()


def test_a_member_that_was_different_or_unresponsive_is_called_again_and_one_that_was_equal_is_not() -> None:
    subject = check()
    subject.start_queries(["equal", "different", "silent"])
    response(subject, {"equal": [tags("orders")]})
    response(subject, {"different": [tags("payments")]})
    assert subject.start_queries(["equal", "different", "silent", "new"]) == {"different", "silent", "new"}


def test_a_member_that_stays_unresponsive_is_called_only_so_often() -> None:
    subject = check()
    times = sum("silent" in subject.start_queries(["silent", f"other-{number}"]) for number in range(5))
    assert times == MAX_UNANSWERED_QUERIES


def test_a_long_list_of_members_is_queried_in_parts() -> None:
    """A client may register any number of client IDs: 10,000 were queried at once, for 7 s and with 27 MB."""
    subject = check()
    listed = [f"{number:03}" for number in range(600)]
    parts = [subject.start_queries(["me", *listed]) for _ in range(6)]
    assert [len(part) for part in parts] == [256, 256, 256, 256, 176, 0]
    assert sorted(parts[0] | parts[1] | (parts[2] - parts[0])) == listed, "each once before one is queried again"


def test_members_that_left_are_forgotten_once_they_are_many() -> None:
    subject = check()
    for others in (["a"], ["b"], ["c"]):
        subject.start_queries(["silent", *others])
    assert subject.start_queries(["silent"]) == frozenset(), "queried twice"
    for number in range(18):
        subject.start_queries([f"{number}-{one}" for one in range(256)])
    assert subject.start_queries(["silent"]) == {"silent"}


def test_responses_of_several_rounds_all_count_until_a_member_has_left() -> None:
    subject = check()
    subject.start_queries(["a", "b"])
    response(subject, {"a": [tags("payments")]})
    response(subject, {"b": [tags("orders")]})
    error = subject.difference()
    assert error is not None
    assert error.context["other"] == "a"
    subject.start_queries(["b"])
    assert subject.difference() is None


@pytest.mark.parametrize(
    ("subscription", "properties"),
    [
        (tags("payments"), {}),
        (tags("orders"), {PROP_CONSUME_ORDERLY: "true"}),
        (tags("orders"), {PROP_CHECKPOINT: "of both"}),
    ],
)
def test_long_client_id_of_another_member_is_cut(subscription: SubscriptionData, properties: dict[str, str]) -> None:
    """Brokers accept any length, and the error is in each progress of the query."""
    ours = {PROP_CONSUME_ORDERLY: "false", PROP_CHECKPOINT: "of both"}
    subject = SubscriptionCheck("g", "me", (tags("orders"),), ours, RETRY)
    info = ConsumerRunningInfo(properties=properties, subscriptions=(subscription,))
    subject.record_running_infos({"x" * 1_000_000: info})
    error = subject.difference()
    assert error is not None
    assert "(1000000 characters)" in str(error)
    assert len(str(error)) < 2_000


def test_a_difference_names_both_and_what_they_subscribe_to() -> None:
    subject = check(tags("orders", "B", "A"), tags("payments"))
    response(subject, {"z": [], "b": [tags("orders")]})
    error = subject.difference()
    assert error is not None
    assert error.condition == "INCONSISTENT_SUBSCRIPTION"
    assert error.context == {
        "group": "g",
        "client_id": "me",
        "ours": "orders (A || B), payments (*)",
        "other": "b",
        "theirs": "orders (*)",
    }


def test_a_member_that_subscribes_to_nothing_gets_a_warning() -> None:
    subject = check()
    response(subject, {"other": []})
    error = subject.difference()
    assert error is not None
    assert error.context["theirs"] == "nothing"


def test_tags_are_the_same_in_any_order_and_spelling() -> None:
    assert difference(build_subscription("orders", "A||B", version_ms=2), tags("orders", "B", "A")) is None


def test_sql_is_compared_by_its_text_and_never_equals_tags() -> None:
    assert difference(sql("orders", "a > 1"), sql("orders", "a > 1")) is None
    assert difference(sql("orders", "a > 1"), sql("orders", "a > 2")) == ("orders (a > 1)", "orders (a > 2)")
    assert difference(tags("orders"), sql("orders", "*")) == ("orders (*)", "orders (*)")


def test_the_retry_topic_makes_no_difference_but_is_reported() -> None:
    subject = check(tags("orders"), tags(RETRY))
    response(subject, {"c": [tags("orders")], "a": [tags("orders")], "b": [tags("orders"), tags(RETRY)]})
    assert subject.difference() is None
    assert subject.members_differing_in_retry() == ["a", "c"]
    subject = check()
    response(subject, {"a": [tags("orders")], "b": [tags("orders"), tags(RETRY)]})
    assert subject.members_differing_in_retry() == ["b"]


ORDERLY = {"messageModel": "CLUSTERING", PROP_CONSUME_ORDERLY: "true"}
NOT_ORDERLY = {"messageModel": "CLUSTERING", PROP_CONSUME_ORDERLY: "false"}


def orderly_check() -> SubscriptionCheck:
    return SubscriptionCheck("g", "me", [tags("orders")], ORDERLY, RETRY)


def reported(subject: SubscriptionCheck, all_settings: dict[str, dict[str, str]]) -> None:
    """Each of them subscribes as we do."""
    subject.record_running_infos(
        {
            one: ConsumerRunningInfo(properties=settings, subscriptions=(tags("orders"),))
            for one, settings in all_settings.items()
        }
    )


def test_a_member_that_consumes_with_other_settings_is_named_with_the_options_that_differ() -> None:
    subject = orderly_check()
    reported(subject, {"a": ORDERLY, "z": {"messageModel": "BROADCASTING", PROP_CONSUME_ORDERLY: "false"}})
    error = subject.difference()
    assert error is not None
    assert error.condition == "INCONSISTENT_GROUP_SETTINGS"
    assert error.context == {
        "group": "g",
        "client_id": "me",
        "ours": "messageModel=CLUSTERING, consumeOrderly=true",
        "other": "z",
        "theirs": "messageModel=BROADCASTING, consumeOrderly=false",
    }


def test_a_member_that_consumes_with_other_settings_is_called_again_and_counts_by_its_last_response() -> None:
    subject = orderly_check()
    subject.start_queries(["a", "b"])
    reported(subject, {"a": NOT_ORDERLY, "b": ORDERLY})
    assert subject.start_queries(["a", "b", "c"]) == {"a", "c"}
    reported(subject, {"a": ORDERLY})
    assert subject.difference() is None


def test_a_member_that_reports_nothing_of_its_settings_does_not_differ() -> None:
    subject = orderly_check()
    reported(subject, {"a": {}})
    assert subject.difference() is None
    assert subject.start_queries(["a", "b"]) == {"b"}


def test_the_error_names_both_and_reports_that_each_stream_requires_a_group_of_its_own() -> None:
    subject = check(tags("orders"))
    response(subject, {"10.0.0.1@7#1": [tags("payments", "TagA")]})
    assert str(subject.difference()) == (
        "[ROCKETMQ_INCONSISTENT_SUBSCRIPTION] Members of group 'g' have different subscriptions: 'me' subscribes "
        "to orders (*); '10.0.0.1@7#1' subscribes to payments (TagA). Set the same topics and expressions on all "
        "members, or use another group. Each stream is a member of its own: two streams of one application that "
        "read different topics need a group each."
    )


OURS = {PROP_CHECKPOINT: "6f1e"}


@pytest.mark.parametrize("theirs", [{}, {PROP_CHECKPOINT: "8d0c"}])
def test_members_of_different_or_unknown_checkpoints_agree(theirs: dict[str, str]) -> None:
    subject = SubscriptionCheck("g", "me", [tags("orders")], OURS, RETRY)
    reported(subject, {"a": theirs})
    assert subject.difference() is None


def test_members_without_a_checkpoint_agree() -> None:
    subject = SubscriptionCheck("g", "me", [tags("orders")], {}, RETRY)
    reported(subject, {"a": {}})
    assert subject.difference() is None


def test_a_member_with_our_checkpoint_is_named_and_called_again() -> None:
    subject = SubscriptionCheck("g", "10.0.0.1@7#1", [tags("orders")], OURS, RETRY)
    subject.start_queries(["a", "10.0.0.5@8#2"])
    reported(subject, {"a": {}, "10.0.0.5@8#2": OURS})
    assert str(subject.difference()) == (
        "[ROCKETMQ_CHECKPOINT_SHARED] Members '10.0.0.1@7#1' and '10.0.0.5@8#2' of group 'g' run from one "
        "checkpoint, or from a copy of it. A sink that skips batch numbers it already has, such as Delta's or "
        "Iceberg's, loses rows. Stop one of them, and start it with a new checkpoint location (for a file sink "
        "also a new path). If one is an earlier run of this query, wait until it has ended."
    )
    assert subject.start_queries(["a", "10.0.0.5@8#2", "b"]) == {"10.0.0.5@8#2", "b"}
    subject.start_queries(["a", "b"])
    assert subject.difference() is None


AVG = "AllocateMessageQueueAveragely"
OF_JAVA = f"org.apache.rocketmq.client.consumer.rebalance.{AVG}@1b2c6ec2"


def own_settings(**given: str) -> dict[str, str]:
    required = {"namesrvAddr": "n:9876", "consumerGroup": "g", "subscribe": "orders"}
    return consumer_settings_of(ReadOptions.parse(required | given), AllocateMessageQueueAveragely())


@pytest.mark.parametrize("orderly", ["true", "false"])
def test_a_heartbeat_contains_its_model_order_and_strategy(orderly: str) -> None:
    assert own_settings(consumeOrderly=orderly) == {
        MESSAGE_MODEL: "CLUSTERING",
        PROP_CONSUME_ORDERLY: orderly,
        STRATEGY: AVG,
    }


@pytest.mark.parametrize(("model", "is_notified"), [("CLUSTERING", True), ("BROADCASTING", False)])
def test_the_checkpoint_is_sent_where_members_share_the_queues(model: str, is_notified: bool) -> None:
    required = {"namesrvAddr": "n:9876", "consumerGroup": "g", "subscribe": "orders", "instanceName": "one"}
    options = ReadOptions.parse(required | {"messageModel": model})
    properties = consumer_settings_of(options, AllocateMessageQueueAveragely(), "6f1e")
    assert properties.get(PROP_CHECKPOINT) == ("6f1e" if is_notified else None)


def test_in_broadcasting_there_is_no_strategy() -> None:
    assert own_settings(messageModel="BROADCASTING", instanceName="one") == {
        MESSAGE_MODEL: "BROADCASTING",
        PROP_CONSUME_ORDERLY: "false",
    }


@pytest.mark.parametrize("strategy", [AVG, OF_JAVA])
def test_what_can_be_compared_is_named_as_the_option_that_decides_it(strategy: str) -> None:
    properties = {MESSAGE_MODEL: "CLUSTERING", PROP_CONSUME_ORDERLY: "true", STRATEGY: strategy, "else": "x"}
    assert comparable_settings(properties) == {
        "messageModel": "CLUSTERING",
        "consumeOrderly": "true",
        "allocateStrategy": AVG,
    }


@pytest.mark.parametrize(
    ("properties", "settings"),
    [
        ({}, {}),
        ({PROP_CONSUME_ORDERLY: "true"}, {"consumeOrderly": "true"}),
        ({STRATEGY: AVG}, {"allocateStrategy": AVG}),
        ({STRATEGY: "com.example.Own@1"}, {}),
        ({STRATEGY: f"com.example.{AVG}.Inner"}, {}),
        ({MESSAGE_MODEL: "BROADCASTING", STRATEGY: AVG}, {"messageModel": "BROADCASTING"}),
    ],
)
def test_what_is_unknown_is_not_compared(properties: dict[str, str], settings: dict[str, str]) -> None:
    assert comparable_settings(properties) == settings


def test_members_differ_in_what_both_have_reported() -> None:
    ours = {"messageModel": "CLUSTERING", "consumeOrderly": "true", "allocateStrategy": AVG}
    assert differences(ours, ours) == []
    assert differences(ours, {}) == []
    assert differences({}, ours) == []
    assert differences(ours, {"consumeOrderly": "false", "allocateStrategy": "X"}) == [
        "consumeOrderly",
        "allocateStrategy",
    ]


def with_pattern(pattern: str, *theirs: SubscriptionData, ours: str = "orders-.*") -> str | None:
    """The condition of the difference to a member with ``pattern``, or without one."""
    subject = SubscriptionCheck("g", "me", [tags("orders-a", "A"), tags("orders-b", "A")], pattern_of(ours), RETRY)
    info = ConsumerRunningInfo(properties=pattern_of(pattern), subscriptions=theirs)
    subject.record_running_infos({"other": info})
    error = subject.difference()
    return None if error is None else error.condition


def pattern_of(pattern: str) -> dict[str, str]:
    return {PROP_TOPIC_PATTERN: pattern} if pattern else {}


def test_members_with_one_pattern_may_have_different_topics() -> None:
    assert with_pattern("orders-.*", tags("orders-a", "A")) is None
    assert with_pattern("orders-.*", tags("orders-b", "A"), tags("orders-c", "A")) is None
    assert with_pattern("orders-.*") is None


def test_members_with_one_pattern_filter_common_topics_alike() -> None:
    assert with_pattern("orders-.*", tags("orders-a", "B"), tags("orders-c", "A")) == "INCONSISTENT_SUBSCRIPTION"


def test_members_with_different_patterns_differ_in_that_setting() -> None:
    assert with_pattern(".*", tags("orders-a", "A"), tags("orders-b", "A")) == "INCONSISTENT_GROUP_SETTINGS"


def test_a_member_without_a_pattern_is_compared_in_all_topics() -> None:
    assert with_pattern("", tags("orders-a", "A"), tags("orders-b", "A")) is None
    assert with_pattern("", tags("orders-a", "A")) == "INCONSISTENT_SUBSCRIPTION"
    assert with_pattern("orders-.*", tags("orders-a", "A"), ours="") == "INCONSISTENT_SUBSCRIPTION"


def test_later_topics_of_this_member_are_compared() -> None:
    subject = check(tags("orders"))
    response(subject, {"other": [tags("orders")]})
    subject.update_subscriptions([tags("orders"), tags("returns")])
    assert subject.difference() is not None


def test_the_pattern_is_among_the_settings() -> None:
    required = {"namesrvAddr": "n:9876", "consumerGroup": "g", "subscribePattern": "orders-.*"}
    options = ReadOptions.parse(required)
    assert consumer_settings_of(options, AllocateMessageQueueAveragely())[PROP_TOPIC_PATTERN] == "orders-.*"


def test_an_error_shows_the_beginning_of_what_a_member_has_made_up() -> None:
    """Of any client of the group. The error had as many megabytes as the member's response."""
    long = "x" * 1_000_000
    subject = SubscriptionCheck("g", "me", [tags("orders")], {MESSAGE_MODEL: "CLUSTERING"}, RETRY)
    for properties, topic in (({}, long), ({MESSAGE_MODEL: long}, "orders")):
        info = ConsumerRunningInfo(properties=properties, subscriptions=(tags(topic),))
        subject.record_running_infos({"other": info})
        error = subject.difference()
        assert error is not None
        assert len(str(error)) < 2_000
        assert "characters)" in str(error.context["theirs"])


def test_nothing_is_kept_of_members_that_have_left() -> None:
    subject = check()
    for number in range(3):
        subject.start_queries(["me", f"other-{number}"])
        response(subject, {f"other-{number}": [tags("orders")]})
    kept = (vars(subject)[name] for name in ("_theirs", "_their_settings", "_checkpoints"))
    assert [list(one) for one in kept] == [["other-2"]] * 3
