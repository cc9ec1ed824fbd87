"""RocketMQ's official Python client as a member of a group that shares messages, in a process of its own: it brings a
copy of the protocol's messages along, of which a process has room for one.

As a program: receive and acknowledge until killed, and print the bodies.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Final

AT_MOST: Final = 16
INVISIBLE_S: Final = 60
AWAIT_S: Final = 10
PAUSE_S: Final = 0.2


class OfficialMember:
    """The running program."""

    def __init__(self, out: Path) -> None:
        self._out = out

    def bodies(self) -> list[str]:
        """What it has acknowledged, as often as it came."""
        return self._out.read_text().splitlines()


@contextmanager
def official_member(folder: Path, endpoints: str, group: str, topic: str) -> Iterator[OfficialMember]:
    """It writes its log into ``folder``."""
    folder.mkdir()
    command = [sys.executable, __file__, endpoints, group, topic]
    out = folder / "out"
    with out.open("wb") as bodies, (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, env={**os.environ, "HOME": str(folder)}, stdout=bodies, stderr=log)
    try:
        yield OfficialMember(out)
    finally:
        process.kill()
        process.wait()


def main(endpoints: str, group: str, topic: str) -> None:
    rocketmq = import_module("rocketmq")  # without types
    error = import_module("rocketmq.v5.exception").InternalErrorException
    server = rocketmq.ClientConfiguration(endpoints, rocketmq.Credentials())
    consumer = rocketmq.SimpleConsumer(server, group, {topic: rocketmq.FilterExpression()}, AWAIT_S)
    consumer.startup()
    while True:
        try:
            messages = consumer.receive(AT_MOST, INVISIBLE_S)
        except error:  # it does not wait until the proxy knows it
            time.sleep(PAUSE_S)
            continue
        for message in messages or ():
            consumer.ack(message)
            sys.stdout.write(message.body.decode() + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
