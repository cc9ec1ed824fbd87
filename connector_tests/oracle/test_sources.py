"""What is cited as a source is a class of RocketMQ's own jars, in the version that CONTRIBUTING names."""

from __future__ import annotations

import re
from fnmatch import filter as matching
from pathlib import Path
from zipfile import ZipFile

import pytest

import rocketmq_spark
from rocketmq_spark.embedded.jars import DEFAULT_VERSION, rocketmq_class_path

PACKAGE = Path(rocketmq_spark.__file__).parent
CITATION = re.compile(r"\bSource(?: of[^:.]*)?:\s+(``[^`]*``|[^\s\"]+)")
JAVA_FILE = re.compile(r"``((?!java/)[a-z]+(?:/[a-z0-9*]+)*/(?:[A-Z]\w+|\*)\.java)(?:#\w+)?``")
NOT_ROCKETMQ = re.compile(r"``(?:java/lang/|org/apache/spark/).*\.(?:java|scala)(?:#\w+)?``")
OUR_OWN = {
    # A format that Java leaves to libraries, or helpers without a counterpart.
    "wire/remoting/fastjson.py", "wire/remoting/frame.py", "wire/remoting/frame_arena.py", "wire/remoting/typed.py",
    "wire/remoting/fast_path_response.py", "wire/remoting/pull_frames.py", "wire/remoting/refusal.py",
    # Two implementations of ours.
    "wire/implementation.py", "wire/remoting/native_responses.py",
    # What the member needs because it lives in Spark, and what no Java class has as a subject.
    "consumer/broker_identities.py", "consumer/group_members.py", "consumer/offset_committer.py",
    "consumer/heartbeats.py", "consumer/cluster_api.py",
    "consumer/membership.py", "consumer/offset_file.py", "consumer/outage_tracker.py",
    "consumer/offset_resets.py",
    "consumer/membership_state.py", "consumer/strategy_names.py", "consumer/subscription_check.py",
    "consumer/group_lock.py", "consumer/slave_reads.py", "consumer/standalone_consumer.py",
    "consumer/subscribed_topics.py", "consumer/task_reports.py", "consumer/topic_routes.py",
}  # fmt: skip
OWN_ROOMS = ("wire/arrow/",)
"""Java's client decodes messages one by one, see wire/message."""
MODULES = [*PACKAGE.rglob("*.py")]


def name_of(file: Path) -> str:
    return file.relative_to(PACKAGE).as_posix()


def ill_formed(text: str) -> list[str]:
    return [cited for cited in CITATION.findall(text) if not (JAVA_FILE.fullmatch(cited) or NOT_ROCKETMQ.match(cited))]


@pytest.fixture(scope="module")
def java_files() -> set[str]:
    """Of RocketMQ, below org/apache/rocketmq."""
    root = "org/apache/rocketmq/"
    names = {
        name for jar in rocketmq_class_path(proxy=True) for name in ZipFile(jar).namelist() if name.startswith(root)
    }
    return {name.removeprefix(root).replace(".class", ".java") for name in names}


def test_every_source_is_a_java_file() -> None:
    assert {name_of(file): wrong for file in MODULES if (wrong := ill_formed(file.read_text(encoding="utf-8")))} == {}


def test_every_java_file_that_is_named_is_there(java_files: set[str]) -> None:
    named = {cited: name_of(file) for file in MODULES for cited in JAVA_FILE.findall(file.read_text(encoding="utf-8"))}
    assert len(named) > 30
    assert {cited: where for cited, where in named.items() if not matching(java_files, cited)} == {}


def test_modules_that_follow_java_declare_it() -> None:
    written = [file for file in MODULES if file.stem != "__init__" and not file.stem.endswith("_pb2")]
    names = {name_of(file): file for file in written if name_of(file).startswith(("wire/", "consumer/"))}
    uncited = {name for name, file in names.items() if not CITATION.search(file.read_text(encoding="utf-8"))}
    assert {name for name in uncited if not name.startswith(OWN_ROOMS)} == OUR_OWN


def test_contributing_names_the_version_of_the_sources() -> None:
    contributing = (PACKAGE.parent / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert f"`rocketmq-all-{DEFAULT_VERSION}`" in contributing


@pytest.mark.parametrize("cited", ["MessageDecoder", "``MixAll#getRetryTopic``", "``message/MessageDecoder``"])
def test_what_is_no_java_file_is_found(cited: str) -> None:
    assert ill_formed(f"Source: {cited}") == [cited]
