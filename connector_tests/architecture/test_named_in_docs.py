"""What a page names is there: tests, files, headings, conditions and options."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from rocketmq_spark.conditions import CONDITIONS
from rocketmq_spark.options import USES
from rocketmq_spark.options.table import rows

TESTS: Final = Path(__file__).parents[1]
ROOT: Final = TESTS.parent
PAGES: Final = sorted({*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")} - {ROOT / "CHANGELOG.md"})
"""All but what was so at a time."""

NAMED: Final = re.compile(r"`([a-z]+/test_\w+)(?:\.py)?(?:::(\w+))?`")
LINK: Final = re.compile(r"\]\((?!https?://)([^)#\s]*)(?:#([^)\s]*))?\)")
CONDITION: Final = re.compile(r"\bROCKETMQ_([A-Z_]+(?:\.[A-Z_]+)?)")
OPTION: Final = re.compile(r"\.option\(\s*[\"'](\w+)[\"']")
HEADING: Final = re.compile(r"(?m)^#+ (.*)$")
MODULE: Final = re.compile(r"``([a-z_]+(?:\.[a-z_]+)+)``")

NAMES: Final = {*CONDITIONS, *(name.partition(".")[0] for name in CONDITIONS)}
"""With those of umbrellas."""
ENVIRONMENT: Final = {"HOME", "SPARK_BUILD_NATIVE", "SPARK_IMPL"}
"""Variables that begin like conditions."""
OPTIONS: Final = {name.lower() for table in USES.values() for _, row in rows(table) for name in row.spellings}
OF_SPARK: Final = {"checkpointlocation", "path"}


def missing(text: str, page: Path = ROOT / "README.md") -> list[str]:
    """What ``text``, as a part of ``page``, names and is not there."""
    tests = (f"{file}::{test}" for file, test in NAMED.findall(text) if not is_test(file, test))
    links = (f"{file}#{heading}" for file, heading in LINK.findall(text) if not is_linked(page, file, heading))
    conditions = CONDITION.findall(text)
    options = OPTION.findall(text)
    return [
        *tests,
        *links,
        *(name for name in conditions if name not in NAMES and name not in ENVIRONMENT),
        *(name for name in options if name.lower() not in OPTIONS | OF_SPARK),
    ]


def is_test(file: str, test: str) -> bool:
    path = (TESTS / file).with_suffix(".py")
    return path.exists() and (not test or test in functions_of(path))


@cache
def functions_of(path: Path) -> frozenset[str]:
    module = ast.parse(path.read_text(encoding="utf-8"))
    return frozenset(node.name for node in module.body if isinstance(node, ast.FunctionDef))


def is_linked(page: Path, file: str, heading: str) -> bool:
    target = page.parent / file if file else page
    return target.exists() and (not heading or heading in anchors_of(target))


@cache
def anchors_of(page: Path) -> frozenset[str]:
    """As GitHub makes them of headings."""
    headings = HEADING.findall(page.read_text(encoding="utf-8"))
    return frozenset(re.sub(r"[^\w\- ]", "", one.lower()).strip().replace(" ", "-") for one in headings)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_page_names_only_what_is_there(page: Path) -> None:
    assert missing(page.read_text(encoding="utf-8"), page) == []


def test_pages_name_something_of_each_kind() -> None:
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    assert all(len(pattern.findall(text)) > 10 for pattern in (NAMED, LINK, CONDITION, OPTION))


ROW: Final = re.compile(r"(?m)^\| (\d+) \|.*$")


def test_each_case_of_hostile_input_names_a_test() -> None:
    page = (ROOT / "docs/dev/hostile-input.md").read_text(encoding="utf-8")
    assert [int(row[1]) for row in ROW.finditer(page)] == list(range(1, 22))
    assert [row[1] for row in ROW.finditer(page) if has_untested_parts(row[0])] == []


def has_untested_parts(row: str) -> bool:
    """Whether the rule has more parts, separated by semicolons, than tests in the next column."""
    _, _, rule, tests, _ = row.split(" | ")
    return sum(bool(test) for _, test in NAMED.findall(tests)) < len(rule.split("; "))


@pytest.mark.parametrize(("rule", "tests"), [("a", "`unit/test_a`"), ("a; b", "`unit/test_a::test_b`")])
def test_a_part_without_a_test_is_noticed(rule: str, tests: str) -> None:
    assert has_untested_parts(f"| 1 | case | {rule} | {tests} | - |")
    assert not has_untested_parts(f"| 1 | case | {rule} | `unit/test_a::test_b`, `unit/test_a::test_c` | - |")


HERE: Final = "architecture/test_named_in_docs"


@pytest.mark.parametrize(
    ("text", "missing_one"),
    [
        (f"`{HERE}.py::test_a_page_names_only_what_is_there`, `{HERE}`", []),
        (f"`{HERE}.py::test_renamed`", [f"{HERE}::test_renamed"]),
        ("`unit/test_nothing.py`", ["unit/test_nothing::"]),
        ("[a](DESIGN.md#packages) [b](https://example.org/c)", []),
        ("[a](docs/nothing.md) [b](DESIGN.md#no-heading)", ["docs/nothing.md#", "DESIGN.md#no-heading"]),
        ("[ROCKETMQ_DATA_LOSS.OFFSETS_UNAVAILABLE] ROCKETMQ_HOME", []),
        ("ROCKETMQ_DATA_LOSS, [ROCKETMQ_DATA_LOSS.NO_SUCH]", ["DATA_LOSS.NO_SUCH"]),
        ("[ROCKETMQ_NO_SUCH]", ["NO_SUCH"]),
        ('.option("SUBSCRIBE", "t").option("checkpointLocation", "c")', []),
        ('.option(\n  "subscribed", "t")', ["subscribed"]),
    ],
)
def test_what_is_deleted_is_noticed(text: str, missing_one: list[str]) -> None:
    assert missing(text) == missing_one


def deleted(paths: Iterable[Sequence[str]]) -> list[Path]:
    """Those of ``paths``, parts below the package, that begin with a package and are neither a module nor a folder."""
    package = ROOT / "rocketmq_spark"
    packages = {path.parent.name for path in package.glob("*/__init__.py")}
    named = (package.joinpath(*parts) for parts in paths if parts[0] in packages)
    return [path.relative_to(package) for path in named if not path.is_dir() and not path.with_suffix(".py").exists()]


def modules_deleted(text: str) -> list[str]:
    """Dotted names of modules in double backticks; what else has a dot there does not begin with a package of ours."""
    names = (name.split(".") for name in MODULE.findall(text))
    return [path.name for path in deleted(name for name in names if name[0] != "options")]  # values of options


def test_a_docstring_names_modules_that_are_there() -> None:
    files = (ROOT / "rocketmq_spark").rglob("*.py")
    missing_one = {file.name: modules_deleted(file.read_text(encoding="utf-8")) for file in files}
    assert {name: names for name, names in missing_one.items() if names} == {}
    assert modules_deleted("``wire.column_table`` ``wire.arrow.column_table`` ``socket.socket``") == ["column_table"]


# ------------------------------------------------------------------------------------------------ members, modules

MEMBER: Final = re.compile(r"`([A-Z]\w+)\.(\w+)(?:\([^`]*\))?`")
PATH: Final = re.compile(r"`((?:\w+/)*\w+)/(\w+?)(?:\.py)?`")


@cache
def members_of_classes() -> dict[str, frozenset[str]]:
    """By the name of each class of the package, what its body and its methods name: attributes are set in methods."""
    found: dict[str, set[str]] = {}
    for path in (ROOT / "rocketmq_spark").rglob("*.py"):
        for one in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(one, ast.ClassDef):
                found.setdefault(one.name, set()).update(names_in(one))
    return {name: frozenset(names) for name, names in found.items()}


def names_in(one: ast.ClassDef) -> Iterator[str]:
    for node in ast.walk(one):
        match node:
            case ast.FunctionDef(name=name) | ast.Name(id=name):
                yield name
            case ast.Attribute(attr=name):
                yield name


def members_deleted(text: str) -> list[str]:
    """Each ``Class.member`` in backticks whose class is ours, and has no such member; an inherited one would be named
    with its own class."""
    classes = members_of_classes()
    named = MEMBER.findall(text)
    return [f"{name}.{member}" for name, member in named if name in classes and member not in classes[name]]


def paths_deleted(text: str) -> list[str]:
    """Each ``room/module`` in backticks whose room is a package of ours, and has no such module, package or folder."""
    return [path.as_posix() for path in deleted([*room.split("/"), module] for room, module in PATH.findall(text))]


PROSE: Final = re.compile(r"```.*?```", re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_page_names_members_and_modules_that_are_there(page: Path) -> None:
    text = PROSE.sub("", page.read_text(encoding="utf-8"))
    assert [*members_deleted(text), *paths_deleted(text)] == []


@pytest.mark.parametrize(
    ("text", "missing_one"),
    [
        ("`Membership.rebalance()`, `RebalanceImpl.no_such()`, `OfNoRoom.no_such`", ["RebalanceImpl.no_such"]),
        ("`consumer/membership`, `source/stream/planning.py`, `wire/arrow`, `docs/nothing`", []),
        ("`consumer/nothing`, `source/stream/nothing.py`", ["consumer/nothing", "source/stream/nothing"]),
    ],
)
def test_a_member_or_module_that_is_deleted_is_noticed(text: str, missing_one: list[str]) -> None:
    assert [*members_deleted(text), *paths_deleted(text)] == missing_one
