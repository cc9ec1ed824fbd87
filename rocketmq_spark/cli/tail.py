"""``rocketmq-spark tail``: prints the last messages of a topic, and those that follow."""

from __future__ import annotations

import argparse
import heapq
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from functools import partial
from typing import Final, NoReturn

from rocketmq_spark.cli.arguments import integer_argument
from rocketmq_spark.cli.message_lines import StoredMessage, json_line, message_of, text_line
from rocketmq_spark.cli.message_reading import read_messages
from rocketmq_spark.cli.name_server import add_cluster, cluster_at
from rocketmq_spark.cli.offsets import first_offset_at
from rocketmq_spark.errors import BrokerError, RocketMQError, RouteError, TransportError
from rocketmq_spark.inspection.inspector import Inspector, raise_failure
from rocketmq_spark.model import MessageQueue, QueueBounds
from rocketmq_spark.remoting.cluster_client import ClusterClient

DEFAULT_COUNT: Final = 10
POLL_S: Final = 0.5


def main(argv: Sequence[str]) -> int:
    """Print the last ``--count`` messages of the topic; return 0. With ``--follow`` print new messages too, until
    Ctrl-C, see ``follow``. Raises RouteError, BrokerError, TransportError, RemoteProtocolError, OptionError. Wrong
    arguments raise SystemExit."""
    arguments = new_parser().parse_args(argv)
    line_of = json_line if arguments.json else text_line
    with cluster_at(arguments.namesrv, arguments.options) as cluster:
        bounds = Inspector(cluster, raise_failure).queue_bounds([arguments.topic])
        print_messages(cluster, last_ranges(bounds, arguments.count), line_of, arguments.count)
        if arguments.follow:
            follow(cluster, arguments.topic, bounds, line_of, partial(time.sleep, POLL_S))
    return 0


def follow(
    cluster: ClusterClient,
    topic: str,
    seen: dict[MessageQueue, QueueBounds],
    line_of: Callable[[StoredMessage], str],
    pause: Callable[[], None],
) -> NoReturn:
    """After each ``pause``, request the topic's offsets, and print the messages that are not in ``seen``, which is
    updated. What a server that fails has is printed once it responds; its error is printed to standard error, and again
    only if it has changed. Raises RemoteProtocolError of a message, and OptionError."""
    failures: dict[str, RocketMQError] = {}
    inspector = Inspector(cluster, failures.__setitem__)
    reported: set[str] = set()
    while True:
        pause()
        failures.clear()
        try:
            current = inspector.queue_bounds([topic])
            print_messages(cluster, new_ranges(seen, current, partial(first_offset_at, cluster)), line_of)
        except (TransportError, BrokerError, RouteError) as error:
            failures[topic] = error
        else:
            seen.update(current)
        reported = print_failures(failures.values(), reported)


def print_failures(failures: Iterable[RocketMQError], reported: Set[str]) -> set[str]:
    """Print the errors whose texts are not in ``reported`` to standard error. Return the texts of all."""
    texts = set(map(str, failures))
    for text in sorted(texts - reported):
        print(text, file=sys.stderr, flush=True)
    return texts


def last_ranges(bounds: Mapping[MessageQueue, QueueBounds], count: int) -> dict[MessageQueue, QueueBounds]:
    """Return for each queue the range of its last ``count`` offsets, or of all if it has fewer."""
    return {
        queue: QueueBounds(max(held.min_offset, held.max_offset - count), held.max_offset)
        for queue, held in bounds.items()
    }


def new_ranges(
    seen: Mapping[MessageQueue, QueueBounds],
    current: Mapping[MessageQueue, QueueBounds],
    first_offset_at: Callable[[MessageQueue, int], int],
) -> dict[MessageQueue, QueueBounds]:
    """Return the ``current`` offsets that are not in ``seen``. A queue that ends before its end in ``seen`` was
    re-created, or its broker lost the last messages: return the offsets from ``first_offset_at`` on, which gets the
    queue and the Unix ms after the last store time in ``seen``."""
    ranges = dict(current)
    for queue in seen.keys() & current.keys():
        begin_offset, end_offset = seen[queue].max_offset, current[queue].max_offset
        if begin_offset > end_offset:
            begin_offset = current[queue].clamp(first_offset_at(queue, seen[queue].last_store_timestamp_ms + 1))
        ranges[queue] = QueueBounds(begin_offset, end_offset)
    return ranges


def print_messages(
    cluster: ClusterClient,
    ranges: Mapping[MessageQueue, QueueBounds],
    line_of: Callable[[StoredMessage], str],
    count: int | None = None,
) -> None:
    """Read ``ranges``, and then print the messages in the order of their store times: the last ``count``, by default
    all; hold no other lines. Raises what ``read_messages`` does, before anything is printed."""
    messages = enumerate(read_messages(cluster, ranges))
    lines = ((message_of(stored).store_timestamp_ms, number, line_of(stored)) for number, stored in messages)
    for _, _, line in sorted(lines if count is None else heapq.nlargest(count, lines)):
        print(line, flush=True)


def new_parser() -> argparse.ArgumentParser:
    """Return the parser of this subcommand's options."""
    parser = argparse.ArgumentParser(
        prog="rocketmq-spark tail",
        description="Print the last messages of a topic, one per line. Joins no group and commits nothing.",
    )
    add_cluster(parser)
    parser.add_argument("topic", help="topic; also %%RETRY%%GROUP and %%DLQ%%GROUP")
    parser.add_argument(
        "-n",
        "--count",
        type=integer_argument(0),
        default=DEFAULT_COUNT,
        metavar="N",
        help="number of messages (default: %(default)s)",
    )
    parser.add_argument("-f", "--follow", action="store_true", help="print new messages too, until Ctrl-C")
    parser.add_argument("--json", action="store_true", help="print one JSON object per line")
    return parser
