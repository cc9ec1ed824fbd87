"""Options of membership in the consumer group, with ``loadBalance=queue``."""

from __future__ import annotations

from dataclasses import dataclass

from rocketmq_spark.model import MessageQueue
from rocketmq_spark.options.kinds import BOOLEAN, GROUP, INSTANCE, NAMES, QUEUES, STRATEGY, TEXT, choice, integer
from rocketmq_spark.options.read_rules import BROADCASTING
from rocketmq_spark.options.receive import ReceiveOptions
from rocketmq_spark.options.table import Section, option


@dataclass(frozen=True, kw_only=True)
class GroupOptions(ReceiveOptions):
    """Consumer group, allocation of its queues, and rebalance."""

    consumer_group: str = option(
        "consumerGroup",
        GROUP,
        section=Section.GROUP,
        essential=True,
        required=True,
        doc="Consumer group of the query. With `loadBalance=queue` the query joins the group as one member, which "
        "RocketMQ's admin tools list. The group's committed offsets show its progress, except with "
        "`messageModel=BROADCASTING`. `spark.read` joins no group and commits no offsets. It accepts the option only "
        "with `group` in `startingOffsets` or `endingOffsets`, and with `accessKey`: it then pulls with the "
        "permissions of that group; by default it uses `TOOLS_CONSUMER`. "
        "With `view`, it is the group that the view shows.",
    )
    instance_name: str | None = option(
        "instanceName",
        INSTANCE,
        section=Section.GROUP,
        doc="Part of the client ID after `@`. By default each start of the query generates a new one. With a fixed "
        "name, a restarted query is the same member again. Two running queries must not use the same name.",
    )
    allocate_strategy: str = option(
        "allocateStrategy",
        STRATEGY,
        section=Section.GROUP,
        default="AVG",
        doc="How queues are allocated to the members of the group. RocketMQ's strategies give the same result as the "
        "Java client: `AVG`, `AVG_BY_CIRCLE`, `CONSISTENT_HASH`, `CONFIG`, `MACHINE_ROOM`, "
        "`MACHINE_ROOM_NEARBY-<name>` (`<name>` is the strategy within a room). `AVG_ALL_TOPICS` allocates the queues "
        "of all topics together; use it only in groups without Java members. `module:Class` is the import path of "
        "your own class. All members must use the same strategy.",
    )
    message_queue_list: tuple[MessageQueue, ...] = option(
        "messageQueueList",
        QUEUES,
        section=Section.GROUP,
        default="",
        doc="Applies to `allocateStrategy=CONFIG`: the queues of this member, separated by commas.",
    )
    consumer_idcs: tuple[str, ...] = option(
        "consumeridcs",
        NAMES,
        section=Section.GROUP,
        default="",
        doc="Applies to `allocateStrategy=MACHINE_ROOM`: the machine rooms to read, separated by commas. The names of "
        "their brokers are `room@name`.",
    )
    machine_room_resolver: str = option(
        "machineRoomResolver",
        TEXT,
        section=Section.GROUP,
        default="",
        doc="Applies to `allocateStrategy=MACHINE_ROOM_NEARBY-<name>`: import path `module:Class` of a resolver that "
        "maps brokers and client IDs to machine rooms.",
    )
    consume_orderly: bool = option(
        "consumeOrderly",
        BOOLEAN,
        section=Section.GROUP,
        essential=True,
        default="false",
        doc="Whether to lock each queue at its broker while this query reads it, as RocketMQ's orderly consumers do. "
        "A queue is then reassigned only between micro-batches, and two members never read it at the same time.",
    )
    message_model: str = option(
        "messageModel",
        choice("CLUSTERING", BROADCASTING),
        section=Section.GROUP,
        default="CLUSTERING",
        doc="`CLUSTERING`: the queues are divided among the members of the group. `BROADCASTING`: this query reads "
        "all queues, independently of other members, and commits no offsets to the brokers. It resumes from its "
        "checkpoint or, without one, from a local offset file; `instanceName` names that file.",
    )
    local_offset_store_dir: str | None = option(
        "localOffsetStoreDir",
        TEXT,
        unset="`.rocketmq_offsets` in the home directory",
        section=Section.GROUP,
        doc="Applies to `messageModel=BROADCASTING`: directory of the local offset files on the driver's machine. "
        "Default: `.rocketmq_offsets` in the home directory, as in RocketMQ.",
    )
    rebalance_interval_ms: int = option(
        "rebalanceIntervalMs",
        integer(1_000, 600_000),
        section=Section.GROUP,
        default="20000",
        doc="Interval of rebalances in ms, and with `subscribePattern` also of topic lists. A broker's notification of "
        "a membership change triggers a rebalance at once.",
    )
    persist_offset_interval_ms: int = option(
        "persistOffsetIntervalMs",
        integer(100, 600_000),
        section=Section.GROUP,
        default="5000",
        doc="Retry interval, in ms, for offset commits that a broker has not acknowledged.",
    )
