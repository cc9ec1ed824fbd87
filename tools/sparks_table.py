"""The table of docs/compatibility.md: what each Spark has, and what holds without it."""

from __future__ import annotations

from markdown_table import table
from spark_features import FEATURES, PYTHONS, SPARKS


def sparks_table() -> str:
    """In Markdown."""
    head = ("", *(f"Spark {spark}" for spark in SPARKS), "without it")
    lines = ((one.name, *map(one.cell, SPARKS), one.instead) for one in FEATURES)
    return table(head, [("Python", *PYTHONS.values(), ""), *lines])
