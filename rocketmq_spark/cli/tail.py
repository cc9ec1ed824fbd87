"""``rocketmq-spark tail``: prints the last messages of a topic, and those that follow."""

from __future__ import annotations

import argparse
import heapq
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from functools import partial
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import Final, NoReturn

from rocketmq_spark.cli.arguments import add_cluster, cluster_at, integer_argument
from rocketmq_spark.cli.message_lines import StoredMessage, json_line, message_of, text_line
from rocketmq_spark.cli.message_reading import end_offset_of, read_messages
from rocketmq_spark.cli.offsets import first_offset_at
from rocketmq_spark.errors import BrokerError, RocketMQError, RouteError, TransportError
from rocketmq_spark.inspection.inspector import Inspector, raise_failure
from rocketmq_spark.model import MessageQueue, QueueBounds
from rocketmq_spark.remoting.cluster_client import ClusterClient

DEFAULT_COUNT: Final = 10
POLL_S: Final = 0.5

HELD_CHARS: Final = 4 * 1024 * 1024
"""Characters of new lines that are sorted by store time and printed together."""

OUTAGES: Final = (TransportError, BrokerError, RouteError)
"""Errors of servers that may respond later."""


def main(argv: Sequence[str]) -> int:
    """Print the last ``--count`` messages of all queues of the topic together; return 0. With ``--follow`` print new
    messages too, see ``follow``, and do not return: Ctrl-C raises KeyboardInterrupt. Raises RouteError, BrokerError,
    TransportError, RemoteProtocolError, OptionError. Wrong arguments raise SystemExit."""
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
    """After each ``pause``, print the messages that are not in ``seen``, and add them to it. If a server fails, print
    its error to standard error, once until it changes; its messages follow after it responds. Raises OptionError, and
    RemoteProtocolError for an invalid response to a pull."""
    new_messages = NewMessages(cluster, topic, seen, line_of)
    reported: set[str] = set()
    while True:
        pause()
        reported = print_failures(new_messages.print_all(), reported)


class NewMessages:
    """Printer of the messages of ``topic`` that are not in ``seen``, the read offsets by queue. It adds to this dict
    the offsets that it reads. Not thread-safe.

    It holds lines until they have more than ``HELD_CHARS`` characters together, or the call ends. Then it prints them
    in the order of their store times.
    """

    def __init__(
        self,
        cluster: ClusterClient,
        topic: str,
        seen: dict[MessageQueue, QueueBounds],
        line_of: Callable[[StoredMessage], str],
    ) -> None:
        self._cluster = cluster
        self._topic = topic
        self._seen = seen
        self._line_of = line_of
        self._missed: set[MessageQueue] = set()
        """Queues that were not read to their end in the last call, though they were before."""
        self._held: list[tuple[int, str]] = []
        """Store times (Unix ms) and lines."""
        self._held_chars = 0

    def print_all(self) -> list[RocketMQError]:
        """Request the topic's offsets, print the messages that are not in ``seen``, and add them to it. Return, not
        raise, one of the OUTAGES for each broker that failed; [] for none. If the request of the topic's route fails,
        print nothing and return only its error. Raises what ``follow`` does."""
        missed, self._missed = self._missed, set(self._seen)
        failures: dict[str, RocketMQError] = {}
        try:
            current = Inspector(self._cluster, failures.__setitem__).queue_bounds([self._topic])
        except OUTAGES as error:
            return [error]
        try:
            for broker_name, queues in groupby(sorted(current, key=MessageQueue.sort_key), attrgetter("broker_name")):
                failure = self._read_queues({queue: current[queue] for queue in queues}, missed)
                if failure is not None:
                    failures[broker_name] = failure
        finally:  # also at Ctrl-C
            self._print_held()
        return list(failures.values())

    def _read_queues(
        self, current: Mapping[MessageQueue, QueueBounds], missed: Set[MessageQueue]
    ) -> RocketMQError | None:
        """Read queues of one broker, in order, as ``_read`` does. Return the error of an outage, not raised: the queue
        is not read to its end then, and later ones not at all. None without an error."""
        try:
            for queue, bounds in current.items():
                self._read(queue, bounds, queue in missed)
        except OUTAGES as error:
            return error
        return None

    def _read(self, queue: MessageQueue, current: QueueBounds, was_missed: bool) -> None:
        """Read the messages of ``current`` that are not in ``seen``, and add each to it; hold or print their lines.
        Raises OUTAGES, and what ``follow`` does."""
        search = partial(first_offset_at, self._cluster)
        new = new_range(queue, self._seen.get(queue), current, search, was_missed=was_missed)
        for one in read_messages(self._cluster, {queue: new}):
            stored_ms = message_of(one).store_timestamp_ms
            self._hold(stored_ms, self._line_of(one))
            self._seen[queue] = QueueBounds(new.min_offset, new.clamp(end_offset_of(one)), stored_ms)
        self._seen[queue] = current
        self._missed.discard(queue)

    def _hold(self, stored_ms: int, line: str) -> None:
        """Hold a line; print all once they have more than ``HELD_CHARS`` characters."""
        self._held.append((stored_ms, line))
        self._held_chars += len(line)
        if self._held_chars > HELD_CHARS:
            self._print_held()

    def _print_held(self) -> None:
        """Print the held lines, if any, in the order of their store times, and hold none."""
        held, self._held, self._held_chars = self._held, [], 0
        for _, line in sorted(held, key=itemgetter(0)):
            print(line, flush=True)


def print_failures(failures: Iterable[RocketMQError], reported: Set[str]) -> set[str]:
    """Print the errors whose texts are not in ``reported`` to standard error, each text once, in alphabetical order.
    Return the texts of all ``failures``."""
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


def new_range(
    queue: MessageQueue,
    seen: QueueBounds | None,
    current: QueueBounds,
    first_offset_at: Callable[[MessageQueue, int], int],
    *,
    was_missed: bool = False,
) -> QueueBounds:
    """Return the range of the ``current`` offsets of ``queue`` that are not in ``seen``: from its end on, or all if it
    is None. If the queue ends before ``seen`` does, it was re-created, or its broker lost the last messages. Then begin
    at ``first_offset_at``, called with the queue and the Unix ms after the last store time in ``seen``.

    ``was_missed``: reads of the queue failed meanwhile, so it may have ended before ``seen``, and grown since. Then
    begin at the smaller one of both offsets, unless the last store time is unknown.
    """
    if seen is None:
        return current
    begin_offset = seen.max_offset
    if begin_offset > current.max_offset or (was_missed and seen.last_store_timestamp_ms > 0):
        begin_offset = min(begin_offset, first_offset_at(queue, seen.last_store_timestamp_ms + 1))
    return QueueBounds(current.clamp(begin_offset), current.max_offset)


def print_messages(
    cluster: ClusterClient,
    ranges: Mapping[MessageQueue, QueueBounds],
    line_of: Callable[[StoredMessage], str],
    count: int,
) -> None:
    """Read all of ``ranges``, then print the ``count`` messages with the latest store times, in the order of these;
    hold no other lines. Raises what ``read_messages`` does, before anything is printed."""
    messages = enumerate(read_messages(cluster, ranges))
    lines = ((message_of(stored).store_timestamp_ms, number, line_of(stored)) for number, stored in messages)
    for _, _, line in sorted(heapq.nlargest(count, lines)):
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
