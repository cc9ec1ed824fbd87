"""Options of a write, batch or streaming."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from rocketmq_spark.options.connection import CONNECTION_CONFLICTS, CONNECTION_DEPENDENCIES, ConnectionOptions
from rocketmq_spark.options.kinds import BOOLEAN, GROUP, NAMES, TOPIC, choice, integer
from rocketmq_spark.options.table import Section, accepted_by, checked, option, parse_table

NOT_DURABLE_AFTER_MS: Final = 8_000
"""Minimum send timeout with ``acceptNotDurable``. A broker reports that a message is not flushed or replicated after
``syncFlushTimeout``, 5 s."""


@accepted_by("df.write", "df.writeStream")
@dataclass(frozen=True, kw_only=True)
class WriteOptions(ConnectionOptions):
    """Options of ``df.write`` and ``df.writeStream`` with ``format("rocketmq")``. Times are milliseconds."""

    topic: str | None = option(
        "topic",
        TOPIC,
        section=Section.WRITE,
        doc="Topic of all rows; overrides the column `topic`. Without this option, each row must have a value in that "
        "column.",
    )
    missing_topic_timeout_ms: int = option(
        "missingTopicTimeoutMs",
        integer(0),
        section=Section.WRITE,
        default="60000",
        doc="How long a task waits, in ms, for a topic that has no route or is not writable, but at most "
        "`clusterTimeoutMs`. For a topic that had a route in the same Python worker before, `clusterTimeoutMs` "
        "applies instead.",
    )
    producer_group: str = option(
        "producerGroup",
        GROUP,
        section=Section.WRITE,
        default="rocketmq-spark",
        doc="Producer group that the sink sends to the brokers.",
    )
    accept_not_durable: bool = option(
        "acceptNotDurable",
        BOOLEAN,
        section=Section.WRITE,
        default="false",
        doc="Whether to treat `FLUSH_DISK_TIMEOUT`, `FLUSH_SLAVE_TIMEOUT` and `SLAVE_NOT_AVAILABLE` as success: the "
        "broker has stored the row, but has not flushed or replicated it. With `false`, the row is sent again for up "
        "to `clusterTimeoutMs`, which can create duplicates. Brokers return these statuses after `syncFlushTimeout` "
        "(default 5 s). With `false` and a shorter `brokerTimeoutMs` they appear as timeouts; with `true` the "
        "connector waits for at least 8 s.",
    )
    max_message_bytes: int = option(
        "maxMessageBytes",
        integer(1, 15 * 1024 * 1024),
        section=Section.WRITE,
        default=str(4 * 1024 * 1024),
        doc="Maximum size of a body in bytes, before compression; set it to `maxMessageSize` of the brokers. A larger "
        "body makes the row invalid before any row of its Arrow record batch is sent. It also limits the size of a "
        "batch of messages.",
    )

    compression: str = option(
        "compression",
        choice("none", "zlib", "lz4", "zstd"),
        section=Section.WRITE,
        default="none",
        doc="Compression of each body that is larger than `compressMsgBodyOverHowmuch`, as in a Java producer. "
        "Consumers decompress it; those before RocketMQ 5 support `zlib` only.",
    )
    compress_over_bytes: int = option(
        "compressMsgBodyOverHowmuch",
        integer(0),
        section=Section.WRITE,
        default="4096",
        doc="Applies to `compression`: bodies larger than this number of bytes are compressed.",
    )
    message_id_columns: tuple[str, ...] = option(
        "messageIdColumns",
        NAMES,
        section=Section.WRITE,
        default="",
        doc="Columns, separated by commas, whose values determine the message ID of a row; they need not be sent. By "
        "default the ID is derived from the query, the batch, the partition, the row's number there, and the sent "
        "content of the row. Set this option if a replayed batch can have other rows or another order, for example "
        "after a shuffle. Set it also if rows come from files or a table. Otherwise these rows get other IDs, and "
        "consumers cannot recognise the duplicates. Rows with equal values get the same ID, across all queries. A row "
        "with a null in one of these columns is invalid.",
    )

    dead_letter_topic: str | None = option(
        "deadLetterTopic",
        TOPIC,
        section=Section.WRITE,
        doc="Topic for invalid rows, which otherwise fail the task. Each message has the beginning of the body, and "
        "the reason in the properties `INVALID_ROW_PROBLEM`, `INVALID_ROW_POSITION` and `INVALID_ROW_TOPIC`; a "
        "warning counts them. A row whose topic is missing or not writable is invalid after `missingTopicTimeoutMs`. "
        "Rows that a broker rejects after they were sent fail the task in any case.",
    )

    log_level: str = option(
        "logLevel",
        choice("DEBUG", "INFO", "WARN", "ERROR"),
        section=Section.WRITE,
        default="INFO",
        doc="Log level of the sink's tasks, which log to standard error; Spark's log level does not apply to them. "
        "`WARN` and `INFO`: outages, and rows sent to the dead-letter topic. `DEBUG`: also the stack trace of an "
        "error that fails a task.",
    )

    @property
    def send_timeout_ms(self) -> int:
        """Return the timeout of a send request in ms: ``brokerTimeoutMs``, at least 8,000 with ``acceptNotDurable``."""
        return max(self.broker_timeout_ms, NOT_DURABLE_AFTER_MS) if self.accept_not_durable else self.broker_timeout_ms

    @classmethod
    def parse(cls, configured: Mapping[str, str]) -> WriteOptions:
        """Parse the options of a write; names in any case.

        Raises OptionError[UNKNOWN_OPTION | MISSING_OPTION | INVALID_OPTION_VALUE | INCOMPATIBLE_OPTIONS |
        OPTION_REQUIRES_OPTION].
        """
        return checked(cls(**parse_table(cls, configured)), CONNECTION_DEPENDENCIES, CONNECTION_CONFLICTS)
