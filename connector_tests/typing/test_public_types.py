"""The types of what users call, as mypy sees them from outside: what comes back, and what is refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from mypy import api

ROOT = Path(__file__).parents[2]

HEAD = """\
from collections.abc import Iterator
from pathlib import Path
from pyspark.sql import DataFrame, Row
from pyspark.sql.streaming.query import StreamingQuery
import rocketmq_spark
from rocketmq_spark.embedded import EmbeddedCluster
frame: DataFrame
rows: Iterator[Row]
query: StreamingQuery
cluster: EmbeddedCluster
"""

REVEALED = {
    "rocketmq_spark.__version__": "str",
    "rocketmq_spark.send": (
        "def (namesrv_addr: str, topic: str, messages: str | bytes | bytearray | memoryview[int] | "
        "Iterable[str | bytes | bytearray | memoryview[int]], *, tags: str | None =, "
        "keys: str | Sequence[str] | None =, properties: Mapping[str, str] | None =, "
        "options: Mapping[str, str] =) -> tuple[str, ...]"
    ),
    "rocketmq_spark.send_back": (
        "def (failed: DataFrame | Iterable[Row], options: Mapping[str, str], *, delay_level: int =, "
        "max_reconsume_times: int | None =)"
    ),
    "rocketmq_spark.stop": "def (query: StreamingQuery, timeout_s: float =)",
    "rocketmq_spark.send('a:1', 't', (str(n) for n in range(3)))": "tuple[str, ...]",
    "EmbeddedCluster().__enter__()": "EmbeddedCluster",
    "cluster.namesrv_addr": "str",
    "cluster.broker_names": "tuple[str, ...]",
    "cluster.create_topic('orders')": "str",
    "cluster.store_dir()": "Path",
    "cluster.mqadmin('clusterList')": "str",
    "cluster.security_options": "dict[str, str]",
}

ACCEPTED = [
    "rocketmq_spark.send('a:1', 't', ['text', b'bytes'], keys=['k', 'l'])",
    "rocketmq_spark.send_back(frame, {'subscribe': 't'}, delay_level=3)",
    "rocketmq_spark.send_back(rows, {'subscribe': 't'})",
    "rocketmq_spark.stop(query, timeout_s=1)",
    "rocketmq_spark.run_available_now(frame.writeStream)",
    "rocketmq_spark.run_available_now(frame.writeStream, lambda writer: writer.toTable('orders'))",
    "rocketmq_spark.progress_of(query)[0].get('lag')",
    "rocketmq_spark.plot_lag(query)",
    "rocketmq_spark.plot_lag(query, by='queue')",
    "EmbeddedCluster(2, separate_jvms=True, store_dir=Path('s'), broker_config={'a': 'b'}).start()",
]

REFUSED = [
    "rocketmq_spark.send('a:1', 't', 7)",
    "rocketmq_spark.run_available_now(frame)",
    "rocketmq_spark.run_available_now(frame.writeStream, lambda writer: None)",
    "rocketmq_spark.send('a:1', 't', 'm', properties={'count': 1})",
    "rocketmq_spark.send('a:1', 't', 'm', 'tags are a keyword')",
    "rocketmq_spark.send_back([{'topic': 't'}], {})",
    "rocketmq_spark.send_back(frame, {'retryTopic': True})",
    "rocketmq_spark.stop('the query')",
    "rocketmq_spark.plot_lag('the query')",
    "rocketmq_spark.plot_lag(query, by='broker')",
    "rocketmq_spark.plot_lag(query, 'queue')",
    "EmbeddedCluster(brokers='two')",
    "cluster.create_topic('orders', perm='rw')",
]


def problems_of(lines: list[str], file: Path) -> dict[str, list[str]]:
    """What mypy, as the project has it, states of each line by itself."""
    file.write_text(HEAD + "\n".join(lines), encoding="utf-8")
    printed, failure, _ = api.run(["--config-file", str(ROOT / "pyproject.toml"), str(file)])
    assert not failure
    found: dict[str, list[str]] = {line: [] for line in lines}
    for number, text in re.findall(r"use\.py:(\d+): (.*)$", printed, re.MULTILINE):
        found[lines[int(number) - HEAD.count("\n") - 1]].append(text)
    return found


@pytest.fixture(scope="module")
def problems(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    lines = [*(f"reveal_type({expression})" for expression in REVEALED), *ACCEPTED, *REFUSED]
    return problems_of(lines, tmp_path_factory.mktemp("typing") / "use.py")


@pytest.mark.parametrize("expression", REVEALED)
def test_a_public_name_has_its_type(problems: dict[str, list[str]], expression: str) -> None:
    (printed,) = problems[f"reveal_type({expression})"]
    printed = re.sub(r"\b(?:[a-z_]+\.)+(?=\w)", "", printed)  # modules
    assert printed == f'note: Revealed type is "{REVEALED[expression]}"'


@pytest.mark.parametrize("line", ACCEPTED)
def test_a_right_call_is_accepted(problems: dict[str, list[str]], line: str) -> None:
    assert problems[line] == []


@pytest.mark.parametrize("line", REFUSED)
def test_a_wrong_call_is_refused(problems: dict[str, list[str]], line: str) -> None:
    assert any(text.startswith("error:") for text in problems[line])
