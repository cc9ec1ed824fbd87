"""What is secret is nowhere to be found: a whole job, and all that it leaves and shows."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import rocketmq_spark
from connector_tests.support.cluster_pool import ClusterPool
from connector_tests.support.secret_search import KEY_PASSWORD, TOKEN, encrypted_certificate, files_below, places_of
from connector_tests.support.secret_statements import REDACTED
from connector_tests.support.timeouts import PROCESS_S
from rocketmq_spark.embedded import EmbeddedCluster, Right
from rocketmq_spark.embedded.pytest_plugin import unique_name
from rocketmq_spark.options.connection import options_of
from rocketmq_spark.security import Secret, Security

pytestmark = pytest.mark.full

ROOT = Path(__file__).parents[2]
TIMEOUT_S = 2 * PROCESS_S
QUEUES, SHARED, PROXIED = WAYS = ("queues", "messages", "messages-through-a-proxy")
"""By which a job reads; its groups have these names."""


@pytest.fixture(scope="module")
def cluster(clusters: ClusterPool) -> EmbeddedCluster:
    return clusters.get(proxy=True, acl=True, tls=True)


def test_no_secret_is_in_anything_that_a_job_shows_or_leaves(
    cluster: EmbeddedCluster, topic: str, tmp_path: Path
) -> None:
    rocketmq_spark.send(cluster.namesrv_addr, topic, ["one", "two"], options=cluster.security_options)
    groups = [Right(f"Group:{group}", ("SUB",)) for group in (*WAYS, f"{SHARED}_{topic}")]
    user = cluster.create_user(unique_name("spark_user"), Right(f"Topic:{topic}", ("SUB", "PUB", "GET")), *groups)
    assert isinstance(user.secret_key, Secret)
    folder = tmp_path / "job"
    folder.mkdir()
    own = cluster.security_options | options_of(Security(user)) | {"subscribe": topic, "securityToken": TOKEN}
    brokers = {"namesrvAddr": cluster.namesrv_addr, "startingOffsets": "earliest", **encrypted_certificate(tmp_path)}
    by_message = {"loadBalance": "message", "spoolDir": str(tmp_path / "spool")}
    servers = {QUEUES: brokers, SHARED: brokers | by_message, PROXIED: {"endpoints": cluster.endpoints} | by_message}
    ways = {way: own | servers[way] | {"consumerGroup": way} for way in WAYS}
    done = subprocess.run(
        [sys.executable, "-m", "connector_tests.support.secret_job", str(folder)],
        input=json.dumps(ways),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    shown = {"output": done.stdout.encode(), "log": done.stderr.encode()}
    shown |= files_below(folder)
    check_that_the_job_has_shown_something(shown, topic, user.access_key)
    assert places_of((user.secret_key.reveal(), TOKEN, KEY_PASSWORD), shown) == {}


def check_that_the_job_has_shown_something(shown: dict[str, bytes], topic: str, access_key: str) -> None:
    """Else there is nothing that a secret could be in."""
    kinds = ["events/", "page-", "writing/checkpoint/", f"{SHARED}/spool/", f"{PROXIED}/spool/"]
    kinds += [f"{way}/{folder}/" for way in WAYS for folder in ("checkpoint", "out")]
    assert {kind for kind in kinds if not any(name.startswith(kind) for name in shown)} == set()
    assert b"CREDENTIALS_REJECTED" in shown["output"]
    assert b"INVALID_OPTION_VALUE" in shown["output"]
    assert b"Physical Plan" in shown["output"]
    assert access_key.encode() in shown["output"]
    for statement in REDACTED:
        (result,) = [line for line in shown["output"].splitlines() if line.startswith(f"SQL {statement}".encode())]
        assert b"secretKey=*********(redacted)" in result
    events = b"".join(data for name, data in shown.items() if name.startswith("events/"))
    assert b"SparkListenerSQLExecutionStart" in events
    pages = b"".join(data for name, data in shown.items() if name.startswith("page-"))
    assert b"WriteToMicroBatchDataSource" in pages or b"rocketmq" in pages.lower()
    for folder in (f"{QUEUES}/checkpoint/", f"{SHARED}/checkpoint/", f"{SHARED}/spool/", f"{PROXIED}/spool/"):
        assert topic.encode() in b"".join(data for name, data in shown.items() if name.startswith(folder))
