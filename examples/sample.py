"""What the examples share: their arguments, and a broker with a few messages for those who have none at hand."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import rocketmq_spark
from rocketmq_spark.embedded import EmbeddedCluster

SENTENCES = (
    "the quick brown fox jumps over the lazy dog",
    "the dog sleeps",
    "a fox is quick and a dog is not",
)
ORDERS = (
    '{"orderNo": "A-1", "version": 1, "status": "paid"}',
    '{"orderNo": "A-2", "version": 1, "status": "paid"}',
    '{"orderNo": "A-1", "version": 2, "status": "shipped"}',
)

START_OPTIONS = frozenset(
    {"startingoffsets", "startingtimestamp", "startingoffsetsbytimestamp", "consumefromwhere", "consumetimestamp"}
)
"""Options of the source that set the start position, in lower case: names of options are not case-sensitive."""


def parser(description: str | None, topic: str = "sentences") -> argparse.ArgumentParser:
    """Arguments that every example has; ``topic`` is their default."""
    new = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    new.add_argument("--namesrv", default=os.environ.get("NAMESRV_ADDR"), help="default: an embedded broker")
    new.add_argument("--topic", default=topic)
    new.add_argument("--group", default="examples")
    return new


def pair(text: str) -> tuple[str, str]:
    """An option of the connector, ``name=value``."""
    name, _, value = text.partition("=")
    return name, value


def with_start_position(options: dict[str, str]) -> dict[str, str]:
    """Return ``options``, with ``startingOffsets=earliest`` if none of them sets the start position."""
    if START_OPTIONS.isdisjoint(name.lower() for name in options):
        return {"startingOffsets": "earliest", **options}
    return options


@contextmanager
def name_server(given: str | None, topic: str, *empty: str, bodies: tuple[str, ...] = SENTENCES) -> Iterator[str]:
    """The given address; without one that of an embedded broker, with messages in ``topic``, and ``empty`` topics."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if given is not None:
        yield given
        return
    print("no --namesrv: starting an embedded broker with a few messages ...", flush=True)
    with EmbeddedCluster() as cluster:
        for name in (topic, *empty):
            cluster.create_topic(name)
        keys = [f"key-{number}" for number in range(len(bodies))]
        rocketmq_spark.send(cluster.namesrv_addr, topic, bodies, tags="example", keys=keys)
        yield cluster.namesrv_addr
