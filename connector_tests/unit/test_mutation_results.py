"""What is kept of mutants, group by group, and the page of the counts."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from mutate import copy_source
from mutation_page import page
from mutation_results import (
    Change,
    Measured,
    Reasons,
    counts_of,
    decoded,
    decoded_counts,
    defines_functions,
    digest_of,
    encoded,
    encoded_counts,
    group_tests,
    modules_in,
    percent_killed,
)

LESS = Change("p.a.count", "return n < 1", "return n <= 1")
TEXT = Change("p.b.tell", 'say("utf-8")', 'say("UTF-8")')
GROUP = Measured(
    "2026-11-23",
    "0123456789ab",
    {"p.a": Counter(killed=7, timeout=2, survived=1), "p.b": Counter({"killed": 4, "no tests": 1})},
    frozenset({LESS, TEXT}),
)
REASONS = Reasons(
    {
        "survivor": [{"function": "p.a.count", "before": LESS.before, "after": LESS.after, "reason": "No n is 1."}],
        "kind": [{"before": '.*"utf-8".*', "after": '.*"UTF-8".*', "reason": "The same encoding."}],
    }
)
COUNTS = counts_of(GROUP, ["p.a", "p.b", "p.empty"], REASONS)
GROUPS = {"one": ["p.a", "p.b", "p.empty"], "two": ["p.c"]}


def test_what_is_kept_is_what_was_measured() -> None:
    assert decoded(encoded({"one": GROUP})) == {"one": GROUP}


def test_counts_have_no_survivors_but_how_many_lack_a_reason() -> None:
    other = Change("p.b.tell", "a = 1", "a = 2")
    counts = counts_of(replace(GROUP, alive=frozenset({LESS, TEXT, other})), ["p.a", "p.b", "p.empty"], REASONS)
    assert (counts.mutants, counts.unexplained) == ({"p.a": 10, "p.b": 5, "p.empty": 0}, 1)
    assert COUNTS.unexplained == 0
    assert decoded_counts(encoded_counts({"one": counts})) == {"one": counts}
    assert "tell" not in encoded_counts({"one": counts})


def test_a_group_that_is_measured_again_leaves_the_others_as_they_are_kept() -> None:
    before = encoded({"two": GROUP, "one": GROUP})
    after = encoded({**decoded(before), "two": Measured("2026-11-24", "ba9876543210", {}, frozenset())})
    assert decoded(after)["one"] == GROUP
    assert after.startswith(before[: before.index('"two"')])


def test_a_mutant_without_end_is_killed_and_one_without_a_test_is_not() -> None:
    assert percent_killed(Counter({"killed": 5, "timeout": 3, "survived": 1, "no tests": 1})) == 80
    assert percent_killed(Counter()) == 0


def test_a_survivor_has_a_reason_of_its_own_or_of_its_kind_or_none() -> None:
    assert REASONS.of(LESS) == "No n is 1."
    assert REASONS.of(TEXT) == "The same encoding."
    assert REASONS.of(Change("p.a.other", LESS.before, LESS.after)) is None
    assert REASONS.of(Change("p.a.count", LESS.before, "return n > 1")) is None


def test_a_reason_is_stale_when_its_group_was_run_and_it_did_not_survive() -> None:
    assert REASONS.stale(["p.a"], frozenset()) == [LESS]
    assert REASONS.stale(["p.a"], frozenset({LESS})) == []
    assert REASONS.stale(["p.b", "p.a.b"], frozenset()) == []


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """Of two pure modules and a shell in a folder, one beside it, and one that only begins like that."""
    for name in ("__init__", "wire/__init__", "wire/codes", "wire/fields", "wire/sockets", "model", "model_of"):
        file = tmp_path / "rocketmq_spark" / f"{name}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"NAME = {name!r}\n", encoding="utf-8")
    contract = '[[tool.importlinter.contracts]]\ntype = "pure"\nshells = ["rocketmq_spark.wire.sockets"]\n'
    (tmp_path / "pyproject.toml").write_text(contract, encoding="utf-8")
    return tmp_path


def test_a_group_has_the_modules_that_it_names_and_those_of_a_whole_folder(package: Path) -> None:
    group = {"modules": ["rocketmq_spark.wire.*", "rocketmq_spark.model"]}
    names = ["rocketmq_spark.model", "rocketmq_spark.wire.codes", "rocketmq_spark.wire.fields"]
    assert modules_in(package, group) == names


def test_a_group_is_held_by_tests_called_after_its_modules_and_those_it_names(package: Path) -> None:
    for name in ("unit/test_codes.py", "properties/test_codes.py", "unit/test_model.py", "unit/test_wire.py"):
        file = package / "connector_tests" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("", encoding="utf-8")
    group = {"modules": ["rocketmq_spark.wire.*"]}
    assert group_tests(package, group) == ["unit/test_codes.py", "properties/test_codes.py"]
    assert group_tests(package, group | {"tests": ["oracle/test_codes.py"]})[2:] == ["oracle/test_codes.py"]


def test_the_digest_is_another_when_a_module_is_another_or_there_is_one_more(package: Path) -> None:
    two = ["rocketmq_spark.model", "rocketmq_spark.wire.codes"]
    before = digest_of(package, two)
    assert digest_of(package, two[::-1]) == before
    assert digest_of(package, [*two, "rocketmq_spark.wire.fields"]) != before
    (package / "rocketmq_spark/wire/fields.py").write_text("NAME = None\n", encoding="utf-8")
    assert digest_of(package, two) == before
    (package / "rocketmq_spark/model.py").write_text("NAME = None\n", encoding="utf-8")
    assert digest_of(package, two) != before


def test_a_module_that_defines_functions_is_distinguished_from_one_that_does_not(package: Path) -> None:
    (package / "rocketmq_spark/model.py").write_text("class Model:\n    def name(self): ...\n", encoding="utf-8")
    names = ("rocketmq_spark.model", "rocketmq_spark.model_of")
    assert [defines_functions(package, name) for name in names] == [True, False]


def test_the_page_has_each_group_and_states_of_one_that_it_was_not_run() -> None:
    lines = page(GROUPS, {"one": COUNTS}, {}).splitlines()
    assert "| one | 3 | 15 | 13 | 87 % | 2026-11-23 | `0123456789ab` |" in lines
    assert "| two | 1 | not run | | | | |" in lines
    reported = "1 of 2 groups were run: 15 mutants: 11 killed, 1 no tests, 1 survived, 2 timeout; 86.7 % killed."
    assert reported in lines


def test_the_page_names_modules_that_were_not_measured_and_those_without_mutants() -> None:
    groups = {"one": ["p.a", "p.b", "p.empty", "p.new", "p.table"]}
    *_, line = page(groups, {"one": COUNTS}, {"p.empty": "a protocol"}, {"p.table"}).splitlines()
    assert line == "Not measured yet: `p.new`. Without a mutant: `p.empty` (a protocol)."
    *_, line = page(GROUPS, {"one": COUNTS}, {}).splitlines()
    assert line == "Not measured yet: no module. Without a mutant: `p.empty` (no reason is known)."


def test_what_was_kept_of_a_group_that_is_no_more_is_not_counted() -> None:
    assert "0 of 2 groups were run: 0 mutants" in page(GROUPS, {"three": COUNTS}, {})


def test_a_copy_of_the_project_omits_bytecode_that_the_demo_is_writing_beside_it(tmp_path: Path) -> None:
    """The demo of a clean clone compiles each module that it imports, and renames the file when it is written."""
    source, target = tmp_path / "package", tmp_path / "copy"
    source.mkdir()
    for name in ("a.py", "a.cpython-311.pyc"):
        (source / name).touch()
    (source / "b.cpython-311.pyc.140212").symlink_to(tmp_path / "renamed")
    copy_source(source, target)
    assert {path.name for path in target.iterdir()} == {"a.py", "a.cpython-311.pyc"}
    copy_source(source / "a.py", target / "c.py")
    assert (target / "c.py").is_file()
