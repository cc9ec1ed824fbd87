"""Send-back with message-based load balancing: requests the redelivery of each message by its receipt handle.

It changes the message's invisible duration to the delay, from now on. Each confirmed change causes its own redelivery.
The handle by which the query acknowledges its batch does not matter, nor how often it was extended. So a message that
is sent back twice is redelivered twice.

Source: ``client/impl/consumer/ConsumeMessagePopConcurrentlyService.java#changePopInvisibleTime``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from contextlib import closing
from typing import Final, NamedTuple, TypeAlias

import pyarrow as pa

from rocketmq_spark.condition import cut
from rocketmq_spark.diagnostics import set_log_context, task_log_context
from rocketmq_spark.errors import RocketMQError
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.pop.receipt_handles import BrokerHandle, ReceiptHandle, handle_of
from rocketmq_spark.pop.transport import Transport
from rocketmq_spark.pop.transports import transport_of
from rocketmq_spark.remoting.clock import monotonic_ms
from rocketmq_spark.remoting.failures import Failures
from rocketmq_spark.remoting.outage_log import broker_subject
from rocketmq_spark.remoting.retry import message_mode_policy

Outcome: TypeAlias = RocketMQError | str | None
"""None: the message will be redelivered. Otherwise why not."""

UNKNOWN: Final = "its server no longer accepts this receiptHandle"
NO_HANDLE: Final = "it has no receiptHandle"


class FailedMessage(NamedTuple):
    """The columns of a row that identify its message."""

    topic: str
    broker_name: str
    receipt_handle: str | None
    msg_id: str
    reconsume_times: int

    def __str__(self) -> str:
        """Return message ID, cut after 200 characters, topic and broker, without the receipt handle."""
        return f"{cut(self.msg_id)} of {self.topic}@{self.broker_name}"


class PopSendBackClient:
    """Client that sends failed rows back with message-based load balancing, on an executor or the driver.

    ``delay_level``: see ``delay_ms``. Executors get a pickled copy: it holds no connection. Not thread-safe.
    """

    def __init__(
        self,
        options: ReadOptions,
        delay_level: int,
        transport_of: Callable[[ReadOptions], Transport] = transport_of,
    ) -> None:
        self._options = options
        self._delay_level = delay_level
        self._transport_of = transport_of
        policy = message_mode_policy(options.cluster_timeout_ms, options.missing_topic_timeout_ms)
        self._failures = Failures(policy, monotonic_ms)

    def set_log_context(self, **task: str) -> None:
        """Set the log context of an executor process: log level, group and ``task``."""
        set_log_context(self._options.log_level, group=self._options.consumer_group, **task)

    def try_send_back_all(self, messages: Sequence[FailedMessage]) -> list[str | None]:
        """Send messages back and wait. Return for each, in order, None, or the reason of its failure, including errors
        of servers; raise no RocketMQError. Without messages send nothing. A server that is unresponsive or refuses is
        retried, with pauses, for ``clusterTimeoutMs``, a topic that never had a route for ``missingTopicTimeoutMs``. A
        message without a receipt handle is not sent. With ``endpoints`` this is no failure: the query does not
        acknowledge the message, so its broker redelivers it anyway.
        """
        without_handle = NO_HANDLE if self._options.endpoints is None else None
        problems = [without_handle if one.receipt_handle is None else None for one in messages]

        def attempt(positions: Collection[int]) -> dict[int, RocketMQError]:
            """Send the messages at ``positions`` back once; return the errors of requests, and record the problems."""
            errors: dict[int, RocketMQError] = {}
            outcomes = self._change_all([messages[position] for position in positions])
            for position, outcome in zip(positions, outcomes, strict=True):
                if isinstance(outcome, RocketMQError):
                    errors[position] = outcome
                else:
                    problems[position] = outcome
            return errors

        def subject_of(position: int) -> tuple[str, str]:
            """Return the broker of a message, and its topic."""
            return broker_subject(messages[position].broker_name), messages[position].topic

        with_handle = [position for position, one in enumerate(messages) if one.receipt_handle is not None]
        for final_errors, _ in self._failures.retry_each(with_handle, attempt, subject_of, time.sleep):
            for position, error in final_errors.items():
                problems[position] = error.summary
        return problems

    def _change_all(self, messages: Sequence[FailedMessage]) -> list[Outcome]:
        """Set the invisible durations of messages to their delays, over a new transport, which is closed at the end.
        Return the outcomes in order. For messages whose handle the server rejects, send a second request, with a handle
        of the current time."""
        with closing(self._transport_of(self._options)) as transport:
            outcomes = _change_invisible_durations(
                transport, [(one, _handle_of(one)) for one in messages], self._delay_level
            )
            unknown = [position for position, outcome in enumerate(outcomes) if outcome is UNKNOWN]
            by_new_handles = [
                (messages[position], _with_current_pop_time(_handle_of(messages[position]))) for position in unknown
            ]
            for position, outcome in zip(
                unknown, _change_invisible_durations(transport, by_new_handles, self._delay_level), strict=True
            ):
                outcomes[position] = outcome
        return outcomes


def arrow_function(client: PopSendBackClient) -> Callable[..., pa.Array]:
    """Return a function for ``arrow_udf`` that sends messages back on an executor. Its arguments are columns in the
    order of FailedMessage's fields. It returns null for each message that was sent back, else the reason."""
    from pyspark import TaskContext

    def send(*columns: pa.Array) -> pa.Array:
        """Send back messages; return null for each that was sent back, else the reason."""
        client.set_log_context(**task_log_context(TaskContext.get()))
        messages = [FailedMessage(*values) for values in zip(*(column.to_pylist() for column in columns), strict=True)]
        return pa.array(client.try_send_back_all(messages), pa.string())

    return send


def _change_invisible_durations(
    transport: Transport, messages: Sequence[tuple[FailedMessage, ReceiptHandle | None]], delay_level: int
) -> list[Outcome]:
    """Set the invisible duration of each message to its delay (``delay_ms``) and wait. Return the outcomes in order:
    None if it will be redelivered, the RocketMQError, not raised, or UNKNOWN without a handle that the server
    accepts."""
    outcomes: list[Outcome] = [UNKNOWN] * len(messages)
    by_delay: dict[int, list[tuple[int, ReceiptHandle]]] = {}
    for position, (message, handle) in enumerate(messages):
        if handle is not None:
            by_delay.setdefault(delay_ms(delay_level, message.reconsume_times), []).append((position, handle))
    for invisible_ms, some in by_delay.items():
        after_change = transport.change_invisible_duration([handle for _, handle in some], invisible_ms, suspend=False)
        for (position, _), outcome in zip(some, after_change, strict=True):
            outcomes[position] = UNKNOWN if outcome is None else outcome if isinstance(outcome, RocketMQError) else None
    return outcomes


def _handle_of(message: FailedMessage) -> ReceiptHandle | None:
    """Return the message's handle, parsed by ``handle_of``, which accepts any text, or None without a handle."""
    handle = message.receipt_handle
    return None if handle is None else handle_of(message.topic, message.broker_name, handle)


def _with_current_pop_time(handle: ReceiptHandle | None) -> ReceiptHandle | None:
    """Return a broker's handle with the current time as pop time, any other handle or None unchanged. A proxy rejects
    an expired handle, though the query may have extended it. The message's position is still the same, and its broker
    checks nothing else."""
    if not isinstance(handle, BrokerHandle):
        return handle
    pop_check_point = handle.pop_check_point
    return handle.after_change(int(time.time() * 1000), pop_check_point.invisible_ms, pop_check_point.revive_queue_id)


LEVELS_S: Final = (1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1_200, 1_800, 3_600, 7_200)
FIRST_GROWING_LEVEL: Final = 3
"""The level of a message's first failure, if no ``delay_level`` is set."""


def delay_ms(delay_level: int, reconsume_times: int) -> int:
    """Return a delay in ms. ``delay_level`` from 1 on selects it from LEVELS_S. 0 selects level 3 plus
    ``reconsume_times``; a negative value, from a producer, counts as 0. Levels above 18 count as 18 (2 h). Requires
    that ``delay_level`` is not negative."""
    level = delay_level or FIRST_GROWING_LEVEL + max(0, reconsume_times)
    return LEVELS_S[min(level, len(LEVELS_S)) - 1] * 1000
