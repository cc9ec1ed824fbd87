"""Rows that could not be processed, of a group that shares messages: each comes again by itself, later."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from rocketmq_spark.errors import OptionError
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.said.log_lines import names_of
from rocketmq_spark.sink.message_returner import FailedMessage, MessageReturner
from rocketmq_spark.sink.not_taken import by_names, check_all_taken, spellings_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row

NEEDED: Final = ("topic", "brokerName", "receiptHandle", "msgId", "reconsumeTimes")
"""The columns that say which message a row is, in the order of FailedMessage's fields."""

PROBLEM: Final = "problem"
NOT_NOW: Final = "0 or more where messages are shared: what comes again too often is moved there by itself"
NOT_OURS: Final = "nothing where messages are shared: the group's retryMaxTimes decides"


def send_messages_back(
    failed: DataFrame | Iterable[Row], options: ReadOptions, delay_level: int, max_reconsume_times: int | None
) -> None:
    """See ``send_back``. Raises OptionError[BAD_OPTION_VALUE] for what the group decides,
    OptionError[MISSING_COLUMNS | AMBIGUOUS_COLUMN], and NotSentBackError[NOT_SENT_BACK]."""
    from pyspark.sql import DataFrame

    if delay_level < 0:
        raise OptionError("BAD_OPTION_VALUE", option="delay_level", value=str(delay_level), expected=NOT_NOW)
    if max_reconsume_times is not None:
        value = str(max_reconsume_times)
        raise OptionError("BAD_OPTION_VALUE", option="max_reconsume_times", value=value, expected=NOT_OURS)
    returner = MessageReturner(options, delay_level)
    if isinstance(failed, DataFrame):
        refused = _from_executors(failed, returner)
    else:
        messages = [FailedMessage(*values) for values in by_names(failed, NEEDED)]
        refused = _refused(messages, returner)
    check_all_taken(refused, options.consumer_group)


def _refused(messages: list[FailedMessage], returner: MessageReturner) -> list[tuple[str, str]]:
    told = zip(messages, returner.problems_with(messages), strict=True)
    return [(str(message), problem) for message, problem in told if problem is not None]


def _from_executors(failed: DataFrame, returner: MessageReturner) -> list[tuple[str, str]]:
    from pyspark import TaskContext
    from pyspark.sql.functions import arrow_udf, col  # type: ignore[attr-defined]  # its stub says pandas only

    def send(*columns: pa.Array) -> pa.Array:
        returner.speak_as(**names_of(TaskContext.get()))
        messages = [FailedMessage(*values) for values in zip(*(column.to_pylist() for column in columns), strict=True)]
        return pa.array(returner.problems_with(messages), pa.string())

    columns = [failed[f"`{name}`"] for name in spellings_of(failed.columns, NEEDED)]
    problem = arrow_udf(send, "string").asNondeterministic()(*columns)  # else Spark may call it twice a row
    told = failed.select(*(one.alias(name) for one, name in zip(columns, NEEDED, strict=True)), problem.alias(PROBLEM))
    rows = told.where(col(PROBLEM).isNotNull()).collect()
    return [(str(FailedMessage(*(row[name] for name in NEEDED))), row[PROBLEM]) for row in rows]
