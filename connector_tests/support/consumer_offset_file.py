"""The file in which a broker keeps the offsets that groups have committed."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Final

NAME: Final = "consumerOffset.json"


def read_offsets(file: Path) -> dict[str, dict[int, int]]:
    """Return offsets by ``topic@group`` and queue ID. Raises FileNotFoundError; the broker deletes the file before it
    renames the next. Its keys are bare numbers."""
    table = json.loads(re.sub(r"(\d+):", r'"\1":', file.read_text()))["offsetTable"]
    return {key: {int(queue_id): offset for queue_id, offset in offsets.items()} for key, offsets in table.items()}
