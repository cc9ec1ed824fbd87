from __future__ import annotations

from rocketmq_spark.consumer.allocation import ConsistentHashRouter, HashFunction, md5_hash


def test_the_hash_is_the_first_four_bytes_of_md5_unsigned() -> None:
    assert md5_hash("") == 0xD41D8CD9
    assert md5_hash("é") == 0x66DDCD97


def test_a_lone_surrogate_hashes_as_javas_replacement() -> None:
    assert md5_hash("\ud83d") == md5_hash("?")


def test_a_key_belongs_to_the_node_at_its_hash_or_the_next_one_and_after_the_last_to_the_first() -> None:
    places = {"a-0": 10, "b-0": 20}
    router = ConsistentHashRouter(["b", "a"], 1, lambda key: places.get(key) or int(key))
    assert [router.route(key) for key in ("5", "10", "11", "20", "21")] == ["a", "a", "b", "b", "a"]


def test_a_node_named_twice_has_twice_as_many_virtual_nodes() -> None:
    keys = iter(range(6))
    assert hashed_keys(lambda _: next(keys)) == ["a-0", "a-1", "b-0", "b-1", "a-2", "a-3"]


def test_virtual_nodes_that_lost_their_place_are_not_counted() -> None:
    assert hashed_keys(len) == ["a-0", "a-1", "b-0", "b-1", "a-0", "a-1"]


def hashed_keys(hash_function: HashFunction) -> list[str]:
    """The virtual nodes, as they are hashed, of a ring of ``a``, ``b`` and ``a`` again."""
    hashed: list[str] = []

    def hash_noted(key: str) -> int:
        hashed.append(key)
        return hash_function(key)

    ConsistentHashRouter(["a", "b", "a"], 2, hash_noted)
    return hashed
