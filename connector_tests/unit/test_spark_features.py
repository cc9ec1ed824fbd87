"""The table of what each Spark has."""

from __future__ import annotations

import pytest
from spark_features import FEATURES, PYTHONS, SPARKS, Feature


@pytest.mark.parametrize(
    ("since", "cells"),
    [("4.0", ["yes"] * 4), ("4.2", ["no", "no", "yes", "yes"]), (None, ["no"] * 4)],
)
def test_feature_is_there_from_its_first_spark_on(since: str | None, cells: list[str]) -> None:
    feature = Feature("one", since, "another")
    assert [feature.cell(spark) for spark in SPARKS] == cells


def test_table_has_each_spark_and_only_what_differs_or_is_lacking() -> None:
    assert list(PYTHONS) == list(SPARKS)
    assert all("no" in map(feature.cell, SPARKS) and feature.instead for feature in FEATURES)
    assert len({feature.name for feature in FEATURES}) == len(FEATURES)
