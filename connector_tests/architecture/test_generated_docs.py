"""What the tables of the code state is what the documentation states."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from connector_tests.support.timeouts import PROCESS_S
from rocketmq_spark.remoting.retry import RETRYABILITY
from rocketmq_spark.wire.remoting.codes import ResponseCode, code_name

ROOT = Path(__file__).parents[2]
PAGES = (
    "docs/reading.md",
    "docs/writing.md",
    "docs/offsets.md",
    "docs/compatibility.md",
    "docs/reference/options.md",
    "docs/reference/errors.md",
    "docs/reference/columns.md",
    "docs/dev/orderly.md",
    "docs/dev/group-members.md",
    "docs/dev/processes-threads-locks.md",
    "docs/dev/pulling.md",
    "docs/dev/kafka-parity.md",
    "conf/connector.options.example",
)


def generate(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "tools/generate_docs.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=PROCESS_S)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The generated pages in another place."""
    for page in PAGES:
        (tmp_path / page).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / page, tmp_path / page)
    return tmp_path


def test_the_pages_are_fresh() -> None:
    done = generate("--check")
    assert (done.returncode, done.stdout) == (0, "")


def test_a_stale_or_missing_page_is_named_and_left_alone_by_a_check(copy: Path) -> None:
    (copy / "docs/reference/errors.md").unlink()
    reading = copy / "docs/reading.md"
    text = reading.read_text(encoding="utf-8")
    reading.write_text(text.replace("| `minPartitions` | none |", "| `minPartitions` | 7 |"), encoding="utf-8")
    done = generate("--check", "--root", str(copy))
    assert done.returncode == 1
    assert "docs/reference/errors.md is stale" in done.stdout
    assert "docs/reading.md is stale" in done.stdout
    assert "docs/reference/options.md" not in done.stdout
    assert "| `minPartitions` | 7 |" in reading.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("page", "line", "untrue"),
    [
        ("pulling", "| OFFSET_ILLEGAL | `OFFSET_RESET` | RETRY |", "| OFFSET_ILLEGAL | `OFFSET_RESET` | LOST |"),
        ("pulling", "| NO_MATCHED_MSG | any other | SKIP |", "| NO_MATCHED_MSG | any other | WAIT |"),
        ("pulling", "| SKIP | no | no | WAIT |", "| SKIP | no | no | LOST |"),
        ("orderly", "OWNED --> RELEASING: REASSIGNED", "OWNED --> NOT_OWNED: REASSIGNED"),
        ("processes-threads-locks", "REQUESTED --> DRAINING: CLAIM", "RUNNING --> DRAINING: CLAIM"),
    ],
)
def test_a_decision_that_is_described_otherwise_than_it_is_made_is_stale(
    copy: Path, page: str, line: str, untrue: str
) -> None:
    file = copy / f"docs/dev/{page}.md"
    text = file.read_text(encoding="utf-8")
    assert line in text
    file.write_text(text.replace(line, untrue), encoding="utf-8")
    done = generate("--check", "--root", str(copy))
    assert done.returncode == 1
    assert f"docs/dev/{page}.md is stale" in done.stdout


def test_a_table_that_has_no_end_is_an_error(copy: Path) -> None:
    reading = copy / "docs/reading.md"
    text = reading.read_text(encoding="utf-8")
    reading.write_text(text.replace("<!-- end of options -->", ""), encoding="utf-8")
    done = generate("--check", "--root", str(copy))
    assert done.returncode == 1
    assert "does not end it" in done.stderr


def test_what_is_written_is_fresh(copy: Path) -> None:
    for page in PAGES:
        if not has_tables_within(page):
            (copy / page).write_text("old", encoding="utf-8")
    assert generate("--root", str(copy)).returncode == 0
    assert generate("--check", "--root", str(copy)).returncode == 0


@pytest.mark.parametrize("failure", RETRYABILITY)
def test_the_page_of_errors_has_all_columns_of_what_is_tried_again(failure: int | str) -> None:
    page = (ROOT / "docs/reference/errors.md").read_text(encoding="utf-8")
    name = f"{code_name(ResponseCode, failure)} ({int(failure)})" if isinstance(failure, int) else failure
    *outlooks, refresh = RETRYABILITY[failure]
    words = " | ".join(retryability.name.lower() for retryability in outlooks)
    assert f"| {name} | {words} | {'yes' if refresh else 'no'} |\n" in page


def has_tables_within(page: str) -> bool:
    return "<!-- end of " in (ROOT / page).read_text(encoding="utf-8")


def test_the_file_map_has_every_module_once(copy: Path) -> None:
    assert generate("--root", str(copy)).returncode == 0
    map_text = (copy / "build/file-map.md").read_text(encoding="utf-8")
    modules = [file.relative_to(ROOT).as_posix() for file in (ROOT / "rocketmq_spark").rglob("*.py")]
    shown = [module for module in modules if not module.endswith("__init__.py")]
    assert shown
    assert [module for module in shown if map_text.count(f"](../{module})") != 1] == []
