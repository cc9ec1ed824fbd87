"""docs/design/mutation.md: what mutants have come to, of all rooms, whether they were run or not."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from mutation_results import Change, Measured, Reasons, decoded, killed, line_of, modules_in, percent_killed

ROOT: Final = Path(__file__).parent.parent
PINNED: Final = ROOT / "tools" / "mutants.toml"
RESULTS: Final = ROOT / "docs" / "design" / "mutation.json"

HEAD: Final = """\
# Mutation tests

<!-- Written by tools/generate_docs.py: the results by tools/mutate.py, the reasons by hand in tools/mutants.toml. -->

`make mutate ROOM=name` changes the pure modules of a room in small ways, one at a time, and runs those of the room's
own tests that reach the change, by mutmut. A change that no test notices is a survivor; one that never ends counts as
killed. `make mutate` runs all rooms, and `make mutate-sample` a few functions, in CI. A room has the day of its last
run, and the digest of its modules then; `python tools/mutate.py --report` names those that have changed since.
"""


def mutation_page() -> str:
    """The page of what is kept now."""
    pinned = tomllib.loads(PINNED.read_text(encoding="utf-8"))
    modules = {name: modules_in(ROOT, room) for name, room in pinned["room"].items()}
    return page(modules, kept_results(), Reasons(pinned))


def kept_results() -> dict[str, Measured]:
    """Of each room that was ever run to its end."""
    return decoded(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}


def page(modules: Mapping[str, list[str]], results: Mapping[str, Measured], reasons: Reasons) -> str:
    """Of the ``modules`` of each room. What was kept of a room that is no more is not told."""
    there = {name: results[name] for name in modules if name in results}
    return "\n".join(
        [
            HEAD,
            f"{len(there)} of {len(modules)} rooms were run: {line_of(total_of(there))}.",
            "",
            "| room | modules | mutants | killed | | measured on | digest |",
            "|---|---|---|---|---|---|---|",
            *(room_row(name, modules[name], there.get(name)) for name in modules),
            "",
            "## Modules",
            "",
            "| module | room | mutants | killed | |",
            "|---|---|---|---|---|",
            *(module_row(module, name, there.get(name)) for name in modules for module in modules[name]),
            "",
            "## Survivors",
            "",
            *(survivor for name in there for survivor in survivors(there[name], reasons)),
            "",
        ]
    )


def total_of(results: Mapping[str, Measured]) -> Counter[str]:
    """Of all rooms."""
    return sum((room.total for room in results.values()), Counter[str]())


def room_row(name: str, modules: list[str], room: Measured | None) -> str:
    """A row of the first table."""
    if room is None:
        return f"| {name} | {len(modules)} | not run | | | | |"
    return f"| {name} | {len(modules)} | {counts(room.total)} | {room.on} | `{room.sources}` |"


def module_row(module: str, name: str, room: Measured | None) -> str:
    """A row of the second."""
    if room is None:
        return f"| `{module}` | {name} | not run | | |"
    return f"| `{module}` | {name} | {counts(room.statuses.get(module, Counter()))} |"


def counts(statuses: Counter[str]) -> str:
    """Three cells."""
    if not statuses.total():
        return "0 | |"
    return f"{statuses.total()} | {killed(statuses)} | {percent_killed(statuses):.0f} %"


def survivors(room: Measured, reasons: Reasons) -> Iterator[str]:
    """Items of a list."""
    for one in sorted(room.alive):
        yield f"* `{one.function}`: {change_text(one)}. {reasons.of(one) or '**To be killed.**'}"


def change_text(change: Change) -> str:
    """In a line of Markdown."""
    return f"{code(change.before)} → {code(change.after)}"


def code(text: str) -> str:
    """Code in a line of Markdown."""
    joined = " ⏎ ".join(text.splitlines())
    return f"`` {joined} ``" if joined else "nothing"
