"""Drawing of a lag history. Requires the package's extra ``plot``."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC
from io import BytesIO
from math import nan
from typing import Any, Final

import matplotlib.dates
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rocketmq_spark.metrics.lag_series import LagHistory, LagSeries, largest

MAX_LINES: Final = 20
"""Maximum number of lines: more are not distinguishable."""

COLOURS: Final = 10
"""Number of colours before they repeat, in matplotlib's default style."""

_DATES: Final[Any] = matplotlib.dates
"""Matplotlib has no types of it."""

WIDTH_IN: Final = 9.0
HEIGHT_IN: Final = 4.5


class LagFigure(Figure):
    """A figure that notebooks show as the value of a cell, also without ``%matplotlib inline``. pyplot does not manage
    it: nothing has to be closed."""

    def _repr_png_(self) -> bytes:
        """Return the figure as PNG. IPython calls it."""
        image = BytesIO()
        self.savefig(image, format="png")
        return image.getvalue()


def draw_lag(history: LagHistory, name: str) -> LagFigure:
    """Draw the lag of the query ``name``: one axes with a line for each series, those with the largest lag if there are
    more than MAX_LINES. Lines have gaps where the lag is None. Without a series the axes has a text instead."""
    figure = LagFigure(figsize=(WIDTH_IN, HEIGHT_IN), layout="constrained")
    axes = figure.subplots()
    shown = largest(history.series, MAX_LINES)
    count, total = len(shown), len(history.series)
    limited = f": the {count} largest of {total}" if count < total else ""
    axes.set_title(f"Lag of query {name}{limited}", loc="left", parse_math=False)
    axes.set_xlabel("time (UTC)")
    axes.set_ylabel("lag (messages)")
    axes.spines[["top", "right"]].set_visible(False)
    if shown:
        _draw_lines(axes, history, shown)
    else:
        events = len(history.times)
        text = f"No lag in the last {events} progress events" if events else "The query has no progress yet"
        axes.text(0.5, 0.5, text, transform=axes.transAxes, ha="center", va="center")
    return figure


def _draw_lines(axes: Axes, history: LagHistory, shown: Sequence[LagSeries]) -> None:
    """Draw a line for each of ``shown``, with the time axis and the legend."""
    times = np.array(history.times, dtype=object)
    for number, series in enumerate(shown):
        values = [nan if messages is None else messages for messages in series.messages]
        style = "solid" if number < COLOURS else "dashed"
        axes.plot(times, values, marker=".", linestyle=style, label=series.label)
    locator = _DATES.AutoDateLocator(tz=UTC)
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(_DATES.ConciseDateFormatter(locator, tz=UTC))
    axes.set_ylim(bottom=0, top=max(1, axes.get_ylim()[1]))
    _draw_legend(axes)


def _draw_legend(axes: Axes) -> None:
    """Draw a legend, right of the lines, with the labels of all lines as they are. Matplotlib omits labels that begin
    with "_", and reads text between dollar signs as a formula; names of topics and brokers may have both."""
    lines = axes.get_lines()
    numbers = [str(number) for number in range(len(lines))]
    legend = axes.legend(lines, numbers, fontsize="small", loc="upper left", bbox_to_anchor=(1, 1), frameon=False)
    for text, line in zip(legend.get_texts(), lines, strict=True):
        text.set_parse_math(False)
        text.set_text(str(line.get_label()))
