"""Mutation scores of the pure modules, a row a group: build/mutation.md."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from textwrap import fill
from typing import Final

from mutation_results import (
    Counts,
    Measured,
    decoded,
    decoded_counts,
    defines_functions,
    killed,
    line_of,
    modules_in,
    percent_killed,
)

ROOT: Final = Path(__file__).parent.parent
PINNED: Final = ROOT / "tools" / "mutants.toml"
COUNTS: Final = ROOT / "tools" / "mutation_counts.json"
RESULTS: Final = ROOT / "build" / "mutation" / "results.json"

HEAD: Final = """\
# Mutation tests

<!-- Written by tools/generate_docs.py, from tools/mutation_counts.json and tools/mutants.toml. -->

`make mutate GROUP=name` changes the pure modules of a group in small ways, one at a time, and runs those of the group's
own tests that reach the change, by mutmut. A change that no test notices is a survivor; one that never ends counts as
killed. `make mutate` runs all groups, and `make mutate-sample` a few functions, in CI. A run writes its survivors to
`build/mutation/results.json`, and its counts into the table below, with the day and the digest of the group's modules;
`python tools/mutate.py --report` names the groups that have changed since. A group needs 90 % killed and a reason in
`tools/mutants.toml` for each survivor. mutmut makes no mutants of properties and other decorated functions, nor outside
of functions.
"""


def mutation_page() -> str:
    """The page of what is kept now."""
    pinned = tomllib.loads(PINNED.read_text(encoding="utf-8"))
    modules = {name: modules_in(ROOT, group) for name, group in pinned["group"].items()}
    tables = {module for names in modules.values() for module in names if not defines_functions(ROOT, module)}
    return page(modules, kept_counts(), pinned["without_mutants"], tables)


def mutation_scores() -> str:
    """For docs/dev/tests.md: what each group has come to, in few lines."""
    counts = {name: group for name, group in kept_counts().items() if name in groups()}
    days = sorted(group.on for group in counts.values())
    total = line_of(sum((group.statuses for group in counts.values()), Counter[str]()))
    scores = ", ".join(f"{name} {percent_killed(group.statuses):.0f} %" for name, group in counts.items())
    return fill(f"{total}, measured from {days[0]} to {days[-1]}: {scores}.", 120) + "\n"


def groups() -> dict[str, object]:
    """The groups that there are now."""
    return dict(tomllib.loads(PINNED.read_text(encoding="utf-8"))["group"])


def kept_results() -> dict[str, Measured]:
    """Of each group that was run to its end on this machine, with its survivors."""
    return decoded(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}


def kept_counts() -> dict[str, Counts]:
    """Of each group that was ever run to its end."""
    return decoded_counts(COUNTS.read_text(encoding="utf-8"))


def page(
    modules: Mapping[str, list[str]],
    counts: Mapping[str, Counts],
    reasons: Mapping[str, str],
    tables: Collection[str] = (),
) -> str:
    """Of the ``modules`` of each group. ``reasons``: why mutmut makes no mutants of a module. ``tables``: modules that
    define no function, of which nothing is to be measured. What is kept of a group that is no more is left out."""
    measured_groups = {name: counts[name] for name in modules if name in counts}
    total = sum((group.statuses for group in measured_groups.values()), Counter[str]())
    return "\n".join(
        [
            HEAD,
            f"{len(measured_groups)} of {len(modules)} groups were run: {line_of(total)}.",
            "",
            "| group | modules | mutants | killed | | measured on | digest |",
            "|---|---|---|---|---|---|---|",
            *(group_row(name, modules[name], measured_groups.get(name)) for name in modules),
            "",
            missing_modules(modules, measured_groups, reasons, tables),
            "",
        ]
    )


def group_row(name: str, modules: list[str], group: Counts | None) -> str:
    """A row of the table."""
    if group is None:
        return f"| {name} | {len(modules)} | not run | | | | |"
    figures = f"{group.statuses.total()} | {killed(group.statuses)} | {percent_killed(group.statuses):.0f} %"
    return f"| {name} | {len(modules)} | {figures} | {group.on} | `{group.sources}` |"


def missing_modules(
    modules: Mapping[str, list[str]], counts: Mapping[str, Counts], reasons: Mapping[str, str], tables: Collection[str]
) -> str:
    """The line below the table."""
    new = listed(f"`{module}`" for module in not_measured(modules, counts) if module not in tables)
    without = listed(f"`{module}` ({reasons.get(module, 'no reason is known')})" for module in without_mutants(counts))
    return f"Not measured yet: {new}. Without a mutant: {without}."


def not_measured(modules: Mapping[str, list[str]], counts: Mapping[str, Counts]) -> Iterator[str]:
    """Modules that came into a group, or got their first function, after its last run."""
    for name, group in counts.items():
        yield from (module for module in modules.get(name, ()) if module not in group.mutants)


def without_mutants(counts: Mapping[str, Counts]) -> Iterator[str]:
    """Modules that define functions of which mutmut made no mutant."""
    for group in counts.values():
        yield from (module for module, mutants in group.mutants.items() if not mutants)


def listed(names: Iterable[str]) -> str:
    """In one line."""
    return ", ".join(sorted(names)) or "no module"
