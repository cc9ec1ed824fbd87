"""What the audience of the demo sees while it runs, and what is kept of it for the summary."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from rocketmq_spark.cli.demo_queries import Counted, Ended, News
from rocketmq_spark.cli.demo_report import Shares, Trigger, WindowTable, Written, cause_of

TABLE_EVERY_S: Final = 10.0
TABLE_WINDOWS: Final = 4


class DemoError(Exception):
    """The demo cannot go on; the text says why."""


@contextmanager
def step(doing: str) -> Iterator[None]:
    """Say what takes long, and how long it took."""
    print(f"{doing} ...", flush=True)
    begin_s = time.monotonic()
    yield
    print(f"    done in {time.monotonic() - begin_s:.1f} s", flush=True)


class Screen:
    """Prints lines, with the seconds since ``start_clock`` in front."""

    def __init__(self, shares: Shares) -> None:
        self.triggers: list[Trigger] = []
        self.billed: set[str] = set()
        self.shares = shares
        self.ended = 0
        self._table = WindowTable()
        self._table_shown_s = 0.0
        self._begin_s: float | None = None

    def start_clock(self) -> None:
        self._begin_s = time.monotonic()

    @property
    def elapsed_s(self) -> float:
        """0 before the clock was started."""
        return 0.0 if self._begin_s is None else time.monotonic() - self._begin_s

    def say(self, text: str) -> None:
        print(f"{self.elapsed_s:5.1f} s  {text}", flush=True)

    def show(self, news: News) -> None:
        """Raises DemoError for the news that a query has failed."""
        match news:
            case Trigger():
                self.triggers.append(news)
                self._show_trigger(news)
            case Written():
                self.billed.update(news.keys)
                self._say_of_rows(news)
            case Counted(member, cells):
                self._table.take(member, cells)
                if cells:
                    self._show_table_now_and_then()
            case Ended(failure):
                self.ended += 1
                if failure is not None:
                    raise DemoError(cause_of(failure))

    def show_left(self, member: str) -> None:
        """Its parts are others' now, or are nobody's until those say so."""
        self.shares.left(member)
        self._show_moved()

    def show_table(self, last: int | None = None) -> None:
        print("\n".join(f"         {line}" for line in self._table.lines(last)), flush=True)

    def _show_trigger(self, trigger: Trigger) -> None:
        self._say_of_rows(trigger)
        self.shares.hear(trigger)
        self._show_moved()

    def _show_moved(self) -> None:
        moved = self.shares.news()
        if moved is not None:
            self.say(moved)

    def _say_of_rows(self, news: Trigger | Written) -> None:
        if news.row_count:
            self.say(news.line())

    def _show_table_now_and_then(self) -> None:
        if self.elapsed_s - self._table_shown_s >= TABLE_EVERY_S:
            self._table_shown_s = self.elapsed_s
            self.show_table(TABLE_WINDOWS)
