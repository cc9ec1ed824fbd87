"""An option is no more than a name until a test has seen what it does; tests of parsing do not count."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from rocketmq_spark.errors import OptionError
from rocketmq_spark.options import USES, ReadOptions
from rocketmq_spark.options.read_rules import READ_CONFLICTS, READ_DEPENDENCIES
from rocketmq_spark.options.table import Conflict, Dependency, rows

TESTS = Path(__file__).parents[1]
NAMES = {row.name for table in USES.values() for _, row in rows(table)}

DOES = {
    # what is read
    "includeProperties": "unit/test_schema.py::test_the_map_of_properties_comes_where_it_is_requested_and_in_its_place",
    "propertyColumns": "spark/test_main_job.py::test_columns_carry_what_was_sent",
    # servers
    "namesrvAddr": "spark/test_faults.py::test_a_wrong_address_is_an_error_that_names_it",
    "brokerAddressMap": "integration/test_address_map.py::test_a_stream_reads_what_a_task_has_written",
    "brokerTimeoutMs": "faults/test_hostile_servers.py::test_server_that_is_not_rocketmq_is_named",
    "clusterTimeoutMs": "unit/test_recreated_queues.py::test_a_broker_that_refuses_pulls_is_waited_for_and_then_named",
    # who we are, and over what we speak
    "accessKey": "integration/test_cli_broker.py::test_it_prints_the_options_of_a_client",
    "secretKey": "integration/test_cli_broker.py::test_it_prints_the_options_of_a_client",
    "securityToken": "integration/test_acl_broker.py::test_a_token_is_signed_too",
    "useTLS": "integration/test_cli_broker.py::test_it_prints_the_options_of_a_client",
    "tlsTrustCertPath": "unit/test_secured.py::test_a_file_that_cannot_be_used_is_named",
    "tlsAuthServer": ("integration/test_tls_broker.py::test_a_certificate_is_checked_unless_tls_auth_server_is_false"),
    "tlsCheckHostName": (
        "integration/test_tls_broker.py::test_a_host_name_is_checked_unless_tls_check_host_name_is_false"
    ),
    "tlsCertPath": ("integration/test_tls_broker.py::test_a_client_authenticates_with_tls_cert_path_and_tls_key_path"),
    "tlsKeyPath": "integration/test_tls_broker.py::test_a_client_authenticates_with_tls_cert_path_and_tls_key_path",
    "tlsKeyPassword": "integration/test_tls_broker.py::test_a_key_that_is_encrypted_is_opened_with_tls_key_password",
    # the group
    "consumerGroup": "unit/test_executor_pull_client.py::test_a_pull_goes_to_the_queues_master_with_the_subscription",
    "instanceName": (
        "unit/test_join_scenarios.py::test_two_that_take_one_name_at_once_do_not_wait_for_each_other_for_ever"
    ),
    "allocateStrategy": (
        "unit/test_group_members.py::test_a_joining_member_that_consumes_with_other_settings_owns_nothing_and_fails_soon"
    ),
    "messageQueueList": "unit/test_strategy_names.py::test_what_the_options_define_reaches_the_strategy",
    "consumeridcs": "unit/test_strategy_names.py::test_what_the_options_define_reaches_the_strategy",
    "machineRoomResolver": "unit/test_strategy_names.py::test_what_the_options_define_reaches_the_strategy",
    "consumeOrderly": (
        "unit/test_membership.py::"
        "test_an_orderly_queue_with_an_uncompleted_range_is_released_only_when_it_is_completed_and_committed"
    ),
    "messageModel": (
        "unit/test_membership.py::test_in_broadcasting_each_member_owns_every_queue_and_the_brokers_keep_no_offset"
    ),
    "localOffsetStoreDir": "unit/test_offset_store.py::test_each_group_and_instance_has_a_file_of_its_own",
    "loadBalance": "spark/test_message_granularity.py::test_two_queries_share_the_messages_of_one_queue",
    "endpoints": "integration/test_receiver.py::test_what_is_completed_is_not_redelivered",
    "invisibleDurationMs": (
        "integration/test_receiver.py::test_what_is_extended_is_claimed_by_no_other_receiver_and_is_acknowledged_by_its_last_handle"
    ),
    "rebalanceIntervalMs": "unit/test_group_lock.py::test_the_group_is_probed_again_after_the_interval",
    "persistOffsetIntervalMs": (
        "unit/test_group_lock.py::test_what_a_broker_has_not_confirmed_is_sent_again_after_the_interval"
    ),
    # what is read
    "subscribe": "spark/test_topics.py::test_a_topic_that_is_added_at_a_restart_begins_where_the_options_define",
    "subExpression": "support/core_scenarios.py::test_a_tag_filter_reads_the_tag_and_moves_past_the_rest",
    "expressionType": "integration/test_sql_filter.py::test_sql92_selects_by_properties",
    "subscribePattern": "spark/test_patterns.py::test_topic_that_appears_later_is_read_once_from_its_first_message",
    "assign": "spark/test_batch.py::test_assigned_queues_are_read_and_no_others",
    "commitOffsets": "spark/test_assigned.py::test_stream_that_commits_no_offsets_resumes_from_its_checkpoint",
    "retryTopic": "spark/test_failed_rows.py::test_failed_rows_are_redelivered_or_end_in_the_dlq_and_hold_nothing_up",
    "view": "spark/test_views.py::test_where_is_my_lag",
    # where it begins
    "startingOffsets": "spark/test_main_job.py::test_listed_starting_offsets_begin_each_queue_where_they_define",
    "startingTimestamp": "spark/test_main_job.py::test_a_start_by_time_reads_what_was_stored_since_then",
    "startingOffsetsByTimestamp": "spark/test_batch.py::test_offsets_and_times_limit_each_queue",
    "startingOffsetsByTimestampStrategy": (
        "unit/test_batch_ranges.py::test_queues_without_a_message_since_their_time_are_all_listed"
    ),
    "endingOffsets": "spark/test_batch.py::test_offsets_and_times_limit_each_queue",
    "endingTimestamp": "spark/test_batch.py::test_offsets_and_times_limit_each_queue",
    "endingOffsetsByTimestamp": "unit/test_batch_ranges.py::test_search_is_for_the_time_of_each_queue",
    "groupOffsets": (
        "unit/test_topic_starts.py::test_a_new_checkpoint_that_ignores_the_group_moves_it_where_the_options_define"
    ),
    "consumeFromWhere": "unit/test_consume_from_where.py::test_each_spelling_has_one_meaning",
    "consumeTimestamp": "unit/test_consume_from_where.py::test_each_spelling_has_one_meaning",
    # how much at once
    "maxOffsetsPerTrigger": "spark/test_main_job.py::test_a_limit_makes_several_batches_and_loses_nothing",
    "maxBytesPerTrigger": "spark/test_main_job.py::test_a_limit_of_bytes_follows_the_sizes_of_messages",
    "minOffsetsPerTrigger": (
        "unit/test_batch_planner.py::test_few_messages_are_delayed_until_there_are_enough_or_the_time_is_over"
    ),
    "maxTriggerDelay": (
        "unit/test_batch_planner.py::test_few_messages_are_delayed_until_there_are_enough_or_the_time_is_over"
    ),
    "minPartitions": "integration/test_range_reading.py::test_the_tasks_of_a_batch_read_all_of_it",
    "maxRecordsPerPartition": "integration/test_range_reading.py::test_the_tasks_of_a_batch_read_all_of_it",
    # what is written
    "topic": "spark/test_writing.py::test_a_batch_is_read_as_it_was_written",
    "producerGroup": "unit/test_batch_sender.py::test_a_batch_goes_to_the_next_queue_with_the_producer_group",
    "acceptNotDurable": "unit/test_batch_sender.py::test_what_is_not_durable_is_sent_again_unless_that_is_accepted",
    "maxMessageBytes": "unit/test_write_task.py::test_a_row_that_no_broker_takes_is_named_and_nothing_else_is_sent",
    "compression": "unit/test_write_task.py::test_large_bodies_are_compressed_by_the_options",
    "compressMsgBodyOverHowmuch": "unit/test_write_task.py::test_large_bodies_are_compressed_by_the_options",
    "messageIdColumns": "spark/test_writing.py::test_ids_of_columns_that_are_not_sent_are_the_same_in_each_write",
    "deadLetterTopic": (
        "unit/test_write_task.py::test_rows_that_cannot_be_sent_go_to_the_dead_letter_topic_if_there_is_one"
    ),
    # what is not as it should be
    "failOnDataLoss": (
        "unit/test_planned_losses.py::test_what_retention_took_is_passed_over_and_logged_where_the_user_allows_it"
    ),
    "badMessages": "integration/test_unreadable_bodies.py::test_fail_names_the_offset_the_reason_and_what_to_do",
    "missingTopicTimeoutMs": "spark/test_faults.py::test_a_missing_topic_is_an_error_that_names_it",
    "readFrom": "unit/test_slave_reads.py::test_a_broker_without_a_master_is_queried_at_its_slave",
    "missingQueues": "unit/test_available_now.py::test_available_now_ends_without_queues_that_may_be_dropped",
    "missingQueuesTimeoutMs": (
        "unit/test_planned_losses.py::test_queues_that_stay_unavailable_end_the_query_though_nothing_else_happens"
    ),
    "skipRanges": (
        "integration/test_range_reading.py::"
        "test_what_is_skipped_is_omitted_from_the_batch_that_is_read_again_and_of_no_other"
    ),
    "spoolDir": (
        "integration/test_pop_run.py::test_with_a_spool_a_later_start_reads_the_same_rows_and_acknowledges_them"
    ),
    "logLevel": (
        "spark/test_logged_outages.py::test_an_outage_is_reported_in_few_lines_and_in_the_progress_until_it_is_over"
    ),
}
"""The test that sees what each option does, by name. Others may as well."""

REQUIRED = {"namesrvAddr": "n:9876", "consumerGroup": "g", "subscribe": "orders"}
BROADCASTING = {"messageModel": "BROADCASTING", "instanceName": "me"}
BY_MESSAGE = {"loadBalance": "message"}
ASSIGNED = {"assign": '{"orders":{"broker-a":[0]}}'}
OVER_GRPC = {**BY_MESSAGE, "endpoints": "p:8081"}
CONTRADICTING = {
    ("tlsAuthServer", "tlsTrustCertPath"): {"useTLS": "true", "tlsAuthServer": "false", "tlsTrustCertPath": "/ca.pem"},
    ("namesrvAddr", "endpoints"): OVER_GRPC,
    ("endpoints", "loadBalance"): {**OVER_GRPC, "loadBalance": "queue"},
    ("endpoints", "startingOffsets"): {**OVER_GRPC, "startingOffsets": "latest"},
    ("endpoints", "consumeFromWhere"): {**OVER_GRPC, "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET"},
    ("endpoints", "accessKey"): {**OVER_GRPC, "accessKey": "m\u00e9", "secretKey": "s"},
    ("endpoints", "securityToken"): {**OVER_GRPC, "accessKey": "me", "secretKey": "s", "securityToken": "a\nb"},
    ("endpoints", "failOnDataLoss"): {**OVER_GRPC, "failOnDataLoss": "false"},
    ("endpoints", "badMessages"): {**OVER_GRPC, "badMessages": "deadLetter"},
    ("endpoints", "tlsKeyPassword"): {
        **OVER_GRPC,
        "useTLS": "true",
        "tlsCertPath": "/c.pem",
        "tlsKeyPassword": "p",
    },
    ("loadBalance", "consumeOrderly"): {**BY_MESSAGE, "consumeOrderly": "true"},
    ("loadBalance", "messageModel"): {**BY_MESSAGE, **BROADCASTING},
    ("loadBalance", "allocateStrategy"): {**BY_MESSAGE, "allocateStrategy": "CIRCLE"},
    ("loadBalance", "instanceName"): {**BY_MESSAGE, "instanceName": "me"},
    ("loadBalance", "rebalanceIntervalMs"): {**BY_MESSAGE, "rebalanceIntervalMs": "1000"},
    ("loadBalance", "persistOffsetIntervalMs"): {**BY_MESSAGE, "persistOffsetIntervalMs": "1000"},
    ("loadBalance", "groupOffsets"): {**BY_MESSAGE, "groupOffsets": "ignore", "startingOffsets": "earliest"},
    ("loadBalance", "startingTimestamp"): {**BY_MESSAGE, "startingTimestamp": "1"},
    ("loadBalance", "startingOffsetsByTimestamp"): {**BY_MESSAGE, "startingOffsetsByTimestamp": '{"orders":1}'},
    ("loadBalance", "consumeTimestamp"): {**BY_MESSAGE, "consumeTimestamp": "20260101000000"},
    ("loadBalance", "retryTopic"): {**BY_MESSAGE, "retryTopic": "true"},
    ("loadBalance", "minOffsetsPerTrigger"): {**BY_MESSAGE, "minOffsetsPerTrigger": "5"},
    ("minOffsetsPerTrigger", "maxOffsetsPerTrigger"): {"minOffsetsPerTrigger": "8", "maxOffsetsPerTrigger": "7"},
    ("loadBalance", "minPartitions"): {**BY_MESSAGE, "minPartitions": "2"},
    ("loadBalance", "missingQueues"): {**BY_MESSAGE, "missingQueues": "drop"},
    ("loadBalance", "missingQueuesTimeoutMs"): {**BY_MESSAGE, "missingQueuesTimeoutMs": "1"},
    ("loadBalance", "readFrom"): {**BY_MESSAGE, "readFrom": "auto"},
    ("loadBalance", "skipRanges"): {**BY_MESSAGE, "skipRanges": "orders@broker-a:0[1,2)"},
    ("loadBalance", "assign"): {**BY_MESSAGE, **ASSIGNED},
    ("loadBalance", "subscribePattern"): {**BY_MESSAGE, "subscribePattern": "orders.*"},
    ("commitOffsets", "groupOffsets"): {
        **ASSIGNED,
        "commitOffsets": "false",
        "groupOffsets": "ignore",
        "startingOffsets": "earliest",
    },
    ("commitOffsets", "startingOffsets"): {**ASSIGNED, "commitOffsets": "false", "startingOffsets": "group"},
    ("assign", "consumeOrderly"): {**ASSIGNED, "consumeOrderly": "true"},
    ("assign", "messageModel"): {**ASSIGNED, **BROADCASTING},
    ("assign", "allocateStrategy"): {**ASSIGNED, "allocateStrategy": "AVG_BY_CIRCLE"},
    ("assign", "retryTopic"): {**ASSIGNED, "retryTopic": "true"},
    ("subscribe", "assign"): ASSIGNED,
    ("subscribe", "subscribePattern"): {"subscribePattern": "orders.*"},
    ("subscribePattern", "assign"): {"subscribePattern": "orders.*", **ASSIGNED, "subscribe": ""},
    ("loadBalance", "startingOffsets"): {**BY_MESSAGE, "startingOffsets": '{"orders":{"broker-a":{"0":1}}}'},
    ("loadBalance", "consumeFromWhere"): {**BY_MESSAGE, "consumeFromWhere": "CONSUME_FROM_TIMESTAMP"},
    ("loadBalance", "invisibleDurationMs"): {"invisibleDurationMs": "2000"},
    ("loadBalance", "spoolDir"): {"spoolDir": "/spool"},
    ("consumeOrderly", "retryTopic"): {"consumeOrderly": "true", "retryTopic": "true"},
    ("messageModel", "localOffsetStoreDir"): {"localOffsetStoreDir": "/offsets"},
    ("messageModel", "consumeOrderly"): {**BROADCASTING, "consumeOrderly": "true"},
    ("messageModel", "allocateStrategy"): {**BROADCASTING, "allocateStrategy": "CIRCLE"},
    ("messageModel", "groupOffsets"): {**BROADCASTING, "groupOffsets": "ignore", "startingOffsets": "earliest"},
    ("messageModel", "startingOffsets"): {**BROADCASTING, "startingOffsets": "group"},
    ("groupOffsets", "startingOffsets"): {"groupOffsets": "ignore", "startingOffsets": '{"orders":"group"}'},
    ("messageModel", "retryTopic"): {**BROADCASTING, "retryTopic": "true"},
}
"""Options that contradict each other, for each pair that does."""


def test_of_every_option_a_named_test_sees_what_it_does() -> None:
    assert DOES.keys() == NAMES


@pytest.mark.parametrize("option", DOES)
def test_that_test_is_there_and_gives_the_option(option: str) -> None:
    name, _, test = DOES[option].partition("::")
    text = (TESTS / name).read_text(encoding="utf-8")
    assert test in functions(text)
    assert gives(text, option)


def functions(text: str) -> set[str]:
    return {node.name for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)}


def gives(text: str, option: str) -> bool:
    """Whether a module names the option, as a word of its own, or the field that holds its value."""
    fields = {row.name: field for table in USES.values() for field, row in rows(table)}
    spellings = {row.name: row.spellings for table in USES.values() for _, row in rows(table)}
    words = {word for node in ast.walk(ast.parse(text)) for word in words_of(node)}
    return not words.isdisjoint({*spellings.get(option, ()), fields.get(option, "")})


def words_of(node: ast.AST) -> list[str]:
    if isinstance(node, ast.keyword):
        return [node.arg or ""]
    return [node.value] if isinstance(node, ast.Constant) and isinstance(node.value, str) else []


def test_a_test_that_does_not_give_an_option_is_found() -> None:
    assert gives("stream(minPartitions='3')", "minPartitions")
    assert gives("options = {'minPartitions': '3'}", "minPartitions")
    assert gives("replace(OPTIONS, min_partitions=3)", "minPartitions")
    assert not gives("# minPartitions\nstream(maxRecordsPerPartition='3')", "minPartitions")


# ---------------------------------------------------------------------------------------------------- contradictions


@pytest.mark.parametrize("conflict", READ_CONFLICTS, ids=lambda conflict: f"{conflict.first}-{conflict.second}")
def test_a_conflict_is_of_options_that_are_there_and_documented(conflict: Conflict) -> None:
    assert {conflict.first, conflict.second} <= NAMES
    page = (TESTS.parent / "docs/reference/options.md").read_text(encoding="utf-8")
    _, _, of_second = page.partition(f"### {conflict.second}\n")
    assert f"- restricted by `{conflict.first}`: {conflict.explanation}" in of_second.partition("\n### ")[0]


@pytest.mark.parametrize("conflict", READ_CONFLICTS, ids=lambda conflict: f"{conflict.first}-{conflict.second}")
def test_a_conflict_is_reported_with_its_reason(conflict: Conflict) -> None:
    pair = (conflict.first, conflict.second)
    with pytest.raises(OptionError) as raised:
        ReadOptions.parse({name: value for name, value in (REQUIRED | CONTRADICTING[pair]).items() if value})
    assert (raised.value.condition, raised.value.context["first"], raised.value.context["second"]) == (
        "INCOMPATIBLE_OPTIONS",
        *pair,
    )
    assert str(raised.value).endswith(f" {conflict.explanation} Change or remove one of them.")


@pytest.mark.parametrize("rule", [*READ_CONFLICTS, *READ_DEPENDENCIES], ids=lambda rule: rule.explanation[:30])
def test_a_reason_is_a_whole_sentence(rule: Conflict | Dependency) -> None:
    assert len(rule.explanation.split()) > 3
    assert rule.explanation.endswith(".")


def test_there_is_an_example_of_each_conflict_and_of_nothing_else() -> None:
    assert CONTRADICTING.keys() == {(conflict.first, conflict.second) for conflict in READ_CONFLICTS}
