"""What Spark's Kafka suites test of reading, and our tests of it: docs/dev/kafka-parity.md, from kafka_parity.toml."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from markdown_table import table

ROWS: Final = Path(__file__).parent / "kafka_parity.toml"
TESTS: Final = "connector_tests"
OUTCOMES: Final = ("tests", "not_applicable", "open")

HEAD: Final = """\
# Parity with Spark's Kafka source

<!-- Written by tools/generate_docs.py, from tools/kafka_parity.toml. -->

Each reading behaviour that the suites of Spark's Kafka source test, with the tests of this connector, or why it does
not apply. What is not built, or has no test yet, is marked **Open**. The names are those of the suites in Spark
{spark}; "…" is a parameter.
[`test_kafka_parity`](../../connector_tests/architecture/test_kafka_parity.py) checks that each test exists.

{counts}
"""


class Row(NamedTuple):
    """A behaviour. ``kafka``: names of the tests in ``suite``. One of ``tests``, node IDs below ``connector_tests``,
    ``not_applicable`` and ``open``, the reasons, is not empty."""

    suite: str
    behaviour: str
    kafka: tuple[str, ...]
    tests: tuple[str, ...]
    not_applicable: str
    open: str


def parity_page(_: str) -> str:
    """docs/dev/kafka-parity.md."""
    text = ROWS.read_text(encoding="utf-8")
    return page(tomllib.loads(text)["spark"], rows(text))


def rows(text: str) -> list[Row]:
    """Return the rows of kafka_parity.toml. Raises ValueError for the first row that has not exactly one outcome."""
    decoded = tomllib.loads(text)
    return [_row(decoded["suite"], one) for one in decoded["row"]]


def _row(suites: Mapping[str, str], given: Mapping[str, Any]) -> Row:
    if sum(bool(given.get(outcome)) for outcome in OUTCOMES) != 1:
        raise ValueError(f"the row needs exactly one of {', '.join(OUTCOMES)}: {given['behaviour']}")
    return Row(
        suites[given["suite"]],
        given["behaviour"],
        tuple(given["kafka"]),
        tuple(given.get("tests", ())),
        given.get("not_applicable", ""),
        given.get("open", ""),
    )


def page(spark: str, rows: Sequence[Row]) -> str:
    """Return the page, with a section for each suite."""
    suites = dict.fromkeys(row.suite for row in rows)
    return "\n".join((HEAD.format(spark=spark, counts=_counts(rows)), *(_section(one, rows) for one in suites)))


def _counts(rows: Sequence[Row]) -> str:
    of_outcomes = (sum(bool(getattr(row, outcome)) for row in rows) for outcome in OUTCOMES)
    tested, not_applicable, still_open = of_outcomes
    return f"Of {len(rows)} behaviours, {tested} are tested, {not_applicable} do not apply, {still_open} are open."


def _section(suite: str, rows: Sequence[Row]) -> str:
    lines = (_line(row) for row in rows if row.suite == suite)
    return f"## {suite}\n\n{table(('behaviour', 'in Spark', 'here'), lines)}"


def _line(row: Row) -> tuple[str, ...]:
    names = "<br>".join(f"`{name}`" for name in row.kafka)
    return row.behaviour, names, "<br>".join(_outcome(row))


def _outcome(row: Row) -> Iterator[str]:
    if row.open:
        yield f"**Open.** {row.open}"
    if row.not_applicable:
        yield f"Does not apply. {row.not_applicable}"
    for test in row.tests:
        file, _, name = test.partition("::")
        yield f"[`{name}`](../../{TESTS}/{file})"
