"""How many messages are received ahead."""

from __future__ import annotations

from rocketmq_spark.pop.ahead import Ahead


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
