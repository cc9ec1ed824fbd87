from __future__ import annotations

import time

from rocketmq_spark.remoting.unique_id import UniqueIds, milliseconds_of_month


def test_ids_differ_within_one_millisecond() -> None:
    ids = UniqueIds(unix_ms=lambda: 1_700_000_000_000)
    assert len({ids.next_id() for _ in range(65_536)}) == 65_536


def test_ids_of_two_producers_in_one_process_differ() -> None:
    assert UniqueIds().next_id()[:20] != UniqueIds().next_id()[:20]


def test_an_id_has_the_length_of_javas_and_holds_its_time() -> None:
    unix_ms = 1_700_000_000_123
    unique_id = UniqueIds(unix_ms=lambda: unix_ms).next_id()
    assert len(unique_id) == 32
    assert int(unique_id[20:28], 16) == milliseconds_of_month(unix_ms)


def test_a_month_begins_at_local_midnight_of_its_first_day() -> None:
    began_s = int(time.mktime((2023, 11, 1, 0, 0, 0, 0, 0, -1)))
    assert milliseconds_of_month(began_s * 1000) == 0
    assert milliseconds_of_month((began_s - 1) * 1000) >= 29 * 86_400_000


def test_the_last_millisecond_of_a_long_month_still_fits() -> None:
    ended_s = int(time.mktime((2024, 1, 1, 0, 0, 0, 0, 0, -1)))
    assert len(UniqueIds(unix_ms=lambda: ended_s * 1000 - 1).next_id()) == 32
