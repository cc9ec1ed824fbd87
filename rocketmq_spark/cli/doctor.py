"""``rocketmq-spark doctor``: checks options, servers and permissions of a job, and reports what to correct."""

from __future__ import annotations

import argparse
import os
import platform
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Final

from rocketmq_spark.cli.arguments import DEFAULT_ADDRESS, properties
from rocketmq_spark.condition import one_line
from rocketmq_spark.doctor.cluster_facts import collect_server_facts
from rocketmq_spark.doctor.facts import Environment, ServerFacts
from rocketmq_spark.doctor.job_options import ParsedJob, parse_job
from rocketmq_spark.doctor.judgement import judge
from rocketmq_spark.doctor.report import Report, as_json, as_text, report_of
from rocketmq_spark.errors import OptionError
from rocketmq_spark.wire.implementation import column_decoder

SOUND: Final = 0
UNSOUND: Final = 1
TOTAL_MS: Final = 20_000
"""After this time no further server is checked."""
ADDRESSES: Final = frozenset({"namesrvaddr", "nameserver", "endpoints"})
"""Options with the addresses of servers, in lower case."""
REPLACED: Final = {
    "namesrvAddr": ADDRESSES,
    "subscribe": frozenset({"subscribe", "topic"}),
}
"""Options in a file, in lower case, that an argument replaces, if there are several."""


def main(argv: Sequence[str]) -> int:
    """Check the job, print the report to standard output and each server to standard error before its check. Return 0
    if the report has no problem, warnings or not, else 1. Wrong arguments raise SystemExit with code 2."""
    arguments = new_parser().parse_args(argv)
    report = examine(configured(arguments), is_writing=arguments.write)
    print(as_json(report) if arguments.json else as_text(report))
    return SOUND if report.is_sound else UNSOUND


def configured(arguments: argparse.Namespace) -> dict[str, str]:
    """Return the job's options: those of the file ``--options``, names in any case. Arguments replace some of them.
    ``--namesrv`` replaces all addresses, also ``endpoints``, and ``--group`` the group. ``--topic`` replaces
    ``subscribe``, with several topics joined by commas, or with ``--write`` ``topic``. Without any address,
    ``namesrvAddr`` is $NAMESRV_ADDR, else 127.0.0.1:9876."""
    options: dict[str, str] = dict(arguments.options)
    topic_option = "topic" if arguments.write else "subscribe"
    given = {
        "namesrvAddr": arguments.namesrv,
        "consumerGroup": arguments.group,
        topic_option: ",".join(arguments.topic) or None,
    }
    for name, value in given.items():
        if value is not None:
            replaced = REPLACED.get(name, frozenset({name.lower()}))
            options = {other: text for other, text in options.items() if other.lower() not in replaced}
            options[name] = value
    if ADDRESSES.isdisjoint(name.lower() for name in options):
        options["namesrvAddr"] = os.environ.get("NAMESRV_ADDR", DEFAULT_ADDRESS)
    return options


def examine(options: dict[str, str], *, is_writing: bool) -> Report:
    """Parse the options, check this machine and, unless a known option is invalid, the servers; return the report.
    Problems are in the report; no RocketMQError is raised."""
    environment = _environment()
    parsed = parse_job(options, is_writing=is_writing)
    servers = _servers(parsed)
    diagnoses = judge(parsed.errors, environment, parsed.job, servers)
    return report_of(diagnoses, environment, None if parsed.options is None else parsed.job, servers)


def _servers(parsed: ParsedJob) -> ServerFacts:
    """Request and return the facts of the proxies if the job has ``endpoints``, else of name servers and brokers. If a
    known option is invalid, return empty facts without a request. gRPC is imported for proxies only."""
    if parsed.options is None:
        return ServerFacts()
    if parsed.endpoints:
        from rocketmq_spark.doctor.proxy_facts import collect_proxy_facts

        return collect_proxy_facts(parsed.job, parsed.options, parsed.endpoints, _announce, TOTAL_MS)
    return collect_server_facts(parsed.job, parsed.options, _announce, TOTAL_MS)


def _announce(step: str) -> None:
    """Print "checking ``step`` ..." as one line to standard error."""
    print(one_line(f"checking {step} ..."), file=sys.stderr, flush=True)


def _environment() -> Environment:
    """Return the versions of Python and PySpark (None: not installed), and the name of the column decoder in use or the
    OptionError of loading it. PySpark is not imported."""
    major, minor, patch = platform.python_version_tuple()
    try:
        pyspark = version("pyspark")
    except PackageNotFoundError:
        pyspark = None
    try:
        decoder: str | OptionError = column_decoder().implementation
    except OptionError as error:
        decoder = error
    return Environment((int(major), int(minor), int("".join(filter(str.isdecimal, patch)))), pyspark, decoder)


def new_parser() -> argparse.ArgumentParser:
    """Return the parser of this subcommand's options."""
    parser = argparse.ArgumentParser(
        prog="rocketmq-spark doctor",
        description="Check the options, servers and permissions of a job, and report what to correct, the most likely "
        "cause first. Exit code: 0 without a problem, 1 with one, 2 for wrong arguments. It stores no message and "
        "commits no offset. A broker that creates groups on demand creates the group, as the job does.",
    )
    parser.add_argument(
        "--options",
        type=properties,
        default={},
        metavar="FILE",
        help="file of the job's options, one name=value per line, as conf/connector.options.example",
    )
    parser.add_argument(
        "--namesrv",
        metavar="HOST:PORT",
        help="name server addresses, separated by semicolons (default: namesrvAddr or endpoints of FILE, else "
        f"$NAMESRV_ADDR, else {DEFAULT_ADDRESS})",
    )
    parser.add_argument("--group", help="consumer group of a streaming read")
    parser.add_argument("--topic", action="append", default=[], help="topic to read or write; may be repeated")
    parser.add_argument("--write", action="store_true", help="check for writing instead of reading")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    return parser
