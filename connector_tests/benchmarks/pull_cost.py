"""What pulling costs the one who pulls: ``python -m connector_tests.benchmarks.pull_cost``.

A real broker's answers are recorded once, and replayed by a process of its own as often as the client asks. So the
client takes in the same bytes in each round, and what else goes on in the broker does not count. The figures are
processor time of the client, the kernel's part of it included, and calls of Python functions.

``record FILE``, ``serve FILE`` and ``measure ADDRESS`` are its steps, for a client of another version.
"""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import median
from time import process_time
from types import FrameType
from typing import Final

from rocketmq_spark.embedded import EmbeddedCluster
from rocketmq_spark.model import Message, MessageQueue, QueueRange
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.pull.executor_pull_client import ExecutorPullClient, shared_pull_client
from rocketmq_spark.pull.range_puller import new_range_puller
from rocketmq_spark.remoting.clock import monotonic_ms
from rocketmq_spark.remoting.cluster_client import ClusterClient
from rocketmq_spark.remoting.pool import ConnectionPool
from rocketmq_spark.remoting.producer import Producer
from rocketmq_spark.wire.remoting.codes import RequestCode, ResponseCode
from rocketmq_spark.wire.remoting.command import FLAG_RESPONSE, RemotingCommand, decode, encode
from rocketmq_spark.wire.remoting.frame import FrameBuffer
from rocketmq_spark.wire.remoting.pull_frames import pull_frames

MESSAGES: Final = 160_000
MESSAGES_A_PULL: Final = 32
BODY_BYTES: Final = 100
ROUNDS: Final = 9
TOPIC: Final = "pull-cost"
QUEUE: Final = MessageQueue(TOPIC, "broker-a", 0)
TIMEOUT_MS: Final = 10_000
REFUSED: Final = ResponseCode.REQUEST_CODE_NOT_SUPPORTED
"""What a client that wants to know the broker's name is answered; it then continues without."""
MODULE: Final = "connector_tests.benchmarks.pull_cost"

_OPAQUE: Final = re.compile(rb'"opaque":(\d+)')
_OFFSET: Final = re.compile(rb'"queueOffset":"(\d+)"')


def record(file: str) -> None:
    """A broker's answers to pulls of ``MESSAGES_A_PULL`` messages, one frame after another, from offset 0 on."""
    with EmbeddedCluster() as cluster:
        cluster.create_topic(TOPIC, queues=1)
        pool = ConnectionPool(TIMEOUT_MS)
        producer = Producer(ClusterClient((cluster.namesrv_addr,), pool, TIMEOUT_MS), group="P")
        messages = [Message(TOPIC, bytes(BODY_BYTES), tags="TagA", keys="key")] * 1_000
        for _ in range(MESSAGES // len(messages)):
            producer.send_batch(messages)
        pool.close()
        Path(file).write_bytes(b"".join(_responses(cluster.broker_addr())))


def _responses(address: str) -> Iterator[bytes]:
    host, port = address.split(":")
    frames, buffer = pull_frames("G", QUEUE, "*"), FrameBuffer(address)
    with socket.create_connection((host, int(port))) as broker:
        for offset in range(0, MESSAGES, MESSAGES_A_PULL):
            broker.sendall(frames.frame(1, offset, MESSAGES_A_PULL))
            while (frame := buffer.next_frame()) is None:
                buffer.feed(broker.recv(1 << 20))
            yield len(frame).to_bytes(4, "big") + bytes(frame)


class Replay:
    """A name server and a broker at one address, which answers pulls with what was recorded."""

    def __init__(self, file: str) -> None:
        buffer = FrameBuffer(file)
        buffer.feed(Path(file).read_bytes())
        frames = (bytes(frame) for frame in iter(buffer.next_frame, None))
        self._responses = {number * MESSAGES_A_PULL: _around_opaque(frame) for number, frame in enumerate(frames)}
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"

    def serve(self) -> None:
        while True:
            client, _ = self._listener.accept()
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        buffer = FrameBuffer("the client")
        with suppress(OSError):
            while data := client.recv(1 << 20):
                buffer.feed(data)
                for request in iter(buffer.next_frame, None):
                    client.sendall(self._response(bytes(request)))

    def _response(self, request: bytes) -> bytes:
        offset = _OFFSET.search(request)
        if offset is None:
            command = decode(request)
            is_route = command.code == RequestCode.GET_ROUTEINFO_BY_TOPIC
            code, body = (ResponseCode.SUCCESS, self._route()) if is_route else (REFUSED, b"")
            return encode(RemotingCommand(code, opaque=command.opaque, flag=FLAG_RESPONSE, body=body))
        opaque = _OPAQUE.search(request)
        assert opaque is not None
        before, after, body = self._responses[int(offset[1])]
        header = before + opaque[1] + after
        return (4 + len(header) + len(body)).to_bytes(4, "big") + len(header).to_bytes(4, "big") + header + body

    def _route(self) -> bytes:
        broker = {"brokerAddrs": {"0": self.address}, "brokerName": QUEUE.broker_name, "cluster": "c"}
        queues = {"brokerName": QUEUE.broker_name, "perm": 6, "readQueueNums": 1, "writeQueueNums": 1}
        return json.dumps({"brokerDatas": [broker], "queueDatas": [queues]}).encode()


def _around_opaque(frame: bytes) -> tuple[bytes, bytes, bytes]:
    """Of an answer: its header before and behind the number, and its body."""
    header_end = 4 + int.from_bytes(frame[:4], "big")
    number = _OPAQUE.search(frame)
    assert number is not None
    return frame[4 : number.start(1)], frame[number.end(1) : header_end], frame[header_end:]


def measure(address: str, rounds: int) -> tuple[float, list[float]]:
    """Calls an answer, counted in a round of its own because counting takes time, and µs an answer of each round."""
    options = ReadOptions.parse({"namesrvAddr": address, "consumerGroup": "G", "subscribe": TOPIC})
    client = shared_pull_client(options)
    calls = _calls(lambda: _pull_all(client, options)) / (MESSAGES // MESSAGES_A_PULL)
    costs_us = []
    for _ in range(rounds):
        begin_s = process_time()
        response_count = _pull_all(client, options)
        costs_us.append((process_time() - begin_s) / response_count * 1e6)
    return calls, costs_us


def _pull_all(client: ExecutorPullClient, options: ReadOptions) -> int:
    """How many answers."""
    queue_range = QueueRange(QUEUE, 0, MESSAGES)
    pulled = [
        len(one.body) for one in new_range_puller(queue_range, client, options, monotonic_ms, is_filtered=False).pull()
    ]
    assert len(pulled) >= MESSAGES // MESSAGES_A_PULL
    return len(pulled)


def _calls(work: Callable[[], object]) -> int:
    """Calls of Python functions, resumptions of generators among them."""
    count = 0

    def note(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


@contextmanager
def replaying() -> Iterator[str]:
    """The address where answers are replayed, by a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        file = f"{folder}/answers"
        record(file)
        with subprocess.Popen([sys.executable, "-m", MODULE, "serve", file], stdout=subprocess.PIPE) as server:
            assert server.stdout is not None
            yield server.stdout.readline().decode().strip()
            server.terminate()


def main(step: str = "", place: str = "") -> None:
    """See the module."""
    if step == "record":
        record(place)
    elif step == "serve":
        replay = Replay(place)
        sys.stdout.write(f"{replay.address}\n")
        sys.stdout.flush()
        replay.serve()
    elif step == "measure":
        calls, costs_us = measure(place, ROUNDS)
        sys.stdout.write(
            f"an answer of {MESSAGES_A_PULL} messages of {BODY_BYTES} B: {median(costs_us):.1f} us of the processor"
            f" (best {min(costs_us):.1f}, {ROUNDS} rounds), {calls:.1f} calls of Python functions\n"
        )
    else:
        with replaying() as address:
            main("measure", address)


if __name__ == "__main__":
    main(*sys.argv[1:])
