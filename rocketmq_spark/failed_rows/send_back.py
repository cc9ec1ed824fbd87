"""Send-back: failed rows go back to their brokers, which redeliver them to the group later.

A failed row does not hold up its batch. It is redelivered through the group's retry topic, and finally moved to the
group's dead-letter topic (DLQ). With message-based load balancing, brokers redeliver it without ``retryTopic``.

Source: ``client/impl/consumer/DefaultMQPushConsumerImpl.java#sendMessageBack``. Differs: a rejection by the message's
broker is an error here. The message is not sent to another broker as a new one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from rocketmq_spark.condition import listed
from rocketmq_spark.diagnostics import task_log_context
from rocketmq_spark.errors import NotSentBackError, OptionError
from rocketmq_spark.model import StoredMessage
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.sink.columns import position_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row

SendBackFailure = tuple[str, str]
"""A message that its broker did not accept, and why."""

REQUIRED_COLUMNS: Final = ("topic", "brokerName", "commitLogOffset", "msgId")
"""The columns that identify a row's message, in the order of StoredMessage's fields."""

REQUIRED_POP_COLUMNS: Final = ("topic", "brokerName", "receiptHandle", "msgId", "reconsumeTimes")
"""The same for message-based load balancing, in the order of FailedMessage's fields."""

PROBLEM: Final = "problem"
MAX_NAMED_MESSAGES: Final = 10
RETRY_TOPIC_EXPECTED: Final = (
    "'true', or the group never reads the rows again; to send them to the dead-letter topic instead, use delay_level=-1"
)
DELAY_LEVEL_EXPECTED: Final = (
    "0 or more with loadBalance=message, where messages beyond retryMaxTimes move to the dead-letter topic anyway"
)
MAX_RECONSUME_TIMES_EXPECTED: Final = "None with loadBalance=message, where the group's retryMaxTimes applies"


def send_back(
    failed: DataFrame | Iterable[Row],
    options: Mapping[str, str],
    *,
    delay_level: int = 0,
    max_reconsume_times: int | None = None,
) -> None:
    """Send failed rows back for redelivery to the group; return when the brokers have stored all of them.

    Parameters
    ----------
    failed : rows with the columns ``topic``, ``brokerName``, ``commitLogOffset`` and ``msgId``. Executors send a
        DataFrame's, which is computed once more for that unless the batch is persisted; Rows are sent by the calling
        process, which may be an executor
    options : the options of the query that read the rows; with ``retryTopic``, or the group never reads them again.
        With ``loadBalance`` ``message`` the columns are ``topic``, ``brokerName``, ``receiptHandle``, ``msgId`` and
        ``reconsumeTimes``, and ``retryTopic`` must not be set
    delay_level : from 1 on a delay level of the broker (1 s, 5 s, 10 s, 30 s, 1 min, ...); 0 grows with
        ``reconsumeTimes``; -1: to the dead-letter topic at once
    max_reconsume_times : number of send-backs after which a row goes to the dead-letter topic; default: the group's, 16

    Raises what ``ReadOptions.parse`` raises, OptionError[INVALID_OPTION_VALUE] without ``retryTopic`` too,
    OptionError[MISSING_SEND_BACK_COLUMN | AMBIGUOUS_COLUMN] for rows without a required column or with several of that
    name, and NotSentBackError[SEND_BACK_FAILED] that names the rejected rows. A batch that fails by it is replayed, and
    sends its accepted rows back again: sent-back rows are redelivered at least once.
    """
    read_options = ReadOptions.parse(options)
    send = _send_back_popped if read_options.is_message_based else _send_back_stored
    check_all_sent_back(send(failed, read_options, delay_level, max_reconsume_times), read_options.consumer_group)


def _send_back_stored(
    failed: DataFrame | Iterable[Row], options: ReadOptions, delay_level: int, max_reconsume_times: int | None
) -> list[SendBackFailure]:
    """Send rows back with queue-based load balancing and wait until brokers have stored them: on executors for a
    DataFrame, else in this process. Return the messages that were not sent back, with the reasons.

    Raises OptionError[INVALID_OPTION_VALUE] if the query does not read the retry topic, unless ``delay_level`` is
    negative. Raises the errors of ``spellings_of``, and Spark's.
    """
    from pyspark.sql import DataFrame

    from rocketmq_spark.failed_rows.send_back_client import SendBackClient

    if delay_level >= 0 and options.retry_topic not in options.read_topics:
        raise OptionError("INVALID_OPTION_VALUE", option="retryTopic", value="false", expected=RETRY_TOPIC_EXPECTED)
    sender = SendBackClient(options, delay_level, max_reconsume_times)
    if not isinstance(failed, DataFrame):
        messages = [StoredMessage(*values) for values in required_values(failed, REQUIRED_COLUMNS)]
        results = [(message, sender.try_send_back(message)) for message in messages]
        return [(str(message), problem) for message, problem in results if problem is not None]

    from pyspark import TaskContext
    from pyspark.sql.functions import udf

    def send(*values: Any) -> str | None:
        """Send the message of one row, its REQUIRED_COLUMNS, back and wait; return None, or why that failed."""
        sender.set_log_context(**task_log_context(TaskContext.get()))
        return sender.try_send_back(StoredMessage(*values))

    failures = _send_back_on_executors(failed, REQUIRED_COLUMNS, udf(send, "string", useArrow=False))
    return [(str(StoredMessage(*values)), problem) for values, problem in failures]


def _send_back_popped(
    failed: DataFrame | Iterable[Row], options: ReadOptions, delay_level: int, max_reconsume_times: int | None
) -> list[SendBackFailure]:
    """Request the redelivery of rows with message-based load balancing and wait for the responses: on executors for a
    DataFrame, else in this process. Return the messages that were not sent back, with the reasons.

    Raises OptionError[INVALID_OPTION_VALUE] for a negative ``delay_level``, and for a ``max_reconsume_times``, which
    the group's configuration determines. Raises the errors of ``spellings_of``, and Spark's.
    """
    from pyspark.sql import DataFrame

    from rocketmq_spark.failed_rows.pop_send_back_client import FailedMessage, PopSendBackClient, arrow_function

    if delay_level < 0:
        raise OptionError(
            "INVALID_OPTION_VALUE", option="delay_level", value=str(delay_level), expected=DELAY_LEVEL_EXPECTED
        )
    if max_reconsume_times is not None:
        value = str(max_reconsume_times)
        raise OptionError(
            "INVALID_OPTION_VALUE", option="max_reconsume_times", value=value, expected=MAX_RECONSUME_TIMES_EXPECTED
        )
    returner = PopSendBackClient(options, delay_level)
    if not isinstance(failed, DataFrame):
        messages = [FailedMessage(*values) for values in required_values(failed, REQUIRED_POP_COLUMNS)]
        results = zip(messages, returner.try_send_back_all(messages), strict=True)
        return [(str(message), problem) for message, problem in results if problem is not None]

    from pyspark.sql.functions import arrow_udf  # type: ignore[attr-defined]  # its stub has pandas only

    failures = _send_back_on_executors(failed, REQUIRED_POP_COLUMNS, arrow_udf(arrow_function(returner), "string"))
    return [(str(FailedMessage(*values)), problem) for values, problem in failures]


def _send_back_on_executors(failed: DataFrame, needed: Sequence[str], send: Any) -> list[tuple[list[Any], str]]:
    """Run a Spark job that calls ``send``, a UDF over the ``needed`` columns, once for each row (again if a task is
    retried), and wait. ``send`` returns null, or why the row was not sent back. Return the ``needed`` values and the
    reason of each row that was not. Raises the errors of ``spellings_of``, and Spark's."""
    from pyspark.sql.functions import col

    columns = [failed[f"`{name}`"] for name in spellings_of(failed.columns, needed)]
    problem = send.asNondeterministic()(*columns)  # else Spark may call it twice a row
    results = failed.select(
        *(one.alias(name) for one, name in zip(columns, needed, strict=True)), problem.alias(PROBLEM)
    )
    return [([row[name] for name in needed], row[PROBLEM]) for row in results.where(col(PROBLEM).isNotNull()).collect()]


def spellings_of(names: Sequence[str], needed: Sequence[str]) -> list[str]:
    """Return the names in ``names`` of the ``needed`` columns, in the order of ``needed``: the exact spelling before
    another case.

    Raises OptionError[MISSING_SEND_BACK_COLUMN] if one is missing, OptionError[AMBIGUOUS_COLUMN] if several match one.
    """
    positions = [position_of(name, names) for name in needed]
    missing = [name for name, position in zip(needed, positions, strict=True) if position is None]
    if missing:
        raise OptionError("MISSING_SEND_BACK_COLUMN", missing=", ".join(missing), needed=", ".join(needed))
    return [names[position] for position in positions if position is not None]


def required_values(rows: Iterable[Row], needed: Sequence[str]) -> Iterator[list[Any]]:
    """Yield the values of the ``needed`` columns of each row, in that order, lazily. Raises what ``spellings_of`` does,
    at the row that lacks a column."""
    for row in rows:
        values = row.asDict()
        yield [values[name] for name in spellings_of(row.__fields__, needed)]


def check_all_sent_back(failures: Sequence[tuple[str, str]], group: str) -> None:
    """Raise NotSentBackError[SEND_BACK_FAILED] if there are ``failures``, pairs of a message and the reason. The error
    has their number, the first 10 messages (MAX_NAMED_MESSAGES), and the first reason."""
    if failures:
        raise NotSentBackError(
            "SEND_BACK_FAILED",
            count=len(failures),
            group=group,
            messages=listed([message for message, _ in failures], MAX_NAMED_MESSAGES, more=", ..."),
            cause=failures[0][1],
        )
