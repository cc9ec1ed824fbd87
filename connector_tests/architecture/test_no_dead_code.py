"""Every function, method, class and optional parameter of the package is used by the package, or by who is named here.

Names are not enough: a method that shares its name with another would never die. ``References`` reports them apart.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

import pytest

import rocketmq_spark
from connector_tests.support.references import References, write_references
from rocketmq_spark.wire.arrow.column_table import COLUMNS

PACKAGE: Final = Path(rocketmq_spark.__file__).parent
SETTINGS: Final = PACKAGE.parent / "pyproject.toml"
CLUSTER: Final = "rocketmq_spark.embedded.cluster.EmbeddedCluster"

FOR_USERS: Final = {
    "rocketmq_spark.failed_rows.send_back.send_back": "the package's __init__ loads it by name",
    "rocketmq_spark.source.stream.available_now_runs.run_available_now": "the same",
    "rocketmq_spark.metrics.lag_figure.LagFigure._repr_png_": "a notebook calls it",
    "rocketmq_spark.metrics.lag_plot.plot_lag": "what users call in a notebook",
    "rocketmq_spark.metrics.prometheus.PrometheusListener": "what users add to a Spark session",
    "rocketmq_spark.metrics.prometheus.PrometheusListener.describe": "a registry calls it",
    "rocketmq_spark.embedded.pytest_plugin.rocketmq_*": "pytest runs a fixture by name",
    **dict.fromkeys(
        (
            f"{CLUSTER}.{name}"
            for name in (
                "create_user", "delete_topic", "expire_messages", "kill_name_server", "kill_proxy", "master", "pause",
                "pause_broker", "pause_proxy", "restart_broker", "resume", "resume_broker", "resume_proxy",
                "start_name_server", "stop_name_server", "store_dir",
            )
        ),
        "what who tests with an embedded cluster does to it",
    ),
}  # fmt: skip
BY_NAME: Final = {
    "rocketmq_spark.source.stream.control_folder.Resumable.prepareForTriggerAvailableNow": "Spark calls it of readers",
    "rocketmq_spark.wire.arrow.native_columns.NativeColumnDecoder": "wire.implementation loads it where it is built",
    "rocketmq_spark.wire.remoting.native_responses.NativeResponseTemplate": "the same",
}
COLUMNS_BY_NAME: Final = {
    f"{table}.{field}"
    for table in ("rocketmq_spark.model.MessageExt", "rocketmq_spark.wire.arrow.record_columns.RecordColumns")
    for field in {*(row.field for row in COLUMNS.values()), "origin_topic", "origin_msg_id"}
}
"""The column table names them."""
FOR_TESTS: Final = {
    "rocketmq_spark.remoting.memory.memory_pair": "an in-memory stream; it stays beside the port that it keeps",
    "rocketmq_spark.wire.message.batch.decode_batch": "the inverse of encode_batch; readers split a batch first",
}

PARAMETERS_FOR_USERS: Final = {
    f"{CLUSTER}*(*=)": "documented for who tests with an embedded cluster",
    "rocketmq_spark.failed_rows.send_back.send_back(*=)": "documented",
    "rocketmq_spark.metrics.lag_plot.plot_lag(by=)": "documented",
    "rocketmq_spark.source.stream.graceful_stop.stop(timeout_s=)": "documented",
    "rocketmq_spark.source.stream.available_now_runs.run_available_now(start=)": "documented",
    "rocketmq_spark.wire.arrow.*.*ColumnDecoder(is_unfiltered=)": "given to whichever of the two was chosen",
    "rocketmq_spark.wire.arrow.*.*ColumnDecoder(restores_origin=)": "given to whichever of the two was chosen",
}
PARAMETERS_FOR_TESTS: Final = {
    "*(clock=)": "time is an argument",
    "*(sleep=)": "so is waiting",
    "*.UniqueIds(unix_ms=)": "so is the day",
    "*(connect=)": "a stream in memory",
    "*(client_of=)": "a client over streams in memory",
    "*(transport_of=)": "a transport over streams in memory",
    "*(environ=)": "an environment",
    "*.OutageNotes(folder=)": "a folder of the test",
    "*.memory_pair(*=)": "a test's own",
    "*.BatchSender(initial_queue_index=)": "which queue is first, otherwise by chance",
    "*.Producer(initial_queue_index=)": "the same",
    "*.Producer(unique_ids=)": "ids that are known before",
    "*.PullConnections(limit=)": "a limit that a test can reach",
    "*(idle_ms=)": "the same",
    "*(limit_bytes=)": "the same",
    "*.topic.create(ready_timeout_ms=)": "the same",
    "*.correlation.opaques(first=)": "the same; a connection takes months to get there",
    "*.ServerCertificate(hosts=)": "a host that is not the test's",
    "*.Producer.send*(queue=)": "real brokers get messages where a test needs them",
    "*.Producer.send(sys_flag=)": "the same, of messages that no producer of ours makes",
    "*.Broker.pull(expression=)": "shows that real brokers filter as pulls of ranges ask them to",
}


def without(found: set[str], *exempt: dict[str, str]) -> tuple[set[str], set[str]]:
    """What is found and not exempt, and the exemptions that exempt nothing."""
    patterns = [pattern for one in exempt for pattern in one]
    left = {name for name in found if not any(fnmatchcase(name, pattern) for pattern in patterns)}
    return left, {pattern for pattern in patterns if not any(fnmatchcase(name, pattern) for name in found)}


@pytest.mark.full
def test_what_the_package_defines_it_uses(tmp_path: Path) -> None:
    folders = [PACKAGE, PACKAGE.parent / "tools"]
    write_references(folders, tmp_path, SETTINGS)
    references = References(folders, tmp_path)
    assert without(references.unused() - COLUMNS_BY_NAME, FOR_USERS, BY_NAME, FOR_TESTS) == (set(), set())
    assert without(references.never_passed(), PARAMETERS_FOR_USERS, PARAMETERS_FOR_TESTS) == (set(), set())


MODULE: Final = """\
from typing import Protocol

class Port(Protocol):
    def ask(self) -> int: ...

class Server:
    def ask(self) -> int:
        return 1

class Broker:
    def __init__(self, first: int = 1, second: int = 2) -> None:
        self._sum = first + second
    def pull(self) -> int:
        return self._sum
    def again(self) -> int:
        return self.again()
    def close(self) -> None: ...

class Master(Broker):
    def close(self) -> None:
        super().close()

class Connection:
    @property
    def pull(self) -> int:
        return 1

def run(port: Port) -> int:
    Master().close()
    return port.ask() + Broker(second=7).pull()

run(Server())
print(Connection())
"""


def test_a_dead_method_is_found_beside_one_of_its_name(tmp_path: Path) -> None:
    """And a method that only calls itself; not one that is called by a protocol, or by ``super()``."""
    package = tmp_path / "shop"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "stand.py").write_text(MODULE)
    write_references([package], tmp_path / "cache", SETTINGS)
    found = References([package], tmp_path / "cache")
    assert found.unused() == {"shop.stand.Broker.again", "shop.stand.Connection.pull"}
    assert found.never_passed() == {"shop.stand.Broker(first=)"}
