"""Each pure module has a room of mutants and the tests that must kill them; what was measured is as it has to be."""

from __future__ import annotations

import tomllib
from collections import Counter

import pytest
from mutation_page import PINNED, ROOT, kept_results
from mutation_results import Reasons, modules_in, percent_killed

from connector_tests.architecture.test_layers import PACKAGE, is_listed_pure, module_name

WANTED_PERCENT = 90
ROOMS = tomllib.loads(PINNED.read_text(encoding="utf-8"))["room"]
RESULTS = kept_results()


NOT_JUDGED: dict[str, int] = {}
"""By room, how many survivors there are that nobody has killed or judged yet; the page says so of each."""


def test_each_pure_module_is_in_one_room_and_no_other_module_is() -> None:
    names = {module_name(path) for path in PACKAGE.rglob("*.py") if path.name != "__init__.py"}
    rooms_of = Counter(module for room in ROOMS.values() for module in modules_in(ROOT, room))
    assert rooms_of == Counter({name for name in names if is_listed_pure(name) and not name.endswith("_pb2")})


@pytest.mark.parametrize("name", ROOMS)
def test_what_a_room_names_is_there(name: str) -> None:
    room = ROOMS[name]
    assert [one for one in room["modules"] if not modules_in(ROOT, {"modules": [one]})] == []
    assert room["tests"]
    assert [test for test in room["tests"] if not (ROOT / "connector_tests" / test).is_file()] == []


def test_rooms_were_run_and_nothing_is_kept_of_a_room_that_is_no_more() -> None:
    assert RESULTS
    assert RESULTS.keys() - ROOMS.keys() == set()


@pytest.mark.parametrize("name", RESULTS)
def test_nearly_all_mutants_of_a_room_were_killed_and_the_others_are_judged(name: str) -> None:
    reasons = Reasons(tomllib.loads(PINNED.read_text(encoding="utf-8")))
    assert percent_killed(RESULTS[name].total) >= WANTED_PERCENT
    not_judged = [one for one in sorted(RESULTS[name].alive) if reasons.of(one) is None]
    assert len(not_judged) == NOT_JUDGED.get(name, 0), not_judged
