"""``rocketmq-spark lag``: unread messages of consumer groups, by queue, once or repeatedly."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import Final

from rocketmq_spark.cli.arguments import add_cluster, cluster_at, integer_argument
from rocketmq_spark.cli.lag_report import LagReport
from rocketmq_spark.condition import one_line
from rocketmq_spark.errors import OptionError, RocketMQError
from rocketmq_spark.inspection.inspector import Inspector
from rocketmq_spark.remoting.cluster_client import ClusterClient

INCOMPLETE: Final = 1
LAGS: Final = 3
DEFAULT_INTERVAL_S: Final = 2.0
MIN_INTERVAL_S: Final = 0.1
MAX_INTERVAL_S: Final = 86_400
MAX_LAG: Final = 2**63 - 1
CLEAR_SCREEN: Final = "\x1b[H\x1b[J"


def main(argv: Sequence[str]) -> int:
    """Print the lag. Return INCOMPLETE (1) if the queues of a broker are missing, else LAGS (3) if a group's lag is
    above ``--max-lag``, else 0. With ``--watch`` print lag or errors of servers repeatedly, and do not return: Ctrl-C
    raises KeyboardInterrupt.

    Raises OptionError[GROUP_NOT_FOUND.CLUSTER], RouteError, BrokerError, TransportError. Wrong arguments raise
    SystemExit.
    """
    arguments = new_parser().parse_args(argv)
    with cluster_at(arguments.namesrv, arguments.options) as cluster:
        while arguments.watch is not None:
            _show_again(cluster, arguments)
            time.sleep(arguments.watch)
        report = query_lag(cluster, arguments.group, arguments.topic)
    print_report(report, as_json=arguments.json)
    return exit_code(report, arguments.max_lag)


def query_lag(cluster: ClusterClient, groups: Sequence[str], topics: Collection[str]) -> LagReport:
    """Request the lag of ``groups``, if empty of all groups, in ``topics``, if empty in all topics of the group. The
    report names each broker whose queues are missing, with its first error. Errors of name servers are raised. Raises
    what ``Inspector.group_rows`` does."""
    unavailable: dict[str, str] = {}

    def on_failure(broker_name: str, error: RocketMQError) -> None:
        """Record the text of a broker's first error."""
        unavailable.setdefault(broker_name, str(error))

    rows = Inspector(cluster, on_failure).group_rows(groups, topics)
    return LagReport(rows, groups, unavailable)


def print_report(report: LagReport, *, as_json: bool) -> None:
    """Print the report to standard output, and to standard error a line for each broker whose queues it lacks."""
    print(report.to_json() if as_json else report.to_text(), flush=True)
    for name, error in report.unavailable.items():
        print(f"{one_line(name)} is not included: {error}", file=sys.stderr)


def exit_code(report: LagReport, max_lag: int | None) -> int:
    """Return the exit code: INCOMPLETE (1) if the queues of a broker are missing, LAGS (3) if a group's lag is above
    ``max_lag`` (None: no limit), otherwise 0."""
    if report.unavailable:
        return INCOMPLETE
    return LAGS if max_lag is not None and report.max_lag() > max_lag else 0


def _show_again(cluster: ClusterClient, arguments: argparse.Namespace) -> None:
    """Request the lag and print the report; without ``--json``, first clear a terminal and print the time. Print a
    RocketMQError to standard error instead, but raise an OptionError."""
    try:
        report = query_lag(cluster, arguments.group, arguments.topic)
    except OptionError:
        raise
    except RocketMQError as error:
        print(error, file=sys.stderr)
    else:
        if not arguments.json:
            print(CLEAR_SCREEN if sys.stdout.isatty() else "", time.strftime("%H:%M:%S"), sep="")
        print_report(report, as_json=arguments.json)


def new_parser() -> argparse.ArgumentParser:
    """Return the parser of this subcommand's options."""
    parser = argparse.ArgumentParser(
        prog="rocketmq-spark lag",
        description="Show how many messages consumer groups have not consumed, by queue, and how old the oldest is.",
        epilog="exit codes: 0, or 1 if a request failed, 2 for wrong arguments, 3 if a lag is above --max-lag",
    )
    add_cluster(parser)
    parser.add_argument(
        "--group", action="append", default=[], metavar="NAME", help="consumer group; repeatable (default: all groups)"
    )
    parser.add_argument(
        "--topic", action="append", default=[], metavar="NAME", help="topic; repeatable (default: all of the group)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object on one line")
    parser.add_argument(
        "--watch",
        type=interval_s,
        nargs="?",
        const=DEFAULT_INTERVAL_S,
        metavar="SECONDS",
        help=f"repeat until Ctrl-C, every {DEFAULT_INTERVAL_S:.0f} s unless SECONDS are given",
    )
    parser.add_argument(
        "--max-lag",
        type=integer_argument(0, MAX_LAG),
        metavar="N",
        help="exit with code 3 if a group lags by more than N messages",
    )
    return parser


def interval_s(text: str) -> float:
    """Parse seconds from MIN_INTERVAL_S (0.1) to MAX_INTERVAL_S (a day), decimals allowed; other text and other numbers
    raise argparse.ArgumentTypeError."""
    seconds = None
    if text.isascii() and "_" not in text:
        with suppress(ValueError):
            seconds = float(text)
    if seconds is None or not MIN_INTERVAL_S <= seconds <= MAX_INTERVAL_S:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from {MIN_INTERVAL_S} to {MAX_INTERVAL_S}")
    return seconds
