"""Tests without a broker wait for events, never for time: no call of ``sleep`` in them."""

from __future__ import annotations

import ast
from pathlib import Path

TESTS = Path(__file__).parents[1]
WITHOUT_A_BROKER = ("unit", "properties", "vectors")


def sleeps(source: str) -> list[int]:
    calls = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call))
    return [call.lineno for call in calls if _name(call.func) == "sleep"]


def _name(called: ast.expr) -> str:
    return called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")


def test_tests_without_a_broker_do_not_sleep() -> None:
    files = [file for kind in WITHOUT_A_BROKER for file in (TESTS / kind).rglob("*.py")]
    assert len(files) > 50
    assert {file.name: lines for file in files if (lines := sleeps(file.read_text(encoding="utf-8")))} == {}


def test_a_sleep_is_found() -> None:
    assert sleeps("import time\n\ntime.sleep(1)\nfrom time import sleep\nsleep(2)\n") == [3, 5]
