"""The picture of a report: rows a second of everybody who read the base workloads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from connector_tests.benchmarks.figures import cases, contestants, rates, summary
from connector_tests.benchmarks.names import OURS
from connector_tests.benchmarks.run import Run

OUR_COLOUR: Final = "#d77310"
OTHER_COLOUR: Final = "#8c9aa8"
WIDTH_IN: Final = 9.0
BAR_IN: Final = 0.28
FRAME_IN: Final = 0.8


def draw(runs: Sequence[Run], file: Path) -> None:
    """A panel for each case, a bar for each reader; the line shows the slowest and the fastest round."""
    panels = {case: contestants(runs, "reading", case) for case in cases(runs, "reading")}
    if not panels:
        return
    heights = [BAR_IN * len(racing) + FRAME_IN for racing in panels.values()]
    figure = Figure(figsize=(WIDTH_IN, sum(heights)), layout="constrained")
    axes = figure.subplots(len(panels), 1, squeeze=False, height_ratios=heights)
    for panel, (case, racing) in zip(axes[:, 0], panels.items(), strict=True):
        draw_panel(panel, case, racing)
    figure.savefig(file, dpi=110)


def draw_panel(panel: Axes, case: str, racing: Mapping[str, Sequence[Run]]) -> None:
    for name, runs in racing.items():
        rate = summary(rates(runs))
        if rate is not None:
            spread = [[rate.median - rate.low], [rate.high - rate.median]]
            colour = OUR_COLOUR if name.startswith(OURS) else OTHER_COLOUR
            panel.barh(name, rate.median, xerr=spread, color=colour, ecolor="#404040")
    panel.invert_yaxis()
    panel.set_title(f"{case}: million rows a second", fontsize=10, loc="left")
    panel.spines[["top", "right"]].set_visible(False)
