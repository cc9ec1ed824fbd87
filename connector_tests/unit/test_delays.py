"""For how long a message that is sent back stays invisible."""

from __future__ import annotations

from rocketmq_spark.pop.delays import LEVELS_S, delay_ms

AS_BROKERS_NAME_THEM = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
SECONDS = {"s": 1, "m": 60, "h": 3_600}


def test_levels_are_those_of_brokers() -> None:
    assert list(LEVELS_S) == [int(level[:-1]) * SECONDS[level[-1]] for level in AS_BROKERS_NAME_THEM.split()]


def test_a_level_is_taken_whatever_happened_before() -> None:
    assert [delay_ms(level, 7) for level in (1, 3, 18)] == [1_000, 10_000, 7_200_000]


def test_without_a_level_it_grows_with_each_time_as_for_javas_consumers() -> None:
    assert [delay_ms(0, times) for times in (0, 1, 2, 15)] == [10_000, 30_000, 60_000, 7_200_000]


def test_beyond_the_last_level_there_is_no_longer_one() -> None:
    assert (delay_ms(19, 0), delay_ms(0, 16)) == (7_200_000, 7_200_000)
