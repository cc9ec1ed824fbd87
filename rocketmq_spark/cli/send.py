"""``rocketmq-spark send``: sends messages from the command line or, one per line, from standard input."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from rocketmq_spark.cli.arguments import add_cluster
from rocketmq_spark.condition import one_line
from rocketmq_spark.errors import LocalProtocolError
from rocketmq_spark.sink.sending import send

STANDARD_INPUT: Final = "-"


def main(argv: Sequence[str]) -> int:
    """Send all messages one after another, print their IDs, one a line, once all are stored, and return 0. Raises what
    ``send`` does, LocalProtocolError[INVALID_MESSAGE], and SystemExit for wrong arguments."""
    parser = new_parser()
    arguments = parser.parse_args(argv)
    counts = Counter(name for name, _ in arguments.property)
    if repeated := [name for name, count in counts.items() if count > 1]:
        parser.error(f"argument --property: {repeated[0]!r} is given more than once")
    ids = send(
        arguments.namesrv,
        arguments.topic,
        list(bodies(arguments.text)),
        tags=arguments.tag,
        keys=arguments.key,
        properties=dict(arguments.property),
        options=arguments.options,
    )
    for message_id in ids:
        print(one_line(message_id))
    return 0


def bodies(texts: Sequence[str]) -> Iterator[str]:
    """Yield the texts, one message body each; in place of ``-``, yield the non-empty lines of standard input, without
    their ends, until it ends. Raises LocalProtocolError[INVALID_MESSAGE] if it is not in the locale's encoding."""
    for text in texts:
        if text == STANDARD_INPUT:
            try:
                yield from filter(None, (line.rstrip("\r\n") for line in sys.stdin))
            except UnicodeDecodeError as error:
                problem = f"standard input is not in {error.encoding}: {error.reason}"
                raise LocalProtocolError("INVALID_MESSAGE", problem=problem) from error
        else:
            yield text


def new_parser() -> argparse.ArgumentParser:
    """Return the parser of this subcommand's options."""
    parser = argparse.ArgumentParser(
        prog="rocketmq-spark send",
        description="Send messages to a topic. Prints the message ID of each when a broker has stored it.",
    )
    add_cluster(parser)
    parser.add_argument("--topic", required=True, help="existing topic; 'rocketmq-spark topic create' creates one")
    parser.add_argument("--tag", help="tag of each message")
    parser.add_argument("--key", help="keys of each message, separated by spaces")
    parser.add_argument(
        "--property",
        type=property_pair,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="user property of each message; RocketMQ's own names are rejected",
    )
    parser.add_argument("text", nargs="+", help="body of one message each; '-' sends each line of standard input")
    return parser


def property_pair(text: str) -> tuple[str, str]:
    """Parse ``NAME=VALUE``, at the first ``=``, neither part empty; other text raises argparse.ArgumentTypeError."""
    name, equals, value = text.partition("=")
    if not (name and equals and value):
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, value
