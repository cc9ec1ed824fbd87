"""Which files a run of what 'make test' leaves out imports. That none of its tests is in another: conftest.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from connector_tests.support.rest_files import is_ignored

REST = "(full or native) and not long"


@pytest.mark.parametrize(
    "line",
    [
        "pytestmark = pytest.mark.full",
        "    pytest.param(1, marks=pytest.mark.full),",
        "@pytest.mark.native",
        '@pytest.fixture(params=IMPLEMENTATIONS, scope="module")',
        "def test_all(column_decoder: type[ColumnDecoder]) -> None:",
    ],
)
def test_file_with_one_of_the_marks_is_imported(tmp_path: Path, line: str) -> None:
    file = tmp_path / "test_it.py"
    file.write_text(f"{line}\n")
    assert not is_ignored(file, REST)


def test_file_without_is_ignored_by_that_run_only(tmp_path: Path) -> None:
    file = tmp_path / "test_it.py"
    file.write_text("def test_it() -> None: ...\n")
    assert is_ignored(file, REST)
    assert not is_ignored(file, "not full")
    assert not is_ignored(file, "")


def test_what_has_no_tests_is_not_ignored(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text("")
    assert not is_ignored(tmp_path / "conftest.py", REST)
    assert not is_ignored(tmp_path, REST)
