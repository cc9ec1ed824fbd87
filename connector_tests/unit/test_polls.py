"""How many polls there are, to whom and how long."""

from __future__ import annotations

from rocketmq_spark.pop.polls import (
    HANDED_OUT_AGAIN_MS,
    LONG_POLL_MS,
    MOST_MESSAGES,
    SHORT_POLL_MS,
    WHILE_FOUND,
    Ahead,
    Poll,
    Polls,
    Target,
)

A, B = Target("T", "broker-a"), Target("T", "broker-b")
ROOM = 1_000


def polls_of(*targets: Target, looks_once: bool = False) -> Polls:
    polls = Polls(looks_once)
    polls.aim(targets)
    return polls


def wanted(polls: Polls, *targets: Target, room: int = ROOM) -> list[Poll]:
    return list(polls.wanted(room, targets))


def test_each_target_is_asked_once_while_nobody_has_answered() -> None:
    polls = polls_of(A, B)
    assert wanted(polls, A, B) == [Poll(A, MOST_MESSAGES, SHORT_POLL_MS), Poll(B, MOST_MESSAGES, SHORT_POLL_MS)]
    assert wanted(polls, A, B) == []


def test_who_has_answered_may_take_its_time_and_who_had_something_is_asked_several_times() -> None:
    """As long as everybody's polls: a broker gives what comes to the one that has the least time left."""
    polls = polls_of(A, B)
    wanted(polls, A, B)
    polls.answered(A, has_found=False)
    polls.answered(B, has_found=True)
    assert wanted(polls, A, B) == [Poll(A, MOST_MESSAGES, LONG_POLL_MS)] + [Poll(B, MOST_MESSAGES, LONG_POLL_MS)] * (
        WHILE_FOUND
    )
    assert wanted(polls, A, B) == []


def test_who_reads_what_is_there_wants_to_know_soon_when_that_is_all() -> None:
    polls = polls_of(A, looks_once=True)
    assert {poll.poll_ms for poll in wanted(polls, A)} == {SHORT_POLL_MS}
    polls.answered(A, has_found=True)
    assert {poll.poll_ms for poll in wanted(polls, A)} == {SHORT_POLL_MS}


def test_there_are_no_more_asked_for_than_there_is_room_for() -> None:
    assert wanted(polls_of(A), A, room=0) == []
    assert wanted(polls_of(A), A, room=1) == [Poll(A, 1, SHORT_POLL_MS)]
    assert wanted(polls_of(A), A, room=5) == [Poll(A, 5, SHORT_POLL_MS)]


def test_who_may_not_be_asked_is_not() -> None:
    polls = polls_of(A, B)
    assert [poll.target for poll in wanted(polls, B)] == [B]


def test_all_have_answered_when_each_has() -> None:
    polls = polls_of(A, B)
    assert not Polls(looks_once=False).have_all_answered
    wanted(polls, A, B)
    polls.answered(A, has_found=True)
    polls.failed(B)
    assert not polls.have_all_answered
    wanted(polls, A, B)
    polls.answered(B, has_found=False)
    assert polls.have_all_answered


def test_it_is_dry_when_the_last_one_that_was_on_its_way_has_brought_nothing() -> None:
    polls = polls_of(A, looks_once=True)
    assert not Polls(looks_once=True).are_dry
    wanted(polls, A)
    polls.answered(A, has_found=True)
    wanted(polls, A)
    for _ in range(WHILE_FOUND - 1):
        polls.answered(A, has_found=False)
        assert not polls.are_dry
    polls.answered(A, has_found=False)
    assert polls.are_dry


def test_who_looks_once_leaves_no_poll_behind_at_who_has_nothing() -> None:
    """It would take what is stored after the query's end, and nobody else would get that until its time is over."""
    polls = polls_of(A, B, looks_once=True)
    wanted(polls, A, B)
    polls.answered(A, has_found=False)
    polls.answered(B, has_found=True)
    assert {poll.target for poll in wanted(polls, A, B)} == {B}
    assert polls.on_the_way == WHILE_FOUND


def test_who_looks_once_asks_again_where_something_was_given_up_until_it_should_have_come() -> None:
    polls = polls_of(A, looks_once=True)
    for now_ms in (5_000, 5_000 + HANDED_OUT_AGAIN_MS // 2, 5_000 + HANDED_OUT_AGAIN_MS):
        wanted(polls, A)
        polls.answered(A, has_found=False)
        if now_ms == 5_000:
            polls.expect_again(now_ms)
        assert not polls.are_dry
        polls.pass_time(now_ms)
        assert not polls.are_dry
    assert wanted(polls, A) == [Poll(A, MOST_MESSAGES, SHORT_POLL_MS)]
    polls.answered(A, has_found=False)
    assert polls.are_dry
    polls.pass_time(5_001 + HANDED_OUT_AGAIN_MS)
    assert polls.are_dry


def test_who_does_not_look_once_asks_who_has_nothing_again() -> None:
    polls = polls_of(A)
    wanted(polls, A)
    polls.answered(A, has_found=False)
    assert wanted(polls, A) == [Poll(A, MOST_MESSAGES, LONG_POLL_MS)]
    polls.answered(A, has_found=True)
    assert not polls.are_dry


def test_who_does_not_answer_is_not_dry() -> None:
    polls = polls_of(A)
    wanted(polls, A)
    polls.answered(A, has_found=False)
    wanted(polls, A)
    polls.failed(A)
    assert not polls.are_dry


def test_who_has_begun_has_begun_while_nobody_says_where_to_ask() -> None:
    """An outage: a query that waits for it still answers Spark, and so shows in its progress what it waits for."""
    polls = polls_of(A)
    wanted(polls, A)
    polls.answered(A, has_found=False)
    polls.aim([])
    assert polls.have_all_answered
    polls.aim([A])
    assert polls.have_all_answered


def test_an_answer_while_nobody_says_where_to_ask_is_no_begin() -> None:
    polls = polls_of(A)
    wanted(polls, A)
    polls.aim([])
    polls.answered(A, has_found=False)
    assert not polls.have_all_answered


def test_an_answer_of_who_is_gone_changes_nothing() -> None:
    polls = polls_of(A, B)
    wanted(polls, A, B)
    polls.aim([B])
    polls.answered(A, has_found=True)
    polls.answered(B, has_found=False)
    assert polls.are_dry
    assert polls.have_all_answered


def test_those_that_are_not_back_are_on_the_way() -> None:
    polls = Polls(looks_once=False)
    targets = [Target("T", "a"), Target("T", "b")]
    polls.aim(targets)
    assert len(list(polls.wanted(100, targets))) == polls.on_the_way == 2
    polls.answered(targets[0], has_found=True)
    polls.failed(targets[1])
    assert polls.on_the_way == 0


def test_no_more_are_received_ahead_than_could_be_kept_and_a_few_more_with_each_batch() -> None:
    ahead = Ahead(1_000)
    seen = [ahead.most]
    for kept in (400, None, 900, 0):
        if kept is None:
            ahead.frozen()
        else:
            ahead.expired(kept)
        seen.append(ahead.most)
    assert seen == [1_000, 400, 432, 432, 32]
    for _ in range(100):
        ahead.frozen()
    assert ahead.most == 1_000


def test_it_is_never_more_than_the_limit() -> None:
    ahead = Ahead(5)
    ahead.expired(0)
    ahead.frozen()
    assert ahead.most == 5
