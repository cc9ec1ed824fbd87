"""Which files of tests run one after the other in one process, because they use a server of the same shape: the pool of
the process then starts one. And in which order these units begin."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Final

from xdist.scheduler import LoadFileScheduling

GROUPS: Final[Mapping[str, tuple[str, ...]]] = {
    "Java's classes": tuple(
        f"oracle/test_{name}"
        for name in (
            "allocation",
            "batch_ack",
            "bodies",
            "codes",
            "command",
            "group_names",
            "headers",
            "java",
            "message",
            "queue_by_hash",
            "reserved_names",
            "signature",
            "string_order",
            "subscription",
        )
    ),
    "a proxy with ACL and TLS": (
        "integration/test_message_ports",
        "integration/test_denied_sharers",
        "spark/test_over_grpc",
        "spark/test_secrets",
    ),
    "ACL and TLS": (
        "integration/test_security_matrix",
        "integration/test_denied_members",
        "integration/test_acl_broker",
        "integration/test_doctor",
        "spark/test_secured",
    ),
    "a proxy, received and extended": ("integration/test_receiver", "integration/test_both_protocols"),
    "a proxy, sent back and forged": ("integration/test_message_returner", "integration/test_forged_handles"),
    "a proxy and members": (
        "integration/test_clients_sharing",
        "integration/test_sharing_members",
        "integration/test_receiving_moved_queues",
        "integration/test_unconvertible_messages",
        "spark/test_batches_of_messages",
        "spark/test_task_attempts",
    ),
    "a proxy and a broker that are killed": ("integration/test_killed_members", "integration/test_proxy_outages"),
    "queries behind a proxy": ("spark/test_behind_a_proxy", "spark/test_group_behind_a_proxy"),
    "RocketMQ 4.9.7": (
        "integration/test_oldest_broker",
        "integration/test_hostile_messages",
        "spark/test_oldest_version",
    ),
    "two brokers": ("faults/test_writing_faults", "spark/test_positions_that_stay"),
}
"""Name and files below connector_tests, without their suffix."""

WAITING: Final = ("connector_tests/integration/", "connector_tests/faults/")
"""Where tests wait for servers most of the time. Those of the other folders keep a processor busy."""

FORKING: Final = ("connector_tests/unit/test_pool.py", "connector_tests/unit/test_pull_connections.py")
"""They come first: where others ran before in their processes, a library kept a socket of each fork."""

GROUP_OF: Final = {f"connector_tests/{file}.py": group for group, files in GROUPS.items() for file in files}


def unit_of(file: str) -> str:
    """The group of a file, else the file itself."""
    return GROUP_OF.get(file, file)


def unit_places(file_seconds: Mapping[str, int]) -> dict[str, float]:
    """Place of each unit of these files, in [0, 1): the share of its kind's seconds that begin before it; -1: it forks.

    Of units that wait and of units that compute, the longest come first; both kinds last until the end, so that
    some compute while others wait, and the last ones are short.
    """
    seconds_of: dict[bool, dict[str, int]] = {True: {}, False: {}}
    for unit, of_unit in groupby(sorted(file_seconds, key=unit_of), unit_of):
        in_unit = list(of_unit)
        waits = any(file.startswith(WAITING) for file in in_unit)
        seconds_of[waits][unit] = sum(file_seconds[file] for file in in_unit)
    places = {unit: place for of_kind in seconds_of.values() for unit, place in _shares_before(of_kind)}
    return places | dict.fromkeys(places.keys() & set(FORKING), -1)


def _shares_before(seconds: Mapping[str, int]) -> Iterator[tuple[str, float]]:
    total, before = sum(seconds.values()), 0
    for unit in sorted(seconds, key=lambda unit: (-seconds[unit], unit)):
        yield unit, before / total
        before += seconds[unit]


class SharedShapes(LoadFileScheduling):  # type: ignore[misc]  # pytest-xdist has no types
    """pytest-xdist's ``--dist loadfile``, for groups of files."""

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(nodeid.partition("::")[0])
