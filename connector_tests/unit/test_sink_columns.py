from __future__ import annotations

import pytest

from rocketmq_spark.errors import OptionError
from rocketmq_spark.sink.columns import SINK_COLUMNS, available, columns_and_ids, id_positions, resolve_columns
from rocketmq_spark.sink.writer import RocketMQStreamWriter, RocketMQWriter
from rocketmq_spark.source.datasource import RocketMQDataSource
from rocketmq_spark.source.schema import default_schema

ALL = [(name, column.types[-1]) for name, column in SINK_COLUMNS.items()]


def refused(fields: list[tuple[str, str]], *, has_topic: bool = True) -> str:
    with pytest.raises(OptionError) as raised:
        resolve_columns(fields, has_topic=has_topic)
    return str(raised.value)


def test_writers_accept_a_body_and_append_only() -> None:
    sink, schema = RocketMQDataSource({"namesrvAddr": "n:9876", "topic": "T"}), default_schema()
    only_body = type(schema)([schema["body"]])
    assert isinstance(sink.writer(only_body, overwrite=False), RocketMQWriter)
    assert isinstance(sink.streamWriter(only_body, overwrite=False), RocketMQStreamWriter)
    with pytest.raises(OptionError, match="UNSUPPORTED_SAVE_MODE"):
        sink.writer(only_body, overwrite=True)
    with pytest.raises(OptionError, match="UNSUPPORTED_SINK_COLUMN"):
        sink.streamWriter(schema, overwrite=False)


def test_columns_are_found_by_name_in_any_order_and_case() -> None:
    reversed_names = [(name.upper(), given) for name, given in reversed(ALL)]
    found = resolve_columns(reversed_names, has_topic=False)
    assert found == {name: position for position, (name, _) in enumerate(reversed(ALL))}


@pytest.mark.parametrize(("name", "type_"), [(name, one) for name, row in SINK_COLUMNS.items() for one in row.types])
def test_each_column_may_have_each_of_its_types(name: str, type_: str) -> None:
    fields = {"body": "binary", "brokerName": "string", "queueId": "int", name: type_}
    assert resolve_columns(list(fields.items()), has_topic=True)[name] == list(fields).index(name)


@pytest.mark.parametrize("type_", ["tinyint", "smallint", "int", "bigint"])
@pytest.mark.parametrize("name", ["queueId", "delayLevel", "delaySeconds"])
def test_numbers_may_be_integers_of_any_width(name: str, type_: str) -> None:
    """Python's ints become BIGINT, which was refused."""
    fields = [("body", "binary"), ("brokerName", "string"), ("queueId", "int")]
    fields = [(column, type_ if column == name else given) for column, given in fields]
    fields += [(name, type_)] if name != "queueId" else []
    assert resolve_columns(fields, has_topic=True)[name] == [column for column, _ in fields].index(name)


@pytest.mark.parametrize("type_", ["string collate UTF8_LCASE", "string collate sv_CI_AI", "varchar(5)", "char(3)"])
def test_strings_may_have_a_collation_or_a_length(type_: str) -> None:
    fields = [("body", type_), ("tags", type_), ("keys", f"array<{type_}>"), ("properties", f"map<{type_},{type_}>")]
    assert resolve_columns(fields, has_topic=True) == {"body": 0, "tags": 1, "keys": 2, "properties": 3}
    assert id_positions(fields, ("tags",)) == (1,)


def test_a_column_may_be_null_in_every_row_but_the_body() -> None:
    fields = [("body", "binary"), *((name, "void") for name in SINK_COLUMNS if name != "body")]
    assert len(resolve_columns(fields, has_topic=False)) == len(SINK_COLUMNS)
    assert resolve_columns([("body", "string"), ("keys", "array<void>")], has_topic=True) == {"body": 0, "keys": 1}
    assert "Column 'value' has type VOID" in refused([("value", "void")])


def test_what_kafka_calls_value_and_key_is_used_as_body_and_keys() -> None:
    assert resolve_columns([("key", "string"), ("value", "string")], has_topic=True) == {"keys": 0, "body": 1}


def test_a_column_that_there_is_not_is_named_with_those_that_there_are() -> None:
    reported = refused([("body", "binary"), ("partition", "int"), ("headers", "string")])
    assert "UNSUPPORTED_SINK_COLUMN" in reported
    assert "partition, headers" in reported
    assert f"Supported columns: {available()}. Columns in 'messageIdColumns' are allowed too." in reported


def test_a_column_of_another_type_is_named_with_what_it_should_be() -> None:
    reported = refused([("body", "binary"), ("Tags", "array<string>")])
    assert reported.startswith(
        "[ROCKETMQ_UNSUPPORTED_SINK_COLUMN_TYPE] Column 'Tags' has type ARRAY<STRING>; expected STRING. Cast it."
    )
    assert reported.endswith(f" Cast it. Columns of the sink: {available()}.")


def test_two_columns_that_are_equal_are_both_named() -> None:
    assert "Columns 'value' and 'body' both map to the sink column 'body'" in refused(
        [("value", "binary"), ("body", "binary")]
    )


def test_without_a_body_or_a_topic_nothing_is_to_be_sent() -> None:
    reported = refused([("topic", "string")])
    assert "missing column 'body'" in reported
    assert reported.endswith(f" Add it to the DataFrame or the options. Columns of the sink: {available()}.")
    assert "missing column 'topic' or option 'topic'" in refused([("body", "binary")], has_topic=False)


def test_what_there_is_names_each_column_its_other_name_and_its_types() -> None:
    assert available().startswith("body (or value) BINARY or STRING, topic STRING, ")
    assert all(name in available() for name in SINK_COLUMNS)


@pytest.mark.parametrize(("alone", "other"), [("brokerName", "queueId"), ("queueId", "brokerName")])
def test_of_a_broker_and_its_queue_both_are_to_be_named(alone: str, other: str) -> None:
    reported = refused([("body", "binary"), (alone, SINK_COLUMNS[alone].types[0])])
    assert f"missing column {other!r}, required with {alone!r}" in reported


def test_columns_of_ids_may_be_there_beside_what_is_sent() -> None:
    fields = [("orderId", "bigint"), ("body", "binary"), ("Keys", "string")]
    assert resolve_columns(fields, has_topic=True, id_columns=("ORDERID", "keys")) == {"body": 1, "keys": 2}
    assert id_positions(fields, ("ORDERID", "keys")) == (0, 2)
    assert id_positions(fields, ()) == ()


def test_columns_of_ids_that_are_not_there_or_have_no_one_text_are_named() -> None:
    fields = [("body", "binary"), ("parts", "array<string>")]
    with pytest.raises(
        OptionError, match=r"INVALID_OPTION_VALUE.*Invalid value 'id' for 'messageIdColumns'.*body, parts"
    ):
        id_positions(fields, ("id",))
    with pytest.raises(OptionError, match=r"UNSUPPORTED_SINK_COLUMN_TYPE.*'parts' has type ARRAY<STRING>"):
        id_positions(fields, ("parts",))


def test_a_column_of_ids_that_is_misspelt_is_reported_before_the_one_that_it_was_meant_for() -> None:
    """The column that should have been named was said to be none, and nobody looked for the option."""
    fields = [("body", "string"), ("orderId", "string")]
    with pytest.raises(OptionError, match=r"Invalid value 'order' for 'messageIdColumns'.*body, orderId"):
        columns_and_ids(fields, has_topic=True, id_columns=("order",))
    assert columns_and_ids(fields, has_topic=True, id_columns=("orderid",)) == ({"body": 0}, (1,))


def test_an_id_column_takes_the_exact_spelling_first() -> None:
    """With spark.sql.caseSensitive=true a DataFrame may have both; three rows had one ID."""
    fields = [("id", "bigint"), ("ID", "string"), ("body", "binary")]
    assert id_positions(fields, ("id",)) == (0,)
    assert id_positions(fields, ("ID", "id")) == (1, 0)
    assert columns_and_ids(fields, has_topic=True, id_columns=("ID", "id")) == ({"body": 2}, (1, 0))


def test_a_column_beside_an_id_column_of_its_name_is_refused() -> None:
    fields = [("id", "bigint"), ("ID", "string"), ("body", "binary")]
    with pytest.raises(OptionError, match=r"UNSUPPORTED_SINK_COLUMN.*: ID\."):
        columns_and_ids(fields, has_topic=True, id_columns=("id",))


@pytest.mark.parametrize("names", [("ID", "Id"), ("id", "id")])
def test_an_ambiguous_id_column_is_refused(names: tuple[str, str]) -> None:
    fields = [("body", "binary"), *((name, "bigint") for name in names)]
    with pytest.raises(OptionError) as raised:
        id_positions(fields, ("id",))
    assert str(raised.value) == (
        f"[ROCKETMQ_AMBIGUOUS_COLUMN] Column 'id' is ambiguous: the rows have {', '.join(names)}. "
        "Rename or drop all but one."
    )
