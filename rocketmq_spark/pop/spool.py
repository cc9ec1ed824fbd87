"""The spool: batches on a local disk of the driver, from which a later start of the query replays a batch.

A batch is the file ``<folder>/<group>/<epoch>/<number>``: complete before Spark logs its number, deleted when it is
completed, and named ``<number>.frozen`` before ``mark_logged``. ``epoch`` identifies one start of the query, which
alone writes there, and holds a lock on its unlogged batch while it runs. By that lock, other starts detect that a start
was killed before Spark had logged anything: no checkpoint mentions it.
"""

from __future__ import annotations

import fcntl
import logging
import os
import re
import stat
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, Final
from urllib.parse import quote

from rocketmq_spark.errors import OptionError
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.pop.receipt_handles import ReceivedMessage
from rocketmq_spark.pop.spooled_batch import decode_spooled_batch, encode_spooled_batch

log = logging.getLogger(__name__)

_EPOCH: Final = re.compile(r"[0-9a-f]+")
_BATCH: Final = re.compile(r"([1-9][0-9]{0,17})(?:\.frozen)?")
UNLOGGED_SUFFIX: Final = ".frozen"
UNFINISHED_SUFFIX: Final = ".new"


class Spool:
    """A group's batches as files on the driver's disk, for a replay; unlogged: Spark has not logged the batch.

    Methods raise OptionError[SPOOL_DIR_UNUSABLE] where the disk cannot be written. ``epoch``: the hex ID of one start
    of the query. Not thread-safe; queries may share a folder, because each start has its own subfolder.
    """

    def __init__(self, folder: Path) -> None:
        """Create ``folder``, and its parents, if it is missing. Raises OptionError[SPOOL_DIR_UNUSABLE]."""
        self._folder = folder
        self._locked: IO[bytes] | None = None
        with self._raising_spool_errors():
            folder.mkdir(parents=True, exist_ok=True)

    def store(self, epoch: str, number: int, messages: Sequence[ReceivedMessage]) -> None:
        """Write a batch to a new unlogged file, locked until ``mark_logged``, ``close`` or the next call, and sync it
        to disk. Unlock the file of the call before. May wait for another start that removes the folder. Raises
        OptionError[SPOOL_DIR_UNUSABLE]."""
        folder = self._folder / epoch
        with self._raising_spool_errors():
            unfinished = folder / f"{number}{UNFINISHED_SUFFIX}"
            file = _open_locked(unfinished)
            self._keep_locked(file)
            file.write(encode_spooled_batch(messages))
            file.flush()
            os.fsync(file.fileno())
            unfinished.rename(folder / f"{number}{UNLOGGED_SUFFIX}")
            _sync_folder(folder)
            _sync_folder(self._folder)

    def mark_logged(self, epoch: str, number: int) -> None:
        """If the batch has an unlogged file, rename that as logged and sync the folder. Then unlock the last stored
        batch. Raises OptionError[SPOOL_DIR_UNUSABLE], ValueError for an invalid ``epoch``."""
        folder = self._folder_of(epoch)
        unlogged = folder / f"{number}{UNLOGGED_SUFFIX}"
        with self._raising_spool_errors():
            if unlogged.exists():
                unlogged.rename(folder / str(number))
                _sync_folder(folder)
        self._keep_locked(None)

    def close(self) -> None:
        """Unlock the batch that is still unlogged, if any, so that a later start may release its messages. Delete
        nothing."""
        self._keep_locked(None)

    def _keep_locked(self, file: IO[bytes] | None) -> None:
        """Keep ``file`` (None: no file) open, which the caller has locked, so that it stays locked. Close the previous
        file, which unlocks it. Ignore an error of closing: ``store`` has raised an error of writing."""
        previous, self._locked = self._locked, file
        if previous is not None:
            with suppress(OSError):
                previous.close()

    def load(self, epoch: str, number: int) -> tuple[ReceivedMessage, ...] | None:
        """Return a batch's messages, logged or not. Log a warning and return None if its file is missing, unreadable or
        damaged. Raises ValueError for an invalid ``epoch``."""
        folder = self._folder_of(epoch)
        try:
            return decode_spooled_batch(_read_either(folder / f"{number}{UNLOGGED_SUFFIX}", folder / str(number)))
        except (OSError, ValueError) as problem:
            log.warning(
                "SPOOL_BATCH_UNREADABLE: Cannot read batch=%d from spoolDir; brokers redeliver its messages, in "
                "another batch: %s",
                number,
                problem,
            )
            return None

    def load_after(self, epoch: str, number: int) -> list[ReceivedMessage]:
        """Return the messages of all batches of ``epoch`` with numbers above ``number``, by number. Omit unreadable
        batches, with a warning in the log: their messages are redelivered when they expire. Raises
        OptionError[SPOOL_DIR_UNUSABLE] if the folder cannot be read, ValueError for an invalid ``epoch``."""
        with self._raising_spool_errors():
            later = [other for other in self._batch_numbers(epoch) if other > number]
        return [one for other in later for one in self.load(epoch, other) or ()]

    def recover_abandoned(self) -> list[ReceivedMessage]:
        """Read, then delete, the batches of starts of the query that ended before Spark had logged any of their
        batches. Return the messages. Skip starts with a logged batch, and starts that still run: they have locked one.
        Skip links and folders that cannot be read. Raises OptionError[SPOOL_DIR_UNUSABLE] if a batch cannot be
        deleted."""
        found: list[ReceivedMessage] = []
        with suppress(OSError):
            for folder in sorted(self._folder.iterdir()):
                if _EPOCH.fullmatch(folder.name) and folder.is_dir() and not folder.is_symlink():
                    with suppress(OSError):  # another start has recovered it
                        found += self._recover(folder)
        return found

    def _recover(self, folder: Path) -> list[ReceivedMessage]:
        """Lock all files of a start's folder, delete its batches, and return their messages, by batch number. Omit
        unreadable batches, with a warning in the log: they are deleted too. If the folder has no files, a logged one,
        or one that another start has locked, delete nothing and return []. Raises OSError if the folder cannot be
        read, OptionError[SPOOL_DIR_UNUSABLE] if a batch cannot be deleted."""
        with ExitStack() as locked:
            files = sorted(folder.iterdir())
            if not files or not all(_try_lock_abandoned(file, locked) for file in files):
                return []
            numbers = self._batch_numbers(folder.name)
            found = [one for number in numbers for one in self.load(folder.name, number) or ()]
            self.delete(folder.name)
            return found

    def delete(self, epoch: str, number: int | None = None) -> None:
        """Delete the batches of ``epoch`` up to and including ``number``, logged or not. For None delete all its
        batches and unfinished files. Delete the epoch's subfolder if it is empty then. Ignore missing files. Raises
        OptionError[SPOOL_DIR_UNUSABLE], ValueError for an invalid ``epoch``."""
        folder = self._folder_of(epoch)
        with self._raising_spool_errors():
            for other in self._batch_numbers(epoch):
                if number is None or other <= number:
                    (folder / str(other)).unlink(missing_ok=True)
                    (folder / f"{other}{UNLOGGED_SUFFIX}").unlink(missing_ok=True)
            for unfinished in folder.glob(f"*{UNFINISHED_SUFFIX}") if number is None else ():
                unfinished.unlink(missing_ok=True)
        with suppress(OSError):  # it still has batches, or does not exist
            folder.rmdir()

    def _folder_of(self, epoch: str) -> Path:
        """Return the folder of a start. Raises ValueError for an invalid ``epoch``: it may come from an edited
        checkpoint."""
        if not _EPOCH.fullmatch(epoch):
            raise ValueError(f"{epoch!r} is no start of a query")
        return self._folder / epoch

    def _batch_numbers(self, epoch: str) -> list[int]:
        """Return the numbers of the batches of ``epoch``, logged or not, ascending; [] without a folder. Raises
        OSError, ValueError for an invalid ``epoch``."""
        folder = self._folder_of(epoch)
        names = [entry.name for entry in folder.iterdir()] if folder.is_dir() else []
        return sorted({int(found[1]) for name in names if (found := _BATCH.fullmatch(name))})

    @contextmanager
    def _raising_spool_errors(self) -> Iterator[None]:
        """Convert an OSError inside the block into OptionError[SPOOL_DIR_UNUSABLE]."""
        try:
            yield
        except OSError as error:
            raise OptionError("SPOOL_DIR_UNUSABLE", folder=str(self._folder), problem=str(error)) from error


def spool_of(options: ReadOptions) -> Spool | None:
    """Return the spool of the group in ``spoolDir``, and create its folder. Return None without that option. Raises
    OptionError[SPOOL_DIR_UNUSABLE]."""
    if options.spool_dir is None:
        return None
    return Spool(Path(options.spool_dir).expanduser() / quote(options.consumer_group, ""))


def _read_either(first: Path, second: Path) -> bytes:
    """Return the content of the first file, or, if it is missing, of the second one. Raises OSError, also if both are
    missing."""
    try:
        return _read_regular(first)
    except FileNotFoundError:
        return _read_regular(second)


def _read_regular(file: Path) -> bytes:
    """Return a file's content. Raises OSError, also for a link, which is not followed, and for a pipe, without waiting
    for it."""
    descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(f"{file} is no regular file")
        with open(descriptor, "rb", closefd=False) as opened:
            return opened.read()
    finally:
        os.close(descriptor)


def _open_locked(file: Path) -> IO[bytes]:
    """Create or empty a file, wait for its lock, and return it open and locked. If another start removes the file
    before it is locked, create it again, with its folder. On a disk without locks return it unlocked: there
    ``_try_lock_abandoned`` returns False for each file. Raises OSError."""
    while True:
        file.parent.mkdir(mode=0o700, exist_ok=True)
        with suppress(FileNotFoundError):
            opened = file.open("wb")
            with suppress(OSError):
                fcntl.flock(opened, fcntl.LOCK_EX)
            if _is_same_file(file, opened):
                return opened
            opened.close()


def _try_lock_abandoned(file: Path, locked: ExitStack) -> bool:
    """Lock a file if it is an unlogged or unfinished batch that no start has locked, and return whether it is; do not
    wait for a lock. It stays locked until ``locked`` is closed: a start that is about to write the file waits."""
    if file.suffix not in {UNLOGGED_SUFFIX, UNFINISHED_SUFFIX}:
        return False
    try:
        opened = locked.enter_context(file.open("rb+"))
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return _is_same_file(file, opened)


def _is_same_file(file: Path, opened: IO[bytes]) -> bool:
    """Return whether the path still refers to the opened file; False if it was removed or replaced."""
    try:
        return file.stat().st_ino == os.fstat(opened.fileno()).st_ino
    except OSError:
        return False


def _sync_folder(folder: Path) -> None:
    """Sync a folder, and with it the names of its files, to disk, and wait. Raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
