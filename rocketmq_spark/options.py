"""The option table: names, kinds, defaults and documentation, all in the fields of one frozen dataclass.

``ReadOptions.parse`` turns what a user wrote into typed values or an ``OptionError``; the options reference of the
README, ``docs/options.md`` and ``conf/connector.options.example`` are generated from the same fields.
"""

from __future__ import annotations

import dataclasses
import difflib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Generic, TypeVar

from rocketmq_spark.errors import OptionError
from rocketmq_spark.model import MessageQueue, retry_topic

T = TypeVar("T")

BROADCASTING: Final = "BROADCASTING"


@dataclass(frozen=True, slots=True)
class Kind(Generic[T]):
    """How a text becomes a value. ``parse`` raises ValueError for what it does not take."""

    expected: str
    parse: Callable[[str], T]


@dataclass(frozen=True, slots=True)
class Option:
    """One row of the table, as the generated documentation shows it."""

    name: str
    kind: Kind[Any]
    doc: str
    aliases: tuple[str, ...] = ()
    default: str | None = None
    required: bool = False
    secret: bool = False

    @property
    def spellings(self) -> tuple[str, ...]:
        return (self.name, *self.aliases)

    def parse(self, text: str) -> Any:
        """The value. The OptionError for a bad one is raised outside of the handler: no chain leads to a secret."""
        with suppress(ValueError):
            return self.kind.parse(text.strip())
        shown = "***" if self.secret else text
        raise OptionError("BAD_OPTION_VALUE", option=self.name, value=shown, expected=self.kind.expected)


# ---------------------------------------------------------------------------------------------------- kinds

_ADDRESS: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\s:;,\[\]]+):(\d{1,5})")
_TOPIC: Final = re.compile(r"[%|a-zA-Z0-9_-]{1,255}")
_GROUP: Final = re.compile(r"[%|a-zA-Z0-9_-]{1,120}")
_QUEUE: Final = re.compile(r"([%|a-zA-Z0-9_-]+)@(\S+):(\d{1,6})")
_INSTANCE: Final = re.compile(r"[^\s@]{1,100}")
_LOCAL_TIME: Final = re.compile(r"(19|2[0-9])[0-9]{12}")


def _parse_address(text: str) -> str:
    match = _ADDRESS.fullmatch(text)
    if match is None or not 0 < int(match[2]) <= 65535:
        raise ValueError(text)
    return text


def _parse_addresses(text: str) -> tuple[str, ...]:
    parts = [part.strip() for part in re.split(r"[;,]", text)]
    return tuple(dict.fromkeys(_parse_address(part) for part in parts))


def _matching(pattern: re.Pattern[str]) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if not pattern.fullmatch(text):
            raise ValueError(text)
        return text

    return parse


def _parse_topics(text: str) -> tuple[str, ...]:
    topic = _matching(_TOPIC)
    return tuple(dict.fromkeys(topic(part.strip()) for part in text.split(",")))


def _parse_names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _parse_queues(text: str) -> tuple[MessageQueue, ...]:
    return tuple(map(_parse_queue, _parse_names(text)))


def _parse_queue(text: str) -> MessageQueue:
    match = _QUEUE.fullmatch(text)
    if match is None:
        raise ValueError(text)
    return MessageQueue(match[1], match[2], int(match[3]))


def _parse_starting_offsets(text: str) -> str | tuple[tuple[MessageQueue, int], ...]:
    """A word for all queues, or an offset for each of some: -2 is its first, -1 its end."""
    if text.lower() in {"earliest", "latest"}:
        return text.lower()
    try:
        offsets = tuple(_listed_offsets(json.loads(text)))
    except (AttributeError, TypeError):
        raise ValueError(text) from None
    return offsets or _refuse(text)


def _listed_offsets(topics: Any) -> Iterator[tuple[MessageQueue, int]]:
    for topic, brokers in topics.items():
        for broker_name, by_id in brokers.items():
            for queue_id, offset in by_id.items():
                if type(offset) is not int or offset < -2:
                    _refuse(str(offset))
                yield MessageQueue(topic, broker_name, int(queue_id)), offset


def _parse_local_time(text: str) -> int:
    """Epoch ms of a time on this machine's clock, as RocketMQ reads it."""
    digits = _matching(_LOCAL_TIME)(text)
    return int(datetime.strptime(digits, "%Y%m%d%H%M%S").astimezone().timestamp() * 1000)


def _parse_boolean(text: str) -> bool:
    return {"true": True, "false": False}[text.lower()] if text.lower() in {"true", "false"} else _refuse(text)


def _refuse(text: str) -> Any:
    raise ValueError(text)


def integer(minimum: int, maximum: int = 2**31 - 1) -> Kind[int]:
    """A whole number in ``[minimum, maximum]``."""

    def parse(text: str) -> int:
        value = int(text)
        return value if minimum <= value <= maximum else _refuse(text)

    return Kind(f"a whole number from {minimum} to {maximum}", parse)


def choice(*names: str) -> Kind[str]:
    """One of ``names``, in any case; the value is the spelling given here."""
    by_lower = {name.lower(): name for name in names}

    def parse(text: str) -> str:
        return by_lower[text.lower()] if text.lower() in by_lower else _refuse(text)

    return Kind(" or ".join(f"'{name}'" for name in names), parse)


ADDRESSES: Final = Kind("one or more 'host:port', separated by semicolons", _parse_addresses)
TOPICS: Final = Kind("topic names separated by commas (letters, digits and %|_-)", _parse_topics)
GROUP: Final = Kind("a group name (letters, digits and %|_-)", _matching(_GROUP))
INSTANCE: Final = Kind("a name without white space or '@', at most 100 characters", _matching(_INSTANCE))
EXPRESSION: Final = Kind(
    "tags joined by '||', or '*'", _matching(re.compile(r"[^\x00-\x1f]*[^\x00-\x20|][^\x00-\x1f]*"))
)
NAMES: Final = Kind("names separated by commas", _parse_names)
QUEUES: Final = Kind("queues 'topic@broker:id' separated by commas", _parse_queues)
STRATEGY: Final = Kind("a strategy's name or 'module:Class'", _matching(re.compile(r"[\w.:-]+")))
STARTING_OFFSETS: Final = Kind(
    """'earliest', 'latest' or JSON '{"topic":{"broker":{"queue id":offset}}}'""", _parse_starting_offsets
)
LOCAL_TIME: Final = Kind("a time 'yyyyMMddHHmmss'", _parse_local_time)
TEXT: Final = Kind("text", str)
BOOLEAN: Final = Kind("'true' or 'false'", _parse_boolean)


def option(
    name: str,
    kind: Kind[T],
    *,
    doc: str,
    aliases: tuple[str, ...] = (),
    default: str | None = None,
    required: bool = False,
    secret: bool = False,
) -> Any:
    """A dataclass field that carries its row of the table. The default is checked here, when it is defined."""
    row = Option(name, kind, doc, aliases, default, required, secret)
    if default is not None:
        row.parse(default)
    return dataclasses.field(metadata={"option": row}, repr=not secret)


NO_RETRY_IN_ORDER: Final = (
    "What is sent back comes again behind later messages; and while a member of the group holds a lock, brokers put "
    "what is sent to the group's retry topic into its dead letter queue instead. Give up one of the two."
)

# ---------------------------------------------------------------------------------------------------- the table


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """Options of ``spark.readStream.format("rocketmq")``. Times are milliseconds, sizes are messages."""

    name_servers: tuple[str, ...] = option(
        "namesrvAddr",
        ADDRESSES,
        aliases=("nameServer",),
        required=True,
        doc="Name servers, `host:port` separated by `;`. One that does not answer is passed over for the next.",
    )
    consumer_group: str = option(
        "consumerGroup",
        GROUP,
        required=True,
        doc="The consumer group that the query joins as one member. Its offsets at the broker show the progress.",
    )
    topics: tuple[str, ...] = option(
        "subscribe",
        TOPICS,
        aliases=("topic",),
        required=True,
        doc="Topics to read, separated by commas. All members of a group must subscribe to the same topics.",
    )
    sub_expression: str = option(
        "subExpression",
        EXPRESSION,
        default="*",
        doc="Tags to read, such as `TagA || TagB`; `*` reads all. Filtered by the broker, checked again here.",
    )
    starting_offsets: str | tuple[tuple[MessageQueue, int], ...] | None = option(
        "startingOffsets",
        STARTING_OFFSETS,
        doc="Where a topic begins of which neither the checkpoint nor the group has an offset: `earliest` is its first "
        "messages; `latest`, the default, is what is stored after the start, and from the first query progress on "
        "everything; JSON gives the offset of each queue, "
        '`{"orders":{"broker-a":{"0":23,"1":-2}}}` with -2 for its first message and -1 for its end, and queues that '
        "it does not name begin at their first message. Queues that a topic gains later always do.",
    )
    starting_timestamp_ms: int | None = option(
        "startingTimestamp",
        integer(0, 2**63 - 1),
        doc="Instead of `startingOffsets`: each queue begins with its first message that was stored at this time or "
        "later, in epoch milliseconds, or at its end where there is none.",
    )
    consume_from_where: str | None = option(
        "consumeFromWhere",
        choice("CONSUME_FROM_LAST_OFFSET", "CONSUME_FROM_FIRST_OFFSET", "CONSUME_FROM_TIMESTAMP"),
        doc="RocketMQ's name for the same: `CONSUME_FROM_LAST_OFFSET` is `startingOffsets` `latest`, "
        "`CONSUME_FROM_FIRST_OFFSET` is `earliest`, and `CONSUME_FROM_TIMESTAMP` is `startingTimestamp`, given there "
        "or as `consumeTimestamp`. Options that do not mean the same contradict each other.",
    )
    consume_timestamp_ms: int | None = option(
        "consumeTimestamp",
        LOCAL_TIME,
        doc="RocketMQ's spelling of `startingTimestamp`: `yyyyMMddHHmmss` in the time zone of the driver.",
    )
    max_offsets_per_trigger: int | None = option(
        "maxOffsetsPerTrigger",
        integer(1, 2**63 - 1),
        doc="At most so many offsets in one micro-batch, shared among the queues in proportion to what waits in them.",
    )
    min_partitions: int | None = option(
        "minPartitions",
        integer(1),
        doc="At least so many tasks in a micro-batch, if it has so many offsets. By default a task reads one queue, "
        "and short ranges of several queues, up to 10,000 offsets together, share one.",
    )
    max_records_per_partition: int | None = option(
        "maxRecordsPerPartition",
        integer(1, 2**63 - 1),
        doc="At most so many offsets in one task.",
    )
    fail_on_data_loss: bool = option(
        "failOnDataLoss",
        BOOLEAN,
        default="true",
        doc="Whether the query fails when messages were deleted before it read them. "
        "If false it logs the exact offsets and goes on.",
    )
    instance_name: str | None = option(
        "instanceName",
        INSTANCE,
        doc="The part of the client id after `@`. By default each query start gets its own; "
        "a fixed name makes a restarted query the same member again. Two live queries must not share one.",
    )
    allocate_strategy: str = option(
        "allocateStrategy",
        STRATEGY,
        default="AVG",
        doc="How the group's members share the queues: RocketMQ's `AVG`, `AVG_BY_CIRCLE`, `CONSISTENT_HASH`, `CONFIG`, "
        "`MACHINE_ROOM`, `MACHINE_ROOM_NEARBY-<name>`, which give what the Java client's give; `AVG_ALL_TOPICS`, for "
        "groups of Spark members only, which shares the queues of all topics together; or a class of your own, "
        "`module:Class`. All members must use the same.",
    )
    message_queue_list: tuple[MessageQueue, ...] = option(
        "messageQueueList",
        QUEUES,
        default="",
        doc="For `allocateStrategy` `CONFIG`: the queues of this member, `topic@broker:id` separated by commas.",
    )
    consumer_idcs: tuple[str, ...] = option(
        "consumeridcs",
        NAMES,
        default="",
        doc="For `allocateStrategy` `MACHINE_ROOM`: the rooms whose brokers (`room@name`) are read.",
    )
    machine_room_resolver: str = option(
        "machineRoomResolver",
        TEXT,
        default="",
        doc="For `allocateStrategy` `MACHINE_ROOM_NEARBY-<name>`: `module:Class`, which knows where things are.",
    )
    consume_orderly: bool = option(
        "consumeOrderly",
        BOOLEAN,
        default="false",
        doc="Lock each queue at its broker while this query reads it, as RocketMQ's orderly consumers do: "
        "a queue changes hands only between micro-batches, and no two members ever read it at once.",
    )
    message_model: str = option(
        "messageModel",
        choice("CLUSTERING", BROADCASTING),
        default="CLUSTERING",
        doc="`CLUSTERING`: the group's members share the queues. `BROADCASTING`: this query reads every queue, whoever "
        "else does, and the group has no offsets at the brokers; the query goes on from its checkpoint, or without one "
        "from a file that `instanceName` names.",
    )
    local_offset_store_dir: str | None = option(
        "localOffsetStoreDir",
        TEXT,
        doc="For `messageModel` `BROADCASTING`: the folder of the files with offsets, on the driver's machine. Without "
        "it `.rocketmq_offsets` in the user's home, as RocketMQ has it.",
    )
    reads_retry_topic: bool = option(
        "retryTopic",
        BOOLEAN,
        default="false",
        doc="Whether the group's retry topic is read too: messages that were sent back (`rocketmq_spark.send_back`, or "
        "a Java consumer's failed ones) come again, with the topic and message id that they had. "
        "All members of a group must agree on it.",
    )
    rebalance_interval_ms: int = option(
        "rebalanceIntervalMs",
        integer(1_000, 600_000),
        default="20000",
        doc="How often the member compares its queues with the group even when nobody told it of a change.",
    )
    broker_timeout_ms: int = option(
        "brokerTimeoutMs",
        integer(100, 600_000),
        default="3000",
        doc="How long one request waits for its answer. A request that can be repeated is, up to `clusterTimeoutMs`.",
    )
    cluster_timeout_ms: int = option(
        "clusterTimeoutMs",
        integer(0),
        default="300000",
        doc="How long a query goes on retrying a cluster that cannot be reached before it fails.",
    )
    missing_topic_timeout_ms: int = option(
        "missingTopicTimeoutMs",
        integer(0),
        default="60000",
        doc="How long a query waits for a subscribed topic that no name server knows. If it has read the topic, "
        "and the brokers do not serve it any more either, `missingQueues` decides.",
    )
    missing_queues: str = option(
        "missingQueues",
        choice("wait", "fail", "drop"),
        default="wait",
        doc="What to do while queues that the query has read are away: their broker is out of the route, they have no "
        "read permission, or the topic has fewer queues. `wait` goes on with the others, within a limit; `fail` ends "
        "the query at once; `drop` goes on for as long as it takes. Each keeps the positions, and reads on exactly "
        "there when the queues are back. A batch that is planned already is read in full; with `drop` too it waits.",
    )
    missing_queues_timeout_ms: int = option(
        "missingQueuesTimeoutMs",
        integer(0),
        default="300000",
        doc="How long `missingQueues` `wait` waits, from when the name servers no longer have a queue, and how long a "
        "batch does that is planned already. While they have it and its broker is silent, `clusterTimeoutMs` counts.",
    )
    persist_offset_interval_ms: int = option(
        "persistOffsetIntervalMs",
        integer(100, 600_000),
        default="5000",
        doc="How often offsets are sent again that a broker did not confirm when a micro-batch was committed.",
    )

    @property
    def missing_queues_limit_ms(self) -> int:
        """How long a queue may be away that is waited for."""
        return 0 if self.missing_queues == "fail" else self.missing_queues_timeout_ms

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> ReadOptions:
        """Options from what the user wrote; names in any case. Raises OptionError."""
        options = cls(**_parse_table(cls, given))
        _check_contradictions(options)
        return options

    @property
    def retry_topic(self) -> str:
        """The name of the group's retry topic, read or not."""
        return retry_topic(self.consumer_group)

    @property
    def read_topics(self) -> tuple[str, ...]:
        """``topics``, and the group's retry topic if that is read."""
        return tuple(dict.fromkeys((*self.topics, self.retry_topic))) if self.reads_retry_topic else self.topics

    def expression_of(self, topic: str) -> str:
        """What is read of a topic: all of the retry topic, because what was sent back has passed the filter before."""
        return "*" if topic == self.retry_topic else self.sub_expression


# ---------------------------------------------------------------------------------------------------- contradictions


def _check_contradictions(options: ReadOptions) -> None:
    if options.consume_orderly and options.reads_retry_topic:
        raise OptionError(
            "CONTRADICTORY_OPTIONS", first="consumeOrderly", second="retryTopic", reason=NO_RETRY_IN_ORDER
        )
    _check_message_model(options)


def _check_message_model(options: ReadOptions) -> None:
    if options.message_model != BROADCASTING:
        if options.local_offset_store_dir is not None:
            raise _contradiction("localOffsetStoreDir", "In 'CLUSTERING' the brokers keep the group's offsets.")
        return
    if options.consume_orderly:
        raise _contradiction("consumeOrderly", "In 'BROADCASTING' no queue is one query's alone, to be locked.")
    if options.allocate_strategy.upper() != "AVG":
        raise _contradiction("allocateStrategy", "In 'BROADCASTING' every query reads every queue; nothing is shared.")
    if options.reads_retry_topic:
        raise _contradiction("retryTopic", "In 'BROADCASTING' nothing is sent back: a retry topic is a whole group's.")
    if options.instance_name is None:
        hint = "In 'BROADCASTING' it names the file with this query's offsets."
        raise OptionError("MISSING_OPTION", option="instanceName", hint=hint)


def _contradiction(option: str, reason: str) -> OptionError:
    return OptionError("CONTRADICTORY_OPTIONS", first="messageModel", second=option, reason=reason)


# ---------------------------------------------------------------------------------------------------- parsing


def rows(table: type) -> Iterator[tuple[str, Option]]:
    """(attribute, row) for every option of ``table``, in order of definition."""
    for attribute in dataclasses.fields(table):
        yield attribute.name, attribute.metadata["option"]


def name_servers(namesrv_addr: str) -> tuple[str, ...]:
    """The addresses in a text as the option ``namesrvAddr`` takes it, for who has no other option. Raises
    OptionError."""
    row = next(row for _, row in rows(ReadOptions) if row.kind is ADDRESSES)
    return tuple(row.parse(namesrv_addr))


def _parse_table(table: type, given: Mapping[str, str]) -> dict[str, Any]:
    wanted = {name.lower(): text for name, text in given.items() if not _is_of_spark_sql(name)}
    values: dict[str, Any] = {}
    for attribute, row in rows(table):
        text = _take(row, wanted)
        values[attribute] = None if text is None else row.parse(text)
    for name in wanted:
        raise _unknown(name, table)
    return values


def _is_of_spark_sql(name: str) -> bool:
    """Spark's CREATE TABLE adds these to what the user wrote."""
    return name.lower() in {"owner", "provider"} or name.lower().startswith("option.")


def _take(row: Option, wanted: dict[str, str]) -> str | None:
    """Remove the row's text from ``wanted``, whichever spelling it has; the default where there is none."""
    found = [(spelling, wanted.pop(spelling.lower())) for spelling in row.spellings if spelling.lower() in wanted]
    if len(found) > 1 and found[0][1] != found[1][1]:
        reason = f"They are two names of one option and have different values; give '{row.name}' alone."
        raise OptionError("CONTRADICTORY_OPTIONS", first=found[0][0], second=found[1][0], reason=reason)
    if found:
        return found[0][1]
    if row.required:
        raise OptionError("MISSING_OPTION", option=row.name, hint=f"It is {row.kind.expected}.")
    return row.default


def _unknown(name: str, table: type) -> OptionError:
    known = {spelling.lower(): spelling for _, row in rows(table) for spelling in row.spellings}
    nearest = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.5)
    suggestion = f"Did you mean {known[nearest[0]]!r}?" if nearest else ""
    return OptionError("UNKNOWN_OPTION", option=name, suggestion=suggestion)
