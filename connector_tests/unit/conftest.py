"""Servers for every module that needs one; some replace the scripted broker by theirs."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from connector_tests.support.scripted_broker import ScriptedBroker
from connector_tests.support.tcp_server import Serve, serving


@pytest.fixture
def server() -> Iterator[ScriptedBroker]:
    with ScriptedBroker() as server:
        yield server


@pytest.fixture
def serve() -> Iterator[Callable[[Serve], str]]:
    """See ``serving``."""
    with serving() as start:
        yield start
