"""The planner (``source/stream``) reaches no part behind a membership's client or offset store."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import rocketmq_spark

STREAM = Path(rocketmq_spark.__file__).parent / "source" / "stream"
PARTS = {"client", "slave_reads", "store"}


def reaches(source: str) -> set[str]:
    """Return the expressions that end at one of ``PARTS``, of something other than ``self``."""
    return {
        ast.unparse(node)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Attribute) and node.attr in PARTS and ast.unparse(node.value) != "self"
    }


def test_planner_reaches_no_part_behind_a_membership() -> None:
    found = {path.name: parts for path in STREAM.rglob("*.py") if (parts := reaches(path.read_text(encoding="utf-8")))}
    assert found == {}


@pytest.mark.parametrize("text", ["membership.client.query_bounds()", "m.offsets.store", "client = member.client"])
def test_reach_behind_a_membership_is_found(text: str) -> None:
    assert reaches(text) != set()
