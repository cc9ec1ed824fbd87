"""``rocketmq-spark offsets``: shows, exports and sets the committed offsets of a consumer group."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from rocketmq_spark.cli.arguments import add_actions, argument_type, cluster_at, integer_argument
from rocketmq_spark.cli.offset_targets import (
    EXPECTED_TARGET,
    OffsetTarget,
    check_available,
    checkpoint_offsets,
    last_committed,
    offsets_of,
    parse_target,
    selected,
)
from rocketmq_spark.cli.text_table import text_table
from rocketmq_spark.errors import MembershipError, OptionError, RocketMQError
from rocketmq_spark.inspection.inspector import Inspector, raise_failure
from rocketmq_spark.inspection.rows import GroupRow
from rocketmq_spark.model import MessageQueue, QueueBounds, nested
from rocketmq_spark.options.kinds import ANY_POSITIONS
from rocketmq_spark.options.queue_positions import QueuePositions
from rocketmq_spark.remoting.broker import Broker
from rocketmq_spark.remoting.cluster_client import ClusterClient
from rocketmq_spark.remoting.error_kinds import is_group_offline
from rocketmq_spark.wire.remoting.mq_version import V5_0_0_SNAPSHOT

HEADER: Final = ("topic", "broker", "queue", "first", "committed", "next")
CHANGES: Final = ("topic", "broker", "queue", "before", "after")
STANDARD_INPUT: Final = "-"


def main(argv: Sequence[str]) -> int:
    """Run the action ``show``, ``export``, ``set`` or ``import``, and print its result; return 0.

    Raises OptionError[GROUP_NOT_FOUND.CLUSTER | OFFSETS_NOT_IN_QUEUES | CHECKPOINT_UNREADABLE], MembershipError
    [GROUP_IN_USE], RouteError, BrokerError, TransportError. Wrong arguments raise SystemExit.
    """
    arguments = new_parser().parse_args(argv)
    with cluster_at(arguments.namesrv, arguments.options) as cluster:
        inspector = Inspector(cluster, raise_failure)
        match arguments.action:
            case "show":
                print(show(inspector.group_rows([arguments.group], arguments.topic, with_ages=False), arguments.json))
            case "export":
                print(export(inspector.group_rows([arguments.group], arguments.topic, with_ages=False)))
            case "set":
                bounds = inspector.queue_bounds(arguments.topic)
                chosen = selected(bounds, arguments.broker, arguments.queue)
                print(change(cluster, arguments, offsets_at(cluster, arguments.to, chosen), bounds))
            case "import":
                positions = arguments.file or read_checkpoint(arguments.checkpoint)
                topics = {queue.topic for queue, _ in positions.queues} | {topic for topic, _ in positions.topics}
                bounds = inspector.queue_bounds(sorted(topics)) if topics else {}
                print(change(cluster, arguments, offsets_of(positions, bounds), bounds))
    return 0


def show(rows: Sequence[GroupRow], as_json: bool) -> str:
    """Return the group's min, committed and max offset in each queue as a table, or as a JSON array on one line. There
    ``committedOffset`` is null for a queue without one."""
    cells = [(*row.queue, row.min_offset, row.committed_offset, row.max_offset) for row in rows]
    if not as_json:
        return "\n".join(text_table(HEADER, cells))
    names = ("topic", "brokerName", "queueId", "minOffset", "committedOffset", "maxOffset")
    return json.dumps([dict(zip(names, row, strict=True)) for row in cells])


def export(rows: Sequence[GroupRow]) -> str:
    """Return the committed offsets as JSON, {topic: {broker: {queue ID: offset}}}, which ``import`` and the option
    ``startingOffsets`` accept; {} without any. Queues without a committed offset are left out."""
    committed = {row.queue: row.committed_offset for row in rows if row.committed_offset is not None}
    return json.dumps(nested(committed), indent=2)


def offsets_at(
    cluster: ClusterClient, target: OffsetTarget, bounds: Mapping[MessageQueue, QueueBounds]
) -> dict[MessageQueue, int]:
    """Return the offset of ``target`` in each queue of ``bounds``. For a time request it from the master of each queue,
    one after another, and limit it to the queue's bounds. Raises what ``Broker.search_offsets`` does, and
    OptionError[OFFSETS_NOT_IN_QUEUES] for an offset that a queue does not have."""
    if target.timestamp_ms is None:
        return offsets_of(QueuePositions(target.position), bounds)
    return {queue: held.clamp(first_offset_at(cluster, queue, target.timestamp_ms)) for queue, held in bounds.items()}


def first_offset_at(cluster: ClusterClient, queue: MessageQueue, timestamp_ms: int) -> int:
    """Request and return the offset of the queue's first message stored at this time (Unix ms) or later, else its max
    offset. Raises what ``Broker.search_offsets`` does."""
    return cluster.call(queue, partial(Broker.search_offsets, timestamps_ms={queue: timestamp_ms}))[queue]


def change(
    cluster: ClusterClient,
    arguments: argparse.Namespace,
    offsets: Mapping[MessageQueue, int],
    bounds: Mapping[MessageQueue, QueueBounds],
) -> str:
    """Set the group's offsets to ``offsets`` with one ``_write`` for each queue, none with ``--dry-run``. Return a
    table of the committed offsets before and after. Before anything is set, and with ``--dry-run`` too, raises
    OptionError[OFFSETS_NOT_IN_QUEUES] for an offset outside of ``bounds``, MembershipError[GROUP_IN_USE] if the group
    has members, without ``--force``, and OptionError[GROUP_NOT_FOUND.CLUSTER]. A failing request is raised; queues
    before it stay set."""
    check_available(offsets, bounds)
    inspector, group = Inspector(cluster, raise_failure), arguments.group
    members = [row.client_id for row in inspector.member_rows([group])]
    if members and not arguments.force:
        raise MembershipError("GROUP_IN_USE", group=group, count=len(members), members=", ".join(members))
    topics = sorted({queue.topic for queue in offsets})
    rows = inspector.group_rows([group], topics, with_ages=False) if topics else []
    before = {row.queue: row.committed_offset for row in rows}
    if not arguments.dry_run:
        for queue in offsets:
            write = partial(_write, cluster, group, queue, offsets[queue], has_members=bool(members))
            cluster.call(queue, write)
    ordered = sorted(offsets, key=MessageQueue.sort_key)
    return "\n".join(text_table(CHANGES, [(*queue, before.get(queue), offsets[queue]) for queue in ordered]))


def _write(
    cluster: ClusterClient, group: str, queue: MessageQueue, offset: int, broker: Broker, *, has_members: bool
) -> None:
    """Set the group's offset of ``queue`` at ``broker``, and wait. A group without members gets a reset from RocketMQ
    5, which a Spark query with a checkpoint obeys. Commit the offset instead while the group has members, and on
    RocketMQ 4 or an unknown version. Commit it too if the broker refuses the reset because the group is offline, as
    brokers without ``useServerSideResetOffset`` do. Raises the RocketMQError of any other failure."""
    if not has_members and cluster.version(broker.address) >= V5_0_0_SNAPSHOT:
        try:
            broker.restore_reset(group, queue, offset)
        except RocketMQError as error:
            if not is_group_offline(error):
                raise
        else:
            return
    for failure in broker.submit_update_offsets(group, {queue: offset}).result().values():
        raise failure


def read_checkpoint(folder: Path) -> QueuePositions:
    """Return the next offset of each queue after the last completed batch of the Spark checkpoint in ``folder``. Raises
    OptionError[CHECKPOINT_UNREADABLE] without such a batch or for unreadable files, and what ``checkpoint_offsets``
    does."""
    try:
        batch = last_committed([file.name for file in (folder / "commits").iterdir()])
        if batch is None:
            raise OptionError("CHECKPOINT_UNREADABLE", path=str(folder), problem="it has no completed micro-batch")
        text = (folder / "offsets" / batch).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError("CHECKPOINT_UNREADABLE", path=str(folder), problem=str(error)) from None
    return QueuePositions(queues=tuple(checkpoint_offsets(text, str(folder)).items()))


def new_parser() -> argparse.ArgumentParser:
    """Return the parser of this subcommand's options."""
    parser = argparse.ArgumentParser(
        prog="rocketmq-spark offsets", description="Show, export or set the committed offsets of a consumer group."
    )
    does = {
        "show": "list the committed offset of each queue",
        "export": "print them as JSON, which 'import' and the option startingOffsets accept",
        "set": "set them to one position in each queue of a topic",
        "import": "set them to those of a file, or of the checkpoint of a Spark query",
    }
    for name, action in add_actions(parser, does).items():
        action.add_argument("--group", required=True, metavar="NAME", help="consumer group")
        if name in ("show", "export", "set"):
            shown = "topic; repeatable" + ("" if name == "set" else " (default: all of the group)")
            action.add_argument(
                "--topic", action="append", default=[], required=name == "set", metavar="NAME", help=shown
            )
        if name == "show":
            action.add_argument("--json", action="store_true", help="print a JSON array on one line")
        if name in ("set", "import"):
            action.add_argument("--force", action="store_true", help="also while the group has members")
            action.add_argument("--dry-run", action="store_true", help="only show what would be set")
        if name == "set":
            _add_set(action)
        if name == "import":
            origin = action.add_mutually_exclusive_group(required=True)
            origin.add_argument(
                "file", nargs="?", type=read_positions, help="JSON file of 'export'; '-': standard input"
            )
            origin.add_argument("--checkpoint", type=Path, metavar="DIR", help="checkpoint location of a Spark query")
    return parser


def _add_set(action: argparse.ArgumentParser) -> None:
    """Add ``--to``, which is required, ``--broker`` and ``--queue`` to ``action``, the parser of ``set``."""
    action.add_argument(
        "--to",
        type=argument_type(parse_target, EXPECTED_TARGET),
        required=True,
        metavar="POSITION",
        help="earliest, latest, an offset, or a time such as 2026-01-05T14:05:00+01:00",
    )
    action.add_argument("--broker", metavar="NAME", help="only queues of this broker")
    action.add_argument("--queue", type=integer_argument(0), metavar="ID", help="only the queue with this ID")


def read_positions(file: str) -> QueuePositions:
    """Read positions by topic or queue from a JSON file, or for ``-`` from standard input. An unreadable file, other
    JSON, and a position for all topics raise argparse.ArgumentTypeError."""
    try:
        text = sys.stdin.read() if file == STANDARD_INPUT else Path(file).read_text(encoding="utf-8")
        positions = ANY_POSITIONS.parse(text)
    except OSError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    except ValueError:
        raise argparse.ArgumentTypeError(f"{file!r} is not {ANY_POSITIONS.expected}") from None
    if positions.everywhere is not None:
        raise argparse.ArgumentTypeError(f"{file!r} names no topic")
    return positions
