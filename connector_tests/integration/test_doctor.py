"""``rocketmq-spark doctor`` on broken set-ups: the first line names the cause, as the page shows it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from connector_tests.support.broken_set_ups import (
    SET_UPS,
    Clusters,
    SetUp,
    administered,
    as_user,
    at_proxy,
    for_writing,
)
from connector_tests.support.cluster_pool import ClusterPool
from connector_tests.support.scripted_proxy import ScriptedProxy
from rocketmq_spark.cli.doctor import configured, main, new_parser
from rocketmq_spark.doctor.cluster_facts import collect_server_facts
from rocketmq_spark.doctor.job_options import parse_job
from rocketmq_spark.doctor.proxy_facts import collect_proxy_facts
from rocketmq_spark.embedded import EmbeddedCluster

pytestmark = [pytest.mark.broker, pytest.mark.full]

PAGE: Final = Path(__file__).parents[2] / "docs" / "doctor.md"
ROW: Final = re.compile(r"(?m)^\| ([^|]+) \| `([^`]+)` \|$")
BUSY: Final = "returned nothing for 3000 ms"
"""Of a server that runs: on a busy machine it may take longer than the command waits."""
WARNED: Final = frozenset(
    {
        "`readFrom=slave` is set, and the broker has no slave",
        "`readFrom=slave` is set, and the slave is unreachable from here",
        "`readFrom=auto` is set, and the slave is unreachable from here",
        "the slave has `slaveReadEnable=false`",
        "the master is unavailable, with `readFrom=auto`",
        "the clocks differ",
    }
)
"""With these the job runs."""


@pytest.fixture(scope="module")
def places(grpc_library: None, clusters: ClusterPool, cluster: EmbeddedCluster) -> Iterator[Clusters]:
    yield Clusters(cluster, clusters.get(acl=True, tls=True))


def transcript() -> dict[str, str]:
    return dict(ROW.findall(PAGE.read_text(encoding="utf-8")))


def examined(set_up: SetUp, folder: Path, *more: str) -> int:
    file = folder / "job.options"
    file.write_text("".join(f"{name}={text}\n" for name, text in set_up.options.items()), encoding="utf-8")
    return main(["--options", str(file), *set_up.arguments, *more])


def examined_until_served(set_up: SetUp, folder: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    """The exit code, and what the command printed to both outputs; repeated where a server was busy."""
    for _ in range(5):
        code = examined(set_up, folder)
        shown = capsys.readouterr()
        if BUSY not in shown.out:
            break
    return code, shown.out, shown.err


def as_on_the_page(line: str, set_up: SetUp) -> str:
    for here, there in sorted(set_up.shown.items(), key=lambda pair: -len(pair[0])):
        line = line.replace(here, there)
    return line.replace("`", "'")


@pytest.mark.parametrize("name", SET_UPS)
def test_the_first_line_names_the_cause(
    name: str, places: Clusters, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with SET_UPS[name](places) as set_up:
        code, out, err = examined_until_served(set_up, tmp_path, capsys)
    first = as_on_the_page(out.splitlines()[0], set_up)
    assert first == transcript().get(name)
    assert code == (0 if name in WARNED else 1)
    secrets = [text for option, text in set_up.options.items() if option in {"secretKey", "tlsKeyPassword"}]
    assert not any(secret in out + err for secret in secrets)


def test_the_page_has_each_set_up_in_order() -> None:
    assert list(transcript()) == list(SET_UPS)
    assert len(SET_UPS) >= 20


def test_a_sound_job_is_sound_and_nothing_is_stored(
    places: Clusters, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with administered(places) as (broker, set_up):
        for one in (set_up, for_writing(set_up)):
            code, out, err = examined_until_served(one, tmp_path, capsys)
            assert code == 0
            assert out.splitlines()[0] == "sound: no problem found"
            server, address = places.plain.namesrv_addr, places.plain.broker_addr()
            assert err.splitlines() == [
                f"checking name server {server}, up to 3000 ms ...",
                f"checking broker broker-a at {address}, up to 3000 ms for each request ...",
            ]
        bounds = broker.query_topic_stats(set_up.options["subscribe"])
        assert {held.max_offset for held in bounds.values()} == {0}


def test_a_sound_job_of_a_user_with_the_permissions_of_the_guide_is_sound(
    places: Clusters, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rights = {"Topic:orders": ("SUB", "GET"), "Group:my-group": ("SUB",)}
    with as_user(rights, False, places) as set_up:
        code, out, _ = examined_until_served(set_up, tmp_path, capsys)
    assert code == 0
    first = as_on_the_page(out.splitlines()[0], set_up)
    assert first.startswith("warning: The user of 'accessKey' lacks GET on Group:my-group: broker:10911 denied ")


def test_a_sound_proxy_is_sound(grpc_library: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with ScriptedProxy() as proxy:
        code, _, err = examined_until_served(at_proxy(proxy.address), tmp_path, capsys)
        assert "ReceiveMessage" not in proxy.received_methods()
    assert code == 0
    assert err == f"checking proxy {proxy.address}, up to 3000 ms for each request ...\n"


def test_json_names_the_same_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--namesrv", "127.0.0.1:1", "--topic", "orders", "--group", "g", "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert (report["isSound"], report["diagnoses"][0]["condition"]) == (False, "CONNECT_FAILED")


def test_the_environment_names_a_name_server(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", "127.0.0.1:2")
    assert main([]) == 1
    assert "name server 127.0.0.1:2:" in capsys.readouterr().out.splitlines()[0]


def test_arguments_replace_the_options_of_the_file_in_any_spelling(tmp_path: Path) -> None:
    file = tmp_path / "job.options"
    file.write_text("nameServer=a:1\ntopic=old\nCONSUMERGROUP=old\nuseTLS=false\n", encoding="utf-8")
    given = ["--options", str(file), "--namesrv", "b:1", "--topic", "t", "--topic", "u", "--group", "g"]
    expected = {"namesrvAddr": "b:1", "subscribe": "t,u", "consumerGroup": "g", "useTLS": "false"}
    assert configured(new_parser().parse_args(given)) == expected
    del expected["subscribe"]
    assert configured(new_parser().parse_args([*given, "--write"])) == {**expected, "topic": "t,u"}


def test_namesrv_replaces_the_endpoints_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "job.options"
    file.write_text("Endpoints=a:8081\nuseTLS=false\n", encoding="utf-8")
    given = ["--options", str(file), "--namesrv", "b:1"]
    assert configured(new_parser().parse_args(given)) == {"namesrvAddr": "b:1", "useTLS": "false"}


def test_credentials_are_checked_without_a_topic(
    places: Clusters, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = {"namesrvAddr": places.guarded.namesrv_addr, **places.guarded.security_options, "secretKey": "hunter2"}
    assert examined(SetUp(options, {}), tmp_path) == 1
    assert "rejected the credentials" in capsys.readouterr().out.splitlines()[0]


def test_after_the_time_limit_no_further_server_is_checked(places: Clusters) -> None:
    server = places.plain.namesrv_addr
    parsed = parse_job({"namesrvAddr": server}, is_writing=False)
    assert parsed.options is not None
    announced: list[str] = []
    facts = collect_server_facts(parsed.job, parsed.options, announced.append, total_ms=0)
    assert (facts.unchecked, announced) == ((f"name server {server}",), [])


def test_after_the_time_limit_no_further_proxy_is_checked() -> None:
    given = {"endpoints": "proxy:8081", "consumerGroup": "g", "subscribe": "orders", "loadBalance": "message"}
    parsed = parse_job(given, is_writing=False)
    assert parsed.options is not None
    announced: list[str] = []
    facts = collect_proxy_facts(parsed.job, parsed.options, parsed.endpoints, announced.append, total_ms=0)
    assert (facts.unchecked, announced) == (("proxy proxy:8081",), [])


def test_wrong_arguments_are_a_usage_error() -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--options", "/nowhere/job.options"])
    assert ended.value.code == 2
