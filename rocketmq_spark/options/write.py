"""Options of a write, batch or streaming."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from rocketmq_spark.options.connection import CONNECTION_CONFLICTS, CONNECTION_NEEDS, ConnectionOptions
from rocketmq_spark.options.kinds import BOOLEAN, GROUP, NAMES, TOPIC, choice, integer
from rocketmq_spark.options.table import Section, checked, option, parse_table, taken_by

NOT_DURABLE_AFTER_MS: Final = 8_000
"""By then a broker has said that a message is not as safe as it should be: ``syncFlushTimeout`` is 5 s."""


@taken_by("df.write", "df.writeStream")
@dataclass(frozen=True, kw_only=True)
class WriteOptions(ConnectionOptions):
    """Options of ``df.write`` and ``df.writeStream`` with ``format("rocketmq")``. Times are milliseconds."""

    topic: str | None = option(
        "topic",
        TOPIC,
        section=Section.WRITE,
        doc="Where all rows are sent, also those with a column `topic`. Without it each row says it there.",
    )
    missing_topic_timeout_ms: int = option(
        "missingTopicTimeoutMs",
        integer(0),
        section=Section.WRITE,
        default="60000",
        doc="How long a task waits for a topic that no name server knows, or that may not be written to. One that had "
        "a route in its process before is waited for as the brokers are that it was on, for `clusterTimeoutMs`.",
    )
    producer_group: str = option(
        "producerGroup",
        GROUP,
        section=Section.WRITE,
        default="rocketmq-spark",
        doc="The producer group that brokers are told.",
    )
    accept_not_durable: bool = option(
        "acceptNotDurable",
        BOOLEAN,
        section=Section.WRITE,
        default="false",
        doc="Whether a row counts as stored where the broker says that it is, and is not as safe as the broker is set "
        "up to make it: not on disk in time (`FLUSH_DISK_TIMEOUT`), or without a replica (`FLUSH_SLAVE_TIMEOUT`, "
        "`SLAVE_NOT_AVAILABLE`). If false it is sent again, for `clusterTimeoutMs` at most. Brokers say so after their "
        "`syncFlushTimeout`, 5 s: where it is true, an answer is waited for so long; where it is false and "
        "`brokerTimeoutMs` is shorter, they look as if they did not answer.",
    )
    max_message_bytes: int = option(
        "maxMessageBytes",
        integer(1, 15 * 1024 * 1024),
        section=Section.WRITE,
        default=str(4 * 1024 * 1024),
        doc="The largest body that is sent: `maxMessageSize` of the brokers. Rows with a larger one are found before "
        "anything of their Arrow batch is sent. No batch that is sent has more either.",
    )

    compression: str = option(
        "compression",
        choice("none", "zlib", "lz4", "zstd"),
        section=Section.WRITE,
        default="none",
        doc="How large bodies are compressed, each by itself, as a Java producer does it. Whoever reads them notices "
        "nothing; consumers before RocketMQ 5 know `zlib` only.",
    )
    compress_over_bytes: int = option(
        "compressMsgBodyOverHowmuch",
        integer(0),
        section=Section.WRITE,
        default="4096",
        doc="For `compression`: bodies above so many bytes are large.",
    )
    message_id_columns: tuple[str, ...] = option(
        "messageIdColumns",
        NAMES,
        section=Section.WRITE,
        default="",
        doc="Columns that the message ID of a row is made of, separated by commas; also columns that are not sent. By "
        "default the ID is made of the query, the batch, the partition, the row's number there and what is sent of the "
        "row. Set it where a replayed batch may have other rows or another order, as behind a "
        "shuffle, and where rows come from files or a table: otherwise the rows get other IDs, and consumers cannot "
        "recognise them as duplicates. Rows with equal values have the same ID, in all queries.",
    )

    dead_letter_topic: str | None = option(
        "deadLetterTopic",
        TOPIC,
        section=Section.WRITE,
        doc="Where rows go that cannot be sent, with the reason; a warning counts them. Their messages have the "
        "beginning of the body, and properties `UNSENDABLE_PROBLEM`, `UNSENDABLE_ROW` and `UNSENDABLE_TOPIC`. Without "
        "it such a row fails the task. Rows for a topic that is not there, or may not be written to, are among them "
        "once `missingTopicTimeoutMs` is over. What a broker answers to rows that were sent fails the task in any "
        "case.",
    )

    log_level: str = option(
        "logLevel",
        choice("DEBUG", "INFO", "WARN", "ERROR"),
        section=Section.WRITE,
        default="INFO",
        doc="Which of the connector's lines tasks write to standard error, where Spark shows them among its own. "
        "`WARN`, and so `INFO`: what is waited for, and rows that go to the dead letter topic. `DEBUG`: the stack of "
        "an error that ends a task, too.",
    )

    @property
    def send_timeout_ms(self) -> int:
        """How long the answer to a send is waited for."""
        return max(self.broker_timeout_ms, NOT_DURABLE_AFTER_MS) if self.accept_not_durable else self.broker_timeout_ms

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> WriteOptions:
        """Options from what the user wrote; names in any case.

        Raises OptionError[UNKNOWN_OPTION | MISSING_OPTION | INVALID_OPTION_VALUE | INCOMPATIBLE_OPTIONS].
        """
        return checked(cls(**parse_table(cls, given)), CONNECTION_NEEDS, CONNECTION_CONFLICTS)
