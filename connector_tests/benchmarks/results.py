"""Everything that was measured, as JSON. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from connector_tests.benchmarks.run import Failure, Run

DIGITS: Final = 6


def as_json(runs: Sequence[Run], failures: Sequence[Failure], environment: Mapping[str, Any]) -> str:
    """A line for each run."""
    head = {**environment, "failures": [asdict(failure) for failure in failures]}
    lines = [json.dumps(_short(run)) for run in runs]
    return json.dumps(head, indent=1)[:-2] + ',\n "runs": [\n' + ",\n".join(lines) + "\n ]\n}\n"


def _short(run: Run) -> dict[str, Any]:
    figures = {name: round(value, DIGITS) for name, value in run.figures.items()}
    return {**asdict(run), "figures": figures}
