"""Contestants take turns, so that whatever the machine does meanwhile happens to all of them."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack
from typing import TYPE_CHECKING, Final

from connector_tests.benchmarks.run import Contestant, Failure, Outcome, Run, failure_of

if TYPE_CHECKING:
    from tqdm import tqdm

SECONDS_BETWEEN_LINES_IN_A_LOG: Final = 10.0


def alternate(
    part: str, case: str, contestants: Mapping[str, Contestant], rounds: int, *, warm_up: bool = True
) -> Iterator[Outcome]:
    """Each contestant once a round, before that once for nothing: caches and compilers are warm then.

    One that fails takes no part any more.
    """
    racing = dict(contestants)
    with progress_bar(f"{part}: {case}", (rounds + warm_up) * len(racing)) as bar:
        for number in range(0 if warm_up else 1, rounds + 1):
            for name, contestant in list(racing.items()):
                try:
                    figures = contestant()
                except Exception as error:  # noqa: BLE001  # whatever it is, the others go on
                    del racing[name]
                    yield failure_of(f"{name} ({part}: {case})", error)
                else:
                    if number:
                        yield Run(part, case, name, number, figures)
                bar.update()


def entered(
    resources: ExitStack, racing: AbstractContextManager[Mapping[str, Contestant]], name: str
) -> tuple[dict[str, Contestant], list[Failure]]:
    """Contestants that are there as long as ``resources`` are; or why there are none."""
    try:
        return dict(resources.enter_context(racing)), []
    except Exception as error:  # noqa: BLE001  # whatever it is, the others go on
        return {}, [failure_of(name, error)]


def progress_bar(what: str, runs: int) -> tqdm:
    """Drawn again after every run on a terminal, elsewhere seldom: each time is a line there."""
    from tqdm import tqdm  # who only names contestants does not need it

    seconds_between = 0.1 if sys.stderr.isatty() else SECONDS_BETWEEN_LINES_IN_A_LOG
    return tqdm(total=runs, desc=what, unit="run", mininterval=seconds_between)
