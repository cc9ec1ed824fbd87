"""The report in Markdown: tables with ratios. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from connector_tests.benchmarks.figures import a_million, cases, contestants, rates, ratio, rounded, summary, values
from connector_tests.benchmarks.names import DEFAULTS_SUFFIX, KAFKA, LITE_PULL, OURS
from connector_tests.benchmarks.run import Failure, Run

Row = Sequence[str]


def report(runs: Sequence[Run], failures: Sequence[Failure], environment: Mapping[str, Any], chart: str) -> str:
    """The whole page. ``chart`` is the name of the picture's file."""
    parts = [
        "# Benchmark\n\nWritten by `make bench`. Medians of all rounds, in brackets the smallest and the largest.\n",
        _environment(environment),
        _failures(failures),
        f"![Rows a second]({chart})\n" if cases(runs, "reading") else "",
        *(_reading(runs, case) for case in cases(runs, "reading")),
        *(_figures(runs, part, case) for part in ("small batches", "latency") for case in cases(runs, part)),
        *(_decode(runs, case) for case in cases(runs, "decode")),
        *(_figures(runs, "planning", case) for case in cases(runs, "planning")),
    ]
    return "\n".join(part for part in parts if part)


def table(header: Row, rows: Iterable[Row]) -> str:
    """A Markdown table; all columns but the first are numbers."""
    rule = ["---", *["---:"] * (len(header) - 1)]
    return "".join(f"| {' | '.join(row)} |\n" for row in (header, rule, *rows))


def times(part: float | None) -> str:
    """A ratio, or nothing."""
    return "" if part is None else f"{part:.2f} ×"


def _environment(environment: Mapping[str, Any]) -> str:
    lines = [f"* {name}: {_shown(value)}" for name, value in environment.items() if name != "settings"]
    lines += [f"* {name}: {_shown(value)}" for name, value in environment.get("settings", {}).items()]
    return "\n".join(lines) + "\n"


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {one}" for name, one in value.items())
    return str(value)


def _failures(failures: Sequence[Failure]) -> str:
    if not failures:
        return ""
    lines = [f"* **{failure.name}** did not take part: {failure.problem}" for failure in failures]
    return "\n".join(lines) + "\n"


def _reading(runs: Sequence[Run], case: str) -> str:
    """Rates of whole queries and of their batches alone, with what they cost."""
    racing = contestants(runs, "reading", case)
    header = (
        "reader",
        "M rows/s",
        f"to {KAFKA}",
        f"to {LITE_PULL}",
        "M rows/s in batches",
        f"to {KAFKA}",
        "broker CPU s/M",
        "worker CPU s/M",
        "planning CPU s/M",
        "JVM CPU s/M",
        "sent MB/M",
        "worker MiB",
    )
    return f"## Reading {case}\n\n" + table(header, (_reader_row(name, racing) for name in racing))


def _reader_row(name: str, racing: Mapping[str, list[Run]]) -> Row:
    mine, kafka, lite_pull = racing[name], racing.get(_peer(name), []), racing.get(LITE_PULL, [])
    whole, batches = summary(rates(mine)), summary(rates(mine, "batch_seconds"))
    return (
        name,
        str(whole),
        times(ratio(whole, summary(rates(kafka)))),
        times(ratio(whole, summary(rates(lite_pull)))),
        "" if batches is None else str(batches),
        times(ratio(batches, summary(rates(kafka, "batch_seconds")))),
        _middle(a_million(mine, "broker cpu_s")),
        _middle(a_million(mine, "worker cpu_s")),
        _middle(a_million(mine, "planning cpu_s")),
        _middle(a_million(mine, "JVM cpu_s") or a_million(mine, "client cpu_s")),
        _middle(a_million(mine, "broker written_mb")),
        _middle(values(mine, "worker peak_rss_mib")),
    )


def _peer(name: str) -> str:
    """Spark's Kafka connector with the same settings."""
    return f"{KAFKA}{DEFAULTS_SUFFIX}" if name.endswith(DEFAULTS_SUFFIX) else KAFKA


def _middle(figures: Iterable[float]) -> str:
    found = summary(figures)
    return "" if found is None else rounded(found.median)


def _figures(runs: Sequence[Run], part: str, case: str) -> str:
    """A line for each figure, and ours to Kafka's."""
    racing = contestants(runs, part, case)
    names = dict.fromkeys(name for mine in racing.values() for run in mine for name in run.figures)
    header = ("", *racing, f"{OURS} to {KAFKA}")
    return f"## {part.capitalize()}: {case}\n\n" + table(header, (_figure_row(name, racing) for name in names))


def _figure_row(name: str, racing: Mapping[str, list[Run]]) -> Row:
    found = {contestant: summary(values(mine, name)) for contestant, mine in racing.items()}
    shown = ("" if one is None else str(one) for one in found.values())
    return name, *shown, times(ratio(found.get(OURS), found.get(KAFKA)))


def _decode(runs: Sequence[Run], case: str) -> str:
    """Rates of one core."""
    rows = ((name, *_decode_row(mine)) for name, mine in contestants(runs, "decode", case).items())
    return f"## Decode: {case}\n\n" + table(("columns", "M rows/s a core", "CPU ns a row"), rows)


def _decode_row(mine: Sequence[Run]) -> Row:
    seconds = summary(a_million(mine, "seconds"))
    return str(summary(rates(mine))), "" if seconds is None else rounded(seconds.median * 1000)
