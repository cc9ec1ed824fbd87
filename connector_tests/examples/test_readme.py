"""What the README and the guide tell a reader to type works as it stands there."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

import rocketmq_spark
from connector_tests.examples.conftest import ROOT, Run
from connector_tests.support.streams import Topic, eventually
from rocketmq_spark.cli import broker, demo, main, send, topic
from rocketmq_spark.embedded import EmbeddedCluster
from rocketmq_spark.model import retry_topic

README: Final = "README.md"
GUIDE: Final = "docs/guide"
PAGES: Final = (README, *sorted(page.relative_to(ROOT).as_posix() for page in (ROOT / GUIDE).glob("*.md")))
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
# Shown to be typed, and run by other tests or by no test for what they would do to the machine.
RUN_ELSEWHERE: Final = {
    "python3 -m venv .venv",
    ". .venv/bin/activate",
    "pip install --editable .",
    "pip install --editable '.[dev]'",
    "python",
    "SPARK_CONF_DIR=conf spark-submit examples/04_spark_submit_job.py",
    'export PYSPARK_PYTHON="$VIRTUAL_ENV/bin/rocketmq-spark-python"',
}
PARSERS: Final = {
    "broker": broker.new_parser,
    "demo": demo.new_parser,
    "send": send.new_parser,
    "topic": topic.new_parser,
}

RunPage = Callable[..., str]


def text_of(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text_of(page), re.DOTALL)


def commands(page: str) -> list[str]:
    return [line for block in blocks(page, "sh") for line in block.splitlines() if line]


@pytest.fixture
def run_page(run: Run, cluster: EmbeddedCluster, messages: Topic, group: str, tmp_path: Path) -> RunPage:
    """Run the Python blocks of a page, one after another, and ``more``; says what they printed.

    The cluster, the topic and the groups are the test's.
    """

    def run_blocks(page: str, more: str = "", served: EmbeddedCluster = cluster) -> str:
        code = "\n".join((*([] if page == README else [SESSION]), *blocks(page, "python")))
        for shown, own in (
            ("127.0.0.1:9876", served.namesrv_addr),
            ('"my-', f'"{group}-'),
            ('"orders"', f'"{messages.name}"'),
        ):
            assert shown in code
            code = code.replace(shown, own)
        if PROXY in code:
            code = code.replace(PROXY, served.endpoints)
        (tmp_path / "blocks.py").write_text(code + more, encoding="utf-8")
        return run(sys.executable, "blocks.py")

    return run_blocks


def test_every_page_of_the_guide_with_something_to_run_is_run_by_a_test() -> None:
    tested = Path(__file__).read_text(encoding="utf-8")
    with_code = [page for page in PAGES[1:] if "```python" in (ROOT / page).read_text(encoding="utf-8")]
    assert len(with_code) >= 4
    assert [page for page in with_code if f'run_page(f"{{GUIDE}}/{Path(page).name}"' not in tested] == []


def test_the_quick_start_shows_what_it_has_sent(
    run_page: RunPage, cluster: EmbeddedCluster, messages: Topic, group: str
) -> None:
    (command,) = [command for command in commands(README) if command.startswith("rocketmq-spark send")]
    arguments = [messages.name if word == "orders" else word for word in shlex.split(command)[1:]]
    assert main.main([*arguments, "--namesrv", cluster.namesrv_addr]) == 0
    printed = run_page(README)
    assert [line.count("|books|") for line in printed.splitlines() if "book" in line] == [1, 1, 1]
    assert all(f"|{body}" in printed for body in ("one book", "two books", "three books"))
    assert messages.lag(f"{group}-group") == 0


def test_reading_shows_bodies_and_sends(run_page: RunPage, cluster: EmbeddedCluster, messages: Topic) -> None:
    rocketmq_spark.send(cluster.namesrv_addr, messages.name, ["one book", "two books", "three books"])
    printed = run_page(f"{GUIDE}/reading.md")
    assert all(f"{body}|" in printed for body in ("one book", "two books", "three books"))
    assert re.search(r"sent \('\w{32}', '\w{32}'\)", printed)
    eventually(lambda: sum(held.max_offset for held in messages.bounds().values()) == 5, "2 messages more")


def test_writing_writes_and_its_readers_find_it(
    run_page: RunPage, cluster: EmbeddedCluster, messages: Topic, group: str
) -> None:
    for command in commands(f"{GUIDE}/writing.md"):
        assert main.main([*shlex.split(command)[1:], "--namesrv", cluster.namesrv_addr]) == 0
    printed = run_page(f"{GUIDE}/writing.md")
    assert re.search(r"shipped: one book *\|books\|", printed)
    assert re.search(r"shipped: two pens *\| *pens\|", printed)
    assert messages.lag(f"{group}-shipping") == 0


def test_a_graceful_stop_leaves_no_lag(run_page: RunPage, messages: Topic, group: str) -> None:
    messages.send(3)
    run_page(f"{GUIDE}/groups-and-offsets.md")
    assert messages.lag(f"{group}-members") == 0


def test_messages_are_shared_one_by_one_from_brokers_and_through_a_proxy(run_page: RunPage, messages: Topic) -> None:
    bodies = ["one book", "two books", "three books"]
    with EmbeddedCluster(proxy=True) as proxied:
        proxied.create_topic(messages.name)
        rocketmq_spark.send(proxied.namesrv_addr, messages.name, bodies)
        printed = run_page(f"{GUIDE}/message-granularity.md", served=proxied)
    assert [len(re.findall(rf"\| *{body}\|", printed)) for body in bodies] == [2, 2, 2]


def test_what_failed_is_sent_back_and_the_rest_is_written(
    run_page: RunPage, cluster: EmbeddedCluster, messages: Topic, group: str
) -> None:
    messages.send(3)
    messages.send_batches(2, size_bytes=1_000)
    good = 'spark.read.parquet("good-orders").count(), spark.read.parquet("good-shared-orders").count()'
    count = f'\nprint({good}, "good rows")\n'
    assert "3 3 good rows" in run_page(f"{GUIDE}/failed-messages.md", count)
    retried = Topic(cluster, retry_topic(f"{group}-retrying-group"))
    try:
        eventually(lambda: sum(held.max_offset for held in retried.bounds().values()) == 2, "2 messages come again")
    finally:
        retried.close()


def test_production_shows_the_lag_and_a_test_that_passes(run_page: RunPage, messages: Topic) -> None:
    messages.send(3)
    printed = run_page(f"{GUIDE}/production.md", CALL_THE_TEST)
    assert "lag 0 by queue {" in printed
    assert "the test passes" in printed


def test_security_reads_from_servers_that_ask_for_keys_and_tls(
    run_page: RunPage, messages: Topic, tmp_path: Path
) -> None:
    with EmbeddedCluster(acl=True, tls=True) as secured:
        secured.create_topic(messages.name)
        rocketmq_spark.send(secured.namesrv_addr, messages.name, ["one", "two"], options=secured.security_options)
        lines = [f"{name}={value}" for name, value in secured.security_options.items()]
        (tmp_path / "connection.options").write_text("\n".join(lines), encoding="utf-8")
        assert "read 2" in run_page(f"{GUIDE}/security.md", served=secured)


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
