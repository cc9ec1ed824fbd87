"""What the tables of the code state is what the documentation states."""

from __future__ import annotations

import shutil
import subprocess
import sys
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import generate_docs
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


def generate(*arguments: str) -> tuple[int | str | None, str]:
    """Its exit code, or what it ends with instead, and what it prints. In this process: its imports take a second."""
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(StringIO()) as printed:
        patch.setattr(sys, "argv", ["generate_docs.py", *arguments])
        code: int | str | None
        try:
            code = generate_docs.main()
        except SystemExit as end:
            code = end.code
    return code, printed.getvalue()


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return copied_pages(tmp_path)


def copied_pages(folder: Path) -> Path:
    """The generated pages in another place."""
    for page in PAGES:
        (folder / page).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / page, folder / page)
    return folder


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pages that were old, or not there, and are written now: that takes seconds."""
    folder = copied_pages(tmp_path_factory.mktemp("written"))
    for page in PAGES:
        if not has_tables_within(page):
            (folder / page).write_text("old", encoding="utf-8")
    assert generate("--root", str(folder))[0] == 0
    return folder


def test_the_pages_are_fresh() -> None:
    command = [sys.executable, str(ROOT / "tools/generate_docs.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PROCESS_S)
    assert (done.returncode, done.stdout) == (0, "")


def test_a_stale_or_missing_page_is_named_and_left_alone_by_a_check(copy: Path) -> None:
    (copy / "docs/reference/errors.md").unlink()
    reading = copy / "docs/reading.md"
    text = reading.read_text(encoding="utf-8")
    reading.write_text(text.replace("| `minPartitions` | none |", "| `minPartitions` | 7 |"), encoding="utf-8")
    code, printed = generate("--check", "--root", str(copy))
    assert code == 1
    assert "docs/reference/errors.md is stale" in printed
    assert "docs/reading.md is stale" in printed
    assert "docs/reference/options.md" not in printed
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
    code, printed = generate("--check", "--root", str(copy))
    assert code == 1
    assert f"docs/dev/{page}.md is stale" in printed


def test_a_table_that_has_no_end_is_an_error(copy: Path) -> None:
    reading = copy / "docs/reading.md"
    text = reading.read_text(encoding="utf-8")
    reading.write_text(text.replace("<!-- end of options -->", ""), encoding="utf-8")
    code, _ = generate("--check", "--root", str(copy))
    assert "does not end it" in str(code)


def test_what_is_written_is_fresh(written: Path) -> None:
    assert generate("--check", "--root", str(written)) == (0, "")


@pytest.mark.parametrize("failure", RETRYABILITY)
def test_the_page_of_errors_has_all_columns_of_what_is_tried_again(failure: int | str) -> None:
    page = (ROOT / "docs/reference/errors.md").read_text(encoding="utf-8")
    name = f"{code_name(ResponseCode, failure)} ({int(failure)})" if isinstance(failure, int) else failure
    *outlooks, refresh = RETRYABILITY[failure]
    words = " | ".join(retryability.name.lower() for retryability in outlooks)
    assert f"| {name} | {words} | {'yes' if refresh else 'no'} |\n" in page


def has_tables_within(page: str) -> bool:
    return "<!-- end of " in (ROOT / page).read_text(encoding="utf-8")


def test_the_file_map_has_every_module_once(written: Path) -> None:
    map_text = (written / "build/file-map.md").read_text(encoding="utf-8")
    modules = [file.relative_to(ROOT).as_posix() for file in (ROOT / "rocketmq_spark").rglob("*.py")]
    shown = [module for module in modules if not module.endswith("__init__.py")]
    assert shown
    assert [module for module in shown if map_text.count(f"](../{module})") != 1] == []
