"""How long tests wait for what nobody promises a time for."""

from __future__ import annotations

import os
from typing import Final

TIMEOUT_FACTOR: Final = float(os.environ.get("CONNECTOR_TESTS_PATIENCE", "1"))
"""Every limit that is neither the product's promise nor PATIENT_MS is so many times as long: above 1 on a machine that
is slow or busy."""

WAIT_S: Final = 60.0 * TIMEOUT_FACTOR
"""For what takes an idle machine less than a second, such as an answer of another thread."""

END_TO_END_S: Final = 180.0 * TIMEOUT_FACTOR
"""For what servers or Spark do. Machines of continuous integration stand still for a minute."""

PROCESS_S: Final = 300.0 * TIMEOUT_FACTOR
"""For a program that starts Spark or a broker, does its work and ends."""

REQUEST_TIMEOUT_MS: Final = int(10_000 * TIMEOUT_FACTOR)
"""Time limit for a request to a server that responds at once."""

PATIENT_MS: Final = 60_000
"""Time limit for requests of a client whose tests are not about slow servers: a broker may stand still for seconds."""

PATIENT: Final = {"brokerTimeoutMs": str(PATIENT_MS)}
"""Options of such a client: its 3 s by default are too short on a busy machine."""
