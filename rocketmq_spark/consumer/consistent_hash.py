"""The hash ring of RocketMQ's client, from which CONSISTENT_HASH reads who owns a queue."""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Callable, Sequence

HashFunction = Callable[[str], int]


def md5_hash(key: str) -> int:
    """The first four bytes of the MD5 of ``key`` in UTF-8, big-endian and unsigned.

    A lone surrogate counts as ``?``, as in Java's encoder. Source: ``common/consistenthash/ConsistentHashRouter.java``.
    """
    digest = hashlib.md5(key.encode("utf-8", "replace"), usedforsecurity=False).digest()
    return int.from_bytes(digest[:4], "big")


class ConsistentHashRouter:
    """A ring of virtual nodes, and the node at or after the hash of a key.

    A node that is named twice gets twice as many virtual nodes: their numbers go on from those it has on the ring. Of
    two virtual nodes with one hash, the later one takes the place. Threads: any, it does not change.
    Source: ``common/consistenthash/ConsistentHashRouter.java``.
    """

    def __init__(self, nodes: Sequence[str], virtual_node_count: int, hash_function: HashFunction = md5_hash) -> None:
        self._hash_function = hash_function
        self._ring: dict[int, str] = {}
        for node in nodes:
            self._add(node, virtual_node_count)
        self._hashes = sorted(self._ring)

    def _add(self, node: str, virtual_node_count: int) -> None:
        present = sum(owner == node for owner in self._ring.values())
        for replica in range(present, present + virtual_node_count):
            self._ring[self._hash_function(f"{node}-{replica}")] = node

    def route(self, key: str) -> str | None:
        """The node that ``key`` belongs to; None on an empty ring."""
        if not self._hashes:
            return None
        position = bisect_left(self._hashes, self._hash_function(key))
        return self._ring[self._hashes[position % len(self._hashes)]]
