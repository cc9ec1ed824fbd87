"""The picture of a query's lag: lines, labels and gaps."""

from __future__ import annotations

from datetime import UTC, datetime
from math import isnan

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from connector_tests.support.leaks import LeakCheck
from rocketmq_spark.metrics.lag_figure import MAX_LINES, draw_lag
from rocketmq_spark.metrics.lag_series import LagHistory, LagSeries

AT = tuple(datetime(2026, 1, 5, 14, 5, second, tzinfo=UTC) for second in range(3))
TWO = (LagSeries("books", (1, 2, 3)), LagSeries("orders", (None, 7, 0)))


def axes_of(figure: Figure) -> Axes:
    (axes,) = figure.axes
    return axes


def legend_of(axes: Axes) -> list[str]:
    legend = axes.get_legend()
    return [] if legend is None else [text.get_text() for text in legend.get_texts()]


def values_of(line: Line2D) -> list[float]:
    return [float(value) for value in np.asarray(line.get_ydata()).tolist()]


def test_each_series_is_a_line_with_its_times_and_messages() -> None:
    axes = axes_of(draw_lag(LagHistory(AT, TWO), "orders-app"))
    books, orders = axes.get_lines()
    assert (books.get_label(), values_of(books)) == ("books", [1, 2, 3])
    assert (orders.get_label(), values_of(orders)[1:]) == ("orders", [7, 0])
    assert isnan(values_of(orders)[0])
    assert np.asarray(books.get_xdata()).tolist() == list(AT)


def test_axes_have_title_and_units_and_begin_at_no_lag() -> None:
    axes = axes_of(draw_lag(LagHistory(AT, TWO), "orders-app"))
    assert axes.get_title(loc="left") == "Lag of query orders-app"
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("time (UTC)", "lag (messages)")
    assert axes.get_ylim()[0] == 0
    assert legend_of(axes) == ["books", "orders"]


def test_lags_of_zero_have_a_range_of_values() -> None:
    bottom, top = axes_of(draw_lag(LagHistory(AT, (LagSeries("orders", (0, 0, 0)),)), "q")).get_ylim()
    assert (bottom, top >= 1) == (0, True)


@pytest.fixture(scope="module")
def fonts() -> None:
    """Matplotlib keeps the files of fonts open that it has drawn with."""
    with LeakCheck.by_process():
        draw_lag(LagHistory(AT, TWO), "q")._repr_png_()


@pytest.mark.parametrize("name", ["_orders", "$orders$", r"a$\b$"])
def test_names_are_shown_as_they_are(name: str, fonts: None) -> None:
    figure = draw_lag(LagHistory(AT, (LagSeries(name, (1, 2, 3)),)), name)
    figure._repr_png_()
    axes = axes_of(figure)
    assert axes.get_title(loc="left") == f"Lag of query {name}"
    assert legend_of(axes) == [name]


@pytest.mark.parametrize(
    ("times", "text"),
    [((), "The query has no progress yet"), (AT, "No lag in the last 3 progress events")],
)
def test_without_lag_the_figure_states_that(times: tuple[datetime, ...], text: str) -> None:
    axes = axes_of(draw_lag(LagHistory(times, ()), "q"))
    assert [one.get_text() for one in axes.texts] == [text]
    assert (axes.get_lines()[:], axes.get_legend()) == ([], None)


def test_of_many_series_those_with_the_largest_lag_are_drawn() -> None:
    series = tuple(LagSeries(f"q{number}", (number, 0, 0)) for number in range(MAX_LINES + 5))
    axes = axes_of(draw_lag(LagHistory(AT, series), "q"))
    assert legend_of(axes) == [f"q{number}" for number in range(5, MAX_LINES + 5)]
    assert axes.get_title(loc="left") == "Lag of query q: the 20 largest of 25"
    styles = {(line.get_color(), line.get_linestyle()) for line in axes.get_lines()}
    assert len(styles) == MAX_LINES


def test_a_notebook_shows_the_figure_as_png(fonts: None) -> None:
    assert draw_lag(LagHistory(AT, TWO), "q")._repr_png_().startswith(b"\x89PNG")
