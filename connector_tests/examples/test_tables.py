"""The jobs that write to Delta and Iceberg tables and read them, killed between the table's commit and the
checkpoint's: ``make test-tables``."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from shutil import copytree, rmtree
from typing import Final

import pytest

from connector_tests.support.other_sparks import ROOT
from connector_tests.support.streams import Topic, eventually
from connector_tests.support.table_job import KEYS, REACHED_S, TableJob, body_of, steady_orders
from connector_tests.support.written_rows import stored
from rocketmq_spark.embedded import EmbeddedCluster
from rocketmq_spark.model import Message
from rocketmq_spark.remoting.pool import ConnectionPool

pytestmark = [pytest.mark.tables, pytest.mark.timeout(3600)]

Note = Callable[[str], None]
FIGURES: Final = ROOT / "build" / "tables.txt"
KILLS: Final = 2
ROWS: Final = 100_000
ROWS_BEFORE: Final = 400
ROWS_AFTER: Final = 300
NOW: Final = ("--every", "0 seconds")

APPEND: Final = {"delta": "06_delta_append.py", "iceberg": "09_iceberg_append.py"}
MERGE: Final = {"delta": "07_delta_merge.py", "iceberg": "10_iceberg_merge.py"}
TO_TOPIC: Final = {"delta": "08_delta_to_topic.py", "iceberg": "11_iceberg_to_topic.py"}


@pytest.fixture(
    params=[("delta", "4.1.4"), ("delta", "4.2.0"), ("iceberg", "4.1.4")], ids=lambda param: f"{param[0]}-{param[1]}"
)
def job(request: pytest.FixtureRequest, tmp_path: Path) -> TableJob:
    table_format, version = request.param
    return TableJob(table_format, version, tmp_path / "job")


@pytest.fixture
def note(request: pytest.FixtureRequest) -> Note:
    """Keep the figures of a story in ``build/tables.txt``, where ``make test-tables`` shows them."""

    def append(figures: str) -> None:
        with FIGURES.open("a", encoding="utf-8") as file:
            file.write(f"{request.node.name}: {figures}\n")

    return append


def given(cluster: EmbeddedCluster, topic: str, group: str) -> tuple[str, ...]:
    return ("--namesrv", cluster.namesrv_addr, "--topic", topic, "--group", group)


def written_with_kills(
    job: TableJob, example: str, cluster: EmbeddedCluster, messages: Topic, group: str
) -> list[tuple[str, int]]:
    """What was sent to the example's topic until it had written all, killed in between."""
    arguments = (*given(cluster, messages.name, group), *NOW)
    with steady_orders(messages) as sent:
        for _ in range(KILLS):
            job.kill_when(example, job.has_table_ahead_of_checkpoint, *arguments)
    read_to_end(job, example, messages, group, *arguments)
    return sent


def read_to_end(job: TableJob, example: str, messages: Topic, group: str, *arguments: str) -> None:
    """Run it until the group has all that is there. A group that has it already is left behind first."""
    batches = job.batches_logged()

    def is_at_the_end() -> bool:
        return job.batches_logged() > batches and not job.is_in_a_batch() and messages.lag(group) == 0

    with job.running(example, *arguments) as process:
        eventually(lambda: process.poll() is not None or is_at_the_end(), "a group without lag", REACHED_S)
        assert process.poll() is None


def noted_rows(job: TableJob, sent: list[tuple[str, int]], note: Note, when: str = "") -> Counter[tuple[str, int]]:
    """Count the table's rows by order and version, and note how many of ``sent`` are missing or there twice."""
    rows = Counter((row["orderNo"], row["version"]) for row in job.rows())
    note(f"{len(sent)} sent, {len(set(sent) - set(rows))} lost, {rows.total() - len(rows)} twice {when}".rstrip())
    return rows


def send_orders(messages: Topic, first: int, count: int) -> list[tuple[str, int]]:
    orders = [(f"A-{version % KEYS}", version) for version in range(first, first + count)]
    messages.send_as_they_are([Message(messages.name, body_of(*order)) for order in orders])
    return orders


def test_a_topic_appended_to_a_table_is_there_once(
    job: TableJob, cluster: EmbeddedCluster, messages: Topic, group: str, note: Note
) -> None:
    sent = written_with_kills(job, APPEND[job.table_format], cluster, messages, group)
    rows = noted_rows(job, sent, note)
    assert rows == Counter(sent)


def test_a_backlog_of_several_batches_is_appended_by_one_run(
    job: TableJob, cluster: EmbeddedCluster, messages: Topic, group: str, note: Note
) -> None:
    sent = send_orders(messages, 0, ROWS_BEFORE)
    limit = ("--option", f"maxOffsetsPerTrigger={ROWS_BEFORE // 4}")
    job.run_to_end(APPEND[job.table_format], *given(cluster, messages.name, group), *limit)
    rows = noted_rows(job, sent, note, f"with a lag of {messages.lag(group)} after one run")
    assert rows == Counter(sent)
    assert messages.lag(group) == 0


def test_a_restored_table_gets_its_rows_again(
    job: TableJob, cluster: EmbeddedCluster, messages: Topic, group: str, note: Note
) -> None:
    """And a new checkpoint continues from the group's offsets, into the same table."""
    example, arguments = APPEND[job.table_format], (*given(cluster, messages.name, group), *NOW)
    sent = send_orders(messages, 0, ROWS_BEFORE)
    read_to_end(job, example, messages, group, *arguments)
    copytree(job.folder, kept := job.folder.with_name("yesterday"))
    sent += send_orders(messages, len(sent), ROWS_AFTER)
    read_to_end(job, example, messages, group, *arguments)
    rmtree(job.folder)
    kept.rename(job.folder)
    sent += send_orders(messages, len(sent), 1)
    read_to_end(job, example, messages, group, *arguments, "--option", "groupOffsets=checkpoint")
    rows = noted_rows(job, sent, note, "after a restore")
    assert rows == Counter(sent)

    rmtree(job.folder / "checkpoint")
    sent += send_orders(messages, len(sent), ROWS_AFTER)
    read_to_end(job, example, messages, group, *arguments)
    rows = noted_rows(job, sent, note, "with a new checkpoint")
    assert rows == Counter(sent)


def test_a_table_that_its_own_command_restored_has_what_the_page_claims(
    job: TableJob, cluster: EmbeddedCluster, messages: Topic, group: str, note: Note
) -> None:
    """Iceberg's ``rollback_to_snapshot`` is safe. After Delta's ``RESTORE TABLE`` the restored checkpoint loses rows; a
    new checkpoint with a start before that moment does not."""
    example, arguments = APPEND[job.table_format], (*given(cluster, messages.name, group), *NOW)
    checkpoint, kept = job.folder / "checkpoint", job.folder / "yesterday"
    begun_ms = time.time_ns() // 1_000_000
    sent = send_orders(messages, 0, ROWS_BEFORE)
    read_to_end(job, example, messages, group, *arguments)
    copytree(checkpoint, kept)
    version = job.table_version()
    sent += send_orders(messages, len(sent), ROWS_AFTER)
    read_to_end(job, example, messages, group, *arguments)

    job.restore_table(version)
    assert len(job.rows()) == ROWS_BEFORE
    rmtree(checkpoint)
    kept.rename(checkpoint)
    sent += send_orders(messages, len(sent), 1)
    read_to_end(job, example, messages, group, *arguments, "--option", "groupOffsets=checkpoint")
    rows = noted_rows(job, sent, note, "after its own command")
    if job.table_format == "iceberg":
        assert rows == Counter(sent)
        return
    assert set(sent) - set(rows), "Delta restores batch numbers now: change the page"

    rmtree(checkpoint)
    options = ("groupOffsets=ignore", f"startingTimestamp={begun_ms}", "startingOffsetsByTimestampStrategy=latest")
    read_to_end(job, example, messages, group, *arguments, *(part for one in options for part in ("--option", one)))
    rows = noted_rows(job, sent, note, "with a new checkpoint")
    assert set(rows) == set(sent)


@pytest.mark.parametrize("job", [("iceberg", "4.1.4")], indirect=True, ids=["iceberg-4.1.4"])
def test_a_replayed_batch_is_written_twice_if_its_snapshot_was_expired(
    job: TableJob, cluster: EmbeddedCluster, messages: Topic, group: str, note: Note
) -> None:
    """As the page warns: the batch's number is in the snapshot."""
    example, arguments = APPEND[job.table_format], (*given(cluster, messages.name, group), *NOW)
    sent = send_orders(messages, 0, ROWS_BEFORE)
    job.kill_when(example, job.has_table_ahead_of_checkpoint, *arguments)
    job.expire_snapshots()
    sent += send_orders(messages, len(sent), 1)
    read_to_end(job, example, messages, group, *arguments)
    rows = noted_rows(job, sent, note, "after expire_snapshots")
    assert set(rows) == set(sent)
    assert rows.total() > len(rows), "the table kept the batch's number: change the page"


def test_a_merged_table_has_the_newest_version_of_each_key(
    job: TableJob, cluster: EmbeddedCluster, messages: Topic, group: str, note: Note
) -> None:
    sent = written_with_kills(job, MERGE[job.table_format], cluster, messages, group)
    rows = [(row["orderNo"], row["version"]) for row in job.rows()]
    note(f"{len(sent)} sent, {len(rows)} keys, {len(set(rows) - set(dict(sent).items()))} wrong")
    assert sorted(rows) == sorted(dict(sent).items())
    assert all(row["status"] == f"status {row['version']}" for row in job.rows())


def test_rows_of_a_table_keep_their_ids_on_other_cores(
    job: TableJob, cluster: EmbeddedCluster, messages: Topic, group: str, note: Note
) -> None:
    example, arguments = TO_TOPIC[job.table_format], given(cluster, messages.name, group)
    job.fill(0, ROWS, 3)
    for master, split in (("local[1]", "128m"), ("local[3]", "100k")):
        before = offsets_of(messages)

        def has_sent_some(before: int = before) -> bool:
            return job.is_in_a_batch() and offsets_of(messages) > before

        job.kill_when(
            example, has_sent_some, *arguments, *NOW, spark_master=master, spark_sql_files_maxPartitionBytes=split
        )
    job.fill(ROWS, ROWS, 2)
    job.run_to_end(example, *arguments)
    pool = ConnectionPool(15_000)
    try:
        rows = stored(cluster, messages.name, pool)
    finally:
        pool.close()
    bodies_of_ids = {(row["msgId"], row["body"]) for row in rows}
    ids, bodies = {one for one, _ in bodies_of_ids}, {body for _, body in bodies_of_ids}
    note(f"{2 * ROWS} rows, {len(rows)} stored, {len(ids)} ids, {len(bodies_of_ids) - len(ids)} ids of two rows")
    assert len(rows) > 2 * ROWS, "no row was written twice: the kills came too late"
    assert len(bodies) == len(ids) == len(bodies_of_ids) == 2 * ROWS


def offsets_of(messages: Topic) -> int:
    return sum(held.max_offset for held in messages.bounds().values())
