"""``rocketmq-spark dlq``: lists the dead letters of a consumer group, and sends them to their topics again."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Collection, Iterator, Sequence
from typing import Final

from rocketmq_spark.cli.message_lines import (
    StoredMessage,
    json_line,
    place_text,
    redriven,
    text_line,
)
from rocketmq_spark.cli.message_reading import read_messages
from rocketmq_spark.cli.name_server import add_actions, cluster_at
from rocketmq_spark.cli.redrive_plan import RedrivePlan, ids_of, places_of, plan_of, selected, target_of
from rocketmq_spark.condition import one_line
from rocketmq_spark.errors import BrokerError, LocalProtocolError, RouteError
from rocketmq_spark.inspection.inspector import Inspector, raise_failure
from rocketmq_spark.model import MessageExt, dead_letter_topic
from rocketmq_spark.remoting.cluster_client import ClusterClient
from rocketmq_spark.remoting.producer import Producer
from rocketmq_spark.remoting.retry import is_unknown_topic
from rocketmq_spark.wire.body.system_topics import user_topics

LEFT: Final = 1
NO_TARGET: Final = "?"


def main(argv: Sequence[str]) -> int:
    """Run the action, and print a line for each message; return 0, or LEFT if a message was not sent.

    Raises OptionError[DEAD_LETTERS_NOT_FOUND | DEAD_LETTERS_AMBIGUOUS | GROUP_NOT_FOUND.CLUSTER], RouteError,
    BrokerError, TransportError, RemoteProtocolError. Wrong arguments raise SystemExit.
    """
    arguments = new_parser().parse_args(argv)
    group = arguments.group
    with cluster_at(arguments.namesrv, arguments.options) as cluster:
        letters = read_dead_letters(cluster, group)
        if arguments.action == "list":
            show(letters, group, as_json=arguments.json)
            return 0
        if arguments.message_id:
            chosen = selected(letters, group, arguments.message_id, ids_of)
        elif arguments.offset:
            # behind made-up IPv6 flags a broker may store two for one offset
            chosen = selected(letters, group, arguments.offset, places_of, are_unique=False)
        elif not (chosen := list(letters)):
            print_none(group)
        targets = {topic for letter in chosen if (topic := target_of(letter, arguments.to)) is not None}
        producer = Producer(cluster, group=group)
        unusable = unusable_topics(cluster, producer, targets)
        plan = plan_of(chosen, arguments.to, unusable, is_chosen=not arguments.all)
        return redrive(producer, plan, is_dry_run=arguments.dry_run)


def read_dead_letters(cluster: ClusterClient, group: str) -> Iterator[StoredMessage]:
    """Read and yield all dead letters of ``group``, also undecodable ones, queue by queue. Raises
    OptionError[GROUP_NOT_FOUND.CLUSTER] if there is neither the group nor its dead-letter topic, and what
    ``read_messages`` does."""
    inspector = Inspector(cluster, raise_failure)
    try:
        bounds = inspector.queue_bounds([dead_letter_topic(group)])
    except RouteError as error:
        if not is_unknown_topic(error):
            raise
        inspector.member_rows([group])  # raises for a group that no broker has
    else:
        yield from read_messages(cluster, bounds)


def show(letters: Iterator[StoredMessage], group: str, *, as_json: bool) -> None:
    """Print a line for each of ``letters``, as text with the topic to which ``redrive`` would send it."""
    is_empty = True
    for letter in letters:
        print(json_line(letter) if as_json else text_line(letter, target_of(letter) or NO_TARGET))
        is_empty = False
    if is_empty:
        print_none(group)


def print_none(group: str) -> None:
    """Print to standard error that the group has no dead letters."""
    print(f"Group '{one_line(group)}' has no dead letters.", file=sys.stderr)


def unusable_topics(cluster: ClusterClient, producer: Producer, topics: Collection[str]) -> dict[str, str]:
    """Return those of ``topics`` to which nothing can be sent, each with the reason: the brokers' own topics, and those
    without a route or a writable queue. Raises what ``NameServers.cluster_info`` does, and the errors of
    ``Producer.write_queues`` but RouteError."""
    if not topics:
        return {}
    usable = user_topics(topics, cluster.name_servers.cluster_info())
    unusable = {topic: f"topic '{topic}' is the brokers' own" for topic in set(topics) - set(usable)}
    for topic in usable:
        try:
            producer.write_queues(topic)
        except RouteError as error:
            unusable[topic] = error.summary
    return unusable


def redrive(producer: Producer, plan: RedrivePlan, *, is_dry_run: bool) -> int:
    """Print which messages are left. Send copies of the others, unless ``is_dry_run``, wait, and print the old ID and
    the place of each; one that a broker rejects is left too. Return 0, or LEFT if a message was left. Raises the
    TransportErrors of ``Producer.send``."""
    left = len(plan.left)
    for message, reason in plan.left:
        _print_left(message, reason)
    for message, topic in plan.sends:
        if is_dry_run:
            print(one_line(f"{message.msg_id} -> {topic} (dry run)"))
            continue
        try:
            result = producer.send(redriven(message, topic))
        except (BrokerError, LocalProtocolError, RouteError) as error:
            left += 1
            _print_left(message, error.summary)
        else:
            print(one_line(f"{message.msg_id} -> {result.queue} offset {result.queue_offset}"), flush=True)
    return LEFT if left else 0


def _print_left(message: MessageExt, reason: str) -> None:
    line = f"{place_text(message)} {message.msg_id} is not sent: {reason}"
    print(one_line(line), file=sys.stderr, flush=True)


def queue_offset(text: str) -> str:
    """Return ``text`` if it is BROKER:QUEUE:OFFSET; other text raises argparse.ArgumentTypeError."""
    _, *numbers = text.rsplit(":", 2)
    if len(numbers) != 2 or not all(number.isdecimal() for number in numbers):
        raise argparse.ArgumentTypeError(f"{text!r} is not BROKER:QUEUE:OFFSET")
    return text


def new_parser() -> argparse.ArgumentParser:
    """Return the parser of this subcommand's options."""
    parser = argparse.ArgumentParser(
        prog="rocketmq-spark dlq",
        description="List the dead letters of a consumer group, or send them to their topics again.",
    )
    does = {
        "list": "print the messages of the group's dead-letter topic, one per line",
        "redrive": "send copies of dead letters to the topics to which they were first sent; they stay dead letters",
    }
    for name, action in add_actions(parser, does).items():
        action.add_argument("--group", required=True, metavar="NAME", help="consumer group")
        if name == "list":
            action.add_argument("--json", action="store_true", help="print one JSON object per line")
        else:
            chosen = action.add_mutually_exclusive_group(required=True)
            chosen.add_argument("--all", action="store_true", help="all dead letters of the group")
            chosen.add_argument("--message-id", action="append", metavar="ID", help="ID of 'dlq list'; repeatable")
            chosen.add_argument(
                "--offset",
                action="append",
                type=queue_offset,
                metavar="BROKER:QUEUE:OFFSET",
                help="place of 'dlq list', for IDs that several have; repeatable",
            )
            action.add_argument("--to", metavar="TOPIC", help="send them to this topic instead")
            action.add_argument("--dry-run", action="store_true", help="only print what would be sent where")
    return parser
