"""mutmut, whose timer ends its own children only, and is patient with a busy machine.

mutmut's timer keeps the time limit of a child that has ended, and sends the signal to the process that has its number
then. A busy machine uses numbers again within minutes, so the timer has ended mutmut itself and other processes.

A mutant that never ends is ended by its limit of processor time, which a busy machine does not shorten; the timer is
for those that wait for ever. The memory of a mutant is limited, far below that of the machine.
"""

from __future__ import annotations

import os
import resource
import sys
from types import SimpleNamespace
from typing import Final

PATIENCE: Final = 10
"""Factor of the time that mutmut would wait."""


ADDRESS_SPACE_BYTES: Final = 4 * 1024**3
"""The tests of a group need less than three."""


def kill_child(pid: int, signal_number: int) -> None:
    """``os.kill`` of a child that has not been waited for. Raises ProcessLookupError for any other process."""
    try:
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        raise ProcessLookupError(pid) from None
    os.kill(pid, signal_number)


def main() -> int:
    """mutmut with the arguments of this process, in a folder that has its settings."""
    from mutmut.__main__ import cli
    from mutmut.workers import isolation, timeout

    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE_BYTES, ADDRESS_SPACE_BYTES))
    register = timeout.register_timeout
    vars(isolation)["register_timeout"] = lambda pid, timeout_s: register(pid, PATIENCE * timeout_s)
    vars(timeout)["os"] = SimpleNamespace(getpid=os.getpid, kill=kill_child)
    return int(cli() or 0)


if __name__ == "__main__":
    sys.exit(main())
