from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from connector_tests.support.queues import queue, queues
from rocketmq_spark.consumer.offset_file import DEFAULT_FOLDER, LocalOffsetFile, offset_file_of
from rocketmq_spark.consumer.offset_store import (
    LocalFileOffsetStore,
    MemoryOffsetStore,
    PendingOffsets,
    decode_offsets,
    encode_offsets,
    offsets_to_raise,
)
from rocketmq_spark.errors import OptionError
from rocketmq_spark.options import ReadOptions

A, B, C = queues(3)


def test_what_is_completed_is_to_be_committed() -> None:
    store = PendingOffsets()
    store.update(A, 5)
    store.update(B, 0)
    assert store.unconfirmed == {A: 5, B: 0}


def test_progress_never_moves_back() -> None:
    store = PendingOffsets()
    store.update(A, 5)
    store.update(A, 3)
    assert store.unconfirmed == {A: 5}


def test_what_the_broker_confirmed_is_not_sent_again() -> None:
    store = PendingOffsets()
    store.update(A, 5)
    store.confirm(A, 5)
    assert store.unconfirmed == {}


def test_what_the_broker_is_known_to_store_is_not_committed_again_when_it_is_completed_again() -> None:
    store = PendingOffsets()
    store.confirm(A, 5)
    store.update(A, 5)
    assert store.unconfirmed == {}
    store.update(A, 6)
    assert store.unconfirmed == {A: 6}


def test_what_was_known_of_a_queue_that_comes_back_is_reported_again() -> None:
    store = PendingOffsets()
    store.confirm(A, 5)
    store.remove(A)
    store.update(A, 5)
    assert store.unconfirmed == {A: 5}


def test_what_was_completed_while_the_broker_responded_stays_to_be_committed() -> None:
    store = PendingOffsets()
    store.update(A, 5)
    store.update(A, 9)
    store.confirm(A, 5)
    assert store.unconfirmed == {A: 9}


def test_a_broker_that_stores_more_than_was_sent_confirms() -> None:
    store = PendingOffsets()
    store.update(A, 5)
    store.confirm(A, 70)
    assert store.unconfirmed == {}


def test_a_confirmation_of_less_does_not_take_back_what_was_confirmed() -> None:
    store = PendingOffsets()
    store.confirm(A, 5)
    store.confirm(A, 3)
    store.update(A, 5)
    assert store.unconfirmed == {}


def test_the_first_offsets_of_a_queue_count_like_any_others() -> None:
    store = PendingOffsets()
    store.confirm(A, 0)
    store.update(A, 1)
    assert store.unconfirmed == {A: 1}
    store.confirm(A, 1)
    assert store.unconfirmed == {}


def test_confirming_what_was_never_sent_changes_nothing() -> None:
    store = PendingOffsets()
    store.confirm(A, 5)
    assert store.unconfirmed == {}


def test_nothing_is_logged_about_a_queue_that_was_lost() -> None:
    store = PendingOffsets()
    store.update(A, 5)
    store.update(B, 6)
    store.remove(A)
    store.remove(C)
    assert store.unconfirmed == {B: 6}


def test_the_table_cannot_be_changed_from_outside() -> None:
    store = PendingOffsets()
    store.update(A, 5)
    store.unconfirmed.clear()
    assert store.unconfirmed == {A: 5}


def test_only_what_raises_the_stored_offset_is_written() -> None:
    assert offsets_to_raise({A: 5, B: 5, C: 5}, {A: 4, B: 5, C: 6}) == {A: 5}


def test_offset_zero_is_written_where_nothing_is_stored_and_only_there() -> None:
    assert offsets_to_raise({A: 0, B: 0}, {A: None, B: 0}) == {A: 0}


def test_a_queue_that_could_not_be_read_is_not_written() -> None:
    assert offsets_to_raise({A: 5, B: 5}, {A: None}) == {A: 5}


def test_a_queue_that_no_member_writes_is_not_written() -> None:
    assert offsets_to_raise({}, {A: None, B: 3}) == {}


def test_what_was_confirmed_last_is_known_of_each_queue_by_itself() -> None:
    store = PendingOffsets()
    store.confirm(A, 5)
    assert [store.confirmed(queue) for queue in (A, B)] == [5, None]


A, B = queues(2)
OFFSETS = {A: 5, B: 0}
REQUIRED = {"namesrvAddr": "n:1", "consumerGroup": "g", "subscribe": "t", "messageModel": "BROADCASTING"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "g" / "one.json"


def store(path: Path) -> LocalFileOffsetStore:
    return LocalFileOffsetStore(LocalOffsetFile(path))


def backup(path: Path) -> Path:
    return path.with_name("one.json.bak")


# ---------------------------------------------------------------------------------------------------- content


def test_content_is_readable_by_people_and_by_us() -> None:
    assert encode_offsets({A: 5}).split() == b'{ "v": 1, "offsets": { "orders": { "broker-a": { "0": 5 } } } }'.split()
    assert decode_offsets(encode_offsets(OFFSETS)) == OFFSETS


def test_content_that_is_cut_anywhere_is_no_content() -> None:
    content = encode_offsets(OFFSETS)
    assert {str(decode_offsets(content[:length])) for length in range(len(content))} == {"None"}


NOT_OURS = (
    b"\xff",
    b"\0" * 64,
    b"[]",
    b"7",
    b"{}",
    b'{"v": 2, "offsets": {}}',
    b'{"v": 1, "offsets": {"t": []}}',
    b'{"v": 1, "offsets": {"t": {"b": {"x": 1}}}}',
    b'{"v": 1, "offsets": {"t": {"b": {"0": -1}}}}',
    b'{"v": 1, "offsets": {"t": {"b": {"0": true}}}}',
)


@pytest.mark.parametrize("content", NOT_OURS)
def test_what_was_not_made_here_is_no_content(content: bytes) -> None:
    assert decode_offsets(content) is None


# ---------------------------------------------------------------------------------------------------- the store


def test_without_a_file_nothing_is_known_and_none_is_made(path: Path) -> None:
    assert store(path).stored_offsets([A]) == {A: None}
    assert not path.exists()


def test_what_is_confirmed_is_in_the_file(path: Path) -> None:
    subject = store(path)
    assert subject.write_offsets({A: 5}) == {A}
    assert subject.write_offsets({B: 0}) == {B}
    assert store(path).stored_offsets([A, B]) == {A: 5, B: 0}


def test_it_may_be_lowered(path: Path) -> None:
    store(path).write_offsets({A: 5})
    store(path).write_offsets({A: 3})
    assert store(path).stored_offsets([A]) == {A: 3}


def test_a_file_may_be_written_at_any_time(path: Path) -> None:
    assert store(path).may_write(A)


def test_no_queue_of_a_file_is_another_one(path: Path) -> None:
    assert store(path).are_unchanged([A, B]) == {A: True, B: True}


def test_what_is_there_already_is_not_written_again(path: Path) -> None:
    subject = store(path)
    subject.write_offsets({A: 5})
    path.unlink()
    assert subject.write_offsets({A: 5}) == {A}
    assert not path.exists()


def test_a_file_that_was_deleted_is_written_again(path: Path) -> None:
    subject = store(path)
    subject.write_offsets({A: 5})
    subject.write_offsets({A: 6})
    path.unlink()
    assert subject.write_offsets({A: 9}) == {A}
    assert store(path).stored_offsets([A]) == {A: 9}
    assert decode_offsets(backup(path).read_bytes()) == {A: 5}


@pytest.mark.parametrize("torn", [b"", b'{"v": 1, "off', b"\0\0\0\0"])
def test_a_torn_file_is_passed_over_for_the_one_before(
    path: Path, torn: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    subject = store(path)
    subject.write_offsets({A: 5})
    subject.write_offsets({A: 9})
    path.write_bytes(torn)
    assert store(path).stored_offsets([A]) == {A: 5}
    assert caplog.messages == [
        (
            f"OFFSET_FILE_UNUSABLE: Cannot read offsets of file={path}, which is missing or damaged; using its "
            "previous version. Check the disk."
        )
    ]


def test_a_torn_file_never_becomes_the_one_before(path: Path) -> None:
    subject = store(path)
    subject.write_offsets({A: 5})
    subject.write_offsets({A: 9})
    path.write_bytes(b"torn")
    store(path).write_offsets({A: 6})
    assert store(path).stored_offsets([A]) == {A: 6}
    assert decode_offsets(backup(path).read_bytes()) == {A: 5}


def test_after_a_restart_too_the_file_becomes_the_one_before(path: Path) -> None:
    store(path).write_offsets({A: 5})
    store(path).write_offsets({A: 9})
    assert decode_offsets(backup(path).read_bytes()) == {A: 5}


def test_a_crash_between_the_two_steps_of_a_write_leaves_the_one_before(path: Path) -> None:
    subject = store(path)
    subject.write_offsets({A: 5})
    path.rename(backup(path))
    recovered = store(path)
    assert recovered.stored_offsets([A]) == {A: 5}
    recovered.write_offsets({A: 7})
    assert store(path).stored_offsets([A]) == {A: 7}


@pytest.mark.parametrize("before", [None, b"torn as well"])
def test_when_nothing_can_be_read_it_reports_it_and_where(path: Path, before: bytes | None) -> None:
    path.parent.mkdir()
    path.write_bytes(b"torn")
    if before is not None:
        backup(path).write_bytes(before)
    with pytest.raises(OptionError) as raised:
        store(path)
    assert raised.value.condition == "OFFSET_FILE_UNUSABLE"
    assert raised.value.context == {"file": str(path), "problem": "it is damaged"}


# ---------------------------------------------------------------------------------------------------- the file


@dataclass
class FullDisk:
    """Takes what is written before it is full."""

    written: list[bytes] = field(default_factory=list)
    is_full: bool = False

    def read(self) -> tuple[bytes | None, bytes | None]:
        return None, None

    def write(self, content: bytes, *, keep_backup: bool) -> None:
        if self.is_full:
            raise OptionError("OFFSET_FILE_UNUSABLE", file="f", problem="full")
        self.written.append(content)


def test_what_could_not_be_written_is_not_known() -> None:
    disk = FullDisk()
    subject = LocalFileOffsetStore(disk)
    subject.write_offsets({A: 5})
    disk.is_full = True
    with pytest.raises(OptionError):
        subject.write_offsets({A: 9})
    assert subject.stored_offsets([A]) == {A: 5}


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "taken").write_bytes(b"")
    with pytest.raises(OptionError, match=r"OFFSET_FILE_UNUSABLE.*taken/g/one\.json"):
        store(tmp_path / "taken" / "g" / "one.json").write_offsets({A: 5})


def test_each_group_and_instance_has_a_file_of_its_own(tmp_path: Path) -> None:
    options = ReadOptions.parse({**REQUIRED, "instanceName": "../x", "localOffsetStoreDir": str(tmp_path)})
    assert str(offset_file_of(options)) == str(tmp_path / "g" / "..%2Fx.json")


def test_by_default_it_is_in_the_users_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    options = ReadOptions.parse({**REQUIRED, "instanceName": "one"})
    assert str(offset_file_of(options)) == str(tmp_path / DEFAULT_FOLDER.removeprefix("~/") / "g" / "one.json")


def test_memory_store_has_what_was_written_since_its_start() -> None:
    subject, first, second = MemoryOffsetStore(), queue(0), queue(1)
    assert subject.write_offsets({first: 7}) == {first}
    assert subject.write_offsets({first: 5}) == {first}
    assert subject.stored_offsets([first, second]) == {first: 5, second: None}
    assert subject.may_write(first)
    assert subject.are_unchanged([first]) == {first: True}
    assert MemoryOffsetStore().stored_offsets([first]) == {first: None}
