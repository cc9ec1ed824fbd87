"""Contestants take turns, so that whatever the machine does meanwhile happens to all of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tqdm import tqdm

from connector_tests.benchmarks.run import Contestant, Outcome, Run, failure_of


def alternate(
    part: str, case: str, contestants: Mapping[str, Contestant], rounds: int, *, warm_up: bool = True
) -> Iterator[Outcome]:
    """Each contestant once a round, before that once for nothing: caches and compilers are warm then.

    One that fails takes no part any more.
    """
    racing = dict(contestants)
    with tqdm(total=(rounds + warm_up) * len(racing), desc=f"{part}: {case}", unit="run") as bar:
        for number in range(0 if warm_up else 1, rounds + 1):
            for name, contestant in list(racing.items()):
                try:
                    figures = contestant()
                except Exception as error:  # noqa: BLE001 - whatever it is, the others go on
                    del racing[name]
                    yield failure_of(f"{name} ({part}: {case})", error)
                else:
                    if number:
                        yield Run(part, case, name, number, figures)
                bar.update()
