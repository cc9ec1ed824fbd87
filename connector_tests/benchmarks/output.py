"""The files of a benchmark: everything that was measured as JSON, the report, the chart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from connector_tests.benchmarks.chart import draw
from connector_tests.benchmarks.report import report
from connector_tests.benchmarks.results import as_json
from connector_tests.benchmarks.run import Failure, Run

FOLDER: Final = Path("docs/benchmarks")


def write(runs: Sequence[Run], failures: Sequence[Failure], environment: Mapping[str, Any], folder: Path) -> None:
    """``results.json``, ``README.md`` and ``rows-a-second.png``."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "results.json").write_text(as_json(runs, failures, environment), encoding="utf-8")
    chart = folder / "rows-a-second.png"
    draw(runs, chart)
    (folder / "README.md").write_text(report(runs, failures, environment, chart.name), encoding="utf-8")
