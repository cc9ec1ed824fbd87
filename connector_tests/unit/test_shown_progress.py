"""What people see of a query's progress, whatever the Spark."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from rocketmq_spark import progress_of

OURS = {"lag": 3, "lagByQueue": {}, "outages": [], "control": {"folder": "f", "host": "h"}}
PLACE: dict[str, Any] = {"v": 1, "queues": {"orders": {"broker-a": {"0": [0, 5, 1]}}}}


def progress(*latest_offsets: Any) -> dict[str, Any]:
    """As a query and a listener have it: PySpark's classes of these are dicts."""
    return {"sources": [{"latestOffset": one} for one in latest_offsets]}


@pytest.mark.parametrize(
    ("latest_offset", "shown"),
    [
        pytest.param(json.dumps(OURS), OURS, id="ours"),
        pytest.param(OURS, OURS, id="ours, of a progress that was stored as JSON"),
        pytest.param("null", {}, id="a batch that a restart has read again"),
        pytest.param(None, {}, id="nothing"),
        pytest.param("{'format': 1, 'positions': {}}", {}, id="Spark 4.1, which prints a Python dict"),
        pytest.param(str(PLACE | {"shown": OURS}), OURS, id="Spark 4.1, ours"),
        pytest.param(str(PLACE), {}, id="Spark 4.1, ours, planned by a newer Spark"),
        pytest.param(PLACE | {"shown": OURS}, OURS, id="Spark 4.1, of a progress that was stored as JSON"),
        pytest.param("{'logOffset': [None, True]} + x", {}, id="another source, no value at all"),
        pytest.param("17", {}, id="another source, a number"),
        pytest.param('{"orders": {"0": 12}}', {}, id="another source, an object"),
    ],
)
def test_what_a_source_shows_is_a_dict_whatever_the_progress_has(latest_offset: Any, shown: dict[str, Any]) -> None:
    assert progress_of(progress(latest_offset)) == [shown]
    assert progress_of(progress(json.dumps(OURS), latest_offset)) == [OURS, shown]


def test_a_query_shows_its_last_progress_and_none_before_the_first() -> None:
    before: Any = SimpleNamespace(lastProgress=None)
    after: Any = SimpleNamespace(lastProgress=progress(json.dumps(OURS)))
    assert (progress_of(before), progress_of(after)) == ([], [OURS])


def test_a_progress_that_is_no_dict_shows_its_own_fields() -> None:
    event: Any = SimpleNamespace(sources=[SimpleNamespace(latestOffset=json.dumps(OURS))])
    assert progress_of(event) == [OURS]
