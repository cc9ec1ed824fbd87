"""GroupLock: the only access to a membership. The holder has exclusive access; no other thread reads or changes it.

Other threads read ``published``, which is replaced as a whole when the lock is released.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from rocketmq_spark.consumer.membership import Membership, Published


class GroupLock:
    """``with group_lock() as membership:`` grants access to the membership until the block ends; keep no reference to
    it.

    No attribute leads to the membership. Threads: any. ``lock`` may be reentrant for the thread that holds it.
    """

    def __init__(self, membership: Membership, lock: AbstractContextManager[object]) -> None:
        """Publish the state of ``membership``, without the lock. ``lock`` is held at each later access."""
        self.published: Published = membership.log_and_snapshot()
        """State at the last release of the lock."""
        self._hold = self._new_holder(membership, lock)

    def __call__(self) -> AbstractContextManager[Membership]:
        """Return a context manager that waits for the lock, yields the membership, and publishes its state at the
        end."""
        return self._hold()

    def _new_holder(
        self, membership: Membership, lock: AbstractContextManager[object]
    ) -> Callable[[], AbstractContextManager[Membership]]:
        """Return a factory of context managers. Each waits for ``lock`` and holds it during the block. At its end it
        publishes the membership, also after an exception."""

        @contextmanager
        def hold() -> Iterator[Membership]:
            """Hold the lock during the block, and publish the membership's state at its end."""
            with lock:
                try:
                    yield membership
                finally:
                    self.published = membership.log_and_snapshot()

        return hold
