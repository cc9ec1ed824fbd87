"""Delays: how long a message that is sent back stays invisible.

Source: ``store/config/MessageStoreConfig.java`` (messageDelayLevel), of which
``client/impl/consumer/DefaultMQPushConsumerImpl.java`` (popDelayLevel) has all from the third on.
"""

from __future__ import annotations

from typing import Final

LEVELS_S: Final = (1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1_200, 1_800, 3_600, 7_200)
FIRST_THAT_GROWS: Final = 3
"""Where a message is that failed for the first time, unless somebody says a level."""


def delay_ms(delay_level: int, reconsume_times: int) -> int:
    """By ``delay_level``, from 1 on; 0 grows with how often the message came again."""
    level = delay_level or FIRST_THAT_GROWS + reconsume_times
    return LEVELS_S[min(level, len(LEVELS_S)) - 1] * 1000
