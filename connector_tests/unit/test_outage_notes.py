"""Notes of outages lie in a folder that others may have made, or linked, before: those are left alone."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from rocketmq_spark.pull.outage_notes import STALE_S, OutageNotes
from rocketmq_spark.pull.private_folder import private_folder


def notes(folder: Path, subject: str = "broker a") -> OutageNotes:
    return OutageNotes("one", subject, folder)


def age(file: Path) -> None:
    """Older than any note is kept."""
    then_s = file.lstat().st_mtime - STALE_S - 10
    os.utime(file, (then_s, then_s), follow_symlinks=False)


def link_to_another(folder: Path, other: Path) -> None:
    folder.symlink_to(other, target_is_directory=True)


def open_to_other_users(folder: Path, other: Path) -> None:
    other.rename(folder)
    folder.chmod(0o777)


@pytest.mark.parametrize("claimed_by", [link_to_another, open_to_other_users])
def test_a_folder_that_is_not_private_is_left_alone(tmp_path: Path, claimed_by: Callable[[Path, Path], None]) -> None:
    folder, other = tmp_path / "notes", tmp_path / "other"
    other.mkdir(mode=0o700)
    old = other / "old"
    old.write_text("7")
    age(old)
    notes(other).record(1)
    names = sorted(file.name for file in other.iterdir())
    claimed_by(folder, other)
    assert notes(folder).since_ms(9) is None
    notes(folder, "broker b").record(5)
    notes(folder).clear()
    assert sorted(file.name for file in folder.iterdir()) == names


def test_stale_notes_go_and_other_names_stay(tmp_path: Path) -> None:
    folder = tmp_path / "notes"
    notes(folder).record(5)
    (first,) = folder.iterdir()
    strange = [folder / name for name in ("data", "x" * 64, f"{first.name}.txt")]
    for file in (first, *strange):
        file.write_text("5")
        age(file)
    notes(folder, "broker b").record(6)
    assert notes(folder).since_ms(9) is None
    assert notes(folder, "broker b").since_ms(9) == 6
    assert all(file.exists() for file in strange)


def test_a_note_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    folder, target = tmp_path / "notes", tmp_path / "target"
    target.write_text("5")
    notes(folder).record(3)
    (note,) = folder.iterdir()
    note.unlink()
    note.symlink_to(target)
    assert notes(folder).since_ms(9) is None
    notes(folder).record(4)
    assert (target.read_text(), notes(folder).since_ms(9)) == ("5", 4)
    assert not note.is_symlink()


def test_a_stale_link_is_removed_and_not_its_target(tmp_path: Path) -> None:
    """Links to files that others write, and links to nothing, stayed for ever."""
    folder, target = tmp_path / "notes", tmp_path / "target"
    target.write_text("5")
    for subject, linked in (("broker a", target), ("broker b", tmp_path / "missing")):
        notes(folder, subject).record(3)
        (note,) = (file for file in folder.iterdir() if not file.is_symlink())
        note.unlink()
        note.symlink_to(linked)
    for link in folder.iterdir():
        age(link)
    notes(folder, "broker c").record(4)
    assert [file.is_symlink() for file in folder.iterdir()] == [False]
    assert target.exists()


def test_notes_and_their_folder_are_for_their_user_alone(tmp_path: Path) -> None:
    folder = tmp_path / "notes"
    notes(folder).record(3)
    (note,) = folder.iterdir()
    assert [file.stat().st_mode & 0o777 for file in (folder, note)] == [0o700, 0o600]
    notes(folder).clear()
    assert not folder.exists()


def test_a_folder_of_another_user_is_refused(tmp_path: Path) -> None:
    if os.getuid() != 0:
        pytest.skip("only root can give a folder away")
    tmp_path.chmod(0o700)
    os.chown(tmp_path, 65534, -1)
    with pytest.raises(PermissionError, match="another user"), private_folder(tmp_path):
        pass
    notes(tmp_path).record(3)
    assert list(tmp_path.iterdir()) == []
