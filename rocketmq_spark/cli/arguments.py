"""Arguments that several commands have: integers, ``--namesrv`` and ``--options``, and the cluster that these name."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final, TypeVar

from rocketmq_spark.options.connection import connection_options
from rocketmq_spark.options.kinds import integer
from rocketmq_spark.remoting.cluster_client import ClusterClient
from rocketmq_spark.remoting.pool import ConnectionPool

T = TypeVar("T")

DEFAULT_ADDRESS: Final = "127.0.0.1:9876"

_PAIR: Final = re.compile(r"([\w.-]+)\s*=\s*(.*)")


def argument_type(parse: Callable[[str], T], expected: str) -> Callable[[str], T]:
    """Return the ``type`` of an argument: it returns what ``parse`` does, with argparse.ArgumentTypeError, which names
    the text and ``expected``, in place of its ValueError."""

    def parse_argument(text: str) -> T:
        """Return the parsed text, or raise argparse.ArgumentTypeError."""
        try:
            return parse(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is not {expected}") from None

    return parse_argument


def integer_argument(minimum: int, maximum: int = 2**31 - 1) -> Callable[[str], int]:
    """Return the ``type`` of an argument that is an integer in ``[minimum, maximum]``, written as in options. The type
    raises argparse.ArgumentTypeError for any other text."""
    kind = integer(minimum, maximum)
    return argument_type(kind.parse, kind.expected)


def add_cluster(parser: argparse.ArgumentParser) -> None:
    """Add two options to ``parser``. ``--namesrv`` is by default $NAMESRV_ADDR as in RocketMQ's own tools, else
    127.0.0.1:9876. ``--options`` is a file of connection options, parsed by ``properties``; {} without it.

    Credentials belong in the file of ``--options``: all users of the machine can read a command line.
    """
    parser.add_argument(
        "--namesrv",
        default=os.environ.get("NAMESRV_ADDR", DEFAULT_ADDRESS),
        metavar="HOST:PORT",
        help=f"name server addresses, separated by semicolons (default: $NAMESRV_ADDR, else {DEFAULT_ADDRESS})",
    )
    parser.add_argument(
        "--options",
        type=properties,
        default={},
        metavar="FILE",
        help="file of connection options such as accessKey, secretKey and useTLS, one name=value per line",
    )


def add_actions(parser: argparse.ArgumentParser, texts: Mapping[str, str]) -> dict[str, argparse.ArgumentParser]:
    """Add a required subcommand for each name of ``texts``, whose values are the help, with the options of
    ``add_cluster``; its name is parsed as ``action``. Return the parsers of the subcommands by name, to which the
    caller adds options."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="|".join(texts))
    added = {
        name: actions.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.")
        for name, text in texts.items()
    }
    for action in added.values():
        add_cluster(action)
    return added


def properties(file: str) -> dict[str, str]:
    """Read and return the pairs of a file of ``key=value`` lines, such as RocketMQ's broker.conf, without spaces around
    them; skip empty lines and ``#`` comments. A value may be empty. It is the ``type`` of arguments.

    An unreadable file, another line, or a repeated key raises argparse.ArgumentTypeError. Its text shows no line, which
    may have a secret.
    """
    try:
        lines = [line.strip() for line in Path(file).read_text(encoding="utf-8").splitlines()]
    except OSError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    except UnicodeDecodeError:
        raise argparse.ArgumentTypeError(f"{file!r} is not in UTF-8") from None
    pairs: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        if not line or line.startswith("#"):
            continue
        pair = _PAIR.fullmatch(line)
        if pair is None:
            raise argparse.ArgumentTypeError(f"line {number} of {file!r} is not NAME=VALUE")
        if pair[1] in pairs:
            raise argparse.ArgumentTypeError(f"line {number} of {file!r} repeats {pair[1]!r}")
        pairs[pair[1]] = pair[2]
    return pairs


@contextmanager
def cluster_at(namesrv_addr: str, options: Mapping[str, str]) -> Iterator[ClusterClient]:
    """Yield a client of the cluster, which connects on use and is closed after the block. ``namesrv_addr`` replaces the
    ``namesrvAddr`` of ``options``. Raises OptionError for an invalid address or option."""
    connection = connection_options({**options, "namesrvAddr": namesrv_addr})
    with closing(ConnectionPool(connection.broker_timeout_ms, security=connection.security)) as pool:
        yield ClusterClient.of(connection, pool)
