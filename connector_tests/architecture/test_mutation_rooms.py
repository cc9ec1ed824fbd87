"""Each pure module has a room of mutants and the tests that must kill them; what was measured is as it has to be."""

from __future__ import annotations

import tomllib
from collections import Counter

import pytest
from mutation_page import PINNED, ROOT, kept_counts, without_mutants
from mutation_results import modules_in, percent_killed

from connector_tests.architecture.test_layers import PACKAGE, is_pure, module_name

TARGET_PERCENT = 90
PINNINGS = tomllib.loads(PINNED.read_text(encoding="utf-8"))
ROOMS = PINNINGS["room"]
COUNTS = kept_counts()
WITHOUT_ROOM = {
    "rocketmq_spark._version": "has no function",
    "rocketmq_spark.cli.main": "is pure but for the subcommands that it imports by their names",
}


def test_each_pure_module_is_in_one_room_and_no_other_module_is() -> None:
    names = {module_name(path) for path in PACKAGE.rglob("*.py") if path.name != "__init__.py"}
    rooms_of = Counter(module for room in ROOMS.values() for module in modules_in(ROOT, room))
    pure = {name for name in names - WITHOUT_ROOM.keys() if is_pure(name) and not name.endswith("_pb2")}
    assert rooms_of == Counter(pure)


@pytest.mark.parametrize("name", ROOMS)
def test_what_a_room_names_is_there(name: str) -> None:
    room = ROOMS[name]
    assert [one for one in room["modules"] if not modules_in(ROOT, {"modules": [one]})] == []
    assert room["tests"]
    assert [test for test in room["tests"] if not (ROOT / "connector_tests" / test).is_file()] == []


def test_rooms_were_run_and_nothing_is_kept_of_a_room_that_is_no_more() -> None:
    assert COUNTS
    assert COUNTS.keys() - ROOMS.keys() == set()


@pytest.mark.parametrize("name", COUNTS)
def test_nearly_all_mutants_of_a_room_were_killed_and_the_others_are_judged(name: str) -> None:
    assert percent_killed(COUNTS[name].statuses) >= TARGET_PERCENT
    assert COUNTS[name].unexplained == 0


def test_functions_without_a_mutant_have_a_reason() -> None:
    assert set(without_mutants(COUNTS)) == PINNINGS["without_mutants"].keys()
