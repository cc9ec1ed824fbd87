"""A query that shares messages, without Spark: the source's own reader, driven as Spark's micro-batches drive it.

What Spark keeps in its checkpoint and what a sink keeps that replaces a batch by its number are files of a folder, so a
process can be killed at any moment and started again. As a program: see ``main``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, Final, NamedTuple

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows

from connector_tests.support.streams import TIMEOUT_S
from rocketmq_spark.source.datasource import RocketMQDataSource
from rocketmq_spark.source.pop.pop_reader import RocketMQPopReader
from rocketmq_spark.source.schema import default_schema

REPOSITORY: Final = Path(__file__).parents[2]
TO_THE_END: Final = "to the end"
UNTIL_STOPPED: Final = "until told"
LOGS: Final = ("offsets", "out", "commits")
PLACE: Final = ("queueId", "queueOffset", "reconsumeTimes")
PAUSE_S: Final = 0.03
"""After each step of a batch, so that whoever kills at random hits each of them."""

Value = dict[str, Any]


class Place(NamedTuple):
    """Where a message was read: ``attempt`` is 0 in its topic, and above that in the group's retry topic."""

    queue_id: int
    offset: int
    attempt: int


class Batch(NamedTuple):
    """What the sink has of a micro-batch, and since when, unix seconds. ``places``: one for each body."""

    number: int
    bodies: list[str]
    places: list[Place]
    written_s: float


class MicroBatches:
    """Spark's steps, one after another: what comes next is logged, read, written, committed, and then proven."""

    def __init__(self, folder: Path, options: Mapping[str, str], *, is_available_now: bool) -> None:
        self._folder = folder
        self._is_available_now = is_available_now
        max_offsets = options.get("maxOffsetsPerTrigger")
        self._limit: ReadLimit = ReadMaxRows(int(max_offsets)) if max_offsets else ReadAllAvailable()
        reader = RocketMQDataSource(dict(options)).streamReader(default_schema())
        assert isinstance(reader, RocketMQPopReader)
        self._reader = reader
        for log in LOGS:
            (folder / log).mkdir(exist_ok=True)

    def run(self) -> None:
        """Until there is nothing more, or until the folder has a file ``stop``."""
        self._reader.getDefaultReadLimit()
        if self._is_available_now:
            self._reader.prepareForTriggerAvailableNow()
        number, end = self._begin()
        while not (self._folder / "stop").exists():
            start, end = end, json.loads(json.dumps(self._reader.latestOffset(end, self._limit)))
            self._print_counts()
            if end != start:
                number += 1
                self._put("offsets", number, end)
                self._do_batch(number, start, end)
            elif self._is_available_now:
                break
        self._reader.stop()

    def _begin(self) -> tuple[int, Value]:
        """The last batch that is logged, done again if it is not committed."""
        number = last_in(self._folder / "offsets")
        end = self._logged(number)
        if last_in(self._folder / "commits") < number:
            self._do_batch(number, self._logged(number - 1), end)
        return number, end

    def _logged(self, number: int) -> Value:
        if number == 0:
            return self._reader.initialOffset()
        logged: Value = json.loads((self._folder / "offsets" / str(number)).read_text())
        return logged

    def _do_batch(self, number: int, start: Value, end: Value) -> None:
        partitions = self._reader.partitions(start, end)
        batches = [batch for partition in partitions for batch in self._reader.read(partition)]
        bodies = [body.decode() for batch in batches for body in batch.column("body").to_pylist()]
        places = [
            place for batch in batches for place in zip(*(batch.column(of).to_pylist() for of in PLACE), strict=True)
        ]
        self._put("out", number, {"bodies": bodies, "places": places})
        self._put("commits", number, {})

    def _put(self, log: str, number: int, value: Value) -> None:
        time.sleep(PAUSE_S)
        put(self._folder / log / str(number), value)
        time.sleep(PAUSE_S)

    def _print_counts(self) -> None:
        put(self._folder / "counts", self._reader.reportLatestOffset() or {})


def put(file: Path, value: Value) -> None:
    """There from one moment to the next."""
    unfinished = file.with_name(f".{file.name}")
    unfinished.write_text(json.dumps(value))
    unfinished.replace(file)


def last_in(log: Path) -> int:
    """The number of the last batch; 0: there is none."""
    return max((int(entry.name) for entry in log.glob("[0-9]*")), default=0)


class MessageMember:
    """Such a query; each start is a process of its own."""

    def __init__(self, folder: Path, options: Mapping[str, str]) -> None:
        self._folder = folder
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None
        self._batches: dict[tuple[str, int], Batch] = {}
        folder.mkdir(parents=True)

    def start(self, how: str = UNTIL_STOPPED) -> None:
        for file in ("stop", "counts"):
            (self._folder / file).unlink(missing_ok=True)
        arguments = [f"{name}={value}" for name, value in self._options.items()]
        command = [sys.executable, "-m", __name__, str(self._folder), how, *arguments]
        settings = {"PYTHONPATH": str(REPOSITORY), "TMPDIR": str(self._folder)}
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                command, env={**os.environ, **settings}, stdout=log, stderr=log, cwd=self._folder
            )

    def kill(self) -> None:
        """SIGKILL. May be called again."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def stop(self) -> None:
        """After the batch that is running; what is in no batch is released."""
        (self._folder / "stop").touch()
        self._wait()

    def run_to_end(self) -> None:
        """Read what is there."""
        self.start(TO_THE_END)
        self._wait()

    def _wait(self) -> None:
        assert self._process is not None
        assert self._process.wait(TIMEOUT_S) == 0, self.log()

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def has_begun(self) -> bool:
        """Whether it has looked for messages once at least."""
        return (self._folder / "counts").exists()

    def batches(self) -> list[Batch]:
        return [self._batch(file) for file in (self._folder / "out").glob("[0-9]*")]

    def _batch(self, file: Path) -> Batch:
        """Parsed once, as whoever waits for a batch reads all of them again and again. What a batch that is done again
        has written has another time."""
        key = file.name, file.stat().st_mtime_ns
        if key not in self._batches:
            self._batches[key] = _read_batch(file)
        return self._batches[key]

    def bodies(self) -> list[str]:
        return [body for batch in self.batches() for body in batch.bodies]

    def printed(self, what: str) -> int:
        """By the last query progress."""
        return int(json.loads((self._folder / "counts").read_text())[what])

    def last_logged(self) -> int:
        """The number of its last batch."""
        return last_in(self._folder / "offsets")

    def where(self) -> str:
        """The last batch, and how far it has come."""
        number = self.last_logged()
        done = [log for log in LOGS if last_in(self._folder / log) == number]
        return f"batch {number}: {', '.join(done)}"

    def log(self) -> str:
        return (self._folder / "log").read_text(errors="replace")[-3_000:]


def _read_batch(file: Path) -> Batch:
    written = json.loads(file.read_text())
    places = [Place(*place) for place in written["places"]]
    return Batch(int(file.name), written["bodies"], places, file.stat().st_mtime)


@contextmanager
def message_members(folder: Path, names: str, **options: str) -> Iterator[list[MessageMember]]:
    """One for each letter of ``names``, not started yet, with these options; killed at the end of the block."""
    members = [MessageMember(folder / name, {"loadBalance": "message", **options}) for name in names]
    try:
        yield members
    finally:
        for member in members:
            member.kill()


def main(folder: str, how: str, *options: str) -> None:
    options_by_name = dict(option.split("=", 1) for option in options)
    MicroBatches(Path(folder), options_by_name, is_available_now=how == TO_THE_END).run()


if __name__ == "__main__":
    import_module("connector_tests.support.message_member").main(*sys.argv[1:])
