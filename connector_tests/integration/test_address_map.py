"""A broker that advertises an address at which nothing listens, as one in a container does: with ``brokerAddressMap``
it is read, written and inspected; without it an error names the advertised address."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from connector_tests.support.admin_broker import AdminBroker
from connector_tests.support.cluster_pool import RestingCluster
from connector_tests.support.replica_reads import read_rest
from connector_tests.support.source_calls import source_calls
from connector_tests.support.streams import eventually
from connector_tests.support.timeouts import PATIENT_MS
from connector_tests.support.written_rows import arrow, write
from rocketmq_spark import send
from rocketmq_spark.cli.main import main
from rocketmq_spark.embedded import EmbeddedCluster
from rocketmq_spark.embedded.pytest_plugin import unique_name
from rocketmq_spark.errors import RocketMQError
from rocketmq_spark.model import BrokerAddress
from rocketmq_spark.remoting.pool import ConnectionPool
from rocketmq_spark.sink.write_task import WriteTask
from rocketmq_spark.source.datasource import RocketMQDataSource
from rocketmq_spark.source.schema import default_schema

pytestmark = [pytest.mark.broker, pytest.mark.full]

UNREACHABLE: Final = "127.0.0.2"
QUEUES: Final = 2
TIMEOUT_MS: Final = PATIENT_MS


@pytest.fixture(scope="module")
def container() -> Iterator[EmbeddedCluster]:
    with RestingCluster(advertised_host=UNREACHABLE) as cluster:
        yield cluster


@pytest.fixture
def address_map(container: EmbeddedCluster) -> dict[str, str]:
    return {"brokerAddressMap": f"{container.advertised_addr()}={container.broker_addr()}"}


@pytest.fixture
def sent(container: EmbeddedCluster, address_map: dict[str, str]) -> str:
    """A topic with two messages."""
    topic = container.create_topic(unique_name("mapped"), QUEUES)
    send(container.namesrv_addr, topic, ["one", "two"], options=address_map)
    with closing(ConnectionPool(TIMEOUT_MS)) as pool:
        AdminBroker(BrokerAddress(container.broker_addr()), pool, TIMEOUT_MS).await_dispatch()
    return topic


def read_options(container: EmbeddedCluster, topic: str, **more: str) -> dict[str, str]:
    return {"namesrvAddr": container.namesrv_addr, "subscribe": topic, "startingOffsets": "earliest", **more}


def bodies_of(reader: Any, parts: Any) -> set[bytes]:
    return {body for part in parts for batch in reader.read(part) for body in batch["body"].to_pylist()}


def test_a_stream_reads_what_a_task_has_written(
    container: EmbeddedCluster, address_map: dict[str, str], sent: str, group: str
) -> None:
    with closing(ConnectionPool(TIMEOUT_MS)) as pool:
        written = write(
            container.namesrv_addr, sent, [arrow([{"body": b"three"}])], WriteTask("map", 0), pool, **address_map
        )
    assert written == 1
    rows: list[dict[str, Any]] = []
    with source_calls({**read_options(container, sent, consumerGroup=group), **address_map}) as calls:
        read_rest(calls, rows, ["one", "two", "three"])
    assert len(rows) == 3


def test_a_batch_read_returns_all(container: EmbeddedCluster, address_map: dict[str, str], sent: str) -> None:
    reader = RocketMQDataSource({**read_options(container, sent), **address_map}).reader(default_schema())
    assert bodies_of(reader, reader.partitions()) == {b"one", b"two"}


def test_messages_are_delivered_one_by_one(
    container: EmbeddedCluster, address_map: dict[str, str], sent: str, group: str
) -> None:
    options = {**read_options(container, sent, consumerGroup=group, loadBalance="message"), **address_map}
    reader: Any = RocketMQDataSource(options).streamReader(default_schema())
    found: set[bytes] = set()
    start = reader.initialOffset()

    def has_all() -> bool:
        nonlocal start
        end = reader.latestOffset(start, ReadAllAvailable())
        if end != start:
            found.update(bodies_of(reader, reader.partitions(start, end)))
        start = end
        return found == {b"one", b"two"}

    try:
        eventually(has_all, "both messages")
    finally:
        reader.stop()


def test_the_commands_take_it_from_their_file_of_options(
    container: EmbeddedCluster,
    address_map: dict[str, str],
    sent: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = tmp_path / "cluster.options"
    file.write_text(f"brokerAddressMap = {address_map['brokerAddressMap']}\n")
    at = ["--namesrv", container.namesrv_addr, "--options", str(file)]
    assert main(["tail", sent, "--json", *at]) == 0
    assert {json.loads(line)["body"] for line in capsys.readouterr().out.splitlines()} == {"one", "two"}
    assert main(["lag", "--json", *at]) == 0
    assert main(["topic", "describe", *at, sent]) == 0
    capsys.readouterr()
    file.write_text(f"brokerAddressMap = {address_map['brokerAddressMap']};192.0.2.9:10911=127.0.0.1:10911\n")
    assert main(["doctor", *at, "--topic", sent]) == 0
    assert "'brokerAddressMap' has addresses that no broker of these topics advertises: 192.0.2.9:10911" in (
        capsys.readouterr().out
    )


def test_the_advertised_address_is_named_without_it(container: EmbeddedCluster, sent: str) -> None:
    with pytest.raises(RocketMQError, match=f"Cannot connect to {container.advertised_addr()}"):
        send(container.namesrv_addr, sent, "three")
