"""Mutation tests of the pure modules: change the code in a small way, and see whether a test notices.

``mutate.py``                  all groups (the long form, ``make mutate``)
``mutate.py NAME [NAME ...]``  these groups only (``make mutate GROUP=NAME``)
``mutate.py --again [NAME]``   survivors of a group, and what was changed since; killed mutants count as killed
``mutate.py --sample``         a few functions (``make mutate-sample``)
``mutate.py --report [NAME]``  nothing is run: what is kept, and what has changed since it was measured

mutmut makes and runs the mutants. ``tools/mutants.toml`` has the groups: modules with the tests that must hold
them; the functions of the sample; and the survivors that nothing can or need kill, each with its reason. It is an error
when another one survives, and when fewer than 90 % of a group are killed.

What a group has come to is kept when it was run to its end: with its survivors in ``build/mutation/results.json``, its
counts in ``tools/mutation_counts.json``; and ``build/mutation.md`` is written again.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import chdir
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from mutation_page import COUNTS, PINNED, RESULTS, ROOT, kept_counts, kept_results, mutation_page
from mutation_results import (
    ALIVE,
    Change,
    Counts,
    Measured,
    Reasons,
    counts_of,
    defines_functions,
    digest_of,
    encoded,
    encoded_counts,
    group_tests,
    line_of,
    modules_in,
    percent_killed,
)

PAGE: Final = ROOT / "build" / "mutation.md"
OWN_MUTMUT: Final = ROOT / "tools" / "own_mutmut.py"
FOLDER: Final = RESULTS.parent
TARGET_PERCENT: Final = 90
COPIED: Final = (
    "rocketmq_spark",
    "connector_tests",
    "conf",
    "README.md",
    "pyspark_rocketmq.py",
    "rocketmq_spark_python.py",
    "setup.py",
)


def main() -> int:
    """Run the command of the arguments, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("groups", nargs="*", metavar="NAME")
    parser.add_argument("--sample", action="store_true")
    parser.add_argument("--report", action="store_true")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args()
    pinned = tomllib.loads(PINNED.read_text(encoding="utf-8"))
    reasons = Reasons(pinned)
    if given.sample:
        return run_sample(pinned["sample"], reasons, given.processes)
    groups = {name: pinned["group"][name] for name in given.groups or pinned["group"]}
    failed_groups = set()
    for name, group in groups.items():
        if not given.report:
            measure(name, group, reasons, given.processes, again=given.again)
        if misses_target(name, modules_in(ROOT, group), kept_counts().get(name), reasons):
            failed_groups.add(name)
    print(*(f"not as wanted: {name}" for name in sorted(failed_groups)), sep="\n", end="\n" * bool(failed_groups))
    return int(bool(failed_groups))


def run_sample(sample: dict[str, Any], reasons: Reasons, processes: int) -> int:
    """The sample, of which nothing is kept; the exit code."""
    functions, folder = sample["functions"], FOLDER / "sample"
    modules = sorted({module_of(function) for function in functions})
    forget_all(folder)
    run_group(folder, {"modules": modules}, [f"{name}__mutmut_*" for name in functions], processes)
    statuses, alive = results_in(folder)
    print(line_of(sum(statuses.values(), Counter())))
    missing = [name for name in functions if not has_mutants(folder, name)]
    if missing:
        print("no mutants of:", *missing, sep="\n  ")
    return int(bool(missing) | report_unpinned(alive, reasons))


def measure(name: str, group: dict[str, Any], reasons: Reasons, processes: int, *, again: bool) -> None:
    """Run a group, and keep what it has come to."""
    folder = FOLDER / name
    forget = forget_survivors if again else forget_all
    forget(folder)
    run_group(folder, group, [], processes)
    if not is_through(folder):
        sys.exit(f"{name} was not run to its end; see {folder / 'mutants.log'}")
    today = datetime.now(UTC).date().isoformat()
    modules = modules_in(folder, group)
    measured = Measured(today, digest_of(folder, modules), *results_in(folder))
    counts = counts_of(measured, [module for module in modules if defines_functions(folder, module)], reasons)
    RESULTS.write_text(encoded({**kept_results(), name: measured}), encoding="utf-8")
    COUNTS.write_text(encoded_counts({**kept_counts(), name: counts}), encoding="utf-8")
    PAGE.write_text(mutation_page(), encoding="utf-8")


def misses_target(name: str, modules: list[str], group: Counts | None, reasons: Reasons) -> bool:
    """Return whether a group misses its target; print its counts, and its survivors if this machine has them of the
    same run."""
    if group is None:
        print(f"{name}: not run")
        return True
    print(f"{name}, {group.on}: {line_of(group.statuses)}", flush=True)
    if group.sources != digest_of(ROOT, modules):
        print("  its modules have changed since")
    is_low = bool(group.unexplained) or percent_killed(group.statuses) < TARGET_PERCENT
    measured = kept_results().get(name)
    if measured is None or measured.sources != group.sources:
        return is_low
    stale = reasons.stale(modules, measured.alive)
    print(*(f"  killed, or gone, so not to be pinned: {one}" for one in stale), sep="\n", end="\n" * bool(stale))
    return report_unpinned(measured.alive, reasons) | bool(stale) | is_low


def copy_source(source: Path, target: Path) -> None:
    """Replace ``target`` by a copy of a file or folder. Omit bytecode that another process is writing: it renames that
    file meanwhile."""
    shutil.rmtree(target, ignore_errors=True)
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("*.pyc.*"))
    else:
        shutil.copy(source, target)


def run_group(folder: Path, group: dict[str, Any], names: list[str], processes: int) -> None:
    """In a copy of the project whose settings name the modules and tests of ``group`` only. Those with ``names``, else
    those of which nothing is known."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in COPIED:
        copy_source(ROOT / name, folder / name)
    mutmut = {
        "source_paths": ["rocketmq_spark"],
        "only_mutate": [f"{module.replace('.', '/')}.py" for module in modules_in(ROOT, group)],
        "also_copy": list(COPIED[1:]),
        "pytest_add_cli_args_test_selection": [f"connector_tests/{test}" for test in group_tests(ROOT, group)],
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
    """So that those are run, and mutmut searches again which tests reach them. mutmut itself forgets the mutants of a
    function that was changed."""
    (folder / "mutants" / "mutmut-stats.json").unlink(missing_ok=True)
    for meta in (folder / "mutants").rglob("*.meta"):
        if not (ROOT / meta.relative_to(folder / "mutants").with_suffix("")).exists():
            meta.unlink()
            continue
        recorded = json.loads(meta.read_text())
        codes: dict[str, int | None] = recorded["exit_code_by_key"]
        recorded["exit_code_by_key"] = {
            name: None if status_of(code) in ALIVE else code for name, code in codes.items()
        }
        meta.write_text(json.dumps(recorded))


def run_mutmut(folder: Path, names: list[str], processes: int) -> None:
    """All mutants of the project in ``folder``, or those with ``names``; its output goes to a file."""
    command = [sys.executable, str(OWN_MUTMUT), "run", "--max-children", str(processes), *names]
    log = folder / "mutants.log"
    with log.open("wb") as output:
        done = subprocess.run(command, cwd=folder, stdout=output, stderr=subprocess.STDOUT, check=False)
    if done.returncode:
        sys.exit(f"mutmut ended with {done.returncode}; the end of {log}:\n" + log.read_text(errors="replace")[-3000:])


def results_in(folder: Path) -> tuple[dict[str, Counter[str]], frozenset[Change]]:
    """How many mutants of each module there have which status, and those that are alive. What was not run is left
    out."""
    statuses: dict[str, Counter[str]] = defaultdict(Counter)
    alive: set[Change] = set()
    with chdir(folder):
        for name, status in statuses_here():
            statuses[module_of(name)][status] += 1
            if status in ALIVE:
                alive.add(change_of(name))
    return dict(statuses), frozenset(alive)


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


def report_unpinned(alive: frozenset[Change], reasons: Reasons) -> bool:
    """Whether there are survivors without a reason; prints them."""
    unpinned = sorted(change for change in alive if reasons.of(change) is None)
    for change in unpinned:
        print(f"SURVIVED {change.function}\n  - {change.before}\n  + {change.after}")
    return bool(unpinned)


if __name__ == "__main__":
    sys.exit(main())
