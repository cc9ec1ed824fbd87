"""Turn: the only way to a membership. Who holds the turn has the membership to itself; nobody else reads or writes it.

Others read ``published``, which is exchanged as a whole when a turn ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from rocketmq_spark.consumer.membership import Membership, Published


class GroupLock:
    """``with turn() as membership:`` lends the membership until the block ends; keep no reference to it.

    There is no attribute that leads to the membership. Threads: any. ``lock`` may let the thread in that has the turn.
    """

    def __init__(self, membership: Membership, lock: AbstractContextManager[object]) -> None:
        self.published: Published = membership.publish()
        """As of the end of the last turn."""
        self._hold = self._new_holder(membership, lock)

    def __call__(self) -> AbstractContextManager[Membership]:
        return self._hold()

    def _new_holder(
        self, membership: Membership, lock: AbstractContextManager[object]
    ) -> Callable[[], AbstractContextManager[Membership]]:
        @contextmanager
        def hold() -> Iterator[Membership]:
            with lock:
                try:
                    yield membership
                finally:
                    self.published = membership.publish()

        return hold
