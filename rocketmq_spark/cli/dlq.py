"""``rocketmq-spark dlq``: lists the dead letters of a consumer group, and sends them to their topics again."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Sequence

from rocketmq_spark.cli.message_lines import json_line, origin_topic, redriven, text_line
from rocketmq_spark.cli.message_reading import read_messages
from rocketmq_spark.cli.name_server import add_actions, cluster_at
from rocketmq_spark.condition import one_line
from rocketmq_spark.errors import OptionError, RouteError
from rocketmq_spark.inspection.inspector import Inspector, raise_failure
from rocketmq_spark.model import MessageExt, dead_letter_topic
from rocketmq_spark.remoting.cluster_client import ClusterClient
from rocketmq_spark.remoting.producer import Producer
from rocketmq_spark.remoting.retry import is_unknown_topic


def main(argv: Sequence[str]) -> int:
    """Run ``list``, which prints a line for each dead letter, or ``redrive``; return 0.

    Raises OptionError[DEAD_LETTERS_NOT_FOUND | DEAD_LETTERS_WITHOUT_TOPIC], RouteError, BrokerError, TransportError,
    RemoteProtocolError. Wrong arguments raise SystemExit.
    """
    arguments = new_parser().parse_args(argv)
    with cluster_at(arguments.namesrv, arguments.options) as cluster:
        messages = read_dead_letters(cluster, arguments.group)
        if arguments.action == "list":
            for message in messages:
                print(json_line(message) if arguments.json else text_line(message))
        else:
            chosen = messages if arguments.all else selected(messages, arguments.group, arguments.message_id)
            redrive(cluster, arguments.group, chosen, arguments.to)
    return 0


def read_dead_letters(cluster: ClusterClient, group: str) -> list[MessageExt]:
    """Pull and return all messages of the group's dead-letter topic, queue by queue; [] if the topic does not exist.
    Commit nothing. Raises RouteError if it has no usable route, and what ``read_messages`` does."""
    try:
        bounds = Inspector(cluster, raise_failure).queue_bounds([dead_letter_topic(group)])
    except RouteError as error:
        if is_unknown_topic(error):
            return []
        raise
    return list(read_messages(cluster, bounds))


def selected(messages: Sequence[MessageExt], group: str, message_ids: Collection[str]) -> list[MessageExt]:
    """Return those of ``messages`` that have one of ``message_ids``, in their order. Raises
    OptionError[DEAD_LETTERS_NOT_FOUND] if an ID is one that no message has."""
    missing = sorted(set(message_ids) - {message.msg_id for message in messages})
    if missing:
        raise OptionError("DEAD_LETTERS_NOT_FOUND", group=group, count=len(missing), ids=", ".join(missing))
    return [message for message in messages if message.msg_id in message_ids]


def redrive(cluster: ClusterClient, group: str, messages: Sequence[MessageExt], topic: str | None = None) -> None:
    """Send a copy of each message to ``topic``, None: to the topic to which the message was first sent; wait for each,
    and print its old ID with queue and offset of the copy. The dead letters stay. Raises
    OptionError[DEAD_LETTERS_WITHOUT_TOPIC], before anything is sent, for messages that do not name that topic, and what
    ``Producer.send`` does, after which the rest is not sent."""
    topics = {message.offset_msg_id: topic or origin_topic(message) for message in messages}
    without = [message.msg_id for message in messages if topics[message.offset_msg_id] is None]
    if without:
        raise OptionError("DEAD_LETTERS_WITHOUT_TOPIC", group=group, count=len(without), ids=", ".join(without))
    producer = Producer(cluster, group=group)
    for message in messages:
        target = topics[message.offset_msg_id]
        assert target is not None
        result = producer.send(redriven(message, target))
        print(one_line(f"{message.msg_id} -> {result.queue} offset {result.queue_offset}"), flush=True)


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
            action.add_argument("--to", metavar="TOPIC", help="send them to this topic instead")
    return parser
