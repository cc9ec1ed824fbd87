"""Which of the two decoders this process uses."""

from __future__ import annotations

import logging
import os
from functools import cache

from rocketmq_spark.wire.arrow.columns import ColumnDecoder
from rocketmq_spark.wire.arrow.decoder import choose_decoder
from rocketmq_spark.wire.implementation import NATIVE, VARIABLE

log = logging.getLogger(__name__)


@cache
def column_decoder() -> type[ColumnDecoder]:
    """As the environment asks for it, see ``choose_decoder``. Said once."""
    decoder = choose_decoder(os.environ.get(VARIABLE) or None)
    built = "" if decoder.implementation == NATIVE else "; the native decoder is not built, or not asked for"
    log.debug("Messages are decoded by: %s%s.", decoder.implementation, built)
    return decoder
