from __future__ import annotations

import dataclasses
import pickle
import re
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from rocketmq_spark.errors import OptionError
from rocketmq_spark.model import UNFILTERED, MessageFilter, MessageQueue, QueueRange
from rocketmq_spark.options import USES, BatchReadOptions, ConnectionOptions, ReadOptions
from rocketmq_spark.options.connection import connection_options, options_of
from rocketmq_spark.options.kinds import (
    ADDRESSES,
    ASSIGNMENT,
    BOOLEAN,
    EXPRESSION,
    GROUP,
    INSTANCE,
    LOCAL_TIME,
    NAMES,
    PROPERTIES,
    QUEUES,
    RANGES,
    STARTING_OFFSETS,
    STRATEGY,
    TOPIC,
    TOPIC_PATTERN,
    TOPICS,
    Kind,
    choice,
    integer,
)
from rocketmq_spark.options.queue_positions import EARLIEST, GROUP_WORDS, LATEST, QueuePositions
from rocketmq_spark.options.read_rules import READ_DEPENDENCIES, RETRY_TOPIC_NEEDS_NO_ORDER
from rocketmq_spark.options.receive import ONLY_BY_QUEUE
from rocketmq_spark.options.table import Option, Section, option, rows
from rocketmq_spark.options.write import WriteOptions
from rocketmq_spark.security import UNSECURED, Credentials, Secret, Security, Tls

ROOT = Path(__file__).parents[2]
REQUIRED = {"namesrvAddr": "a:9876", "consumerGroup": "g", "subscribe": "orders"}
SECRET = "hunter2"


def parse(**more: str) -> ReadOptions:
    return ReadOptions.parse({**REQUIRED, **more})


def row_of(kind: Kind[Any]) -> Option:
    return Option("name", kind, "doc", Section.SUBSCRIPTION)


def refusal(given: Mapping[str, str]) -> OptionError:
    with pytest.raises(OptionError) as raised:
        ReadOptions.parse(given)
    return raised.value


# ---------------------------------------------------------------------------------------------------- names


def test_what_is_required_is_enough() -> None:
    options = parse()
    assert (options.name_servers, options.consumer_group, options.topics) == (("a:9876",), "g", ("orders",))


@pytest.mark.parametrize("missing", REQUIRED)
def test_what_is_required_and_missing_is_named(missing: str) -> None:
    error = refusal({name: text for name, text in REQUIRED.items() if name != missing})
    expected = next(row.expected_or_alternatives for _, row in rows(ReadOptions) if row.name == missing)
    assert (error.condition, error.context) == ("MISSING_OPTION", {"option": missing, "expected": expected})


def test_names_are_accepted_in_any_case() -> None:
    assert ReadOptions.parse({name.upper(): text for name, text in REQUIRED.items()}) == parse()


@pytest.mark.parametrize("alias", ["nameServer", "NAMESERVER"])
def test_an_alias_is_as_good_as_the_name(alias: str) -> None:
    assert ReadOptions.parse({alias: "b:1", "consumerGroup": "g", "topic": "t"}).name_servers == ("b:1",)


def test_two_names_of_one_option_may_agree() -> None:
    assert parse(nameServer="a:9876") == parse()


def test_two_names_of_one_option_must_not_differ() -> None:
    error = refusal({**REQUIRED, "nameServer": "b:9876"})
    assert error.condition == "INCOMPATIBLE_OPTIONS"
    assert error.context == {
        "first": "namesrvAddr",
        "second": "nameServer",
        "reason": "They are two names of one option and have different values.",
    }


@pytest.mark.parametrize(
    ("written", "text"),
    [(True, "true"), (False, "false"), (5_000, "5000"), ("5000", "5000")],
)
def test_values_of_python_are_what_spark_makes_of_them(written: Any, text: str) -> None:
    """Of the same dict, Spark's ``options`` took them, and ``send_back`` and ``send`` ended with an AttributeError."""
    name = "useTLS" if text in {"true", "false"} else "brokerTimeoutMs"
    assert ReadOptions.parse({**REQUIRED, name: written}) == ReadOptions.parse({**REQUIRED, name: text})


def test_none_is_the_default() -> None:
    unset: dict[str, Any] = {"secretKey": None, "brokerTimeoutMs": None, "nameServer": None}
    assert ReadOptions.parse({**REQUIRED, **unset}) == ReadOptions.parse(REQUIRED)


@pytest.mark.parametrize("name", ["brokerTimeoutMs", "secretKey"])
def test_value_that_is_no_text_is_refused_without_showing_it(name: str) -> None:
    written: Any = [b"hunter2"]
    with pytest.raises(OptionError, match=f"INVALID_OPTION_VALUE.*'{name}'.*text, a number or a boolean") as refused:
        ReadOptions.parse({**REQUIRED, name: written})
    assert "hunter2" not in str(refused.value)


def test_two_spellings_of_one_option_must_not_differ() -> None:
    """The last one was taken, and the other forgotten without a word."""
    error = refusal({**REQUIRED, "CONSUMERGROUP": "other"})
    assert error.condition == "INCOMPATIBLE_OPTIONS"
    assert (error.context["first"], error.context["second"]) == ("consumerGroup", "CONSUMERGROUP")
    assert ReadOptions.parse({**REQUIRED, "CONSUMERGROUP": REQUIRED["consumerGroup"]}) == parse()


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("consumergroups", "consumerGroup"),
        ("maxOffsetPerTrigger", "maxOffsetsPerTrigger"),
        ("failondataloss1", "failOnDataLoss"),
        ("name_server", "nameServer"),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest_known_one(written: str, meant: str) -> None:
    error = refusal({**REQUIRED, written: "x"})
    assert error.condition == "UNKNOWN_OPTION"
    assert error.context == {"option": written, "suggestion": f"Did you mean {meant!r}?"}
    assert str(error) == (
        f"[ROCKETMQ_UNKNOWN_OPTION] Unknown option {written!r}. Did you mean {meant!r}? Option names are not "
        "case-sensitive."
    )


def test_an_unknown_name_like_no_other_is_refused_without_a_suggestion() -> None:
    error = refusal({**REQUIRED, "zzzzqqqq": "x"})
    assert error.context == {"option": "zzzzqqqq", "suggestion": "No option has a similar name."}
    assert "  " not in str(error)


ELSEWHERE = "{0!r} is an option of {1}, and not of this call."
READS = "spark.readStream, spark.read and spark.read with view"
NOT_BY_PATH = "Set the topics with option 'subscribe' (reader) or 'topic' (writer), not in load() or save()."


@pytest.mark.parametrize(
    ("parse", "given", "suggestion"),
    [
        (ReadOptions.parse, "deadlettertopic", ELSEWHERE.format("deadLetterTopic", "df.write and df.writeStream")),
        (
            WriteOptions.parse,
            "ConsumerGroup",
            ELSEWHERE.format("consumerGroup", READS),
        ),
        (connection_options, "endpoints", ELSEWHERE.format("endpoints", "spark.readStream")),
        (ReadOptions.parse, "path", NOT_BY_PATH),
    ],
)
def test_what_belongs_elsewhere_is_no_misspelling(
    parse: Callable[[Mapping[str, str]], object], given: str, suggestion: str
) -> None:
    with pytest.raises(OptionError) as caught:
        parse({given: "x"})
    assert caught.value.context == {"option": given, "suggestion": suggestion}


def test_an_unknown_name_is_reported_before_what_it_was_meant_for_is_missed() -> None:
    without_group = {name: text for name, text in REQUIRED.items() if name != "consumerGroup"}
    assert "Use 'consumerGroup'." in str(refusal({**without_group, "group": "x"}))
    assert refusal(without_group).condition == "MISSING_OPTION"


@pytest.mark.parametrize("name", ["owner", "provider", "option.subscribe"])
def test_no_unknown_name_is_passed_over(name: str) -> None:
    """These were, because Spark's CREATE TABLE adds them; it cannot be used."""
    assert refusal({**REQUIRED, name: "x"}).condition == "UNKNOWN_OPTION"


def test_no_name_or_alias_stands_for_two_options() -> None:
    spellings = [spelling.lower() for _, row in rows(ReadOptions) for spelling in row.spellings]
    assert len(spellings) == len(set(spellings))


# ---------------------------------------------------------------------------------------------------- values


def test_an_invalid_value_is_refused_with_what_is_expected() -> None:
    error = refusal({**REQUIRED, "maxOffsetsPerTrigger": "0"})
    assert str(error) == (
        "[ROCKETMQ_INVALID_OPTION_VALUE] Invalid value '0' for 'maxOffsetsPerTrigger'. Set it to an integer "
        "from 1 to 9223372036854775807."
    )


@pytest.mark.parametrize("value", ["[" * 600_000, "\n" * 600_000])
def test_an_error_shows_the_beginning_of_a_long_value(value: str) -> None:
    """It had all of it: 600 kB in each log."""
    error = refusal({**REQUIRED, "startingOffsets": value + "x"})
    assert f"{value[:3]!r}"[1:-1] in str(error)
    assert "(600001 characters)" in str(error)
    assert len(str(error)) < 1_000


def test_an_error_shows_the_beginning_of_a_long_name() -> None:
    assert len(str(refusal({**REQUIRED, "x" * 600_000: "1"}))) < 1_000


def test_no_value_is_refused_before_the_user_wrote_one() -> None:
    for attribute, row in rows(ReadOptions):
        if not row.required:
            assert getattr(parse(), attribute) == (None if row.default is None else row.parse(row.default))


def at_one(queue: MessageQueue) -> QueuePositions:
    return QueuePositions(queues=((queue, 1),))


ACCEPTED: list[tuple[Kind[Any], str, object]] = [
    (ADDRESSES, "a:1", ("a:1",)),
    (ADDRESSES, "a.b-c_d:65535 ; 10.0.0.1:80", ("a.b-c_d:65535", "10.0.0.1:80")),
    (ADDRESSES, "a:1,b:2;a:1", ("a:1", "b:2")),
    (ADDRESSES, "[::1]:9876;[fe80::1.2.3.4]:1", ("[::1]:9876", "[fe80::1.2.3.4]:1")),
    (TOPICS, "orders , %RETRY%g,orders,a|b", ("orders", "%RETRY%g", "a|b")),
    (ADDRESSES, "a:1;b:2;", ("a:1", "b:2")),
    (ADDRESSES, "a:1, ;,", ("a:1",)),
    (TOPICS, "orders, payments ,", ("orders", "payments")),
    (TOPICS, "x" * 255, ("x" * 255,)),
    (TOPIC, "x" * 127, "x" * 127),
    (GROUP, "a-Z_0%|", "a-Z_0%|"),
    (GROUP, "g" * 120, "g" * 120),
    (INSTANCE, "DEFAULT#1", "DEFAULT#1"),
    (EXPRESSION, "*", "*"),
    (EXPRESSION, "TagA || TagB", "TagA || TagB"),
    (EXPRESSION, "订单", "订单"),
    (EXPRESSION, "a=1 || List<Order> || <b> || in stock || x=y", "a=1 || List<Order> || <b> || in stock || x=y"),
    (NAMES, " a ,, b,", ("a", "b")),
    (NAMES, "", ()),
    (
        QUEUES,
        "orders@broker-a:0, %RETRY%g@b:12",
        (MessageQueue("orders", "broker-a", 0), MessageQueue("%RETRY%g", "b", 12)),
    ),
    (
        QUEUES,
        "orders@broker a  1:0,T@b @:c:3",
        (MessageQueue("orders", "broker a  1", 0), MessageQueue("T", "b @:c", 3)),
    ),
    (QUEUES, "", ()),
    (
        RANGES,
        "orders@broker-a:0[5,9) , %RETRY%g@room@b-1:12[0,1),orders@broker-a:0[5,9)",
        (
            QueueRange(MessageQueue("orders", "broker-a", 0), 5, 9),
            QueueRange(MessageQueue("%RETRY%g", "room@b-1", 12), 0, 1),
        ),
    ),
    (
        RANGES,
        "orders@broker a:0[5,9),T@b @:c:3[0,1)",
        (QueueRange(MessageQueue("orders", "broker a", 0), 5, 9), QueueRange(MessageQueue("T", "b @:c", 3), 0, 1)),
    ),
    (
        RANGES,
        "T@b,c;d[1]:0[5,9),T@[b:2147483647[0,1)",
        (QueueRange(MessageQueue("T", "b,c;d[1]", 0), 5, 9), QueueRange(MessageQueue("T", "[b", 2**31 - 1), 0, 1)),
    ),
    (RANGES, "", ()),
    (STRATEGY, "MACHINE_ROOM_NEARBY-AVG", "MACHINE_ROOM_NEARBY-AVG"),
    (STRATEGY, "my.package:Strategy", "my.package:Strategy"),
    (STARTING_OFFSETS, "Latest", QueuePositions(LATEST)),
    (STARTING_OFFSETS, "earliest", QueuePositions(EARLIEST)),
    (STARTING_OFFSETS, "Group", QueuePositions(GROUP_WORDS["group"])),
    (STARTING_OFFSETS, "group:Earliest", QueuePositions(GROUP_WORDS["group:earliest"])),
    (STARTING_OFFSETS, "group:latest", QueuePositions(GROUP_WORDS["group:latest"])),
    (
        STARTING_OFFSETS,
        '{"orders":{"broker-a":{"0":23,"1":-2},"b":{"12":-1,"13":"group"}}}',
        QueuePositions(
            queues=(
                (MessageQueue("orders", "broker-a", 0), 23),
                (MessageQueue("orders", "broker-a", 1), EARLIEST),
                (MessageQueue("orders", "b", 12), LATEST),
                (MessageQueue("orders", "b", 13), GROUP_WORDS["group"]),
            )
        ),
    ),
    (STARTING_OFFSETS, '{"a":-2,"b":"latest","c":7}', QueuePositions(topics=(("a", -2), ("b", -1), ("c", 7)))),
    (STARTING_OFFSETS, '{"%RETRY%g|1":{"b @:c":{"0":1}}}', at_one(MessageQueue("%RETRY%g|1", "b @:c", 0))),
    (STARTING_OFFSETS, '{"T":{"\\ud83d\\ude00":{"0":1}}}', at_one(MessageQueue("T", "\U0001f600", 0))),
    (
        ASSIGNMENT,
        '{"orders":{"broker-b":[1,0],"b @:c":[2147483647]},"%DLQ%g":{"broker-a":[0]}}',
        (
            MessageQueue("%DLQ%g", "broker-a", 0),
            MessageQueue("orders", "b @:c", 2147483647),
            MessageQueue("orders", "broker-b", 0),
            MessageQueue("orders", "broker-b", 1),
        ),
    ),
    (TOPIC_PATTERN, "orders-.*|pay", re.compile("orders-.*|pay")),
    (BOOLEAN, "TRUE", True),
    (BOOLEAN, "false", False),
    (integer(0, 5), "0", 0),
    (integer(0, 5), "5", 5),
    (choice("earliest", "latest"), "LATEST", "latest"),
]


@pytest.mark.parametrize(("kind", "text", "value"), ACCEPTED)
def test_values_are_accepted(kind: Kind[Any], text: str, value: object) -> None:
    assert row_of(kind).parse(f" {text}\t") == value


REFUSED: list[tuple[Kind[Any], str]] = [
    (ADDRESSES, ""),
    (ADDRESSES, "a"),
    (ADDRESSES, "a:"),
    (ADDRESSES, ":1"),
    (ADDRESSES, "a:0"),
    (ADDRESSES, "a:65536"),
    (ADDRESSES, "a:b"),
    (ADDRESSES, "a:\u0661\u0662"),
    (ADDRESSES, "a:1;;b:2"),
    (ADDRESSES, ";"),
    (ADDRESSES, ";a:1"),
    (ADDRESSES, "::1:9876"),
    (ADDRESSES, "http://a:1"),
    (ADDRESSES, "a b:1"),
    (TOPICS, ""),
    (TOPICS, "a,,b"),
    (TOPICS, ","),
    (TOPICS, ",a"),
    (TOPICS, "a b"),
    (TOPICS, "orders.v1"),
    (TOPICS, "x" * 256),
    (GROUP, ""),
    (GROUP, "g" * 121),
    (GROUP, "a@b"),
    (GROUP, "TOOLS_CONSUMER"),
    (GROUP, "CID_RMQ_SYS_MINE"),
    (INSTANCE, "a@b"),
    (INSTANCE, "a b"),
    (EXPRESSION, ""),
    (EXPRESSION, "||"),
    (EXPRESSION, " | "),
    (EXPRESSION, "a\x01b"),
    (QUEUES, "orders"),
    (QUEUES, "orders@broker-a"),
    (QUEUES, "orders@broker-a:0;orders@broker-a:1"),
    (QUEUES, "orders@ :0"),
    (QUEUES, "orders@a\tb:0"),
    (QUEUES, "orders@broker-a:x"),
    (QUEUES, "orders@broker-a:1, other"),
    (RANGES, "orders@broker-a:0[5,9]"),
    (RANGES, "orders@broker-a:0[9,5)"),
    (RANGES, "orders@ :0[5,9)"),
    (RANGES, "orders@broker-a:0[5,9],orders@broker-a:1[5,9)"),
    (RANGES, "orders@broker-a:2147483648[5,9)"),
    (NAMES, ","),
    (PROPERTIES, " ,"),
    (QUEUES, ",,"),
    (TOPIC, "x" * 128),
    (RANGES, "orders@broker-a:0[5,9) orders@broker-a:1[5,9)"),
    (RANGES, "orders@broker-a:0[5,9),"),
    (STRATEGY, ""),
    (STRATEGY, "A V G"),
    (STARTING_OFFSETS, "timestamp"),
    (STARTING_OFFSETS, "23"),
    (STARTING_OFFSETS, "{}"),
    (STARTING_OFFSETS, '{"orders":{}}'),
    (STARTING_OFFSETS, '{"orders":-3}'),
    (STARTING_OFFSETS, '{"orders":"group:"}'),
    (STARTING_OFFSETS, "group:group"),
    (STARTING_OFFSETS, '{"orders":{"0":-2}}'),
    (STARTING_OFFSETS, '{"orders":{"broker-a":{"0":-3}}}'),
    (STARTING_OFFSETS, '{"orders":{"broker-a":{"0":"1"}}}'),
    (STARTING_OFFSETS, '{"orders":{"broker-a":{"x":1}}}'),
    (STARTING_OFFSETS, '{"orders":{"broker-a":{"0":true}}}'),
    (STARTING_OFFSETS, '{"orders":{"broker-a":{"-1":0}}}'),
    (STARTING_OFFSETS, '{"orders":{"broker-a":{"00":0}}}'),
    (STARTING_OFFSETS, '{"orders":{"broker-a":{"\u0661":0}}}'),
    (STARTING_OFFSETS, '{"orders":{"broker-a":{"0":9223372036854775808}}}'),
    (QUEUES, "orders@broker-a:\u0661"),
    (RANGES, "orders@broker-a:\u0661[0,1)"),
    (RANGES, "orders@broker-a:1[0,\u0661)"),
    (STARTING_OFFSETS, '{"orders":{"broker-a":{"2147483648":0}}}'),
    (STARTING_OFFSETS, '{"orders":{"broker-a":{"9999999999":0}}}'),
    (STARTING_OFFSETS, '{"orders":{"broker-a":{"0":0,"0":1}}}'),
    (STARTING_OFFSETS, '{"orders":{"broker-a":{"0":0},"broker-a":{"1":1}}}'),
    (STARTING_OFFSETS, '{"orders":{"broker-a":{"0":0}},"orders":{"broker-a":{"0":0}}}'),
    (STARTING_OFFSETS, '{"orders":{"":{"0":1}}}'),
    (STARTING_OFFSETS, '{"orders":{" ":{"0":1}}}'),
    (STARTING_OFFSETS, '{"orders":{"b\\u0000":{"0":1}}}'),
    (STARTING_OFFSETS, '{"orders":{"b\\n":{"0":1}}}'),
    (STARTING_OFFSETS, '{"orders":{"b\\u007f":{"0":1}}}'),
    (STARTING_OFFSETS, '{"orders":{"b\\ud800":{"0":1}}}'),
    (STARTING_OFFSETS, '{"":{"b":{"0":1}}}'),
    (STARTING_OFFSETS, '{"what?":{"b":{"0":1}}}'),
    (STARTING_OFFSETS, '{"\\ud800":{"b":{"0":1}}}'),
    (STARTING_OFFSETS, '{"orders":{"b":{"0":1}},"others":{}}'),
    (STARTING_OFFSETS, '{"orders":{"b":{"0":1},"c":{}}}'),
    (STARTING_OFFSETS, "[" * 100_000),
    (ASSIGNMENT, ""),
    (ASSIGNMENT, "orders"),
    (ASSIGNMENT, "[0]"),
    (ASSIGNMENT, "{}"),
    (ASSIGNMENT, '{"orders":[0]}'),
    (ASSIGNMENT, '{"orders":{}}'),
    (ASSIGNMENT, '{"orders":{"b":[]}}'),
    (ASSIGNMENT, '{"orders":{"b":0}}'),
    (ASSIGNMENT, '{"orders":{"b":{"0":1}}}'),
    (ASSIGNMENT, '{"orders":{"b":"01"}}'),
    (ASSIGNMENT, '{"orders":{"b":["0"]}}'),
    (ASSIGNMENT, '{"orders":{"b":[true]}}'),
    (ASSIGNMENT, '{"orders":{"b":[-1]}}'),
    (ASSIGNMENT, '{"orders":{"b":[2147483648]}}'),
    (ASSIGNMENT, '{"orders":{"b":[0,1,0]}}'),
    (ASSIGNMENT, '{"orders":{"b":[0],"b":[1]}}'),
    (ASSIGNMENT, '{"what?":{"b":[0]}}'),
    (ASSIGNMENT, '{"orders":{" ":[0]}}'),
    (ASSIGNMENT, "[" * 100_000),
    (TOPIC_PATTERN, ""),
    (TOPIC_PATTERN, "orders("),
    (TOPIC_PATTERN, "*"),
    (TOPIC_PATTERN, "a{9999999999999}"),
    (LOCAL_TIME, "2026010310000"),
    (LOCAL_TIME, "20261303100000"),
    (LOCAL_TIME, "2026-01-03"),
    (BOOLEAN, "yes"),
    (BOOLEAN, "1"),
    (integer(0, 5), "-1"),
    (integer(0, 5), "6"),
    (integer(0, 5), "1.0"),
    (integer(0, 50), "1_0"),
    (integer(0, 5), "\u0663"),
    (integer(0, 5), ""),
    (choice("earliest", "latest"), "timestamp"),
]


@pytest.mark.parametrize(("kind", "text"), REFUSED)
def test_values_are_refused(kind: Kind[Any], text: str) -> None:
    with pytest.raises(OptionError) as raised:
        row_of(kind).parse(text)
    assert raised.value.condition == "INVALID_OPTION_VALUE"
    assert raised.value.context["expected"] == kind.expected


def test_a_local_time_is_what_the_wall_clock_shows() -> None:
    at_ms = row_of(LOCAL_TIME).parse("20260103101112")
    assert datetime.fromtimestamp(at_ms / 1000).astimezone().strftime("%Y-%m-%d %H:%M:%S") == "2026-01-03 10:11:12"


def is_refused(kind: Kind[Any], text: str) -> bool:
    with pytest.raises(ValueError):
        kind.parse(text)
    return True


def test_a_whole_number_is_accepted_from_the_first_to_the_last_that_it_names() -> None:
    kind = integer(2, 4)
    assert kind.expected == "an integer from 2 to 4"
    assert [kind.parse(text) for text in ("2", "4")] == [2, 4]
    assert all(is_refused(kind, text) for text in ("1", "5", "x"))
    assert integer(0).parse(str(2**31 - 1)) == 2**31 - 1
    assert is_refused(integer(0), str(2**31))


def test_a_choice_lists_its_values_and_accepts_them_in_any_case() -> None:
    kind = choice("earliest", "CONSUME_FROM_Timestamp")
    assert kind.expected == "'earliest' or 'CONSUME_FROM_Timestamp'"
    assert [kind.parse(text) for text in ("EARLIEST", "consume_from_timestamp")] == [
        "earliest",
        "CONSUME_FROM_Timestamp",
    ]
    assert is_refused(kind, "latest")


# ---------------------------------------------------------------------------------------------------- the table


def test_a_default_that_could_not_be_written_is_noticed_when_it_is_defined() -> None:
    with pytest.raises(OptionError, match="Invalid value 'maybe' for"):
        option("name", BOOLEAN, section=Section.SUBSCRIPTION, doc="doc", default="maybe")


def test_a_row_is_what_was_written_and_nothing_more() -> None:
    field = option("name", BOOLEAN, section=Section.SUBSCRIPTION, doc="Doc.")
    assert field.metadata["option"] == Option(
        "name", BOOLEAN, "Doc.", Section.SUBSCRIPTION, False, (), None, False, False
    )
    assert field.repr is True


def test_a_row_has_all_that_was_written() -> None:
    field = option(
        "name",
        BOOLEAN,
        section=Section.SECURITY,
        doc="Doc.",
        essential=True,
        aliases=("other",),
        default="true",
        required=True,
        secret=True,
    )
    assert field.metadata["option"] == Option(
        "name", BOOLEAN, "Doc.", Section.SECURITY, True, ("other",), "true", True, True
    )
    assert field.repr is False


def test_required_options_have_no_default() -> None:
    assert not [row.name for _, row in rows(ReadOptions) if row.required and row.default is not None]


def test_every_option_is_documented_in_whole_sentences() -> None:
    documented = [row for table in USES.values() for _, row in rows(table)]
    assert not [row.name for row in documented if not row.doc.endswith(".")]


def test_ten_options_are_enough_to_begin_with_and_all_that_is_required_is_among_them() -> None:
    essential = {row.name for _, row in rows(ReadOptions) if row.essential}
    assert len(essential) == 10
    assert essential >= REQUIRED.keys()


@pytest.mark.parametrize("table", USES.values())
def test_every_use_has_the_connections_options_and_sections_that_are_read_in_one_piece(
    table: type[ConnectionOptions],
) -> None:
    found = [row for _, row in rows(table)]
    assert set(found) >= {row for _, row in rows(ConnectionOptions)}
    sections = [section for section, _ in groupby(row.section for row in found)]
    assert sections == [section for section in Section if section in sections]
    assert sections[:2] == [Section.CONNECTION, Section.SECURITY]


def test_no_section_is_empty() -> None:
    assert {row.section for table in USES.values() for _, row in rows(table)} == set(Section)


def test_options_travel_to_executors_and_stay_equal() -> None:
    options = parse(maxOffsetsPerTrigger="7", startingOffsets='{"orders":{"b":{"0":1}}}')
    assert pickle.loads(pickle.dumps(options)) == options
    assert hash(pickle.loads(pickle.dumps(options))) == hash(options)


def test_options_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        parse().consumer_group = "other"  # type: ignore[misc]  # what mypy forbids is tried


# ---------------------------------------------------------------------------------------------------- contradictions


@pytest.mark.parametrize(
    ("given", "missing"),
    [
        ({"accessKey": "me"}, "secretKey"),
        ({"secretKey": "s"}, "accessKey"),
        ({"securityToken": "t"}, "accessKey"),
        ({"tlsTrustCertPath": "/ca.pem"}, "useTLS"),
        ({"tlsAuthServer": "false", "useTLS": "false"}, "useTLS"),
        ({"tlsCheckHostName": "false"}, "useTLS"),
        ({"tlsCertPath": "/me.pem"}, "useTLS"),
        ({"tlsKeyPath": "/me.key", "useTLS": "true"}, "tlsCertPath"),
        ({"tlsKeyPassword": "p", "useTLS": "true"}, "tlsCertPath"),
    ],
)
def test_what_is_nothing_without_another_option_is_refused(given: dict[str, str], missing: str) -> None:
    error = refusal({**REQUIRED, **given})
    assert (error.condition, error.context["needed"]) == ("OPTION_REQUIRES_OPTION", missing)
    (explanation,) = (
        need.explanation
        for need in READ_DEPENDENCIES
        if need.required_option == missing and need.option == error.context["option"]
    )
    assert str(error).endswith(f" {explanation} Set '{missing}', or remove '{error.context['option']}'.")


def test_a_caller_that_does_not_check_servers_trusts_no_certificates() -> None:
    error = refusal({**REQUIRED, "useTLS": "true", "tlsAuthServer": "false", "tlsTrustCertPath": "/ca.pem"})
    assert (error.condition, error.context["second"]) == ("INCOMPATIBLE_OPTIONS", "tlsTrustCertPath")


def test_options_define_how_connections_are_secured() -> None:
    assert parse().security == UNSECURED
    tls = {"tlsTrustCertPath": "/ca.pem", "tlsCertPath": "/me.pem", "tlsKeyPath": "/me.key", "tlsKeyPassword": "p"}
    given = {"accessKey": "me", "secretKey": "s", "securityToken": "t", "useTLS": "true", **tls}
    assert parse(**given, tlsCheckHostName="false").security == Security(
        Credentials("me", Secret("s"), Secret("t")), Tls("/ca.pem", "/me.pem", "/me.key", Secret("p"), True, False)
    )


@pytest.mark.parametrize(
    "security",
    [
        UNSECURED,
        Security(Credentials("me", Secret("s"))),
        Security(Credentials("me", Secret("s"), Secret("t")), Tls(auth_server=False, check_host_name=False)),
        Security(None, Tls("/ca.pem", "/me.pem", "/me.key", Secret("p"))),
    ],
)
def test_security_can_be_written_as_options(security: Security) -> None:
    assert parse(**options_of(security)).security == security


def test_security_is_written_as_the_options_are_spelled_and_unset_ones_are_omitted() -> None:
    """Others read them too: the command line, which states with which options an embedded cluster lets one in."""
    tls = Tls("/ca.pem", "/me.pem", "/me.key", Secret("p"), auth_server=True, check_host_name=False)
    assert options_of(Security(Credentials("me", Secret("s"), Secret("t")), tls)) == {
        "accessKey": "me",
        "secretKey": "s",
        "securityToken": "t",
        "useTLS": "true",
        "tlsTrustCertPath": "/ca.pem",
        "tlsAuthServer": "true",
        "tlsCheckHostName": "false",
        "tlsCertPath": "/me.pem",
        "tlsKeyPath": "/me.key",
        "tlsKeyPassword": "p",
    }
    assert options_of(Security(Credentials("me", Secret("s")))) == {"accessKey": "me", "secretKey": "s"}


@pytest.mark.parametrize("parse_other", [connection_options, WriteOptions.parse])
def test_a_caller_that_reads_nothing_has_the_connections_options_and_what_goes_with_them(
    parse_other: Callable[[Mapping[str, str]], ConnectionOptions],
) -> None:
    where = {"NAMESRVADDR": "a:9876;b:9876"}
    given = parse_other(where | {"accessKey": "me", "secretKey": "s", "brokerTimeoutMs": "700"})
    assert given.name_servers == ("a:9876", "b:9876")
    assert (given.broker_timeout_ms, given.security) == (700, Security(Credentials("me", Secret("s"))))
    unchecked = {"useTLS": "true", "tlsAuthServer": "false", "tlsTrustCertPath": "/ca.pem"}
    for more, condition in (
        ({"accessKey": "me"}, "OPTION_REQUIRES_OPTION"),
        (unchecked, "INCOMPATIBLE_OPTIONS"),
        ({"startingOffsets": "latest"}, "UNKNOWN_OPTION"),
    ):
        with pytest.raises(OptionError) as raised:
            parse_other(where | more)
        assert raised.value.condition == condition


@pytest.mark.parametrize(
    "reported",
    [
        {"startingOffsets": "latest"},
        {"startingTimestamp": "1"},
        {"consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET"},
        {"consumeTimestamp": "20260101000000"},
    ],
    ids=str,
)
def test_the_group_is_moved_only_to_where_one_of_the_options_defines(reported: dict[str, str]) -> None:
    assert parse(groupOffsets="ignore", **reported).ignores_group_offsets
    error = refusal({**REQUIRED, "groupOffsets": "ignore"})
    assert (error.condition, error.context["needed"]) == ("OPTION_REQUIRES_OPTION", "startingOffsets")


BROADCASTING = {"messageModel": "broadcasting", "instanceName": "one"}


def test_broadcasting_takes_what_has_a_meaning_in_it() -> None:
    options = parse(**BROADCASTING, localOffsetStoreDir="/offsets", allocateStrategy="avg", consumeOrderly="false")
    assert (options.message_model, options.local_offset_store_dir) == ("BROADCASTING", "/offsets")


@pytest.mark.parametrize(("name", "text"), [("consumeOrderly", "true"), ("allocateStrategy", "AVG_BY_CIRCLE")])
def test_broadcasting_refuses_what_shares_queues(name: str, text: str) -> None:
    error = refusal({**REQUIRED, **BROADCASTING, name: text})
    assert error.condition == "INCOMPATIBLE_OPTIONS"
    assert (error.context["first"], error.context["second"]) == ("messageModel", name)


def test_broadcasting_needs_a_name_for_its_file() -> None:
    error = refusal({**REQUIRED, "messageModel": "BROADCASTING"})
    assert (error.condition, error.context["needed"]) == ("OPTION_REQUIRES_OPTION", "instanceName")


def test_clustering_keeps_no_file() -> None:
    error = refusal({**REQUIRED, "localOffsetStoreDir": "/offsets"})
    assert (error.condition, error.context["second"]) == ("INCOMPATIBLE_OPTIONS", "localOffsetStoreDir")


# ---------------------------------------------------------------------------------------------------- secrets


@dataclass(frozen=True, kw_only=True)
class WithSecret:
    user: str = option("user", choice("me"), section=Section.CONNECTION, required=True, doc="Who.")
    password: int = option("password", integer(0, 5), section=Section.CONNECTION, secret=True, doc="A secret.")


def secret_row() -> Option:
    return dict(rows(WithSecret))["password"]


SECRETS = {
    "accessKey": "me",
    "secretKey": SECRET,
    "securityToken": f"token-{SECRET}",
    "useTLS": "true",
    "tlsCertPath": "/client.pem",
    "tlsKeyPassword": f"key-{SECRET}",
}


def test_secrets_are_in_no_repr_of_the_options_and_in_no_pickled_one_s() -> None:
    options = parse(**SECRETS)
    for shown in (options, pickle.loads(pickle.dumps(options)), options.security, dataclasses.asdict(options)):
        assert SECRET not in f"{shown!r} {shown!s}"


def test_options_of_secrets_are_marked_so_that_their_values_are_in_no_error() -> None:
    """Spark hides them too: ``spark.redaction.regex`` matches their names."""
    redacted = re.compile("(?i)secret|password|token|access[.]?key")
    marked = {row.name for _, row in rows(ReadOptions) if row.secret}
    assert marked == {"secretKey", "securityToken", "tlsKeyPassword"}
    assert all(redacted.search(name) for name in (*marked, "accessKey"))
    error = refusal({**REQUIRED, "accessKey": "me", "secretKey": " "})
    assert "Invalid value '***' for 'secretKey'. Set it to non-empty text." in str(error)


@pytest.mark.parametrize("name", ["secretKey", "SECRETKEY", "securityToken", "tlsKeyPassword"])
@pytest.mark.parametrize(
    "text",
    [
        'options {\n  key: "NAME"\n  value: "hunter2"\n}\n',
        "VIEW v OPTIONS (subscribe 'orders', NAME 'hunter2', useTLS 'true')",
        'SELECT * FROM orders WITH (`NAME` = "hunter2 \u00e4 hunter2")',
        "OPTIONS (NAME\n  'hunter2')",
        "optionlist((subscribe,orders), (NAME,hunter2), (useTLS,true))",
    ],
    ids=["a request", "a view", "a statement", "two lines", "a plan"],
)
def test_recommended_setting_redacts_secrets_in_texts(name: str, text: str) -> None:
    """As Spark shows requests and statements. ``spark/test_connect`` has a server with the setting."""
    pattern = r"^spark\.sql\.redaction\.string\.regex +(.*)$"
    recommended = re.findall(pattern, (ROOT / "conf" / "spark-defaults.conf").read_text(encoding="utf-8"), re.MULTILINE)
    assert re.findall(pattern, (ROOT / "docs" / "security.md").read_text(encoding="utf-8"), re.MULTILINE) == recommended
    (regex,) = recommended
    assert "\\" not in regex, "a file of properties needs two of each"
    redacted = re.sub(regex, "***", text.replace("NAME", name))
    assert SECRET not in redacted
    assert "***" in redacted


def test_a_secret_is_in_no_repr() -> None:
    assert repr(WithSecret(user="me", password=4)) == "WithSecret(user='me')"


def test_a_secret_that_is_refused_is_in_no_text_of_the_error() -> None:
    with pytest.raises(OptionError) as raised:
        secret_row().parse(SECRET)
    error = raised.value
    assert "Invalid value '***' for 'password'" in str(error)
    shown = "".join(
        (str(error), repr(error), repr(error.context), repr(error.args), *traceback.format_exception(error))
    )
    assert SECRET not in shown


def test_no_chain_of_errors_leads_to_a_secret() -> None:
    """``int`` quotes what it does not take; an error reporter that shows contexts would print it."""
    with pytest.raises(OptionError) as raised:
        secret_row().parse(SECRET)
    assert (raised.value.__cause__, raised.value.__context__) == (None, None)


# ---------------------------------------------------------------------------------------------------- retry topic


def test_the_retry_topic_is_read_beside_the_others_and_as_a_whole() -> None:
    options = parse(retryTopic="true", subExpression="TagA")
    assert options.read_topics == ("orders", "%RETRY%g")
    assert (options.filter_of("orders"), options.filter_of("%RETRY%g")) == (MessageFilter("TagA"), MessageFilter("*"))


# ---------------------------------------------------------------------------------------------------- SQL92

SQL_EXPRESSIONS = (
    "price > 5",
    "price>=5",
    "TAGS is not null",
    "region = 'north'",
    "region='north'",
    "size = 3",
    "a=1 AND b=2",
    "a=1 or b=2",
    "price BETWEEN 1 AND 3",
    "region not in ('north', 'south')",
    "region CONTAINS 'or'",
    "region not startswith 'n'",
    "region EndsWith'th'",
)


@pytest.mark.parametrize("expression", SQL_EXPRESSIONS)
@pytest.mark.parametrize("parse_options", [ReadOptions.parse, BatchReadOptions.parse])
def test_sql92_expression_requires_expression_type(expression: str, parse_options: Callable[..., Any]) -> None:
    given = {name: text for name, text in REQUIRED.items() if name != "consumerGroup"}
    given |= {"consumerGroup": "g"} if parse_options == ReadOptions.parse else {}
    with pytest.raises(OptionError) as raised:
        parse_options({**given, "subExpression": expression})
    assert (raised.value.condition, raised.value.context["needed"]) == ("OPTION_REQUIRES_OPTION", "expressionType")
    filtered = parse_options({**given, "subExpression": expression, "expressionType": "sql92"})
    assert filtered.filter_of("orders") == MessageFilter(expression, "SQL92")


@pytest.mark.parametrize("given", [{}, {"subExpression": "*"}], ids=str)
def test_sql92_requires_expression(given: dict[str, str]) -> None:
    error = refusal({**REQUIRED, **given, "expressionType": "SQL92"})
    assert (error.condition, error.context["needed"]) == ("OPTION_REQUIRES_OPTION", "subExpression")


def test_sql92_expression_may_have_several_lines() -> None:
    options = parse(expressionType="SQL92", subExpression="\n  price > 5\n\tAND region = 'north'\n")
    assert options.message_filter == MessageFilter("price > 5\n\tAND region = 'north'", "SQL92")
    assert (str(options.message_filter), str(MessageFilter("TagA"))) == (
        "SQL92: price > 5\n\tAND region = 'north'",
        "TagA",
    )
    assert parse(retryTopic="true", expressionType="SQL92", subExpression="a = 1").filter_of("%RETRY%g") == UNFILTERED


def test_the_retry_topic_is_not_read_unless_requested() -> None:
    assert parse().read_topics == ("orders",)


def test_orderly_and_the_retry_topic_exclude_each_other() -> None:
    error = refusal({**REQUIRED, "consumeOrderly": "true", "retryTopic": "true"})
    assert error.condition == "INCOMPATIBLE_OPTIONS"
    assert error.context == {"first": "consumeOrderly", "second": "retryTopic", "reason": RETRY_TOPIC_NEEDS_NO_ORDER}


def test_an_option_without_effect_on_messages_may_be_given_as_it_is_by_default() -> None:
    by_name = {row.name: (attribute, row) for attribute, row in rows(ReadOptions)}
    for name, attribute, default, _ in ONLY_BY_QUEUE:
        found, row = by_name[name]
        assert (found, None if row.default is None else row.parse(row.default)) == (attribute, default)
    given = {name: row.default for name, (_, row) in by_name.items() if row.default is not None}
    assert ReadOptions.parse({**given, **REQUIRED, "loadBalance": "message"}).is_message_based


@pytest.mark.parametrize(
    ("given", "starts_at_earliest"),
    [
        ({}, False),
        ({"startingOffsets": "earliest"}, True),
        ({"startingOffsets": "latest"}, False),
        ({"consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET"}, True),
        ({"consumeFromWhere": "CONSUME_FROM_LAST_OFFSET"}, False),
    ],
)
def test_a_group_that_shares_messages_begins_at_its_first_message_or_at_its_end(
    given: dict[str, str], starts_at_earliest: bool
) -> None:
    assert ReadOptions.parse({**REQUIRED, "loadBalance": "message", **given}).starts_at_earliest is starts_at_earliest


@pytest.mark.parametrize(
    ("given", "waited_ms"),
    [
        ({}, 3_000),
        ({"acceptNotDurable": "true"}, 8_000),
        ({"acceptNotDurable": "true", "brokerTimeoutMs": "20000"}, 20_000),
    ],
)
def test_a_caller_that_takes_what_is_not_durable_waits_until_brokers_confirm_it(
    given: dict[str, str], waited_ms: int
) -> None:
    """They state it after 5 s: a write that would have taken it failed, because it had not been waited for."""
    assert WriteOptions.parse({"namesrvAddr": "a:9876"} | given).send_timeout_ms == waited_ms
