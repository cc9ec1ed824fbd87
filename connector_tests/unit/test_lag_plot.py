"""``rocketmq_spark.plot_lag``: a query in, a figure out."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from connector_tests.unit.test_lag_series import by_queue, progresses
from rocketmq_spark import plot_lag

DRAWING = "rocketmq_spark.metrics.lag_figure"


def query(*fields: Any, name: str | None = None) -> Any:
    """What a query has, in classic Spark and with Spark Connect."""
    return SimpleNamespace(recentProgress=progresses(*fields), name=name, id="7f1c")


@pytest.mark.parametrize(("by", "labels"), [("topic", ["orders"]), ("queue", ["orders@broker-a:0"])])
def test_the_lag_of_a_query_is_drawn_by_topic_or_queue(by: Any, labels: list[str]) -> None:
    figure = plot_lag(query(by_queue(orders=[3]), by_queue(orders=[4])), by=by)
    assert isinstance(figure, Figure)
    lines = figure.axes[0].get_lines()
    assert [(line.get_label(), np.asarray(line.get_ydata()).tolist()) for line in lines] == [(labels[0], [3, 4])]


def test_topics_are_drawn_by_default() -> None:
    assert [line.get_label() for line in plot_lag(query(by_queue(orders=[3, 4]))).axes[0].get_lines()] == ["orders"]


@pytest.mark.parametrize(("name", "shown"), [("orders-app", "orders-app"), (None, "7f1c")])
def test_the_title_has_the_name_of_the_query_or_its_id(name: str | None, shown: str) -> None:
    title = plot_lag(query(by_queue(orders=[3]), name=name)).axes[0].get_title(loc="left")
    assert title == f"Lag of query {shown}"


def test_another_subject_than_topic_or_queue_is_an_error() -> None:
    by: Any = "broker"
    with pytest.raises(ValueError, match=r"^'by' must be 'topic' or 'queue', not 'broker'$"):
        plot_lag(query(), by=by)


def test_without_matplotlib_the_error_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, DRAWING, raising=False)
    for name in [name for name in sys.modules if name.partition(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"matplotlib.*pip install 'rocketmq-spark\[plot\]'") as raised:
        plot_lag(query())
    assert raised.value.name == "matplotlib"


def test_another_missing_module_keeps_its_own_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, DRAWING, None)
    with pytest.raises(ModuleNotFoundError) as raised:
        plot_lag(query())
    assert raised.value.name == DRAWING
