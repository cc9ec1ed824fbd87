"""Limits of waits come from ``support/timeouts``, which scales them: a test with a number of its own fails on a slow
machine, whatever CONNECTOR_TESTS_PATIENCE is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from connector_tests.support.timeouts import PATIENT_MS

TESTS = Path(__file__).parents[1]
SHORTEST_LIMIT = 2
"""A shorter wait is one for what must not happen, or for the next look."""
NUMBER = r"(?P<limit>\d[\d_.]*)"
LIMITS = [
    re.compile(rf"\.(?:wait|join|result|acquire|awaitTermination)\({NUMBER}\)"),
    re.compile(rf"\b(?:wait|get|run|communicate|call|acquire|result|join)\(.*\btimeout={NUMBER}[,)]"),
    re.compile(rf"^\s+[^(]*\btimeout={NUMBER},?$"),
    re.compile(rf"\b(?:monotonic|process_time|perf_counter)\(\) (?:\+|- \w+ <=?) {NUMBER}$"),
]


LIMITS_MS_RANGE = range(500, PATIENT_MS)
"""A shorter one is for a server that does not respond."""
LIMITS_MS = [
    re.compile(rf"\bconnect_tcp\(.*, {NUMBER}[,)]"),
    re.compile(rf"\b(?:NameServers|Broker|AdminBroker|ClusterClient)\(.*, {NUMBER}\)"),
    re.compile(rf"\b(?:recv|recv_into|sendall)\(.+, {NUMBER}\)"),
]


def own_limits(source: str) -> list[int]:
    """The lines with a number of seconds or milliseconds as a limit."""
    return [number for number, line in enumerate(source.splitlines(), 1) if _has_limit(line.partition("  #")[0])]


def _has_limit(line: str) -> bool:
    seconds = (float(found["limit"]) for pattern in LIMITS if (found := pattern.search(line)))
    milliseconds = (int(found["limit"]) for pattern in LIMITS_MS if (found := pattern.search(line)))
    return any(one >= SHORTEST_LIMIT for one in seconds) or any(one in LIMITS_MS_RANGE for one in milliseconds)


def test_no_test_has_a_limit_of_its_own() -> None:
    files = [file for file in TESTS.rglob("*.py") if "benchmarks" not in file.parts and file != Path(__file__)]
    assert len(files) > 300
    found = {file.relative_to(TESTS).as_posix(): own_limits(file.read_text(encoding="utf-8")) for file in files}
    assert {name: lines for name, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    "line",
    [
        "assert called.wait(10)",
        "thread.join(2.5)",
        "subprocess.run(command, timeout=60)",
        "    command, check=False, timeout=120",
        "call(b'', timeout=2)",
        "deadline_s = time.monotonic() + 30",
        "assert time.process_time() - begin_s < 3",
        "stream = connect_tcp(serve(echo_tls), 5000, trusting())",
        "NameServers((FIRST, SECOND), pool, 1000)",
        "assert ours.recv(99, 10_000) == b''",
    ],
)
def test_a_number_as_a_limit_is_found(line: str) -> None:
    assert own_limits(line) == [1]


@pytest.mark.parametrize(
    "line",
    [
        "assert called.wait(WAIT_S)",
        "over.wait(0.1)",
        "', '.join(names)",
        "Counter(timeout=2)",
        "stop_query(query, timeout_s=600)",
        "assert time.process_time() - begin_s < 3 * TIMEOUT_FACTOR",
        "assert time.monotonic() - begin_s >= 5",
        "assert stream.recv(99, 1) is None",
        "AdminBroker(BrokerAddress(address), pool, 300)",
    ],
)
def test_a_scaled_or_a_short_one_is_not(line: str) -> None:
    assert own_limits(line) == []
