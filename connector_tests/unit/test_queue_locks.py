from __future__ import annotations

from connector_tests.support.queues import queues
from rocketmq_spark.consumer.queue_locks import TRUSTED_FOR_MS, QueueLocks

A, B = queues(2)


def test_a_lock_is_trusted_for_its_time_from_when_it_was_asked_for() -> None:
    locks = QueueLocks()
    locks.granted([A], asked_ms=1_000)
    assert locks.is_held(A, 1_000 + TRUSTED_FOR_MS - 1)
    assert not locks.is_held(A, 1_000 + TRUSTED_FOR_MS)
    assert not locks.is_held(B, 1_000)


def test_each_renewal_counts_anew() -> None:
    locks = QueueLocks()
    locks.granted([A, B], asked_ms=1_000)
    locks.granted([A], asked_ms=5_000)
    assert (locks.asked_ms(A), locks.asked_ms(B)) == (5_000, 1_000)
    assert locks.is_held(A, 5_000 + TRUSTED_FOR_MS - 1)
    assert not locks.is_held(B, 5_000 + TRUSTED_FOR_MS - 1)


def test_what_is_forgotten_is_not_held() -> None:
    locks = QueueLocks()
    locks.granted([A, B], asked_ms=1_000)
    locks.forget([A])
    locks.forget([A])
    assert not locks.is_held(A, 1_000)
    assert (locks.asked_ms(A), locks.asked_ms(B)) == (None, 1_000)
