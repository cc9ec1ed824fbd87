"""``rocketmq-spark broker`` as a user starts and stops it."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import takewhile
from pathlib import Path
from types import ModuleType

import psutil
import pytest

from connector_tests.support.jvm_options import rocketmq_environment
from connector_tests.support.timeouts import PROCESS_S, TIMEOUT_FACTOR
from rocketmq_spark.cli import broker, demo
from rocketmq_spark.cli.arguments import properties
from rocketmq_spark.cli.broker import topic_and_queues
from rocketmq_spark.cli.main import COMMANDS, main
from rocketmq_spark.embedded.jars import DEFAULT_VERSION, VERSIONS
from rocketmq_spark.model import BrokerAddress
from rocketmq_spark.remoting.namesrv import NameServers
from rocketmq_spark.remoting.pool import ConnectionPool

pytestmark = pytest.mark.full

COMMAND = (sys.executable, "-m", "rocketmq_spark.cli.main")
EXAMPLE_CONF = Path(__file__).parents[2] / "conf" / "broker.conf"
TIMEOUT_MS = int(5_000 * TIMEOUT_FACTOR)


@contextmanager
def foreground_broker(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The running command, and the name server's address as it printed it."""
    command = [*COMMAND, "broker", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=rocketmq_environment()) as process:
        assert process.stdout is not None
        label, _, address = process.stdout.readline().partition(": ")
        assert label == "name server"
        try:
            yield process, address.strip()
        finally:
            process.kill()


@pytest.mark.broker
def test_a_master_and_a_slave_serve_the_requested_topics_until_sigterm() -> None:
    """Until SIGINT: the others."""
    topics = ("--topic", "orders:2", "--topic", "payments", "--conf", str(EXAMPLE_CONF))
    with foreground_broker("--port", "0", *topics, "--replicas", "2", "--failover", "none") as (process, address):
        assert process.stdout is not None
        lines = [line.strip() for line in takewhile(lambda line: "Ctrl-C" not in line, process.stdout)]
        with closing(ConnectionPool(TIMEOUT_MS)) as pool:
            name_servers = NameServers([address], pool, TIMEOUT_MS)
            orders, payments = map(name_servers.query_topic_route, ("orders", "payments"))
        jvms = psutil.Process(process.pid).children()
        process.terminate()
        assert process.wait(timeout=PROCESS_S) == 0
        assert len(jvms) == 3
        assert not any(jvm.is_running() for jvm in jvms)
    assert (len(orders.read_queues()), len(payments.read_queues())) == (2, 4)
    printed = dict(line.split(": ") for line in lines)
    (broker,) = orders.brokers
    assert broker.addresses == {0: printed["broker-a"], 1: printed["broker-a-2"]}


@pytest.mark.broker
def test_it_prints_the_options_of_a_client(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with foreground_broker("--port", "0", "--topic", "orders", "--acl", "--tls") as (process, address):
        assert process.stdout is not None
        lines = [line.strip() for line in takewhile(lambda line: "Ctrl-C" not in line, process.stdout)]
        printed = dict(line.split("=", 1) for line in lines if "=" in line)
        assert printed.keys() >= {"accessKey", "secretKey", "useTLS", "tlsTrustCertPath"}
        file = tmp_path / "connection.options"
        file.write_text("\n".join(f"{name}={value}" for name, value in printed.items()))
        assert main(["send", "--namesrv", address, "--options", str(file), "--topic", "orders", "one"]) == 0
        assert main(["topic", "describe", "--namesrv", address, "--options", str(file), "orders"]) == 0
        file.write_text(f"useTLS=true\ntlsTrustCertPath={printed['tlsTrustCertPath']}")
        assert main(["send", "--namesrv", address, "--options", str(file), "--topic", "orders", "one"]) == 1
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=PROCESS_S) == 0
    assert printed["secretKey"] not in "".join(capsys.readouterr())


@pytest.mark.broker
def test_it_reports_where_the_proxy_is() -> None:
    with foreground_broker("--port", "0", "--topic", "orders:2", "--proxy") as (process, _):
        assert process.stdout is not None
        printed = dict(
            line.strip().split(": ") for line in takewhile(lambda line: "Ctrl-C" not in line, process.stdout)
        )
        with closing(ConnectionPool(TIMEOUT_MS)) as pool:
            route = NameServers([printed["proxy, remoting"]], pool, TIMEOUT_MS).query_topic_route("orders")
        assert [broker.master_address for broker in route.brokers] == [
            BrokerAddress(printed["proxy, remoting"], "broker-a")
        ]
        host, _, port = printed["proxy, gRPC"].partition(":")
        with socket.create_connection((host, int(port)), timeout=TIMEOUT_MS / 1000):
            jvms = psutil.Process(process.pid).children()
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=PROCESS_S) == 0
        assert len(jvms) == 2
        assert not any(jvm.is_running() for jvm in jvms)


@pytest.mark.broker
def test_one_jvm_has_the_requested_version_and_its_death_is_reported() -> None:
    with foreground_broker("--port", "0", "--version", VERSIONS[0]) as (process, _):
        (jvm,) = psutil.Process(process.pid).children()
        assert f"rocketmq-broker-{VERSIONS[0]}.jar" in " ".join(jvm.cmdline())
        jvm.kill()
        assert process.wait(timeout=PROCESS_S) == 1


def test_a_port_that_is_in_use_is_one_sentence_and_no_traceback() -> None:
    with socket.socket() as occupied:
        occupied.bind(("127.0.0.1", 0))
        occupied.listen()
        port = str(occupied.getsockname()[1])
        done = subprocess.run(
            [*COMMAND, "broker", "--port", port], capture_output=True, text=True, timeout=PROCESS_S, check=False
        )
    assert done.returncode == 1
    assert port in done.stderr
    assert "Traceback" not in done.stderr
    starting, _ = done.stderr.splitlines()
    assert starting == f"starting Apache RocketMQ {DEFAULT_VERSION} ..."


def test_the_example_conf_is_understood() -> None:
    assert properties(str(EXAMPLE_CONF)) == {"autoCreateTopicEnable": "true", "defaultTopicQueueNums": "4"}


def test_properties_are_lines_of_key_and_value(tmp_path: Path) -> None:
    file = tmp_path / "broker.conf"
    file.write_text("# a comment\n\n a = b=c \nempty=\n")
    assert properties(str(file)) == {"a": "b=c", "empty": ""}


def test_a_missing_conf_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["broker", "--conf", "/nowhere/broker.conf"])
    assert caught.value.code == 2
    assert "/nowhere/broker.conf" in capsys.readouterr().err


@pytest.mark.parametrize(("text", "expected"), [("a", ("a", 4)), ("a:1", ("a", 1)), ("%RETRY%g:2", ("%RETRY%g", 2))])
def test_a_topic_may_list_its_queues(text: str, expected: tuple[str, int]) -> None:
    assert topic_and_queues(text) == expected


@pytest.mark.parametrize(
    ("command", "arguments"),
    [
        (broker, ("--port", "\u0663")),
        (broker, ("--port", "65536")),
        (broker, ("--brokers", "\u0663")),
        (broker, ("--replicas", "6")),
        (broker, ("--topic", "a:\u0663")),
        (broker, ("--topic", "a:0")),
        (demo, ("--seconds", "0")),
        (demo, ("--rate", "\u0663")),
    ],
)
def test_other_numbers_than_the_accepted_are_a_usage_error(command: ModuleType, arguments: tuple[str, ...]) -> None:
    with pytest.raises(SystemExit) as caught:
        command.new_parser().parse_args(arguments)
    assert caught.value.code == 2


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main([command, "--help"])
    assert caught.value.code == 0
    assert f"usage: rocketmq-spark {command}" in capsys.readouterr().out


def test_the_commands_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    assert all(does in capsys.readouterr().out for does in [COMMANDS["broker"]])
