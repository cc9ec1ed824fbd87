from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TypeAlias, cast

import pytest

from connector_tests.support.pull_results import MAX, MIN, result, too_small
from connector_tests.support.simulated_queue import encoded, offsets_of
from rocketmq_spark.errors import TransportError
from rocketmq_spark.model import MASTER_ID
from rocketmq_spark.pull.pull_request import (
    LOST_KINDS,
    PullAction,
    PulledRange,
    PullRequest,
    RangeKind,
    pull_action,
)
from rocketmq_spark.pull.pull_window import MAX_MESSAGES, REFILL_DIVISOR, PullWindow
from rocketmq_spark.remoting.replicas import FIRST_SERVERS, FROM_SLAVE, MASTER
from rocketmq_spark.wire.remoting.pull import PullOutcome, PullResult, PullStatus


def found(begin: int, end: int) -> PullResult:
    return PullResult(PullStatus.FOUND, "FOUND", end, MIN, MAX, encoded(range(begin, end)))


def skipped_to(next_begin: int) -> PullResult:
    return result(PullStatus.NO_MATCHED_MSG, "NO_MATCHED_MESSAGE", next_begin)


def window(begin: int = 100, end: int = 1_000, max_depth: int = 4, max_bytes: int = 2**20) -> PullWindow:
    return PullWindow(begin, end, max_depth=max_depth, max_bytes=max_bytes, completion_queue=deque())


def sent(subject: PullWindow) -> list[PullRequest]:
    return subject.take_requests()


def stride_of(subject: PullWindow) -> int | None:
    """How many offsets it expects one answer to cover."""
    return subject._stride


def step(subject: PullWindow, request: PullRequest, result: PullResult) -> PullAction:
    action = pull_action(result, request.next_offset)
    subject.step(request, result, action)
    return action


def spans(requests: list[PullRequest]) -> list[tuple[int, int]]:
    return [(request.next_offset, request.end_offset) for request in requests]


def delivered(subject: PullWindow) -> list[tuple[int, int, bool]]:
    return [(pulled.begin_offset, pulled.end_offset, pulled.kind in LOST_KINDS) for pulled in subject.deliver()]


def opened(subject: PullWindow, stride: int = 10) -> list[PullRequest]:
    """Requests in flight after a first answer that covered ``stride`` offsets, which is delivered."""
    (first,) = sent(subject)
    begin = first.next_offset
    step(subject, first, found(begin, begin + stride))
    remainder = sent(subject)[0] if not first.is_complete else None
    assert delivered(subject)
    rest = sent(subject)
    return rest if remainder is None else [remainder, *rest]


# ---------------------------------------------------------------------------------------------------- what is asked


def test_the_first_pull_is_alone_and_requests_more_than_brokers_give() -> None:
    (first,) = sent(window(100, 10_000))
    assert (first.next_offset, first.max_messages) == (100, MAX_MESSAGES)


def test_a_request_records_where_it_is_sent_each_time() -> None:
    subject = window()
    (first,) = subject.take_requests(MASTER)
    assert first.sent_to == MASTER
    subject.retry(first)
    assert subject.take_requests(FIRST_SERVERS[FROM_SLAVE]) == [first]
    assert first.sent_to == FIRST_SERVERS[FROM_SLAVE]


def test_no_pull_requests_more_messages_than_the_range_has() -> None:
    (first,) = sent(window(100, 105))
    assert first.max_messages == 5


def test_the_first_response_defines_the_stride_of_the_others() -> None:
    subject = window()
    (first,) = sent(subject)
    step(subject, first, found(100, 140))
    assert (stride_of(subject), first.is_complete) == (40, True)
    subject.deliver()
    assert spans(sent(subject)) == [(140, 180), (180, 220), (220, 260), (260, 300)]


def test_what_a_short_response_left_is_requested_and_no_more() -> None:
    """It used to ask for a whole stride again: the next request then got some messages a second time."""
    subject = window()
    (first,) = sent(subject)
    step(subject, first, found(100, 112))
    (again, *_) = sent(subject)
    assert (again.next_offset, again.end_offset, again.max_messages) == (112, 132, 20)


def test_the_last_request_ends_where_the_range_does() -> None:
    subject = window(100, 125)
    assert spans(opened(subject, stride=10)) == [(110, 125)]


def test_a_request_that_waits_is_not_pulled_until_it_is_retried() -> None:
    subject = window()
    (first,) = sent(subject)
    step(subject, first, result(PullStatus.NO_NEW_MSG, "OFFSET_OVERFLOW_ONE", 100, max_offset=100))
    assert sent(subject) == []
    subject.retry(first)
    assert sent(subject) == [first]


def test_a_reset_mark_is_followed_by_the_same_pull() -> None:
    subject = window()
    (first,) = sent(subject)
    assert step(subject, first, result(PullStatus.OFFSET_ILLEGAL, "OFFSET_RESET", 5)) is PullAction.RETRY
    assert sent(subject) == [first]
    assert first.next_offset == 100


def shorten(subject: PullWindow, requests: list[PullRequest], by: int) -> None:
    for request in requests:
        step(subject, request, found(request.next_offset, request.end_offset - by))


def test_short_responses_lower_the_stride_to_the_longest_of_them_and_a_longer_one_raises_it() -> None:
    subject = window(max_depth=5)
    first, second, third, fourth, fifth = opened(subject, stride=40)
    shorten(subject, [first, second], by=30)
    shorten(subject, [third], by=15)
    assert stride_of(subject) == 40
    shorten(subject, [fourth], by=20)
    assert stride_of(subject) == 25
    step(subject, fifth, whole(fifth))
    assert stride_of(subject) == 40


def test_a_single_short_response_among_full_ones_leaves_the_stride() -> None:
    """One large message, after which the stride used to be 1 for a while."""
    subject = window(0, 10_000, max_depth=12)
    requests = opened(subject, stride=40)
    for _ in range(20):
        shorten(subject, requests[:1], by=39)
        for request in [*requests[1:10], requests[0]]:
            while not request.is_complete:
                step(subject, request, found(request.next_offset, min(request.next_offset + 40, request.end_offset)))
        subject.deliver()
        requests = [*requests[10:], *sent(subject)]
        assert stride_of(subject) == 40


def cover(subject: PullWindow, requests: list[PullRequest], count: int) -> None:
    """So many offsets of each are responded."""
    for request in requests:
        step(subject, request, found(request.next_offset, request.next_offset + count))


def begun(subject: PullWindow) -> list[PullRequest]:
    return opened(subject, stride=40)


def after_the_stride_rose(subject: PullWindow) -> list[PullRequest]:
    (first,) = sent(subject)
    cover(subject, [first], 20)
    requests = sent(subject)
    while stride_of(subject) == 20:
        requests += sent(subject)
        (request, *requests) = requests
        step(subject, request, whole(request))
        subject.deliver()
    for request in requests:
        step(subject, request, whole(request))
    subject.deliver()
    return sent(subject)


def after_the_stride_fell(subject: PullWindow) -> list[PullRequest]:
    requests = opened(subject, stride=50)
    cover(subject, requests[:4], 40)
    return requests[4:]


BEFORE = pytest.mark.parametrize("before", [begun, after_the_stride_rose, after_the_stride_fell])
Before: TypeAlias = Callable[[PullWindow], list[PullRequest]]


@BEFORE
@pytest.mark.parametrize("full_at_first", [0, 1])
def test_a_short_response_counts_as_eight_full_ones_whatever_was_before(before: Before, full_at_first: int) -> None:
    """Four lower the stride; a full one among them, and they do not."""
    subject = window(0, 10_000, max_depth=12)
    requests = before(subject)
    assert stride_of(subject) == 40
    cover(subject, requests[:full_at_first], 40)
    short = requests[full_at_first:]
    cover(subject, short[:3], 30)
    cover(subject, short[3:4], 40)
    cover(subject, short[4:5], 30)
    assert stride_of(subject) == 40
    cover(subject, short[5:6], 30)
    assert stride_of(subject) == 30


@BEFORE
def test_a_probe_follows_one_more_full_responses_than_may_be_in_flight(before: Before) -> None:
    subject = window(0, 10_000, max_depth=12)
    requests = before(subject)
    new: list[PullRequest] = []
    full_responses = 0
    while all(request.end_offset - request.next_offset <= 40 for request in new):
        (request, *requests) = requests
        cover(subject, [request], 40)
        full_responses += 1
        if not request.is_complete:
            step(subject, request, whole(request))
        subject.deliver()
        new = sent(subject)
        requests += new
    assert 13 <= full_responses < 13 + 12 // REFILL_DIVISOR, "it goes out with the next requests"


def test_full_responses_from_before_a_probe_do_not_count_for_the_next_which_waits_for_twice_as_many() -> None:
    subject = window(0, 10_000, max_depth=3)
    requests = opened(subject, stride=40)
    widths = []
    for _ in range(12):
        (request, *requests) = requests
        is_probe = request.end_offset - request.next_offset > 40
        step(subject, request, too_small(request.end_offset) if is_probe else whole(request))
        subject.deliver()
        new = sent(subject)
        widths.append([request.end_offset - request.next_offset for request in new])
        requests += new
    assert widths == [[40], [40], [40], [80], [40], [40], [], [40, 40], [40], [40], [40], [80]]


def full_responses_before_probes(subject: PullWindow, probes: int) -> list[int]:
    """Before each of so many, where every probe is responded as before."""
    requests, counts = opened(subject, stride=40), [0]
    while len(counts) <= probes:
        (request, *requests) = requests
        if request.end_offset - request.next_offset > 40:
            step(subject, request, found(request.next_offset, request.next_offset + 40))
            counts.append(0)
        else:
            step(subject, request, whole(request))
            counts[-1] += 1
        subject.deliver()
        requests += sent(subject)
    return counts[:probes]


def test_probes_that_fail_become_seldom() -> None:
    """Each holds up all that was asked for behind it."""
    first, *others = full_responses_before_probes(window(0, 100_000, max_depth=1), 9)
    assert first == 2
    assert others == [2, 4, 8, 16, 32, 64, 64, 64], "what is left of a probe is a full answer too"


def test_ordinary_responses_make_short_ones_forgotten_too() -> None:
    subject = window(0, 10_000, max_depth=12)
    requests = opened(subject, stride=40)
    shorten(subject, requests[:3], by=30)
    assert responded(subject, *((request, whole(request)) for request in requests[3:12])) == 9
    shorten(subject, requests[:1], by=0)
    (more, *_) = (subject.deliver(), sent(subject))[1]
    shorten(subject, [more], by=30)
    assert stride_of(subject) == 40


def test_a_quarter_of_what_may_be_in_flight_is_requested_at_once() -> None:
    subject = window(0, 100_000, max_depth=16)
    requests = opened(subject, stride=40)
    sizes = []
    for request in requests[:8]:
        step(subject, request, whole(request))
        subject.deliver()
        sizes.append(len(sent(subject)))
    assert sizes == [0, 0, 0, 4, 0, 0, 0, 4]


def test_large_responses_of_which_few_may_be_in_flight_do_not_wait_for_that() -> None:
    subject = window(0, 100_000, max_depth=16, max_bytes=1_000)
    requests = opened(subject, stride=40)
    step(subject, requests[0], whole(requests[0]))
    subject.deliver()
    assert (subject.depth, len(requests), len(sent(subject))) == (3, 3, 1)


# ---------------------------------------------------------------------------------------------------- depth and memory


@pytest.mark.parametrize(("body_bytes", "depth"), [(1, 4), (250, 4), (251, 3), (500, 2), (501, 1), (5_000, 1)])
def test_the_larger_responses_are_the_fewer_are_in_flight(body_bytes: int, depth: int) -> None:
    subject = window(max_depth=4, max_bytes=1_000)
    (first,) = sent(subject)
    step(subject, first, found(100, 132)._replace(body=memoryview(bytes(body_bytes))))
    subject.deliver()
    assert len(sent(subject)) == depth


def test_a_refusal_for_load_halves_the_depth_and_responses_bring_it_back() -> None:
    subject = window(max_depth=4)
    requests = opened(subject, stride=40)
    depths = []
    for _ in range(3):
        subject.reduce_depth()
        depths.append(subject.depth)
    for request in requests:
        step(subject, request, found(request.next_offset, request.end_offset))
        depths.append(subject.depth)
    assert depths == [2, 1, 1, 2, 3, 4, 4]


def test_after_refusals_as_many_are_tried_again_as_the_depth_allows() -> None:
    subject = window(max_depth=4)
    requests = opened(subject, stride=40)
    subject.reduce_depth()
    for request in requests:
        subject.retry(request)
    assert sent(subject) == requests[:2]


def test_what_waits_for_delivery_counts_as_depth() -> None:
    """Else a slow first pull lets the whole range pile up behind it."""
    subject = window(max_depth=4)
    head, *others = opened(subject, stride=40)
    for request in others:
        step(subject, request, found(request.next_offset, request.end_offset))
    assert sent(subject) == []
    step(subject, head, found(140, 180))
    assert len(delivered(subject)) == 4
    assert len(sent(subject)) == 4


def test_short_responses_do_not_pile_up_either() -> None:
    """It used to pull a wide request again and again, whatever waited for delivery already."""
    subject = window(max_depth=4)
    _head, *others = opened(subject, stride=40)
    for request in others:
        step(subject, request, found(request.next_offset, request.next_offset + 10))
    assert sent(subject) == []


def test_ordinary_responses_that_wait_count_as_depth_and_with_their_bytes() -> None:
    """Each time that some are taken, beside those that wait already."""
    for subject in (window(max_depth=4), window(max_depth=12, max_bytes=4 * 320)):
        (_head, second, third, _fourth) = opened(subject, stride=40)
        for request in (second, third):
            assert responded(subject, (request, whole(request))) == 1
        assert sent(subject) == []
    subject = window(max_depth=12, max_bytes=4 * 320)
    (_head, second, third, _fourth) = opened(subject, stride=40)
    assert responded(subject, (second, whole(second)), (third, whole(third))) == 2
    assert sent(subject) == []


def test_responses_without_messages_are_counted_as_one_byte_each() -> None:
    subject = window(max_depth=4, max_bytes=3)
    (first,) = sent(subject)
    step(subject, first, skipped_to(140))
    for _ in range(3):
        subject.deliver()
        requests = sent(subject)
        assert len(requests) == 3
        for request in requests:
            step(subject, request, skipped_to(request.end_offset))


def test_what_is_needed_next_for_delivery_is_pulled_in_any_case() -> None:
    subject = window(max_depth=4)
    head, *others = opened(subject, stride=40)
    for request in others:
        step(subject, request, found(request.next_offset, request.next_offset + 10))
    step(subject, head, found(140, 150))
    subject.reduce_depth()
    assert sent(subject) == [head]


# ---------------------------------------------------------------------------------------------------- delivery


def test_responses_are_delivered_as_they_lie_in_the_queue() -> None:
    subject = window(max_depth=3)
    first, second, third = opened(subject, stride=40)
    step(subject, third, found(220, 260))
    step(subject, second, skipped_to(220))
    assert delivered(subject) == []
    step(subject, first, found(140, 180))
    assert delivered(subject) == [(140, 180, False), (180, 220, False), (220, 260, False)]


def test_what_has_come_of_the_first_request_is_delivered_before_its_rest() -> None:
    subject = window(max_depth=3)
    first, second, _third = opened(subject, stride=40)
    step(subject, second, found(180, 220))
    step(subject, first, found(140, 150))
    assert delivered(subject) == [(140, 150, False)]
    step(subject, first, found(150, 180))
    assert delivered(subject) == [(150, 180, False), (180, 220, False)]


def test_a_response_that_reaches_further_counts_up_to_its_requests_end() -> None:
    subject = window(max_depth=2)
    first, _second = opened(subject, stride=40)
    step(subject, first, found(140, 200))
    (pulled,) = subject.deliver()
    assert (pulled.begin_offset, pulled.end_offset) == (140, 180)
    assert offsets_of(pulled) == list(range(140, 180))


def test_a_response_counts_only_up_to_the_end_of_the_range() -> None:
    subject = window(100, 300)
    (first,) = sent(subject)
    step(subject, first, skipped_to(900))
    assert delivered(subject) == [(100, 300, False)]
    assert subject.is_finished


def test_an_empty_range_is_finished_at_once() -> None:
    subject = window(100, 100)
    assert (subject.is_finished, sent(subject), delivered(subject)) == (True, [], [])


# ---------------------------------------------------------------------------------------------------- losses


def test_what_is_below_the_min_offset_is_lost_and_the_rest_is_pulled() -> None:
    subject = window(100, 1_000)
    (first,) = sent(subject)
    assert step(subject, first, too_small(110)) is PullAction.LOST
    assert spans(sent(subject)) == [(110, 132)]


def test_a_loss_is_reported_as_a_whole_however_it_was_found_out() -> None:
    subject = window(100, 1_000, max_depth=3)
    first, second, third = opened(subject, stride=40)
    step(subject, first, too_small(500))
    assert delivered(subject) == [], "its end is not known yet"
    step(subject, third, too_small(500))
    step(subject, second, too_small(500))
    assert delivered(subject) == [], "its end is not known yet"
    (request, *_) = sent(subject)
    step(subject, request, found(500, 540))
    assert delivered(subject) == [(140, 500, True), (500, 540, False)]
    assert len(sent(subject)) == 2, "one is in flight, and nothing waits any more"


def test_a_loss_that_is_kept_back_counts_as_depth_beside_what_waits() -> None:
    subject = window(100, 1_000, max_depth=4)
    first, second, third, _fourth = opened(subject, stride=40)
    step(subject, first, too_small(180))
    step(subject, third, whole(third))
    assert delivered(subject) == [], "the loss may go on"
    assert sent(subject) == [], "two are in flight, the loss and the third wait"
    step(subject, second, whole(second))
    assert delivered(subject) == [(140, 180, True), (180, 220, False), (220, 260, False)]
    assert len(sent(subject)) == 3, "one is in flight"


def test_a_loss_at_the_end_of_the_range_is_reported_at_once() -> None:
    subject = window(100, 1_000)
    (first,) = sent(subject)
    step(subject, first, too_small(9_999))
    assert delivered(subject) == [(100, 1_000, True)]
    assert subject.is_finished


def test_a_response_that_was_under_way_when_the_loss_was_noticed_still_counts() -> None:
    subject = window(100, 1_000, max_depth=3)
    first, second, third = opened(subject, stride=40)
    step(subject, first, too_small(500))
    step(subject, second, found(180, 220))
    step(subject, third, too_small(500))
    (request, *_) = sent(subject)
    step(subject, request, found(500, 540))
    assert delivered(subject) == [(140, 180, True), (180, 220, False), (220, 500, True), (500, 540, False)]


REMOVING = result(PullStatus.NO_MATCHED_MSG, "MESSAGE_WAS_REMOVING", 107)
"""Up to 107 nothing is there any more, as far as this answer goes."""


def test_what_retention_is_removing_is_skipped_as_far_as_the_response_goes() -> None:
    """It used to give up the rest of the request: messages that are there were said to be lost."""
    subject = window(100, 1_000)
    (first,) = sent(subject)
    step(subject, first, REMOVING)
    assert subject.presume_lost(first, REMOVING)
    (request,) = sent(subject)
    step(subject, request, found(107, 132))
    assert delivered(subject) == [(100, 107, True), (107, 132, False)]


@pytest.mark.parametrize(
    "absent",
    [
        result(PullStatus.NO_NEW_MSG, "OFFSET_OVERFLOW_ONE", 100, max_offset=100),
        result(PullStatus.OFFSET_ILLEGAL, "OFFSET_OVERFLOW_BADLY", 60, max_offset=60),
        result(PullStatus.OFFSET_ILLEGAL, "NO_MESSAGE_IN_QUEUE", 0, min_offset=0, max_offset=0),
    ],
)
def test_where_the_queue_ends_earlier_the_rest_of_the_range_is_skipped(absent: PullResult) -> None:
    subject = window(100, 1_000)
    (first,) = sent(subject)
    step(subject, first, absent)
    assert subject.presume_lost(first, absent)
    assert delivered(subject) == [(100, 1_000, True)]


def test_only_a_loss_that_was_skipped_is_marked_as_that() -> None:
    subject = window(100, 1_000)
    (first,) = sent(subject)
    assert subject.presume_lost(first, REMOVING)
    step(subject, first, found(107, 132))
    assert [pulled.kind for pulled in subject.deliver()] == [RangeKind.PRESUMED_LOST, RangeKind.READ]
    (request, *_) = sent(subject)
    step(subject, request, too_small(160))
    step(subject, request, found(160, 170))
    assert [pulled.kind for pulled in subject.deliver()] == [RangeKind.DELETED, RangeKind.READ]


def test_losses_that_touch_are_skipped_if_either_was() -> None:
    subject = window(100, 1_000)
    (first,) = sent(subject)
    step(subject, first, too_small(103))
    assert subject.presume_lost(first, REMOVING)
    step(subject, first, too_small(110))
    step(subject, first, found(110, 132))
    lost, _found = subject.deliver()
    assert lost == PulledRange(100, 110, kind=RangeKind.PRESUMED_LOST)


def test_losses_that_touch_are_skipped_if_the_last_was() -> None:
    subject = window(100, 1_000)
    (first,) = sent(subject)
    step(subject, first, too_small(103))
    assert subject.presume_lost(first, REMOVING)
    step(subject, first, found(107, 132))
    lost, _found = subject.deliver()
    assert lost == PulledRange(100, 107, kind=RangeKind.PRESUMED_LOST)


def test_deleted_losses_that_touch_are_one_deleted_range() -> None:
    subject = window(100, 1_000)
    (first,) = sent(subject)
    step(subject, first, too_small(103))
    step(subject, first, too_small(110))
    step(subject, first, found(110, 132))
    lost, _found = subject.deliver()
    assert lost == PulledRange(100, 110, kind=RangeKind.DELETED)


def test_vacancy_beyond_its_request_is_vacant_in_a_new_one() -> None:
    subject = window(100, 1_000)
    (first,) = sent(subject)
    subject.step(first, result(PullStatus.FOUND, "FOUND", 98), PullAction.VACANT, 150)
    assert subject.deliver() == [
        PulledRange(100, 132, kind=RangeKind.VACANT, vacant_from=98),
        PulledRange(132, 150, kind=RangeKind.VACANT, vacant_from=98),
    ]


def test_response_beyond_its_request_has_its_own_end() -> None:
    subject = window(100, 1_000)
    first, *_ = opened(subject, stride=40)
    step(subject, first, found(140, 190))
    (pulled,) = subject.deliver()
    assert (pulled.end_offset, pulled.response_end_offset, pulled.response_range) == (180, 190, (140, 190))
    assert pulled.vacant_from is None


def test_an_unknown_action_raises() -> None:
    subject = window()
    (first,) = sent(subject)
    with pytest.raises(AssertionError):
        subject.step(first, found(100, 132), cast(PullAction, None))


def test_nothing_is_skipped_that_no_response_reports_as_deleted() -> None:
    subject = window(100, 1_000)
    (first,) = sent(subject)
    stalled = skipped_to(100)
    step(subject, first, stalled)
    assert not subject.presume_lost(first, stalled)
    assert spans([first]) == [(100, 132)]


# ---------------------------------------------------------------------------------------------------- the steady part


def responded(subject: PullWindow, *completions: tuple[PullRequest, PullOutcome]) -> int:
    return subject.accept_fast_path((request, result, MASTER_ID) for request, result in completions)


def whole(request: PullRequest) -> PullResult:
    return found(request.next_offset, request.end_offset)


def test_ordinary_responses_are_accepted_together_and_delivered_in_order() -> None:
    subject = window(max_depth=3)
    first, second, third = opened(subject, stride=40)
    assert responded(subject, *((request, whole(request)) for request in (third, first, second))) == 3
    assert delivered(subject) == [(140, 180, False), (180, 220, False), (220, 260, False)]
    assert spans(sent(subject)) == [(260, 300), (300, 340), (340, 380)]


@pytest.mark.parametrize(
    "other",
    [
        found(180, 210),
        found(180, 230),
        skipped_to(220),
        result(PullStatus.OFFSET_ILLEGAL, "OFFSET_RESET", 220),
        TransportError("CONNECTION_LOST", address="a:1", reason="cut"),
    ],
)
def test_the_first_response_that_is_not_ordinary_stays_and_so_does_what_is_behind_it(other: PullOutcome) -> None:
    subject = window(max_depth=3)
    first, second, third = opened(subject, stride=40)
    assert responded(subject, (first, whole(first)), (second, other), (third, whole(third))) == 1
    assert responded(subject, (second, other), (third, whole(third))) == 0
    assert delivered(subject) == [(140, 180, False)]


def test_a_large_one_among_ordinary_responses_closes_the_window_too() -> None:
    subject = window(max_depth=4, max_bytes=1_200)
    first, second, third = opened(subject, stride=40)
    large = whole(second)._replace(body=memoryview(bytes(600)))
    assert responded(subject, (first, whole(first)), (second, large), (third, whole(third))) == 3
    assert subject.depth == 2


def test_a_large_response_is_forgotten_bit_by_bit() -> None:
    subject = window(0, 10_000, max_depth=4, max_bytes=1_400)
    requests = opened(subject, stride=40)
    (head, *requests) = requests
    step(subject, head, whole(head)._replace(body=memoryview(bytes(1_400))))
    depths = [subject.depth]
    for _ in range(20):
        subject.deliver()
        requests += sent(subject)
        (request, *requests) = requests
        step(subject, request, whole(request)._replace(body=memoryview(bytes(320))))
        depths.append(subject.depth)
    assert depths[0] == 1
    assert depths[8] == 1
    assert depths[9:] == sorted(depths[9:])
    assert depths[-1] == 4


def test_what_waits_for_delivery_counts_with_its_own_size() -> None:
    subject = window(max_depth=4, max_bytes=4 * 320)
    head, second, third, fourth = opened(subject, stride=40)
    step(subject, second, whole(second)._replace(body=memoryview(bytes(960))))
    for request in (third, fourth):
        step(subject, request, whole(request)._replace(body=memoryview(b"")))
    step(subject, head, whole(head)._replace(body=memoryview(b"")))
    subject.deliver()
    assert len(sent(subject)) == 1, "one of 960 is expected still"


def test_no_response_is_ordinary_before_the_first_and_while_the_depth_grows_again() -> None:
    subject = window(max_depth=4)
    (alone,) = sent(subject)
    assert responded(subject, (alone, whole(alone))) == 0
    step(subject, alone, whole(alone))
    subject.deliver()
    first, *_ = sent(subject)
    subject.reduce_depth()
    assert responded(subject, (first, whole(first))) == 0


def test_the_end_of_a_range_is_not_ordinary() -> None:
    """It would be mistaken for a full answer, and the stride not."""
    subject = window(100, 125)
    (last,) = opened(subject, stride=10)
    assert responded(subject, (last, whole(last))) == 0


def test_ordinary_responses_too_are_followed_by_a_probe() -> None:
    subject = window(0, 10_000, max_depth=2)
    requests = opened(subject, stride=40)
    widths = set()
    for _ in range(6):
        (request, *requests) = requests
        widths.add(request.end_offset - request.next_offset)
        if not responded(subject, (request, whole(request))):
            step(subject, request, whole(request))
        subject.deliver()
        requests += sent(subject)
    assert widths == {40, 80}
    assert stride_of(subject) == 80
