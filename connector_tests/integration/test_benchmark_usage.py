"""What the benchmark states of a process that is known to use half a second and to write 100 kB."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from connector_tests.benchmarks.machine import Machine
from connector_tests.benchmarks.roles import BROKER
from connector_tests.benchmarks.usage import Usage

pytestmark = pytest.mark.full

CPU_S = 0.5
WRITTEN_BYTES = 100_000
LAST_LINE_BYTES = len("written\n")
PROGRAM = f"""
import sys, time
print("started", flush=True)
sys.stdin.readline()
begin = time.process_time()
while time.process_time() - begin < {CPU_S}:
    pass
sys.stdout.write("x" * {WRITTEN_BYTES})
sys.stdout.flush()
print("written", flush=True)  # a write is counted when its call returns
sys.stdin.readline()
"""


@pytest.fixture
def process() -> Iterator[subprocess.Popen[str]]:
    """Works when it gets a line, and ends with the next one."""
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield process
        process.communicate("\n")
    assert process.returncode == 0


def test_the_processor_time_and_the_bytes_of_a_process_are_seen(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stdout.readline() == "started\n"
    with Usage({BROKER: process.pid}) as usage, Machine() as machine:
        process.stdin.write("\n")
        process.stdin.flush()
        process.stdout.read(WRITTEN_BYTES + LAST_LINE_BYTES)
    of_process, of_machine = usage.figures(), machine.figures()
    assert CPU_S - 0.05 < of_process["broker cpu_s"] < CPU_S + 0.25
    assert of_process["broker written_mb"] == pytest.approx(WRITTEN_BYTES / 1e6, abs=2 * LAST_LINE_BYTES / 1e6)
    assert CPU_S - 0.05 < of_machine["machine busy_cpu_s"] < of_machine["machine core_s"] + 0.1


def test_idle_time_is_what_was_left_in_a_part_of_the_time() -> None:
    with Machine() as machine:
        begin_s = time.time()
        time.sleep(0.5)
        end_s = time.time()
        time.sleep(0.5)
    figures = machine.figures()
    everything = figures["machine core_s"] - figures["machine busy_cpu_s"] - figures["machine steal_cpu_s"]
    part, rest = machine.idle_core_s(begin_s, end_s), machine.idle_core_s(end_s, time.time())
    assert -0.1 < part <= figures["machine cores"] * (end_s - begin_s) + 0.1
    assert part + rest == pytest.approx(everything, abs=0.1)
