"""What the README and the guide tell a reader to type works as it stands there."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest

import rocketmq_spark
from connector_tests.examples.conftest import ROOT, own_environment
from connector_tests.support.cluster_pool import ClusterPool
from connector_tests.support.pages_program import END_OF_PAGE
from connector_tests.support.streams import Topic, eventually
from connector_tests.support.timeouts import PROCESS_S
from rocketmq_spark.cli import broker, demo, dlq, doctor, lag, main, offsets, send, tail, topic
from rocketmq_spark.embedded import EmbeddedCluster
from rocketmq_spark.embedded.pytest_plugin import unique_name
from rocketmq_spark.embedded.servers import free_port
from rocketmq_spark.model import retry_topic

pytestmark = pytest.mark.timeout(1_500)

README: Final = "README.md"
STARTED: Final = "docs/getting-started.md"
GUIDE: Final = "docs"
USERS_FOLDERS: Final = ("guide", "migration", "reference")
PAGES: Final = (
    README,
    *sorted(page.relative_to(ROOT).as_posix() for page in (ROOT / GUIDE).glob("*.md")),
    *sorted(
        page.relative_to(ROOT).as_posix() for folder in USERS_FOLDERS for page in (ROOT / GUIDE / folder).glob("*.md")
    ),
)
DOCUMENTS: Final = sorted(
    page.relative_to(ROOT).as_posix() for page in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"))
)

SESSION: Final = """
from pyspark.sql import SparkSession
spark = SparkSession.builder.appName("guide").getOrCreate()
"""
CALL_THE_TEST: Final = """
from pathlib import Path
from rocketmq_spark.embedded.pytest_plugin import unique_name
with EmbeddedCluster() as own:
    test_my_job_reads_its_topic(own, own.create_topic(unique_name("guide")), Path("tested").absolute())
print("the test passes")
"""
PROXY: Final = "127.0.0.1:8081"
METRICS_PORT: Final = "9404"
BOOKS: Final = ("one book", "two books", "three books")
TIMEOUT_S: Final = 4 * PROCESS_S
"""For all pages of the guide, one after another."""
# Shown to be typed, and run by other tests or by no test for what they would do to the machine.
RUN_ELSEWHERE: Final = {
    "python3 -m venv .venv",
    ". .venv/bin/activate",
    "pip install --editable '.[dev]'",
    "python orders.py",
    "rm -r orders-checkpoint orders-table",
    "SPARK_CONF_DIR=conf spark-submit examples/04_spark_submit_job.py",
    "pip install .",
    "pip install pyspark==4.1.4 .",
    "python examples/06_delta_append.py",
    'export PYSPARK_PYTHON="$VIRTUAL_ENV/bin/rocketmq-spark-python"',
}
PARSERS: Final = {
    "broker": broker.new_parser,
    "demo": demo.new_parser,
    "dlq": dlq.new_parser,
    "doctor": doctor.new_parser,
    "lag": lag.new_parser,
    "offsets": offsets.new_parser,
    "send": send.new_parser,
    "tail": tail.new_parser,
    "topic": topic.new_parser,
}


def text_of(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text_of(page), re.DOTALL)


def commands(page: str) -> list[str]:
    return [line for block in blocks(page, "sh") for line in block.splitlines() if line]


@dataclass(frozen=True)
class Page:
    """A page whose Python blocks are run, and what a reader has done before that."""

    name: str
    prepare: Callable[[EmbeddedCluster, Topic, Path], object]
    """Called with the cluster that the page reads, the page's topic, and the folder in which all pages are run."""
    shape: Mapping[str, bool] = field(default_factory=dict)
    """Of a cluster that is not the session's."""
    more: str = ""
    """Code that is run after the page's own."""
    has_own_cluster: bool = False
    """Whether its code starts the cluster that it reads."""


@dataclass(frozen=True)
class PageRun:
    """A page that was run: the topic and the prefix of the groups that stood in it, and what it printed."""

    messages: Topic
    group: str
    printed: str


def send_as_shown(cluster: EmbeddedCluster, messages: Topic, folder: Path) -> None:
    """The first page's ``rocketmq-spark send``."""
    (command,) = [command for command in commands(STARTED) if command.startswith("rocketmq-spark send")]
    arguments = [messages.name if word == "orders" else word for word in shlex.split(command)[1:]]
    assert main.main([*arguments, "--namesrv", cluster.namesrv_addr]) == 0


def send_books(cluster: EmbeddedCluster, messages: Topic, folder: Path) -> None:
    rocketmq_spark.send(cluster.namesrv_addr, messages.name, BOOKS, options=cluster.security_options)


def run_commands_of_writing(cluster: EmbeddedCluster, messages: Topic, folder: Path) -> None:
    for command in commands(f"{GUIDE}/writing.md"):
        assert main.main([*shlex.split(command)[1:], "--namesrv", cluster.namesrv_addr]) == 0


def send_good_and_failing(cluster: EmbeddedCluster, messages: Topic, folder: Path) -> None:
    messages.send(3)
    messages.send_batches(2, size_bytes=1_000)


def save_options(cluster: EmbeddedCluster, messages: Topic, folder: Path) -> None:
    send_books(cluster, messages, folder)
    lines = [f"{name}={value}" for name, value in cluster.security_options.items()]
    (folder / "connection.options").write_text("\n".join(lines), encoding="utf-8")


COUNT_GOOD_ROWS: Final = """
print(spark.read.parquet("good-orders").count(), spark.read.parquet("good-shared-orders").count(), "good rows")
"""
COUNT_ARCHIVED: Final = """
print(spark.read.parquet("archive").count(), "archived")
"""
PRINT_METRICS: Final = f"""
import time, urllib.request
for _ in range(600):
    scraped = urllib.request.urlopen("http://127.0.0.1:{METRICS_PORT}/metrics").read().decode()
    if "rocketmq_spark_up{{" in scraped:
        break
    time.sleep(0.1)
print(scraped)
"""
WRITTEN: Final = ('.option("topic", "traced-orders").save()\n', 'print("sent", ids)\n')
AWAIT_DISPATCH: Final = """
from contextlib import closing
from connector_tests.support.admin_broker import AdminBroker
from rocketmq_spark.model import BrokerAddress
from rocketmq_spark.remoting.pool import ConnectionPool
with closing(ConnectionPool(60_000)) as pool:
    AdminBroker(BrokerAddress({address!r}), pool, 60_000).await_dispatch()
"""
"""A page's next lines read what a broker has confirmed, and will have in its queues a moment later."""
FIRST_PAGES: Final = (Page(README, send_books, more=COUNT_ARCHIVED), Page(STARTED, send_as_shown))
GUIDE_PAGES: Final = (
    Page(f"{GUIDE}/reading.md", send_books),
    Page(f"{GUIDE}/writing.md", run_commands_of_writing),
    Page(f"{GUIDE}/consumer-groups.md", send_books),
    Page(f"{GUIDE}/message-mode.md", send_books, {"proxy": True}),
    Page(f"{GUIDE}/error-handling.md", send_good_and_failing, more=COUNT_GOOD_ROWS),
    Page(f"{GUIDE}/monitoring.md", send_books),
    Page(f"{GUIDE}/prometheus.md", send_books, more=PRINT_METRICS),
    Page(f"{GUIDE}/deployment.md", send_books, more=CALL_THE_TEST, has_own_cluster=True),
    Page(f"{GUIDE}/compatibility.md", send_books),
    Page(f"{GUIDE}/security.md", save_options, {"acl": True, "tls": True}),
)


def script_of(page: str, cluster: EmbeddedCluster, topic: str, group: str) -> str:
    """The Python blocks of a page, one after another, where cluster, topic and groups are the test's."""
    code = "\n".join(blocks(page, "python"))
    for shown, own in (
        ("127.0.0.1:9876", cluster.namesrv_addr),
        ('"my-', f'"{group}-'),
        ('"orders"', f'"{topic}"'),
    ):
        assert shown in code
        code = code.replace(shown, own)
    return code.replace(PROXY, cluster.endpoints) if PROXY in code else code


@pytest.fixture(scope="module")
def first_runs(clusters: ClusterPool, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, PageRun]]:
    with run_pages(FIRST_PAGES, clusters, tmp_path_factory.mktemp("first_pages")) as runs:
        yield runs


@pytest.fixture(scope="module")
def runs(clusters: ClusterPool, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, PageRun]]:
    """Of the guide."""
    with run_pages(GUIDE_PAGES, clusters, tmp_path_factory.mktemp("pages")) as runs:
        yield runs


@contextmanager
def run_pages(pages: Sequence[Page], clusters: ClusterPool, base: Path) -> Iterator[Mapping[str, PageRun]]:
    """The pages, run one after another in one Spark, by name."""
    given: dict[str, tuple[Topic, str]] = {}
    scripts: list[Path] = []
    with ExitStack() as topics:
        for page in pages:
            served = clusters.get(**page.shape)
            topic, group = unique_name("page"), unique_name("page_group")
            messages = topics.enter_context(closing(Topic(served, served.create_topic(topic))))
            page.prepare(served, messages, base)
            code = "" if page.name == STARTED else SESSION
            own = "\n".join(blocks(page.name, "python"))
            code += own if page.has_own_cluster else script_of(page.name, served, topic, group)
            for line in WRITTEN:
                code = code.replace(line, line + AWAIT_DISPATCH.format(address=served.broker_addr()))
            code = (code + page.more).replace(METRICS_PORT, str(free_port()))
            scripts.append(base / f"{Path(page.name).stem}.py")
            scripts[-1].write_text(code, encoding="utf-8")
            given[page.name] = (messages, group)
        printed = run_scripts(scripts, base)
        yield {name: PageRun(*run, text) for (name, run), text in zip(given.items(), printed, strict=True)}


def run_scripts(scripts: Sequence[Path], folder: Path) -> list[str]:
    """What each script prints when all are run in one Spark."""
    done = subprocess.run(
        (sys.executable, "-m", "connector_tests.support.pages_program"),
        input="".join(f"{script}\n" for script in scripts),
        cwd=folder,
        env=own_environment(folder),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout.split(END_OF_PAGE)[:-1]


def test_every_page_with_something_to_run_is_run() -> None:
    with_code = [page for page in PAGES if "```python" in text_of(page)]
    assert len(with_code) >= 5
    assert sorted(with_code) == sorted(page.name for page in (*FIRST_PAGES, *GUIDE_PAGES))


def test_quick_start_shows_what_it_has_sent(first_runs: Mapping[str, PageRun]) -> None:
    run = first_runs[STARTED]
    assert [line.count("|books|") for line in run.printed.splitlines() if "book" in line] == [1, 1, 1]
    assert all(f"|{body}" in run.printed for body in BOOKS)
    assert run.messages.lag(f"{run.group}-group") == 0


def test_readme_reads_a_topic_and_writes_to_it(first_runs: Mapping[str, PageRun]) -> None:
    run = first_runs[README]
    assert "3 archived" in run.printed
    assert "3 orders in the topic" in run.printed
    eventually(lambda: sum(held.max_offset for held in run.messages.bounds().values()) == 4, "1 message more")
    assert run.messages.lag(f"{run.group}-group") == 1


@pytest.mark.full
def test_reading_shows_bodies_and_sends(runs: Mapping[str, PageRun]) -> None:
    run = runs[f"{GUIDE}/reading.md"]
    assert all(f"{body}|" in run.printed for body in BOOKS)
    assert "in the topic: 3" in run.printed
    assert re.search(r"sent \('\w{32}', '\w{32}'\)", run.printed)
    assert re.search(r"\|4 *\|four books *\|", run.printed)
    assert [f"by {way}: 1" in run.printed for way in ("ID", "key at the broker", "ID at the broker")] == [True] * 3
    eventually(lambda: sum(held.max_offset for held in run.messages.bounds().values()) == 6, "3 messages more")


@pytest.mark.full
def test_writing_writes_and_its_readers_find_it(runs: Mapping[str, PageRun]) -> None:
    run = runs[f"{GUIDE}/writing.md"]
    assert re.search(r"shipped: one book *\|books\|", run.printed)
    assert re.search(r"shipped: two pens *\| *pens\|", run.printed)
    assert run.messages.lag(f"{run.group}-shipping") == 0


@pytest.mark.full
def test_trace_context_is_written_and_read_as_columns(runs: Mapping[str, PageRun]) -> None:
    traced = r" *\|00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\|NULL *\|"
    printed = runs[f"{GUIDE}/writing.md"].printed
    assert [body for body in ("one book", "two pens") if re.search(rf"\|{body}{traced}", printed)] == [
        "one book",
        "two pens",
    ]


@pytest.mark.full
def test_graceful_stop_leaves_no_lag(runs: Mapping[str, PageRun]) -> None:
    run = runs[f"{GUIDE}/consumer-groups.md"]
    assert run.messages.lag(f"{run.group}-members") == 0


@pytest.mark.full
def test_messages_come_from_brokers_and_through_a_proxy(runs: Mapping[str, PageRun]) -> None:
    printed = runs[f"{GUIDE}/message-mode.md"].printed
    assert [len(re.findall(rf"\| *{body}\|", printed)) for body in BOOKS] == [2, 2, 2]


@pytest.mark.full
def test_failed_rows_are_sent_back_and_others_written(runs: Mapping[str, PageRun], cluster: EmbeddedCluster) -> None:
    run = runs[f"{GUIDE}/error-handling.md"]
    assert "3 3 good rows" in run.printed
    with closing(Topic(cluster, retry_topic(f"{run.group}-retrying-group"))) as retried:
        eventually(lambda: sum(held.max_offset for held in retried.bounds().values()) == 2, "2 messages sent back")


@pytest.mark.full
def test_monitoring_shows_the_lag(runs: Mapping[str, PageRun]) -> None:
    run = runs[f"{GUIDE}/monitoring.md"]
    assert "lag 0 by queue {" in run.printed
    assert re.search(rf"{run.group}-watched-group *\|{run.messages.name} *\|0 *\|0 *\|", run.printed)


@pytest.mark.full
def test_prometheus_is_shown_the_rows_and_the_lag(runs: Mapping[str, PageRun]) -> None:
    printed = runs[f"{GUIDE}/prometheus.md"].printed
    of_query = r'\{query_id="[-0-9a-f]{36}",query_name="orders-app",source="0"\}'
    assert re.search(rf"(?m)^rocketmq_spark_rows_total{of_query} 3\.0$", printed)
    assert re.search(rf"(?m)^rocketmq_spark_lag_messages{of_query} 0\.0$", printed)


@pytest.mark.full
def test_deployment_shows_a_test_that_passes(runs: Mapping[str, PageRun]) -> None:
    assert "the test passes" in runs[f"{GUIDE}/deployment.md"].printed


@pytest.mark.full
def test_security_reads_from_servers_with_acl_and_tls(runs: Mapping[str, PageRun]) -> None:
    assert "read 3" in runs[f"{GUIDE}/security.md"].printed


@pytest.mark.parametrize(
    ("page", "command"), [(page, command) for page in (*PAGES, "CONTRIBUTING.md") for command in commands(page)]
)
def test_a_shell_command_is_one_that_there_is(
    page: str, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("connection.options").write_text("accessKey=me\nsecretKey=s", encoding="utf-8")
    match shlex.split(command.partition("  #")[0]):
        case ["make", *targets]:
            subprocess.run(["make", "--dry-run", *targets], cwd=ROOT, check=True, capture_output=True)
        case ["rocketmq-spark", name, *options]:
            assert name in main.COMMANDS
            PARSERS[name]().parse_args(options)
        case [".venv/bin/python", "-m", "pytest", *_, path]:
            assert (ROOT / path.partition("::")[0]).exists()
        case _:
            assert command in RUN_ELSEWHERE


@pytest.mark.parametrize("page", DOCUMENTS)
def test_links_lead_to_files_and_headings(page: str) -> None:
    targets = re.findall(r"\]\((?!https?:)([^)\s]*)\)", text_of(page))
    assert [target for target in targets if not is_there(ROOT / page, target)] == []


def is_there(page: Path, target: str) -> bool:
    """A file beside ``page``, with the heading behind the ``#`` if there is one."""
    name, _, anchor = target.partition("#")
    file = (page.parent / name).resolve() if name else page
    return file.exists() and (not anchor or anchor in anchors(file.read_text(encoding="utf-8")))


def anchors(text: str) -> set[str]:
    """What a link may name: headings in lower case, without punctuation, with dashes for spaces."""
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
