"""RocketMQ's own Java consumers as members of a group, in one JVM of their own; see java_members/GroupMember.java."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from connector_tests.support.java_program import java_program
from rocketmq_spark.embedded.jars import rocketmq_class_path
from rocketmq_spark.embedded.jvm import ChildJvm
from rocketmq_spark.security import Credentials

SOURCES = Path(__file__).with_name("java_members")


class JavaMember:
    """A Java consumer that runs."""

    def __init__(self, member: Any) -> None:
        self._member = member

    def bodies(self) -> list[str]:
        """What it has seen, as often as it came."""
        return str(self._member.bodies()).splitlines()

    def leave(self) -> None:
        self._member.leave()


class JavaGroup:
    """Makes members; their JVM ends with the block that made this."""

    def __init__(self, jvm: ChildJvm) -> None:
        self._classes = jvm.connect().GroupMember

    def push(self, namesrv_addr: str, group: str, topic: str, name: str, keys: Credentials | None = None) -> JavaMember:
        if keys is None:
            return JavaMember(self._classes.push(namesrv_addr, group, topic, name))
        pair = keys.access_key, keys.secret_key.reveal()
        return JavaMember(self._classes.pushWithKeys(namesrv_addr, group, topic, name, *pair))

    def pop(self, namesrv_addr: str, group: str, topic: str, name: str) -> JavaMember:
        return JavaMember(self._classes.pop(namesrv_addr, group, topic, name))

    def lite_pull(self, namesrv_addr: str, group: str, topic: str, name: str) -> JavaMember:
        return JavaMember(self._classes.litePull(namesrv_addr, group, topic, name))


@contextmanager
def java_group(rebalance_interval_ms: int) -> Iterator[JavaGroup]:
    """Its JVM, as long as the block runs."""
    options = (
        "-Xmx128m",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        f"-Drocketmq.client.rebalance.waitInterval={rebalance_interval_ms}",
        "-Drocketmq.client.logUseSlf4j=true",
    )
    with java_program("members", SOURCES.glob("*.java"), rocketmq_class_path(), options) as jvm:
        yield JavaGroup(jvm)
