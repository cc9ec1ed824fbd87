from __future__ import annotations

import pytest

from rocketmq_spark.pull.vacancies import Vacancies, VacancySearch, may_be_vacant
from rocketmq_spark.wire.remoting.pull import PullResult, PullStatus

UNMATCHED = PullResult(PullStatus.NO_MATCHED_MSG, "NO_MATCHED_MESSAGE", 10, 0, 20, memoryview(b""))


@pytest.mark.parametrize(
    ("result", "is_ambiguous"),
    [
        (UNMATCHED, True),
        (UNMATCHED._replace(next_begin_offset=9), True),
        (UNMATCHED._replace(next_begin_offset=11), False),
        (UNMATCHED._replace(min_offset=10), True),
        (UNMATCHED._replace(min_offset=11), False),
        (UNMATCHED._replace(max_offset=11), True),
        (UNMATCHED._replace(max_offset=10), False),
        (UNMATCHED._replace(status=PullStatus.FOUND), False),
        (UNMATCHED._replace(status=PullStatus.NO_NEW_MSG), False),
    ],
)
def test_an_unmatched_response_within_bounds_may_be_vacant(result: PullResult, is_ambiguous: bool) -> None:
    assert may_be_vacant(result, 10) is is_ambiguous


def searched(offset: int, end_offset: int, vacant_to: int) -> tuple[int, list[int]]:
    """Return the end that a search finds, and its probes, if all offsets before ``vacant_to`` are vacant."""
    search, probes = VacancySearch(offset, end_offset), list[int]()
    while (probe := search.next_probe) is not None:
        probes.append(probe)
        search.record(probe, is_vacant=probe < vacant_to)
    return search.end_offset, probes


@pytest.mark.parametrize("end_offset", [11, 12, 13, 40])
def test_the_search_finds_the_end_by_probes_within_it(end_offset: int) -> None:
    for vacant_to in range(11, 45):
        found, probes = searched(10, end_offset, vacant_to)
        assert found == min(vacant_to, end_offset)
        assert len(probes) == len(set(probes))
        assert all(10 < probe < end_offset for probe in probes)


def test_the_search_probes_at_doubling_distances_and_bisects() -> None:
    assert searched(0, 1000, 100) == (100, [1, 3, 7, 15, 31, 63, 127, 95, 111, 103, 99, 101, 100])
    assert searched(0, 12, 12) == (12, [1, 3, 7, 9, 10, 11])
    assert searched(10, 11, 11) == (11, [])


def test_vacant_offsets_have_the_recorded_response() -> None:
    subject = Vacancies()
    assert (subject.response_at(0), subject.end_at(0)) == (None, None)
    subject.record(range(5, 8), UNMATCHED)
    assert [subject.end_at(offset) for offset in (4, 5, 7, 8)] == [None, 8, 8, None]
    assert [subject.response_at(offset) for offset in (4, 5, 7, 8)] == [None, UNMATCHED, UNMATCHED, None]
    subject.record(range(9, 10), UNMATCHED._replace(max_offset=30))
    assert (subject.end_at(5), subject.end_at(9)) == (None, 10)
    assert subject.response_at(9) == UNMATCHED._replace(max_offset=30)
