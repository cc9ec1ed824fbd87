"""The spool on a disk: what is kept, what is forgotten, and a disk that refuses."""

from __future__ import annotations

import fcntl
import os
import resource
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from connector_tests.support.timeouts import TIMEOUT_FACTOR
from rocketmq_spark.errors import OptionError
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.pop.receipt_handles import BrokerHandle, PopCheckPoint, ReceivedMessage
from rocketmq_spark.pop.spool import Spool, spool_of

CHECK_POINT = PopCheckPoint("orders", 0, 1_763_712_000_000, 300_000, 3, "0", "broker-a", 1)
START, OTHER = "6f0c", "77aa"
STARTS = 200
SLACK_S = 30.0 * TIMEOUT_FACTOR
REQUIRED = {"namesrvAddr": "n:9876", "consumerGroup": "g%1", "subscribe": "orders", "loadBalance": "message"}


def messages(*offsets: int) -> tuple[ReceivedMessage, ...]:
    return tuple(
        ReceivedMessage(BrokerHandle(CHECK_POINT, offset), memoryview(b"record %d" % offset)) for offset in offsets
    )


@pytest.fixture
def spool(tmp_path: Path) -> Iterator[Spool]:
    one = Spool(tmp_path / "spool" / "g")
    yield one
    one.close()


def test_a_later_start_reads_what_an_earlier_one_has_kept(spool: Spool, tmp_path: Path) -> None:
    spool.store(START, 1, messages(0, 1))
    spool.store(START, 2, messages(2))
    later = Spool(tmp_path / "spool" / "g")
    assert later.load(START, 1) == messages(0, 1)
    assert later.load(START, 2) == messages(2)


def test_only_its_user_may_read_what_is_kept(spool: Spool, tmp_path: Path) -> None:
    spool.store(START, 1, messages(0))
    assert (tmp_path / "spool" / "g" / START).stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("damage", [lambda file: file.unlink(), lambda file: file.write_bytes(file.read_bytes()[:-1])])
def test_what_is_not_there_or_damaged_is_logged_and_none(
    spool: Spool, tmp_path: Path, caplog: pytest.LogCaptureFixture, damage: object
) -> None:
    spool.store(START, 1, messages(0))
    assert callable(damage)
    damage(tmp_path / "spool" / "g" / START / "1.frozen")
    assert spool.load(START, 1) is None
    assert "brokers redeliver its messages, in another batch: " in caplog.text


def test_what_was_delivered_after_a_batch_is_found(spool: Spool) -> None:
    for number in (1, 2, 3, 10):
        spool.store(START, number, messages(number))
        spool.mark_logged(START, min(number, 3))
    spool.store(OTHER, 4, messages(99))
    assert spool.load_after(START, 2) == [*messages(3), *messages(10)]
    assert spool.load_after("0000", 0) == []


def test_what_is_done_is_forgotten_with_its_folder_and_no_other_receivers_is(spool: Spool, tmp_path: Path) -> None:
    folder = tmp_path / "spool" / "g"
    for number in (1, 2, 3):
        spool.store(START, number, messages(number))
    spool.store(OTHER, 1, messages(99))
    spool.delete(START, 2)
    assert sorted(entry.name for entry in (folder / START).iterdir()) == ["3.frozen"]
    spool.delete(START, 3)
    assert sorted(entry.name for entry in folder.iterdir()) == [OTHER]
    spool.delete(START, 3)
    (folder / OTHER / "2.new").write_bytes(b"a write that a crash has cut off")
    spool.delete(OTHER)
    assert list(folder.iterdir()) == []


def test_a_start_that_leads_elsewhere_is_none(spool: Spool) -> None:
    for start in ("..", "", "../g", "/"):
        with pytest.raises(ValueError, match="no start of a query"):
            spool.delete(start)


def test_a_disk_that_refuses_is_named(spool: Spool, tmp_path: Path) -> None:
    folder = tmp_path / "spool" / "g"
    folder.rmdir()
    folder.write_text("a file")
    with pytest.raises(OptionError) as raised:
        spool.store(START, 1, messages(0))
    assert str(raised.value) == (
        f"[ROCKETMQ_SPOOL_DIR_UNUSABLE] Cannot use the spool directory {folder}: [Errno 20] Not a directory: "
        f"'{folder / START}'. Make it writable for the driver, with space for several batches, or change "
        "'spoolDir'. No data is lost: each batch is spooled before the checkpoint logs it."
    )
    with pytest.raises(OptionError, match="SPOOL_DIR_UNUSABLE"):
        Spool(folder)


LONGER_THAN_A_NAME = 300


def test_a_batch_that_cannot_be_read_is_none_whatever_the_system_states(
    spool: Spool, caplog: pytest.LogCaptureFixture
) -> None:
    """A folder of another user, too, ended each restart with an error of Python's."""
    assert spool.load(START, 10**LONGER_THAN_A_NAME) is None
    assert "SPOOL_BATCH_UNREADABLE" in caplog.text
    with pytest.raises(OptionError, match="SPOOL_DIR_UNUSABLE"):
        spool.load_after("a" * LONGER_THAN_A_NAME, 1)


@pytest.mark.timeout(20)
@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_only_a_regular_file_is_a_batch(spool: Spool, tmp_path: Path, kind: str) -> None:
    """A pipe was read for ever, a link followed."""
    spool.store(OTHER, 1, messages(0))
    file, true = (tmp_path / "spool" / "g" / one / "1.frozen" for one in (START, OTHER))
    file.parent.mkdir()
    if kind == "link":
        file.symlink_to(true)
    elif kind == "pipe":
        os.mkfifo(file)
    else:
        file.mkdir()
    descriptors = len(list(Path("/proc/self/fd").iterdir()))
    assert spool.load(START, 1) is None
    assert len(list(Path("/proc/self/fd").iterdir())) == descriptors


def test_after_a_full_disk_the_spool_is_closed(tmp_path: Path) -> None:
    """What was written no further was written once more: an error of Python's ended the source process's clean-up."""
    spool = Spool(tmp_path / "spool" / "g")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50, limits[1]))
    try:
        with pytest.raises(OptionError, match=r"SPOOL_DIR_UNUSABLE.*File too large"):
            spool.store(START, 1, messages(0, 1))
        spool.close()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert names(tmp_path) == [f"{START}/1.new"]
    assert Spool(tmp_path / "spool" / "g").recover_abandoned() == []
    assert names(tmp_path) == [], "a later start removes it"


def test_each_group_has_a_folder_of_its_own(tmp_path: Path) -> None:
    assert spool_of(ReadOptions.parse(REQUIRED)) is None
    spool = spool_of(ReadOptions.parse({**REQUIRED, "spoolDir": str(tmp_path)}))
    assert spool is not None
    spool.store(START, 1, messages(0))
    spool.mark_logged(START, 1)
    assert [str(file.relative_to(tmp_path)) for file in tmp_path.rglob("*") if file.is_file()] == [f"g%251/{START}/1"]


# ------------------------------------------------------------------------------------------- what nobody tells of


def names(tmp_path: Path) -> list[str]:
    folder = tmp_path / "spool" / "g"
    return sorted(str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file())


def test_what_a_start_has_left_that_was_over_before_spark_logged_anything_is_acknowledged_once(
    spool: Spool, tmp_path: Path
) -> None:
    """It stayed there for ever: the next start knows of the last one only that Spark has logged."""
    killed = Spool(tmp_path / "spool" / "g")
    killed.store(OTHER, 1, messages(7, 8))
    killed.close()
    (tmp_path / "spool" / "g" / "88bb").mkdir()
    (tmp_path / "spool" / "g" / "88bb" / "1.new").write_bytes(b"a write that a crash has cut off")
    assert spool.recover_abandoned() == list(messages(7, 8))
    assert (spool.recover_abandoned(), list((tmp_path / "spool" / "g").iterdir())) == ([], [])


def test_what_a_live_start_has_in_a_batch_or_any_has_logged_is_claimed_by_no_other_receiver(
    spool: Spool, tmp_path: Path
) -> None:
    live, over, later = (Spool(tmp_path / "spool" / "g") for _ in range(3))
    live.store(START, 1, messages(1))
    over.store(OTHER, 1, messages(2))
    over.mark_logged(OTHER, 1)
    over.mark_logged(OTHER, 1)
    later.store("88bb", 2, messages(3))
    later.mark_logged("88bb", 2)
    later.store("88bb", 3, messages(4))
    later.close()
    assert spool.recover_abandoned() == []
    assert names(tmp_path) == [f"{START}/1.frozen", f"{OTHER}/1", "88bb/2", "88bb/3.frozen"]
    assert spool.load_after("88bb", 2) == list(messages(4)), "its own later start gives it back"
    live.close()


def test_a_batch_survives_a_search_for_abandoned_ones(spool: Spool, tmp_path: Path) -> None:
    """Between its open and its lock another start could take it for abandoned, and both would continue."""
    folder = tmp_path / "spool" / "g" / START
    folder.mkdir()
    with (folder / "1.new").open("wb") as open_file, ThreadPoolExecutor(1) as other:
        fcntl.flock(open_file, fcntl.LOCK_EX)
        keeping = other.submit(spool.store, START, 1, messages(1))
        with pytest.raises(TimeoutError):
            keeping.result(0.5)
        (folder / "1.new").unlink()
        folder.rmdir()
        open_file.close()
        keeping.result(SLACK_S)
    assert Spool(tmp_path / "spool" / "g").recover_abandoned() == []
    assert spool.load(START, 1) == messages(1)


def test_abandoned_batches_are_locked_until_they_are_removed(tmp_path: Path) -> None:
    """Starts that begin and end at once, while another takes what they leave: each message is released once."""
    folder = tmp_path / "spool" / "g"
    taker, open_file = Spool(folder), list[ReceivedMessage]()
    is_over = threading.Event()

    def take() -> None:
        while not is_over.is_set():
            open_file.extend(taker.recover_abandoned())

    with ThreadPoolExecutor(1) as other:
        taking = other.submit(take)
        try:
            for number in range(STARTS):
                start = Spool(folder)
                start.store(f"{number:x}", 1, messages(number))
                if number % 2:
                    start.mark_logged(f"{number:x}", 1)
                start.close()
        finally:
            is_over.set()
        taking.result(SLACK_S)
    open_file += taker.recover_abandoned()
    expected = [one for number in range(0, STARTS, 2) for one in messages(number)]
    assert sorted(open_file, key=repr) == sorted(expected, key=repr), "in whichever order"
    assert names(tmp_path) == sorted(f"{number:x}/1" for number in range(1, STARTS, 2))


def test_what_is_no_start_and_what_is_damaged_is_left_or_removed(
    spool: Spool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "spool" / "g"
    (folder / "somebody's").mkdir()
    (folder / "somebody's" / "1.frozen").write_bytes(b"")
    (folder / "77aa").mkdir()
    (folder / "88bb").mkdir()
    (folder / "88bb" / "1.frozen").write_bytes(b"damaged")
    assert spool.recover_abandoned() == []
    assert names(tmp_path) == ["somebody's/1.frozen"]
    assert (folder / "77aa").is_dir(), "somebody may be about to write there"
    assert "SPOOL_BATCH_UNREADABLE: Cannot read batch=" in caplog.text


def test_a_link_is_no_start_and_nothing_is_removed_behind_it(spool: Spool, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for name in ("a.new", "1.frozen"):
        (elsewhere / name).write_bytes(b"somebody's")
    (tmp_path / "spool" / "g" / "abc").symlink_to(elsewhere)
    assert spool.recover_abandoned() == []
    assert sorted(file.name for file in elsewhere.iterdir()) == ["1.frozen", "a.new"]
