"""The ``rocketmq-spark`` command: runs a subcommand, and prints an error in one line instead of a traceback."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Final, NoReturn

from rocketmq_spark._version import __version__
from rocketmq_spark.errors import RocketMQError

# Subcommands and their help; ``rocketmq_spark.cli.<name>`` has the function ``main``, and is imported on use only.
COMMANDS: Final[Mapping[str, str]] = {
    "demo": "stream orders through a real broker into Spark, and check that each one arrives",
    "broker": "run a real Apache RocketMQ in the foreground, for experiments",
    "topic": "create, describe or delete a topic of a cluster that is running",
    "send": "send messages to a topic",
    "doctor": "check servers, permissions and options of a job, and report what to correct",
    "lag": "show how many messages consumer groups have not consumed, by queue",
    "offsets": "show, export, set or import the committed offsets of a consumer group",
    "tail": "print the last messages of a topic, and those that follow",
    "dlq": "list the dead letters of a consumer group, or send them to their topics again",
}
FAILED: Final = 1
INTERRUPTED: Final = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Import and run the subcommand that ``argv`` names (None: the process's arguments), and return its exit code.
    After a RocketMQError, print it to standard error and return 1. Return 130 after Ctrl-C. Wrong arguments, ``--help``
    and ``--version`` raise SystemExit."""
    try:
        arguments = new_parser().parse_args(argv)
        command = import_module(f"rocketmq_spark.cli.{arguments.command}")
        return int(command.main(arguments.rest))
    except RocketMQError as error:
        print(error, file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        return INTERRUPTED


def new_parser() -> argparse.ArgumentParser:
    """Build the parser of the subcommand's name and ``--version``; all further arguments become ``rest``, unparsed."""
    parser = argparse.ArgumentParser(
        prog="rocketmq-spark",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="commands:\n" + "\n".join(f"  {name:<10} {does}" for name, does in COMMANDS.items()),
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and the message decoder")
    parser.add_argument("command", choices=COMMANDS, help="see below")
    rest = parser.add_argument("rest", nargs=argparse.REMAINDER, help="options of the command; '--help' lists them")
    rest.required = False  # Python 3.11 requires it by default
    return parser


class _Version(argparse.Action):
    """Option ``--version``, which imports the decoder on use only."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        """Print both and raise SystemExit with code 0. Raises OptionError if the configured decoder does not load."""
        decoder = import_module("rocketmq_spark.wire.implementation").column_decoder()
        print(f"{__version__} (decoder: {decoder.implementation})")
        parser.exit()


if __name__ == "__main__":
    sys.exit(main())
