"""``rocketmq-spark dlq``: lists the dead letters of a consumer group, and sends them to their topics again."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, lru_cache
from typing import Final

from rocketmq_spark.cli.arguments import add_actions, cluster_at
from rocketmq_spark.cli.message_lines import StoredMessage, json_line, message_of, place_text, text_line
from rocketmq_spark.cli.message_reading import read_messages
from rocketmq_spark.cli.redrive_plan import ids_of, places_of, reason_to_leave, redriven, selected, target_of
from rocketmq_spark.condition import one_line
from rocketmq_spark.errors import BrokerError, LocalProtocolError, RouteError
from rocketmq_spark.inspection.inspector import Inspector, raise_failure
from rocketmq_spark.model import MessageExt, dead_letter_topic
from rocketmq_spark.remoting.cluster_client import ClusterClient
from rocketmq_spark.remoting.error_kinds import is_unknown_topic
from rocketmq_spark.remoting.producer import Producer
from rocketmq_spark.wire.body.routes import ClusterInfo
from rocketmq_spark.wire.body.system_topics import user_topics

LEFT: Final = 1
NO_TARGET: Final = "?"
MAX_CACHED: Final = 128
"""Topics. Producers name the targets of dead letters, each with up to 32 KiB."""


def main(argv: Sequence[str]) -> int:
    """Run the action, and print a line for each message; return 0, or LEFT (1) if ``redrive`` left one.

    Raises OptionError[DEAD_LETTERS_NOT_FOUND | DEAD_LETTERS_AMBIGUOUS | GROUP_NOT_FOUND.CLUSTER], RouteError,
    BrokerError, TransportError, RemoteProtocolError. Wrong arguments raise SystemExit.
    """
    arguments = new_parser().parse_args(argv)
    group = arguments.group
    with cluster_at(arguments.namesrv, arguments.options) as cluster:
        letters: Iterable[StoredMessage] = read_dead_letters(cluster, group)
        if arguments.action == "list":
            show(letters, group, as_json=arguments.json)
            return 0
        if arguments.message_id:
            letters = selected(letters, group, arguments.message_id, ids_of)
        elif arguments.offset:
            letters = selected(letters, group, arguments.offset, places_of)
        redriver = Redriver(cluster, group, arguments.to, is_chosen=not arguments.all, is_dry_run=arguments.dry_run)
        left = [redriver.redrive(letter) for letter in letters]
        if not left:
            print_none(group)
        return LEFT if any(left) else 0


def read_dead_letters(cluster: ClusterClient, group: str) -> Iterator[StoredMessage]:
    """Read and yield all dead letters of ``group``, also undecodable ones, queue by queue; nothing if the group has no
    dead-letter topic. Raises OptionError[GROUP_NOT_FOUND.CLUSTER] if there is no such group either, and what
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


def show(letters: Iterable[StoredMessage], group: str, *, as_json: bool) -> None:
    """Print a line for each of ``letters``: JSON with ``as_json``, else text with the topic to which ``redrive`` would
    send it, "?" for none. Without letters call ``print_none``."""
    is_empty = True
    for letter in letters:
        print(json_line(letter) if as_json else text_line(letter, target_of(letter) or NO_TARGET))
        is_empty = False
    if is_empty:
        print_none(group)


def print_none(group: str) -> None:
    """Print to standard error that the group has no dead letters."""
    print(f"Group '{one_line(group)}' has no dead letters.", file=sys.stderr)


class Redriver:
    """Sender of dead letters of ``group`` to their topics, or to topic ``to``. ``is_chosen``: whether the user named
    each letter; ``is_dry_run``: only print. Not thread-safe."""

    def __init__(
        self, cluster: ClusterClient, group: str, to: str | None, *, is_chosen: bool, is_dry_run: bool
    ) -> None:
        self._cluster = cluster
        self._producer = Producer(cluster, group=group)
        self._to = to
        self._is_chosen = is_chosen
        self._is_dry_run = is_dry_run
        self._reason_unusable = lru_cache(MAX_CACHED)(self._request_reason)

    def redrive(self, letter: StoredMessage) -> bool:
        """Send a copy of the letter, unless this is a dry run, wait, and print the old ID and the place. If
        ``reason_to_leave`` has a reason, or a broker rejects the copy, print the reason instead. Return whether the
        letter is left. Raises the TransportErrors of ``Producer.send``, and what ``NameServers.cluster_info`` does."""
        message, topic = message_of(letter), target_of(letter, self._to)
        reason = reason_to_leave(letter, topic, self._reason_unusable, is_chosen=self._is_chosen)
        if reason is None and topic is not None:
            reason = self._send(message, topic)
        if reason is not None:
            line = f"{place_text(message)} {message.msg_id} is not sent: {reason}"
            print(one_line(line), file=sys.stderr, flush=True)
        return reason is not None

    def _send(self, message: MessageExt, topic: str) -> str | None:
        """Send a copy, wait and print its place; in a dry run, print the topic and send nothing. Return why a broker or
        the route rejects it, None after success. Raises TransportError."""
        if self._is_dry_run:
            print(one_line(f"{message.msg_id} -> {topic} (dry run)"))
            return None
        try:
            result = self._producer.send(redriven(message, topic))
        except (BrokerError, LocalProtocolError, RouteError) as error:
            return error.summary
        print(one_line(f"{message.msg_id} -> {result.queue} offset {result.queue_offset}"), flush=True)
        return None

    @cached_property
    def _cluster_info(self) -> ClusterInfo:
        """Return the cluster's brokers, requested from a name server at the first use only."""
        return self._cluster.name_servers.cluster_info()

    def _request_reason(self, topic: str) -> str | None:
        """Return why nothing can be sent to the topic, or None: it is the brokers' own, or has no route or writable
        queue. Raises what ``NameServers.cluster_info`` does, and the errors of ``WriteQueues.writable_queues`` but
        RouteError."""
        if not user_topics([topic], self._cluster_info):
            return f"topic '{topic}' is the brokers' own"
        try:
            self._producer.queues.writable_queues(topic)
        except RouteError as error:
            return error.summary
        return None


def queue_offset(text: str) -> str:
    """Return ``text`` if it is BROKER:QUEUE:OFFSET; other text raises argparse.ArgumentTypeError."""
    if re.fullmatch(r".+:[0-9]+:[0-9]+", text) is None:
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
