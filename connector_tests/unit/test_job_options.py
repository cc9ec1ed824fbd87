"""Which options the doctor takes a job to have."""

from __future__ import annotations

import pytest

from rocketmq_spark.doctor.facts import Job
from rocketmq_spark.doctor.job_options import parse_job
from rocketmq_spark.model import MessageFilter

NS = {"namesrvAddr": "ns:9876"}
STREAM = {**NS, "consumerGroup": "g", "subscribe": "orders,payments"}


def test_a_stream_has_a_group_and_topics() -> None:
    parsed = parse_job({**STREAM, "subExpression": "A", "retryTopic": "true"}, is_writing=False)
    topics = ("orders", "payments", "%RETRY%g")
    expected = Job(
        topics=topics,
        group="g",
        is_member=True,
        starts_at_group=True,
        message_filter=MessageFilter("A", "TAG"),
        reads_retry_topic=True,
    )
    assert (parsed.job, parsed.errors, parsed.endpoints) == (expected, (), ())


def test_a_stream_that_broadcasts_is_a_member() -> None:
    parsed = parse_job({**STREAM, "messageModel": "BROADCASTING", "instanceName": "a"}, is_writing=False)
    assert (parsed.job.message_model, parsed.job.is_member) == ("BROADCASTING", True)


@pytest.mark.parametrize(
    "other",
    [
        {"groupOffsets": "ignore", "startingOffsets": "earliest"},
        {"messageModel": "BROADCASTING", "instanceName": "a"},
        {"commitOffsets": "false", "assign": '{"orders": {"a": [0]}}'},
    ],
)
def test_a_stream_that_does_not_begin_at_the_offsets_of_its_group(other: dict[str, str]) -> None:
    given = {name: value for name, value in STREAM.items() if name != "subscribe" or "assign" not in other}
    parsed = parse_job({**given, **other}, is_writing=False)
    assert parsed.errors == ()
    assert parsed.job.group == "g"
    assert not parsed.job.starts_at_group


def test_message_mode_over_endpoints_is_no_member() -> None:
    given = {"endpoints": "p:8081;q:8081", "consumerGroup": "g", "subscribe": "orders", "loadBalance": "message"}
    parsed = parse_job(given, is_writing=False)
    assert parsed.endpoints == ("p:8081", "q:8081")
    assert (parsed.job.is_message_based, parsed.job.is_member) == (True, False)


def test_topics_without_a_group_are_a_batch_read() -> None:
    parsed = parse_job({**NS, "subscribe": "orders", "endingOffsets": "latest"}, is_writing=False)
    expected = Job(topics=("orders",), group="TOOLS_CONSUMER", waits_for_master=True)
    assert (parsed.job, parsed.errors) == (expected, ())


@pytest.mark.parametrize(
    ("given", "topics"), [({"subscribePattern": "orders.*"}, ()), ({"assign": '{"orders":{"b":[0]}}'}, ("orders",))]
)
def test_selection_without_a_group_is_a_batch_read(given: dict[str, str], topics: tuple[str, ...]) -> None:
    parsed = parse_job({**NS, **given}, is_writing=False)
    expected = Job(topics=topics, group="TOOLS_CONSUMER", waits_for_master=True)
    assert (parsed.job, parsed.errors) == (expected, ())


def test_stream_of_assigned_queues_is_no_member() -> None:
    parsed = parse_job({**NS, "consumerGroup": "g", "assign": '{"orders":{"b":[0]}}'}, is_writing=False)
    assert (parsed.job, parsed.errors) == (Job(topics=("orders",), group="g", starts_at_group=True), ())


@pytest.mark.parametrize("read_from", ["master", "slave", "auto"])
def test_reads_name_the_servers_that_they_read(read_from: str) -> None:
    stream = parse_job({**STREAM, "readFrom": read_from}, is_writing=False)
    batch = parse_job({**NS, "subscribe": "orders", "readFrom": read_from}, is_writing=False)
    ordered = parse_job({**STREAM, "readFrom": read_from, "consumeOrderly": "true"}, is_writing=False)
    assert [one.job.read_from for one in (stream, batch, ordered)] == [read_from] * 3
    assert [one.job.waits_for_master for one in (stream, batch, ordered)] == [False, True, True]


@pytest.mark.parametrize(("given", "topics"), [({"TOPIC": "orders"}, ("orders",)), ({}, ())])
def test_a_write_has_a_topic_or_none(given: dict[str, str], topics: tuple[str, ...]) -> None:
    parsed = parse_job({**NS, **given}, is_writing=True)
    assert (parsed.job, parsed.errors) == (Job(topics=topics, is_writing=True), ())


def test_connection_options_alone_are_enough() -> None:
    parsed = parse_job(NS, is_writing=False)
    assert (parsed.job, parsed.errors) == (Job(), ())
    assert parsed.options is not None
    assert parsed.options.name_servers == ("ns:9876",)


def test_unknown_options_are_errors_with_suggestions_and_the_rest_is_parsed() -> None:
    parsed = parse_job({**STREAM, "maxOffsetsPerTriger": "5", "zzz": "1"}, is_writing=False)
    assert [str(error.context["suggestion"]) for error in parsed.errors] == [
        "Did you mean 'maxOffsetsPerTrigger'?",
        "No option has a similar name.",
    ]
    assert parsed.job.topics == ("orders", "payments")


def test_an_invalid_value_leaves_the_job_unknown() -> None:
    parsed = parse_job({**STREAM, "brokerTimeoutMs": "soon", "zzz": "1"}, is_writing=False)
    assert [error.condition for error in parsed.errors] == ["UNKNOWN_OPTION", "INVALID_OPTION_VALUE"]
    assert (parsed.options, parsed.job) == (None, Job())


def test_a_misspelt_topic_option_is_compared_with_those_of_a_stream() -> None:
    parsed = parse_job({**NS, "subscribes": "orders"}, is_writing=False)
    assert [error.condition for error in parsed.errors] == ["UNKNOWN_OPTION", "MISSING_OPTION"]
    assert parsed.errors[0].context["suggestion"] == "Did you mean 'subscribe'?"


def test_a_secret_is_in_no_error() -> None:
    parsed = parse_job({**STREAM, "secretKey": "hunter2", "zzz": "1"}, is_writing=False)
    assert "hunter2" not in " ".join(map(str, parsed.errors)) + repr(parsed)
