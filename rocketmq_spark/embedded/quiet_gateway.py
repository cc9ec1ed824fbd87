"""A client of py4j's gateway that asks once, and raises what goes wrong without logging it.

py4j asks an ended JVM once more, and logs a traceback for each time, through the root logger too.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from py4j.java_gateway import GatewayClient
from py4j.protocol import is_fatal_error


class QuietGatewayClient(GatewayClient):  # type: ignore[misc]  # py4j has no types
    """See the module. Threads: any, each with a connection of its own."""

    def send_command(self, command: str, retry: bool = True, binary: bool = False) -> Any:
        """What Java answers. Raises what the connection does."""
        connection = self._get_connection()
        with ExitStack() as unless_answered:
            unless_answered.callback(connection.close, False)
            response = connection.send_command(command)
            if is_fatal_error(response):
                return response
            unless_answered.pop_all()
        if binary:
            return response, self._create_connection_guard(connection)
        self._give_back_connection(connection)
        return response
