"""Channels: what the library would do by itself."""

from __future__ import annotations

import subprocess
import sys

from connector_tests.support.patience import PROCESS_S

FAIL = """
import ssl
from rocketmq_spark.proxy.channel import open_channel
from rocketmq_spark.security import Tls
import socket, threading

listening = socket.create_server(("127.0.0.1", 0))
threading.Thread(target=lambda: listening.accept()[0].sendall(b"no TLS at all"), daemon=True).start()
channel = open_channel(f"127.0.0.1:{listening.getsockname()[1]}", Tls(), 2_000)
try:
    channel.unary_unary("/a/b")(b"", timeout=2)
except Exception as error:
    print(type(error).__name__)
channel.close()
"""


def test_nothing_is_written_to_standard_error_but_by_us() -> None:
    done = subprocess.run([sys.executable, "-c", FAIL], capture_output=True, text=True, check=True, timeout=PROCESS_S)
    assert (done.stdout.strip(), done.stderr) == ("_InactiveRpcError", "")
