"""The report in Markdown: tables with ratios. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any, Final

from connector_tests.benchmarks.bounds import BOUNDS
from connector_tests.benchmarks.figures import (
    A_SECOND,
    HELD,
    MEMORY_AT,
    MEMORY_PEAK,
    REQUESTS,
    a_million,
    cases,
    contestants,
    rates,
    ratio,
    rounded,
    spark_cpu_s,
    summary,
    values,
)
from connector_tests.benchmarks.names import (
    COUNTED,
    DEFAULTS_SUFFIX,
    EMPTY,
    JAVA_BATCHES,
    KAFKA,
    KAFKA_HEADERS,
    KAFKA_VALUES,
    LITE_PULL,
    OUR_BODIES,
    OUR_BODY_DECODES,
    OUR_DECODES,
    OUR_ENCODES,
    OUR_LIKE_KAFKA,
    OUR_LIKE_KAFKA_DECODES,
    OUR_MAPS,
    OUR_PULLS,
    OUR_PULLS_AT_ONCE,
    OURS,
    PYTHON_SUFFIX,
    UNCHECKED_SUFFIX,
)
from connector_tests.benchmarks.roles import BROKER, CLIENT, JVM, PLANNING, RUNNER, WORKER, cpu_s
from connector_tests.benchmarks.run import Failure, Run
from connector_tests.benchmarks.wall import Wall, broker_and_jvm, wall, writing_parts

Row = Sequence[str]

JAVA_CLIENTS: Final[Mapping[str, str]] = {OUR_MAPS: KAFKA_HEADERS, OUR_BODIES: KAFKA_VALUES}
"""Whom ours is compared to that reads other columns than Kafka's connector does by default, decoded by whomever."""

DECODES: Final[Mapping[str, str]] = {
    OURS: OUR_DECODES,
    OUR_LIKE_KAFKA: OUR_LIKE_KAFKA_DECODES,
    OUR_BODIES: OUR_BODY_DECODES,
}
"""Queries whose processor time is distinguished, and the client that pulls and decodes the same columns."""

IDLE_LIMIT: Final = 2.0
"""Requests a second."""

READING: Final = f"""To {KAFKA}: with the same kind of columns, so properties beside headers, and body and queueOffset
beside value and offset. Spark CPU: of its Python workers and its JVM.

"""

WALL: Final = """CPU seconds for a million rows, and their share of what the machine had: seconds times cores.

* pull: what our pull-only client takes, with one task; decode: what the client that also decodes takes more; Python to
  JVM: what Spark's Python workers take more than that
* unexplained: what no process of the query has used, and what was not idle either
* bound: the rate if all cores were always busy, with nothing but broker and JVM, so with Python for nothing

"""


def report(runs: Sequence[Run], failures: Sequence[Failure], environment: Mapping[str, Any], chart: str) -> str:
    """The whole page. ``chart`` is the name of the picture's file."""
    parts = [
        "# Benchmark\n\nWritten by `make bench`. Medians of all rounds, in brackets the smallest and the largest.\n",
        _environment(environment),
        _failures(failures),
        _bounds(runs),
        f"![Rows a second]({chart})\n" if cases(runs, "reading") else "",
        *(section(runs, case) for case in cases(runs, "reading") for section in (_reading, _wall)),
        *(_sparks(runs, case) for case in cases(runs, "sparks")),
        *(section(runs, case) for case in cases(runs, "writing") for section in (_writing, _writing_parts)),
        *(
            _figures(runs, part, case)
            for part in ("starting", "small batches", "latency")
            for case in cases(runs, part)
        ),
        *(_decode(runs, case) for case in cases(runs, "decode")),
        *(_figures(runs, "planning", case) for case in cases(runs, "planning")),
        *(_memory(runs, case) for case in cases(runs, "memory")),
        _idle(runs),
    ]
    return "\n".join(part for part in parts if part)


def table(header: Row, rows: Iterable[Row]) -> str:
    """A Markdown table; all columns but the first are numbers."""
    rule = ["---", *["---:"] * (len(header) - 1)]
    return "".join(f"| {' | '.join(row)} |\n" for row in (header, rule, *rows))


def times(part: float | None) -> str:
    """A ratio, or nothing."""
    return "" if part is None else f"{part:.2f} ×"


def percent(part: float) -> str:
    """Of a whole that is 1."""
    return f"{part:.1%}".replace("%", " %")


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


def _bounds(runs: Sequence[Run]) -> str:
    """What had to be shown, and whether it was."""
    header = ("what", "wanted", "measured", "")
    return "## What it should show\n\n" + table(header, (bound.cells(runs) for bound in BOUNDS))


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
        "source runner CPU s/M",
        "JVM CPU s/M",
        "Spark CPU s/M",
        f"to {KAFKA}",
        "sent MB/M",
        "worker MiB",
    )
    return f"## Reading {case}\n\n{READING}" + table(header, (_reader_row(name, racing) for name in racing))


def _reader_row(name: str, racing: Mapping[str, list[Run]]) -> Row:
    mine, kafka, lite_pull = racing[name], racing.get(_other_contestant(name, racing), []), racing.get(LITE_PULL, [])
    whole, batches = summary(rates(mine)), summary(rates(mine, "batch_seconds"))
    used = summary(spark_cpu_s(mine))
    return (
        name,
        str(whole),
        times(ratio(whole, summary(rates(kafka)))),
        times(ratio(whole, summary(rates(lite_pull)))),
        "" if batches is None else str(batches),
        times(ratio(batches, summary(rates(kafka, "batch_seconds")))),
        _middle(a_million(mine, cpu_s(BROKER))),
        _middle(a_million(mine, cpu_s(WORKER))),
        _middle(a_million(mine, cpu_s(PLANNING))),
        _middle(a_million(mine, cpu_s(RUNNER))),
        _middle(a_million(mine, cpu_s(JVM)) or a_million(mine, cpu_s(CLIENT))),
        "" if used is None else rounded(used.median),
        times(ratio(used, summary(spark_cpu_s(kafka)))),
        _middle(a_million(mine, "broker written_mb")),
        _middle(values(mine, "worker peak_rss_mib")),
    )


def _sparks(runs: Sequence[Run], case: str) -> str:
    """Rates on each Spark, to those on the last one."""
    racing = contestants(runs, "sparks", case)
    *_, newest = racing
    header = ("reader", "M rows/s", f"to {newest}", "M rows/s in batches", f"to {newest}")
    return f"## Reading {case}, other Sparks\n\n" + table(
        header, ((name, *_rates_to(mine, racing[newest])) for name, mine in racing.items())
    )


def _rates_to(mine: Sequence[Run], reference: Sequence[Run]) -> Iterator[str]:
    for seconds in ("seconds", "batch_seconds"):
        rate = summary(rates(mine, seconds))
        yield str(rate)
        yield times(ratio(rate, summary(rates(reference, seconds))))


def _writing(runs: Sequence[Run], case: str) -> str:
    """Rates of whole writes, with what they cost."""
    racing = contestants(runs, "writing", case)
    header = (
        "writer",
        "M rows/s",
        f"to {KAFKA}",
        f"to {JAVA_BATCHES}",
        "broker CPU s/M",
        "worker CPU s/M",
        "planning CPU s/M",
        "JVM CPU s/M",
        "worker MiB",
    )
    return f"## Writing {case}\n\n" + table(header, (_writer_row(name, racing) for name in racing))


def _writer_row(name: str, racing: Mapping[str, list[Run]]) -> Row:
    mine = racing[name]
    rate = summary(rates(mine))
    return (
        name,
        str(rate),
        times(ratio(rate, summary(rates(racing.get(KAFKA, []))))),
        times(ratio(rate, summary(rates(racing.get(JAVA_BATCHES, []))))),
        _middle(a_million(mine, cpu_s(BROKER))),
        _middle(a_million(mine, cpu_s(WORKER))),
        _middle(a_million(mine, cpu_s(PLANNING))),
        _middle(a_million(mine, cpu_s(JVM)) or a_million(mine, cpu_s(CLIENT))),
        _middle(values(mine, "worker peak_rss_mib")),
    )


def _writing_parts(runs: Sequence[Run], case: str) -> str:
    """Where the processor time of a write goes; only where somebody did our parts."""
    racing = contestants(runs, "writing", case)
    if not {OURS, COUNTED, OUR_ENCODES} <= racing.keys():
        return ""
    found = writing_parts(racing[OURS], racing[COUNTED], racing[OUR_ENCODES])
    if KAFKA in racing:
        found |= {f"{KAFKA}: {part}": used for part, used in broker_and_jvm(racing[KAFKA]).items()}
    rows = ((part, rounded(used)) for part, used in found.items())
    return f"## Where the processor time of a write goes: {case}\n\n" + table(("", "CPU s/M"), rows)


def _other_contestant(name: str, racing: Collection[str]) -> str:
    """Spark's Kafka connector with the same settings, and where it took part so with the same kind of columns."""
    settings = next((suffix for suffix in (DEFAULTS_SUFFIX, UNCHECKED_SUFFIX) if name.endswith(suffix)), "")
    reference = JAVA_CLIENTS.get(name.removesuffix(settings).removesuffix(PYTHON_SUFFIX), KAFKA) + settings
    return reference if reference in racing else f"{KAFKA}{settings}"


def _wall(runs: Sequence[Run], case: str) -> str:
    """Where the processor time goes, ours and of our pulls alone beside Kafka's; only where somebody did our parts."""
    racing = contestants(runs, "reading", case)
    if not {*DECODES, *DECODES.values(), OUR_PULLS, OUR_PULLS_AT_ONCE} <= racing.keys():
        return ""
    pulls, pulls_at_once = racing[OUR_PULLS], racing[OUR_PULLS_AT_ONCE]
    found = {query: wall(racing[query], pulls, racing[decodes]) for query, decodes in DECODES.items()}
    found[OUR_PULLS_AT_ONCE] = wall(pulls_at_once, pulls_at_once)
    if KAFKA in racing:
        found[KAFKA] = wall(racing[KAFKA])
    header = ("", *(cell for name in found for cell in (f"{name}, s/M", "share")))
    rows = [(part, *(cell for one in found.values() for cell in _part_cells(one, part))) for part in found[OURS].parts]
    rows.append(("all cores", *(cell for one in found.values() for cell in (rounded(one.core_s), "100 %"))))
    rows.append(("unexplained", *(cell for one in found.values() for cell in ("", percent(one.unexplained)))))
    rows.append(("M rows/s", *(cell for name in found for cell in (_middle(rates(racing[name])), ""))))
    rows.append(("M rows/s, bound", *(cell for one in found.values() for cell in (rounded(one.bound), ""))))
    return f"## Where the processor time goes: {case}\n\n{WALL}" + table(header, rows)


def _part_cells(one: Wall, part: str) -> Row:
    return rounded(one.parts[part]), percent(one.share(part))


def _middle(figures: Iterable[float]) -> str:
    found = summary(figures)
    return "" if found is None else rounded(found.median)


def _figures(runs: Sequence[Run], part: str, case: str) -> str:
    """A line for each figure, and ours to the peer's."""
    racing = contestants(runs, part, case)
    names = dict.fromkeys(name for mine in racing.values() for run in mine for name in run.figures)
    reference = next((name for name in racing if name in {KAFKA, EMPTY}), KAFKA)
    header = ("", *racing, f"{OURS} to {reference}")
    return f"## {part.capitalize()}: {case}\n\n" + table(
        header, (_figure_row(name, racing, reference) for name in names)
    )


def _figure_row(name: str, racing: Mapping[str, list[Run]], reference: str) -> Row:
    found = {contestant: summary(values(mine, name)) for contestant, mine in racing.items()}
    shown = ("" if one is None else str(one) for one in found.values())
    return name, *shown, times(ratio(found.get(OURS), found.get(reference)))


def _decode(runs: Sequence[Run], case: str) -> str:
    """Rates of one core."""
    rows = ((name, *_decode_row(mine)) for name, mine in contestants(runs, "decode", case).items())
    return f"## Decode: {case}\n\n" + table(("columns", "M rows/s a core", "CPU ns a row"), rows)


def _decode_row(mine: Sequence[Run]) -> Row:
    seconds = summary(a_million(mine, "seconds"))
    return str(summary(rates(mine))), "" if seconds is None else rounded(seconds.median * 1000)


def _memory(runs: Sequence[Run], case: str) -> str:
    """Of the largest Python worker, MiB."""
    names = [*MEMORY_AT.values(), MEMORY_PEAK]
    header = ("worker, MiB", *(f"at {fraction:.0%} of its time".replace("%", " %") for fraction in MEMORY_AT), "peak")
    racing = contestants(runs, "memory", case)
    rows = ((reader, *(_middle(values(mine, name)) for name in names)) for reader, mine in racing.items())
    return f"## Memory: {case}\n\n" + table(header, rows)


def _idle(runs: Sequence[Run]) -> str:
    """What a broker is asked, and up to where that stays within the limit."""
    idle = [run for run in runs if run.part == "idle"]
    if not idle:
        return ""
    header = ("topics", "queues", "requests/s a broker", "pulls that are held", "all others", "the others")
    return "## Idle\n\n" + table(header, map(_idle_row, idle)) + f"\n{_idle_limit(idle)}\n"


def _idle_row(run: Run) -> Row:
    others = {
        name.removesuffix(A_SECOND): rate
        for name, rate in run.figures.items()
        if name.endswith(A_SECOND) and name not in (REQUESTS, f"{HELD}{A_SECOND}")
    }
    whole, held = run.figures[REQUESTS], run.figures[f"{HELD}{A_SECOND}"]
    named = ", ".join(f"{name} {rounded(rate)}" for name, rate in others.items())
    counts = (f"{run.figures['topics']:.0f}", f"{run.figures['queues']:.0f}")
    return (*counts, rounded(whole), rounded(held), rounded(whole - held), named)


def _idle_limit(idle: Sequence[Run]) -> str:
    within = takewhile(lambda run: run.figures[REQUESTS] <= IDLE_LIMIT, idle)
    most = max((run.figures["topics"] for run in within), default=0)
    return (
        f"At most {IDLE_LIMIT:.0f} requests a second a broker: up to {most:.0f} topics, of those that were tried. "
        "The pulls that are held, one for each queue, are sent again together, so seldom that this is their mean."
    )
