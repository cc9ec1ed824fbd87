from __future__ import annotations

import builtins
import copy
import pickle
import re
from string import Formatter

import pytest

from connector_tests.support.conditions import parameters_of
from connector_tests.support.refused_words import Place, refused_phrases
from rocketmq_spark.condition import MAX_LISTED, Condition, listed, one_line
from rocketmq_spark.conditions import CONDITIONS
from rocketmq_spark.errors import (
    BrokerError,
    DataLossError,
    EmbeddedBrokerError,
    LocalProtocolError,
    MembershipError,
    NotSentBackError,
    OptionError,
    ProtocolError,
    RemoteProtocolError,
    RocketMQError,
    RouteError,
    TransportError,
)
from rocketmq_spark.options import USES
from rocketmq_spark.options.table import rows

LEAVES: list[type[RocketMQError]] = [
    BrokerError,
    DataLossError,
    EmbeddedBrokerError,
    LocalProtocolError,
    MembershipError,
    NotSentBackError,
    OptionError,
    RemoteProtocolError,
    RouteError,
    TransportError,
]

REFUSAL = BrokerError(
    "BROKER_ERROR", address="a:1", request="PULL_MESSAGE", code=16, code_name="NO_PERMISSION", remark="{forbidden}"
)


def example(condition: str, error_class: type[RocketMQError] = RocketMQError) -> RocketMQError:
    """An error with a value for each parameter that can be told from the others."""
    return error_class(condition, **{name: f"<{name}>" for name in parameters_of(CONDITIONS[condition])})


@pytest.mark.parametrize("condition", CONDITIONS)
def test_every_condition_renders_with_its_parameters_and_nothing_else(condition: str) -> None:
    text = str(example(condition))
    assert text.startswith(f"[ROCKETMQ_{condition}] ")
    assert all(f"<{name}>" in text for name in parameters_of(CONDITIONS[condition]))


@pytest.mark.parametrize("condition", CONDITIONS)
def test_every_condition_states_what_happened_and_what_to_do(condition: str) -> None:
    row = CONDITIONS[condition]
    assert row.what.strip() == row.what
    assert row.advice.strip() == row.advice
    assert row.advice
    assert row.what[-1] in ".}", "a sentence, or the sentence of a cause"


@pytest.mark.parametrize("condition", CONDITIONS)
def test_every_condition_names_the_address_broker_queue_or_thing_that_it_is_about(condition: str) -> None:
    assert parameters_of(CONDITIONS[condition])


SENTENCE_WORDS = 25


@pytest.mark.parametrize("condition", CONDITIONS)
def test_a_condition_has_short_sentences_in_the_words_of_the_field(condition: str) -> None:
    row = CONDITIONS[condition]
    for text in (row.what, row.advice):
        assert list(refused_phrases(text, Place.CONDITION)) == []
        assert all(len(sentence.split()) <= SENTENCE_WORDS for sentence in re.split(r"(?<=[.:;])\s", text))


OPTIONS = {name for table in USES.values() for _, row in rows(table) for name in row.spellings}
OF_BROKERS = {"brokerIP1", "enablePropertyFilter", "fileReservedTime", "rejectPullConsumerEnable"}
OTHERS = {"availableNow", "brokerName", "deadLetter"}
"""A trigger, a column and the value of an option."""


@pytest.mark.parametrize("condition", CONDITIONS)
def test_a_condition_names_options_that_are_there(condition: str) -> None:
    row = CONDITIONS[condition]
    named = set(re.findall(r"'([a-z]+[A-Z]\w*)'|\b([a-z]+[A-Z]\w*)=", f"{row.what} {row.advice}"))
    assert {name for pair in named for name in pair if name} <= OPTIONS | OF_BROKERS | OTHERS


def test_a_counted_noun_has_its_number() -> None:
    counted = Condition("{count:offset} lost.", "Find {count}.")
    assert counted.text({"count": 1}) == "1 offset lost. Find 1."
    assert counted.text({"count": 2}) == "2 offsets lost. Find 2."


def test_a_value_of_a_user_is_cut() -> None:
    wrote = Condition("Invalid '{value:cut}'.", "Write {value}.")
    assert wrote.summary({"value": "x" * 200}) == f"Invalid '{'x' * 200}'."
    assert wrote.summary({"value": "x" * 201}) == f"Invalid '{'x' * 200}... (201 characters)'."
    assert wrote.summary({"value": "\n" * 201}) == "Invalid '" + r"\n" * 200 + "... (201 characters)'."


@pytest.mark.parametrize(("count", "text"), [(0, ""), (1, "0"), (2, "0, 1"), (3, "0, 1 and 1 more")])
def test_parts_above_the_limit_are_counted(count: int, text: str) -> None:
    assert listed([*map(str, range(count))], 2) == text


def test_separator_and_end_of_a_list_are_the_callers() -> None:
    assert listed("abcd", 2, separator=",", more=", ...") == "a,b, ..."
    assert listed("ab", 2, separator=",", more=", ...") == "a,b"
    assert listed("x" * (MAX_LISTED + 2), separator="").endswith("x and 2 more")


def test_a_remark_without_an_end_is_ended_before_the_advice() -> None:
    refused = Condition("It returned {remark}", "Stop.")
    assert [refused.text({"remark": remark}) for remark in ("no", "No.", "No!", "")] == [
        "It returned no. Stop.",
        "It returned No. Stop.",
        "It returned No! Stop.",
        "It returned. Stop.",
    ]


def test_a_summary_has_no_advice() -> None:
    error = TransportError("CONNECT_FAILED", address="a:1", reason="refused")
    assert error.summary == "[ROCKETMQ_CONNECT_FAILED] Cannot connect to a:1: refused."
    assert str(error).startswith(f"{error.summary} ")


def test_parameters_are_those_of_both_texts() -> None:
    assert parameters_of(Condition("{first!r} and {second:>3}", "do {third}")) == {"first", "second", "third"}


def test_no_template_uses_positions_or_attributes() -> None:
    names = {name for row in CONDITIONS.values() for text in (row.what, row.advice) for name in fields_of(text)}
    assert all(name.isidentifier() for name in names)


def fields_of(template: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(template) if name is not None}


@pytest.mark.parametrize("error_class", LEAVES)
@pytest.mark.parametrize("copied", [lambda error: pickle.loads(pickle.dumps(error)), copy.copy, copy.deepcopy])
def test_an_error_crosses_process_borders_with_all_its_fields(error_class: type[RocketMQError], copied: object) -> None:
    assert callable(copied)
    error = error_class("CONNECT_FAILED", address="a:1", reason="refused", attempts=3)
    other = copied(error)
    assert type(other) is error_class
    assert (other.condition, other.context) == (error.condition, error.context)
    assert (str(other), other.args) == (str(error), error.args)


@pytest.mark.parametrize("condition", CONDITIONS)
def test_every_condition_reads_the_same_in_another_process(condition: str) -> None:
    error = example(condition)
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_what_a_remote_end_reports_is_not_mistaken_for_a_template() -> None:
    assert "NO_PERMISSION (16) for PULL_MESSAGE: {forbidden}" in str(REFUSAL)


def test_a_refusal_has_its_code_as_a_number() -> None:
    assert REFUSAL.code == 16


@pytest.mark.parametrize("error_class", LEAVES)
def test_every_error_is_a_rocketmq_error(error_class: type[RocketMQError]) -> None:
    assert issubclass(error_class, RocketMQError)


def test_an_error_shows_its_condition_and_context_in_a_traceback_s_locals() -> None:
    error = RocketMQError("MASTER_UNAVAILABLE", broker="broker-a", topic="orders")
    assert repr(error) == "RocketMQError('MASTER_UNAVAILABLE', {'broker': 'broker-a', 'topic': 'orders'})"


def test_a_wrong_option_is_a_value_error() -> None:
    assert issubclass(OptionError, ValueError)


def test_wrong_bytes_are_a_protocol_error_on_either_side() -> None:
    assert issubclass(LocalProtocolError, ProtocolError)
    assert issubclass(RemoteProtocolError, ProtocolError)
    assert not issubclass(RemoteProtocolError, LocalProtocolError)


def test_no_error_class_has_the_name_of_a_builtin() -> None:
    assert not {error_class.__name__ for error_class in LEAVES} & vars(builtins).keys()


FORGED = "no\n26/01/05 14:03:22 INFO rocketmq_spark [group=g]: all is well\x1b[2J\r\u2028\u202e\udc80\x85"


@pytest.mark.parametrize("condition", sorted(CONDITIONS.keys() - {"EMBEDDED_JVM_FAILED"}))
def test_an_error_stays_one_line_whatever_a_remote_end_wrote(condition: str) -> None:
    text = str(RocketMQError(condition, **dict.fromkeys(parameters_of(CONDITIONS[condition]), FORGED)))
    assert text.isprintable()
    assert "INFO rocketmq_spark [group=g]: all is well" in text


def test_an_error_with_log_lines_keeps_their_breaks_only() -> None:
    error = EmbeddedBrokerError("EMBEDDED_JVM_FAILED", problem="a\nb", log_tail="first\x1b[2J\r\n\tat a.B\tc")
    assert str(error) == (
        "[ROCKETMQ_EMBEDDED_JVM_FAILED] The embedded broker's JVM failed: a\\nb. Check the end of its log:\n"
        "first\\x1b[2J\n    at a.B  c"
    )


def test_a_text_is_shown_with_its_spaces_and_letters_as_they_are() -> None:
    assert one_line("订单\u3000été \U0001f600 \\n") == "订单\u3000été \U0001f600 \\n"
    assert one_line("a\tb\x7f\ufeff") == "a\\tb\\x7f\\ufeff"
