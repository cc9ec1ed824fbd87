"""What the examples share: their arguments, and a broker with a few messages for those who have none at hand."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rocketmq_spark.embedded import EmbeddedCluster
from rocketmq_spark.model import Message
from rocketmq_spark.remoting.namesrv import NameServers
from rocketmq_spark.remoting.pool import ConnectionPool
from rocketmq_spark.remoting.producer import Producer

SENTENCES = (
    "the quick brown fox jumps over the lazy dog",
    "the dog sleeps",
    "a fox is quick and a dog is not",
)


def parser(description: str | None) -> argparse.ArgumentParser:
    """Arguments that every example has."""
    new = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    new.add_argument("--namesrv", default=os.environ.get("NAMESRV_ADDR"), help="default: an embedded broker")
    new.add_argument("--topic", default="sentences")
    new.add_argument("--group", default="examples")
    return new


@contextmanager
def name_server(given: str | None, topic: str) -> Iterator[str]:
    """The given address; without one that of an embedded broker, with a few messages in ``topic``."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if given is not None:
        yield given
        return
    print("no --namesrv: starting an embedded broker with a few messages ...", flush=True)
    with EmbeddedCluster() as cluster:
        cluster.create_topic(topic)
        send_sentences(cluster.namesrv_addr, topic)
        yield cluster.namesrv_addr


def send_sentences(namesrv_addr: str, topic: str) -> None:
    """One message for each sentence, with a tag and a key."""
    pool = ConnectionPool(connect_timeout_ms=3_000)
    producer = Producer(NameServers((namesrv_addr,), pool, timeout_ms=3_000), pool, group="examples", timeout_ms=3_000)
    for number, sentence in enumerate(SENTENCES):
        producer.send(Message(topic, sentence.encode(), tags="english", keys=f"sentence-{number}"))
    pool.close()
