"""Every example does what it states, on a broker that it is given; one of them also on a broker of its own."""

from __future__ import annotations

import runpy
import sys
from collections import Counter
from pathlib import Path

import pytest

from connector_tests.examples.conftest import ROOT, Run
from connector_tests.support.streams import Topic
from rocketmq_spark.embedded import EmbeddedCluster
from rocketmq_spark.embedded.pytest_plugin import unique_name

EXAMPLES = sorted((ROOT / "examples").glob("[0-9]*.py"))
LINE_LIMIT = 80
LONG = "600"


def script(name: str) -> str:
    return str(ROOT / "examples" / name)


def given(cluster: EmbeddedCluster, topic: str, group: str) -> tuple[str, ...]:
    return ("--namesrv", cluster.namesrv_addr, "--topic", topic, "--group", group)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_an_example_fits_on_a_page(example: Path) -> None:
    assert len(example.read_text(encoding="utf-8").splitlines()) <= LINE_LIMIT


def test_every_example_is_run_by_a_test() -> None:
    tested = "".join(
        (Path(__file__).parent / name).read_text("utf-8") for name in ("test_examples.py", "test_tables.py")
    )
    assert [example.name for example in EXAMPLES if f'"{example.name}"' not in tested] == []


@pytest.mark.parametrize(
    "name", ["startingOffsets", "startingTimestamp", "startingOffsetsByTimestamp", "consumeFromWhere"]
)
def test_a_job_with_a_start_position_gets_no_second_one(name: str) -> None:
    with_start_position = runpy.run_path(script("sample.py"))["with_start_position"]
    assert with_start_position({name: "x"}) == {name: "x"}
    assert with_start_position({}) == {"startingOffsets": "earliest"}


@pytest.mark.full
def test_the_console_stream_prints_messages(
    run_until: Run, cluster: EmbeddedCluster, messages: Topic, group: str
) -> None:
    (body,) = messages.send(1, tag="TagA")
    example = (sys.executable, script("01_console_stream.py"), *given(cluster, messages.name, group))
    printed = run_until(f"|{body}", *example, "--seconds", LONG)
    assert f"|key-{body}|TagA|{body}|" in printed


@pytest.mark.full
def test_the_word_count_starts_a_broker_of_its_own_and_counts_its_words(run_until: Run) -> None:
    printed = run_until("sleeps", sys.executable, script("02_word_count.py"), "--seconds", LONG)
    assert "starting an embedded broker" in printed
    counts = counts_of_words(printed)
    assert (counts["the"], counts["fox"], counts["sleeps"]) == (3, 2, 1)


def counts_of_words(printed: str) -> Counter[str]:
    """The last count of each word and window, summed over the windows: the end of one may come between two messages."""
    rows = [[cell.strip() for cell in line.split("|")] for line in printed.splitlines()]
    last = {(row[1], row[2]): int(row[3]) for row in rows if len(row) == 5 and row[3].isdigit()}
    counts: Counter[str] = Counter()
    for (_, word), count in last.items():
        counts[word] += count
    return counts


@pytest.mark.full
def test_foreach_batch_writes_every_row_and_leaves_no_lag(
    run: Run, cluster: EmbeddedCluster, messages: Topic, group: str
) -> None:
    messages.send(12)
    example = script("03_foreach_batch_to_parquet.py")
    assert "12 rows in" in run(sys.executable, example, *given(cluster, messages.name, group))
    assert messages.lag(group) == 0


@pytest.mark.full
def test_what_is_read_is_written_to_another_topic_and_read_once(
    run: Run, cluster: EmbeddedCluster, messages: Topic, group: str
) -> None:
    into = cluster.create_topic(unique_name("words"))
    messages.send(5)
    example = (sys.executable, script("05_read_transform_write.py"), *given(cluster, messages.name, group))
    assert f"5 words in topic {into}" in run(*example, "--into", into)


@pytest.mark.full
def test_the_job_runs_through_spark_submit_with_the_files_of_conf(
    run: Run, cluster: EmbeddedCluster, messages: Topic, group: str, tmp_path: Path
) -> None:
    messages.send(7)
    options = (ROOT / "conf/connector.options.example").read_text(encoding="utf-8")
    for name, value in (
        ("namesrvAddr", cluster.namesrv_addr),
        ("consumerGroup", group),
        ("subscribe", messages.name),
    ):
        assert f"\n{name}=\n" in options
        options = options.replace(f"\n{name}=\n", f"\n{name}={value}\n")
    (tmp_path / "my.options").write_text(options, encoding="utf-8")
    job = ("spark-submit", script("04_spark_submit_job.py"), "--options", "my.options")
    assert "7 rows in" in run(*job, SPARK_CONF_DIR=str(ROOT / "conf"))
