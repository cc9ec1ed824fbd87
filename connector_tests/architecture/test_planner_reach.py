"""The planner (``source/stream``) reaches no further into a membership than its parts."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import rocketmq_spark

STREAM = Path(rocketmq_spark.__file__).parent / "source" / "stream"
REACH = re.compile(r"membership(\.\w+){3}")


def reaches(source: str) -> set[str]:
    """Return the expressions that reach behind a part of a membership."""
    nodes = (ast.unparse(node) for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Attribute))
    return {text for text in nodes if REACH.fullmatch(text)}


def test_planner_reaches_no_part_behind_a_part_of_a_membership() -> None:
    found = {path.name: parts for path in STREAM.rglob("*.py") if (parts := reaches(path.read_text(encoding="utf-8")))}
    assert found == {}


def test_reach_behind_a_part_of_a_membership_is_found() -> None:
    source = "membership.client.slave_reads.require_masters(membership.offsets.persist())"
    assert reaches(source) == {"membership.client.slave_reads.require_masters"}
