"""Times that are probably in seconds."""

from __future__ import annotations

import pytest

from rocketmq_spark.options import BatchReadOptions, ReadOptions
from rocketmq_spark.source.early_times import YEAR_1980_MS, early_times, warn_of_early_times

REQUIRED = {"namesrvAddr": "a:9876", "subscribe": "orders"}
SECONDS = 1_767_225_600


def of_batch(**given: str) -> BatchReadOptions:
    return BatchReadOptions.parse(REQUIRED | given)


def test_earliest_time_of_each_option_is_found() -> None:
    by_topic = f'{{"orders":{{"b":{{"0":{SECONDS},"1":0,"2":{SECONDS - 1},"3":{YEAR_1980_MS}}}}}}}'
    options = of_batch(endingTimestamp=str(SECONDS), startingOffsetsByTimestamp=by_topic)
    assert early_times(options) == {"startingOffsetsByTimestamp": SECONDS - 1, "endingTimestamp": SECONDS}
    stream = ReadOptions.parse(REQUIRED | {"consumerGroup": "g", "startingTimestamp": str(SECONDS)})
    assert early_times(stream) == {"startingTimestamp": SECONDS}


@pytest.mark.parametrize("text", ["0", str(YEAR_1980_MS), str(SECONDS * 1000), str(2**63 - 1)])
def test_other_times_are_not_early(text: str) -> None:
    assert early_times(of_batch(startingTimestamp=text, endingTimestamp=text)) == {}
    assert early_times(of_batch(startingOffsets='{"orders":5}')) == {}


def test_early_times_are_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    warn_of_early_times(of_batch())
    assert caplog.messages == []
    warn_of_early_times(of_batch(startingTimestamp="1", endingTimestamp=str(SECONDS)))
    (line,) = caplog.messages
    assert line == (
        "TIMESTAMP_TOO_EARLY: 'startingTimestamp' is 1970-01-01T00:00:00.001Z, 'endingTimestamp' is "
        "1970-01-21T10:53:45.600Z. A number without a zone is in milliseconds since 1970-01-01 UTC: multiply seconds "
        "by 1000, or write the time as ISO-8601 with a zone"
    )
