"""Mutation tests of the pure modules: change the code in a small way, and see whether a test notices.

``mutate.py``                  all rooms; writes docs/design/mutation.md (the long form, ``make mutate``)
``mutate.py NAME [NAME ...]``  these rooms only
``mutate.py --again [NAME]``   what survived in a room, and what was changed since; who was killed is taken to stay so
``mutate.py --sample``         a few functions (``make mutate-sample``)
``mutate.py --report``         nothing is run again: what is known in ``build/mutation`` becomes docs/design/mutation.md

mutmut makes and runs the mutants. ``tools/mutants.toml`` has the rooms, which are modules with the tests that must hold
them; the functions of the sample; and the survivors that nothing can or need kill, each with its reason. It is an error
when another one survives, and in all of a room or more when fewer than 90 % are killed.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "design" / "mutation.md"
PINNED = ROOT / "tools" / "mutants.toml"
OWN_MUTMUT = ROOT / "tools" / "own_mutmut.py"
FOLDER = ROOT / "build" / "mutation"
WANTED_PERCENT = 90
COPIED = ("rocketmq_spark", "connector_tests", "conf", "README.md", "pyspark_rocketmq.py", "setup.py")
KILLED = ("killed", "timeout")
ALIVE = ("survived", "no tests")


@dataclass(frozen=True, order=True)
class Change:
    """A mutant, named by what was changed in which function: that stays when others are changed."""

    function: str
    before: str
    after: str


class Reasons:
    """Why mutants may survive: each by itself, or by the kind of change."""

    def __init__(self, pinned: dict[str, Any]) -> None:
        self._of_one = {
            Change(one["function"], one["before"], one["after"]): one["reason"] for one in pinned["survivor"]
        }
        self._of_a_kind = [
            (re.compile(f"{one['before']} => {one['after']}", re.DOTALL), one["reason"]) for one in pinned["kind"]
        ]

    def of(self, change: Change) -> str | None:
        """The reason; None: it has to be killed."""
        both = f"{change.before} => {change.after}"
        kinds = (reason for pattern, reason in self._of_a_kind if pattern.fullmatch(both))
        return self._of_one.get(change) or next(kinds, None)

    def stale(self, alive: frozenset[Change]) -> list[Change]:
        """Those of a single mutant that has been killed since, or is not there any more."""
        return sorted(self._of_one.keys() - alive)


@dataclass(frozen=True)
class Results:
    """What became of mutants."""

    statuses: dict[str, Counter[str]]
    """How many mutants of a module have which status."""
    alive: frozenset[Change]

    @property
    def total(self) -> Counter[str]:
        return sum(self.statuses.values(), Counter())


def main() -> int:
    """Run what the arguments say; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rooms", nargs="*", metavar="NAME")
    parser.add_argument("--sample", action="store_true")
    parser.add_argument("--report", action="store_true")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args()
    pinned = tomllib.loads(PINNED.read_text(encoding="utf-8"))
    reasons = Reasons(pinned)
    if given.sample:
        return run_sample(pinned["sample"], reasons, given.processes)
    rooms = given.rooms or list(pinned["room"])
    for name in [] if given.report else rooms:
        forget = forget_survivors if given.again else forget_all
        forget(FOLDER / name)
        run_room(FOLDER / name, pinned["room"][name], [], given.processes)
        print(f"{name}: {line_of(results_in([FOLDER / name]).total)}", flush=True)
    return report([FOLDER / name for name in rooms], reasons, is_all=not given.rooms)


def run_sample(sample: dict[str, Any], reasons: Reasons, processes: int) -> int:
    """The sample; the exit code."""
    functions, folder = sample["functions"], FOLDER / "sample"
    modules = sorted({module_of(function) for function in functions})
    forget_all(folder)
    run_room(
        folder, {"modules": modules, "tests": sample["tests"]}, [f"{name}__mutmut_*" for name in functions], processes
    )
    results = results_in([folder])
    print(line_of(results.total))
    missing = [name for name in functions if not has_mutants(folder, name)]
    if missing:
        print("no mutants of:", *missing, sep="\n  ")
    return int(bool(missing) | tell_unpinned(results, reasons))


def report(folders: list[Path], reasons: Reasons, *, is_all: bool) -> int:
    """Tell what is known of these rooms, and if these are all, write the page; the exit code."""
    results = results_in(folders)
    print(line_of(results.total))
    not_run = [folder.name for folder in folders if not is_through(folder)]
    print(*(f"not run to its end: {name}" for name in not_run), sep="\n", end="\n" * bool(not_run))
    is_bad = tell_unpinned(results, reasons) | (percent_killed(results.total) < WANTED_PERCENT) | bool(not_run)
    if is_all:
        PAGE.write_text(page(results, reasons, not_run), encoding="utf-8")
        stale = reasons.stale(results.alive)
        print(*(f"killed, or not there any more, so not to be pinned: {change}" for change in stale), sep="\n")
        is_bad |= bool(stale)
    return int(is_bad)


def run_room(folder: Path, room: dict[str, Any], names: list[str], processes: int) -> None:
    """In a copy of the project whose settings name the modules and tests of ``room`` only. Those with ``names``, else
    those of which nothing is known."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in COPIED:
        source, target = ROOT / name, folder / name
        shutil.rmtree(target, ignore_errors=True)
        copy = shutil.copytree if source.is_dir() else shutil.copy
        copy(source, target)
    mutmut = {
        "source_paths": ["rocketmq_spark"],
        "only_mutate": [f"{module.replace('.', '/')}.py" for module in room["modules"]],
        "also_copy": list(COPIED[1:]),
        "pytest_add_cli_args_test_selection": [f"connector_tests/{test}" for test in room["tests"]],
        "pytest_add_cli_args": ["-p", "no:xdist", "-m", "not long"],
        "timeout_multiplier": 2,
    }
    lines = (f"{name} = {json.dumps(value)}\n" for name, value in mutmut.items())
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8") + "\n[tool.mutmut]\n" + "".join(lines)
    (folder / "pyproject.toml").write_text(text, encoding="utf-8")
    run_mutmut(folder, names, processes)


def forget_all(folder: Path) -> None:
    """So that each mutant is run."""
    shutil.rmtree(folder, ignore_errors=True)


def forget_survivors(folder: Path) -> None:
    """So that those are run, and which tests reach what is found out anew. mutmut itself forgets the mutants of a
    function that was changed."""
    (folder / "mutants" / "mutmut-stats.json").unlink(missing_ok=True)
    for meta in (folder / "mutants").rglob("*.meta"):
        if not (ROOT / meta.relative_to(folder / "mutants").with_suffix("")).exists():
            meta.unlink()
            continue
        known = json.loads(meta.read_text())
        codes: dict[str, int | None] = known["exit_code_by_key"]
        known["exit_code_by_key"] = {name: None if status_of(code) in ALIVE else code for name, code in codes.items()}
        meta.write_text(json.dumps(known))


def run_mutmut(folder: Path, names: list[str], processes: int) -> None:
    """All mutants of the project in ``folder``, or those with ``names``; its output goes to a file."""
    command = [sys.executable, str(OWN_MUTMUT), "run", "--max-children", str(processes), *names]
    log = folder / "mutants.log"
    with log.open("wb") as output:
        done = subprocess.run(command, cwd=folder, stdout=output, stderr=subprocess.STDOUT, check=False)
    if done.returncode:
        sys.exit(f"mutmut ended with {done.returncode}; the end of {log}:\n" + log.read_text(errors="replace")[-3000:])


def results_in(folders: list[Path]) -> Results:
    """What has been run there; what has not is left out."""
    statuses: dict[str, Counter[str]] = defaultdict(Counter)
    alive: set[Change] = set()
    for folder in filter(Path.is_dir, folders):
        with chdir(folder):
            for name, status in statuses_here():
                statuses[module_of(name)][status] += 1
                if status in ALIVE:
                    alive.add(change_of(name))
    return Results(dict(statuses), frozenset(alive))


def statuses_here() -> Iterator[tuple[str, str]]:
    """Each mutant of the project in the current folder that was run, and what became of it."""
    return ((name, status_of(code)) for name, code in exit_codes_in(Path()) if code is not None)


def is_through(folder: Path) -> bool:
    """Whether all mutants of the project there were run, and there are any."""
    codes = [code for _, code in exit_codes_in(folder)]
    return bool(codes) and None not in codes


def exit_codes_in(folder: Path) -> Iterator[tuple[str, int | None]]:
    """Each mutant of the project there; None: it was not run."""
    for meta in sorted((folder / "mutants").rglob("*.meta")):
        yield from json.loads(meta.read_text())["exit_code_by_key"].items()


def status_of(exit_code: int | None) -> str:
    """mutmut's word for it."""
    from mutmut.stats import status_by_exit_code

    return status_by_exit_code[exit_code]


def change_of(name: str) -> Change:
    """What mutmut's mutant ``name`` changes, in the project of the current folder."""
    from mutmut.mutation.diff_apply import get_diff_for_mutant

    path = Path(f"{module_of(name).replace('.', '/')}.py")
    lines = get_diff_for_mutant(name, path=path).splitlines()[3:]
    before, after = ("\n".join(line[1:].strip() for line in lines if line.startswith(sign)) for sign in "-+")
    function = name.partition("__mutmut_")[0].rpartition(".")[2].removeprefix("x").strip("_ǁ").replace("ǁ", ".")
    return Change(f"{module_of(name)}.{function}", before, after)


def module_of(name: str) -> str:
    """The module of a mutant or function, as mutmut names them."""
    return name.rpartition(".")[0]


def has_mutants(folder: Path, function: str) -> bool:
    """Else it was renamed, and its line in the sample does nothing."""
    meta = folder / "mutants" / f"{module_of(function).replace('.', '/')}.py.meta"
    return any(name.startswith(f"{function}__mutmut_") for name in json.loads(meta.read_text())["exit_code_by_key"])


def tell_unpinned(results: Results, reasons: Reasons) -> bool:
    """Whether there are survivors without a reason; prints them."""
    unpinned = sorted(change for change in results.alive if reasons.of(change) is None)
    for change in unpinned:
        print(f"SURVIVED {change.function}\n  - {change.before}\n  + {change.after}")
    return bool(unpinned)


def percent_killed(statuses: Counter[str]) -> float:
    """Of all, those that never end among the killed."""
    return 100 * sum(statuses[status] for status in KILLED) / max(1, statuses.total())


def line_of(statuses: Counter[str]) -> str:
    """The figures in one line."""
    counts = ", ".join(f"{count} {status}" for status, count in sorted(statuses.items()))
    return f"{statuses.total()} mutants: {counts}; {percent_killed(statuses):.1f} % killed"


def page(results: Results, reasons: Reasons, not_run: list[str]) -> str:
    """docs/design/mutation.md."""
    rows = [row(module, counts) for module, counts in sorted(results.statuses.items())]
    survivors = [
        f"* `{one.function}`: {text(one.before)} → {text(one.after)}. {reasons.of(one) or '**To be killed.**'}"
        for one in sorted(results.alive)
    ]
    return "\n".join(
        [
            "# Mutation tests",
            "",
            "<!-- Written by tools/mutate.py; the reasons are in tools/mutants.toml. -->",
            "",
            "`make mutate` changes the pure modules in small ways, one at a time, and runs those of a room's own tests",
            "that reach the change, by mutmut. A change that no test notices is a survivor; one that never ends counts",
            "as killed. `make mutate-sample` does so for a few functions, in CI.",
            "",
            f"{line_of(results.total)}.{said_of(not_run)}",
            "",
            "| module | mutants | killed | |",
            "|---|---|---|---|",
            *rows,
            "",
            "## Survivors",
            "",
            *(survivors or ["None."]),
            "",
        ]
    )


def said_of(not_run: list[str]) -> str:
    """A sentence about the rooms that are missing in the page."""
    return f" Not run for this page: {', '.join(not_run)}." if not_run else ""


def row(module: str, counts: Counter[str]) -> str:
    """A module's row of the table."""
    killed = sum(counts[status] for status in KILLED)
    return f"| `{module}` | {counts.total()} | {killed} | {percent_killed(counts):.0f} % |"


def text(code: str) -> str:
    """Code in a line of Markdown."""
    joined = " ⏎ ".join(code.splitlines())
    return f"`` {joined} ``" if joined else "nothing"


if __name__ == "__main__":
    sys.exit(main())
