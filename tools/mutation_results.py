"""What mutants have come to, group by group: measured on a day, and on the text that the modules had then."""

from __future__ import annotations

import ast
import hashlib
import json
import re
import tomllib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

KILLED: Final = ("killed", "timeout")
ALIVE: Final = ("survived", "no tests")
PACKAGE: Final = "rocketmq_spark"


@dataclass(frozen=True, order=True)
class Change:
    """A mutant, named by what was changed in which function: that stays when other code is changed."""

    function: str
    before: str
    after: str

    def is_in(self, modules: list[str]) -> bool:
        """Whether the function is of one of these modules."""
        return any(self.function.startswith(f"{module}.") for module in modules)


class Reasons:
    """Why mutants may survive: each by itself, or by the kind of change."""

    def __init__(self, pinned: Mapping[str, Any]) -> None:
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

    def stale(self, modules: list[str], alive: frozenset[Change]) -> list[Change]:
        """Those of a single mutant of ``modules`` that has been killed since, or is not there any more."""
        return sorted(change for change in self._of_one.keys() - alive if change.is_in(modules))


@dataclass(frozen=True)
class Measured:
    """What became of all mutants of a group."""

    on: str
    """The day, in UTC, as 2026-11-23."""
    sources: str
    """The digest of the modules that were changed."""
    statuses: Mapping[str, Counter[str]]
    """By module, how many of its mutants have which status. A module without mutants is not there."""
    alive: frozenset[Change]

    @property
    def total(self) -> Counter[str]:
        """Of all modules."""
        return sum(self.statuses.values(), Counter())


@dataclass(frozen=True)
class Counts:
    """What the repository keeps of a group: how many, and no survivor."""

    on: str
    sources: str
    statuses: Counter[str]
    mutants: Mapping[str, int]
    """By module that defines functions, how many mutants mutmut made of it; 0 of some."""
    unexplained: int
    """Survivors without a reason in ``mutants.toml``."""


def counts_of(group: Measured, modules: list[str], reasons: Reasons) -> Counts:
    """Return the counts of a group in which these modules define functions."""
    mutants = {module: group.statuses.get(module, Counter()).total() for module in modules}
    unexplained = sum(reasons.of(change) is None for change in group.alive)
    return Counts(group.on, group.sources, group.total, mutants, unexplained)


def percent_killed(statuses: Counter[str]) -> float:
    """Of all, those that never end among the killed; 0 of none."""
    return 100 * killed(statuses) / max(1, statuses.total())


def killed(statuses: Counter[str]) -> int:
    """How many, those that never end among them."""
    return sum(statuses[status] for status in KILLED)


def line_of(statuses: Counter[str]) -> str:
    """The figures in one line."""
    counts = ", ".join(f"{count} {status}" for status, count in sorted(statuses.items()))
    return f"{statuses.total()} mutants: {counts}; {percent_killed(statuses):.1f} % killed"


# --------------------------------------------------------------------------------------------------------------- groups


def modules_in(root: Path, group: Mapping[str, Any]) -> list[str]:
    """The modules of the package in ``root`` that are in a group. ``folder.*``: all of it but shells."""
    shells = tuple(f"{shell}." for shell in shells_of(root))
    files = (file.relative_to(root).with_suffix("") for file in (root / PACKAGE).rglob("*.py"))
    names = (".".join(file.parts) for file in files if file.name != "__init__")
    pure = (name for name in names if not f"{name}.".startswith(shells))
    return sorted(name for name in pure if any(fnmatchcase(name, pattern) for pattern in group["modules"]))


def shells_of(root: Path) -> list[str]:
    """The modules and packages that are not pure, of the contract of this type."""
    settings = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    contracts: list[dict[str, Any]] = settings["tool"]["importlinter"]["contracts"]
    return [shell for one in contracts if one["type"] == "pure" for shell in one["shells"]]


def group_tests(root: Path, group: Mapping[str, Any]) -> list[str]:
    """The tests that must hold a group, below ``connector_tests``: those that are called after its modules, and those
    that it names beside them."""
    stems = sorted({module.rpartition(".")[2] for module in modules_in(root, group)})
    own = (f"{kind}/test_{stem}.py" for kind in ("unit", "properties") for stem in stems)
    return [*(test for test in own if (root / "connector_tests" / test).is_file()), *group.get("tests", ())]


def defines_functions(root: Path, module: str) -> bool:
    """Whether there is anything in a module that mutmut could change: it changes functions only."""
    source = root.joinpath(*module.split(".")).with_suffix(".py").read_text(encoding="utf-8")
    return any(isinstance(node, ast.FunctionDef) for node in ast.walk(ast.parse(source)))


def digest_of(root: Path, modules: list[str]) -> str:
    """Return twelve hexadecimal digits that change with the modules."""
    digest = hashlib.sha256()
    for module in sorted(modules):
        source = root.joinpath(*module.split(".")).with_suffix(".py").read_bytes()
        digest.update(f"{module} {len(source)}\n".encode() + source)
    return digest.hexdigest()[:12]


# ---------------------------------------------------------------------------------------------------------------- kept


def encoded_counts(counts: Mapping[str, Counts]) -> str:
    """As the repository keeps them, in one order: a group a paragraph."""
    groups = {name: vars(group) for name, group in counts.items()}
    return json.dumps(groups, indent=1, sort_keys=True) + "\n"


def decoded_counts(text: str) -> dict[str, Counts]:
    """The opposite of ``encoded_counts``."""
    return {
        name: Counts(**{**group, "statuses": Counter(group["statuses"])}) for name, group in json.loads(text).items()
    }


def encoded(results: Mapping[str, Measured]) -> str:
    """As a file keeps it, in one order, so that a difference shows what was measured again."""
    groups = {
        name: {
            "on": group.on,
            "sources": group.sources,
            "statuses": group.statuses,
            "alive": [[one.function, one.before, one.after] for one in sorted(group.alive)],
        }
        for name, group in results.items()
    }
    return json.dumps(groups, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def decoded(text: str) -> dict[str, Measured]:
    """The opposite of ``encoded``."""
    return {
        name: Measured(
            group["on"],
            group["sources"],
            {module: Counter(counts) for module, counts in group["statuses"].items()},
            frozenset(Change(*one) for one in group["alive"]),
        )
        for name, group in json.loads(text).items()
    }
