"""The leak check finds what it is there to find."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from selectors import DefaultSelector

import pytest

from connector_tests.support.leaks import LeakCheck


@pytest.fixture
def clean_up() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def leave_thread(clean_up: ExitStack) -> None:
    over = threading.Event()
    thread = threading.Thread(target=over.wait, name="rocketmq-left", daemon=True)
    thread.start()
    clean_up.callback(thread.join)
    clean_up.callback(over.set)


def leave_socket(clean_up: ExitStack) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        clean_up.enter_context(closing(socket.create_connection(listener.getsockname())))
        clean_up.enter_context(closing(listener.accept()[0]))


def leave_listener(clean_up: ExitStack) -> None:
    clean_up.enter_context(socket.create_server(("127.0.0.1", 0)))


def leave_file(clean_up: ExitStack) -> None:
    clean_up.callback(os.close, os.open(__file__, os.O_RDONLY))


def leave_pipe(clean_up: ExitStack) -> None:
    for end in os.pipe():
        clean_up.callback(os.close, end)


def leave_selector(clean_up: ExitStack) -> None:
    clean_up.enter_context(DefaultSelector())


def leave_process(clean_up: ExitStack) -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    clean_up.enter_context(child)
    clean_up.callback(child.kill)


def leave_folder(clean_up: ExitStack) -> None:
    clean_up.enter_context(tempfile.TemporaryDirectory(prefix="rocketmq-left-"))


LEAKS = pytest.mark.parametrize(
    ("leave", "named"),
    [
        (leave_thread, "thread rocketmq-left"),
        (leave_socket, "socket .*127.0.0.1.*ESTABLISHED"),
        (leave_listener, r"descriptor \d+ of socket:"),
        (leave_file, r"descriptor \d+ of .*test_leaks\.py"),
        (leave_pipe, r"descriptor \d+ of pipe:.*descriptor \d+ of pipe:"),
        (leave_selector, r"descriptor \d+ of anon_inode:\[eventpoll\]"),
        (leave_process, r"process .*input\(\)"),
        (leave_folder, "folder .*rocketmq-left-"),
    ],
)


@LEAKS
def test_what_is_left_is_named(clean_up: ExitStack, leave: Callable[[ExitStack], None], named: str) -> None:
    with pytest.raises(AssertionError, match=named), LeakCheck().nothing_left(grace_s=0):
        leave(clean_up)


@LEAKS
def test_what_was_there_before_is_no_leak(clean_up: ExitStack, leave: Callable[[ExitStack], None], named: str) -> None:
    leave(clean_up)
    with LeakCheck().nothing_left():
        pass


@LEAKS
def test_what_the_session_made_is_no_leak(clean_up: ExitStack, leave: Callable[[ExitStack], None], named: str) -> None:
    check = LeakCheck()
    with check.nothing_left(), check.by_session():
        leave(clean_up)


def test_what_ends_a_moment_later_is_no_leak(clean_up: ExitStack) -> None:
    with LeakCheck().nothing_left():
        thread = threading.Timer(0.1, lambda: None)
        thread.name = "rocketmq-soon-over"
        thread.start()
