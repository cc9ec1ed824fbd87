"""The page of all options, of which ``generate_docs`` uses parts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rocketmq_spark.options import USES
from rocketmq_spark.options.read_rules import READ_CONFLICTS, READ_DEPENDENCIES
from rocketmq_spark.options.table import Option, Section, rows

GENERATED: Final = "<!-- Written by tools/generate_docs.py. -->"


def is_shared(row: Option, other: Option) -> bool:
    """Whether two calls share an option; its values may differ."""
    return (row.name, row.doc) == (other.name, other.doc)


BY_CALL: Final = tuple((call, row) for call, table in USES.items() for _, row in rows(table))
"""Each call with each of its rows."""
OPTIONS: Final = tuple(
    row for number, (_, row) in enumerate(BY_CALL) if not any(is_shared(row, before) for _, before in BY_CALL[:number])
)


def options_page(_: str) -> str:
    """docs/reference/options.md."""
    head = f"# Options\n\n{GENERATED}\n\nNames are not case-sensitive.\n"
    return "\n".join((head, *(section_of_options(section) for section in Section)))


def section_of_options(section: Section) -> str:
    """One heading and the options below it."""
    options = (f"### {row.name}\n\n{sentences(row)}" for row in OPTIONS if row.section is section)
    return "\n".join((f"## {section.value}\n", *options))


def sentences(option: Option) -> str:
    """Return the entry of one option."""
    accepted = {call: row for call, row in BY_CALL if is_shared(row, option)}
    facts = [f"- value: {option.kind.expected}"]
    facts += [
        f"- value in `{call}`: {row.kind.expected}"
        for call, row in accepted.items()
        if row.kind.expected != option.kind.expected
    ]
    facts += [f"- {required(option)}"] if option.required else [f"- default: {default_of(option)}"]
    facts += [
        f"- in `{call}`: {required(row) if row.required else 'optional'}"
        for call, row in accepted.items()
        if row.required != option.required
    ]
    facts += [f"- other name: `{alias}`" for alias in option.aliases]
    facts += ["- in: " + ", ".join(f"`{call}`" for call in accepted)]
    facts += [f"- needs `{other}`: {explanation}" for other, explanation in needs_of(option.name)]
    facts += [f"- restricted by `{other}`: {explanation}" for other, explanation in conflicts_of(option.name)]
    if restricted := restricted_by(option.name):
        facts.append(f"- restricts {', '.join(restricted)}: see there")
    return f"{option.doc}\n\n" + "\n".join(facts) + "\n"


def conflicts_of(name: str) -> Iterator[tuple[str, str]]:
    """The options that exclude values of this one, and why."""
    for conflict in READ_CONFLICTS:
        if name == conflict.second:
            yield conflict.first, conflict.explanation


def restricted_by(name: str) -> list[str]:
    """The options of which this one excludes values."""
    return [f"`{conflict.second}`" for conflict in READ_CONFLICTS if name == conflict.first]


def needs_of(name: str) -> Iterator[tuple[str, str]]:
    """The options that this one requires, and why."""
    for need in READ_DEPENDENCIES:
        if name == need.option:
            yield need.required_option, need.explanation


def required(option: Option) -> str:
    """Or what may be given in its place."""
    return " or ".join(["required", *(f"`{name}`" for name in option.alternatives)]).replace(" or ", ", or ", 1)


def default_of(option: Option) -> str:
    """The default as code, or what applies without a value."""
    return f"`{option.default}`" if option.default else option.unset
