"""The folder of a source runner, new or an earlier start's, which a checkpoint names."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from connector_tests.support.timeouts import PROCESS_S
from rocketmq_spark.source.stream.control_folder import (
    PREFIX,
    ControlFolder,
    EndRequest,
    Resumable,
    new_folder,
    take_over,
)
from rocketmq_spark.source.stream.drain import CONTROL, FILES, Control


def control(path: Path | str) -> Control:
    return Control("host", str(path))


def test_folder_of_an_earlier_start_is_made_again_for_its_user_alone() -> None:
    before = new_folder()
    before.cleanup()
    again = take_over(control(before.name))
    assert again is not None
    assert again.name == before.name
    assert Path(again.name).stat().st_mode & 0o777 == 0o700
    again.cleanup()
    again.cleanup()
    assert not Path(again.name).exists()


def test_folder_of_a_killed_runner_is_reused_without_its_requests() -> None:
    killed = Path(tempfile.mkdtemp(prefix=PREFIX))
    for file in FILES.values():
        (killed / file).touch()
    folder = take_over(control(killed))
    assert folder is not None
    assert list(killed.iterdir()) == []
    folder.cleanup()


def test_folder_of_a_living_runner_is_left_alone() -> None:
    living = new_folder()
    (Path(living.name) / "drain").touch()
    assert take_over(control(living.name)) is None
    assert [file.name for file in Path(living.name).iterdir()] == ["drain"]
    living.cleanup()


def elsewhere(folder: Path) -> Path:
    return folder / f"{PREFIX}abc"


def of_another_name(folder: Path) -> Path:
    return Path(tempfile.gettempdir()) / f"another-{folder.name}"


def of_a_user(folder: Path) -> Path:
    """Such as a checkpoint location; the folder of outage notes begins so as well."""
    return Path(tempfile.gettempdir()) / f"{PREFIX}checkpoint-{folder.name}"


def above(_folder: Path) -> Path:
    return Path(tempfile.gettempdir()) / f"{PREFIX}abc" / ".." / ".."


@pytest.mark.parametrize("path_of", [elsewhere, of_another_name, of_a_user, above])
def test_checkpoint_cannot_name_any_other_folder(tmp_path: Path, path_of: Callable[[Path], Path]) -> None:
    path = path_of(tmp_path)
    assert take_over(control(path)) is None
    assert not elsewhere(tmp_path).exists()
    assert not of_another_name(tmp_path).exists()
    assert not of_a_user(tmp_path).exists()


def test_folder_that_is_open_to_others_is_not_reused() -> None:
    path = Path(tempfile.mkdtemp(prefix=PREFIX))
    path.chmod(0o777)
    assert take_over(control(path)) is None
    with pytest.raises(PermissionError, match="open to other users"):
        ControlFolder(str(path))
    path.rmdir()


def test_folder_that_is_made_after_the_end_is_left_alone() -> None:
    """A runner is stopped twice: by the signal, and by PySpark. The second time took an end request away."""
    folder = new_folder()
    folder.cleanup()
    request = EndRequest.create(control(folder.name))
    assert request is not None
    folder.cleanup()
    assert Path(folder.name, "end").exists()
    request.withdraw()


def test_request_is_found_while_its_asker_waits() -> None:
    folder = new_folder()
    folder.cleanup()
    called = EndRequest.create(control(folder.name))
    assert called is not None
    find = EndRequest.claim(control(folder.name))
    assert find is not None
    assert (called.is_claimed, called.is_reached) == (True, False)
    find.mark_reached()
    assert called.is_reached
    called.withdraw()


def test_request_of_a_killed_asker_is_none() -> None:
    """The next start would read to where the queues ended then, and rest there for ever."""
    path = Path(tempfile.mkdtemp(prefix=PREFIX))
    asker = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from rocketmq_spark.source.stream.control_folder import EndRequest\n"
        "from rocketmq_spark.source.stream.drain import Control\n"
        "request = EndRequest.create(Control('host', sys.argv[1]))\n"
        "assert request is not None\n"
        "os._exit(0)\n"
    )
    path.rmdir()
    subprocess.run([sys.executable, "-c", asker, str(path)], check=True, timeout=PROCESS_S)
    assert (path / "end").exists()
    assert EndRequest.claim(control(path)) is None
    assert list(path.iterdir()) == []
    path.rmdir()


def test_lock_ends_with_the_folder() -> None:
    folder = new_folder()
    folder.cleanup()
    Path(folder.name).mkdir(mode=0o700)
    again = take_over(control(folder.name))
    assert again is not None
    again.cleanup()


@pytest.fixture
def before() -> Iterator[Control]:
    folder = new_folder()
    folder.cleanup()
    yield Control("host", folder.name)
    folder.cleanup()


def shown(control: Control) -> dict[str, Any]:
    return {CONTROL: control._asdict()}


def test_reader_of_a_newer_spark_is_never_resumed() -> None:
    reader = Resumable()
    reader.mark_idle()
    assert (reader.control_before, reader.may_stop_without_call, reader.is_available_now) == (None, False, False)


@pytest.mark.parametrize("shown_before", [{}, {CONTROL: None}, {CONTROL: {"host": 1}}, {CONTROL: {"folder": "f"}}])
def test_start_without_a_control_before_may_still_end_unasked(shown_before: dict[str, Any]) -> None:
    reader = Resumable()
    reader.resume(shown_before)
    reader.mark_idle()
    assert (reader.control_before, reader.may_stop_without_call, reader.is_available_now) == (None, True, False)


def test_start_without_an_end_request_reads_on(before: Control) -> None:
    reader = Resumable()
    reader.resume(shown(before))
    reader.mark_idle()
    assert (reader.control_before, reader.is_available_now) == (before, False)
    assert not before.path.exists()


def test_end_request_is_found_once_and_handled_at_rest(before: Control) -> None:
    request = EndRequest.create(before)
    assert request is not None
    reader, other = Resumable(), Resumable()
    reader.resume(shown(before))
    other.resume(shown(before))
    assert (reader.is_available_now, other.is_available_now) == (True, False)
    other.mark_idle()
    assert (request.is_claimed, request.is_reached) == (True, False)
    reader.mark_idle()
    assert request.is_reached
    request.withdraw()
    assert not before.path.exists()


def test_end_request_waits_for_the_start_before_to_leave(before: Control) -> None:
    before.path.mkdir(mode=0o700)
    assert EndRequest.create(before) is None
    before.path.rmdir()


def test_end_request_is_neither_made_nor_found_on_another_machine() -> None:
    elsewhere = Control("host", "/no/such/folder")
    assert EndRequest.create(elsewhere) is None
    assert EndRequest.claim(elsewhere) is None
