"""Which locks there are, and what is done while one is held: requests under the turn only, and nothing else waits then.

docs/dev/decisions/0001 states why the turn is held across requests.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import rocketmq_spark
from connector_tests.architecture.test_group_lock_holders import GROUP_LOCKS

PACKAGE = Path(rocketmq_spark.__file__).parent
MAKERS = {"Lock", "RLock", "Condition", "Semaphore", "BoundedSemaphore"}

LOCKS = {
    "consumer/member.py": {"_changed", "GroupLock"},
    "metrics/prometheus.py": {"_lock"},
    "pop/grpc_transport.py": {"_refreshing"},
    "pop/receiver.py": {"_changed"},
    "pop/workers.py": {"_lock"},
    "remoting/connection.py": {"_gate", "_sending"},
    "remoting/memory.py": {"_changed"},
    "remoting/pool.py": {"_sharing", "_table", "opening"},
    "remoting/tail_watch.py": {"_lock"},
    "remoting/tcp.py": {"_ending"},
    "remoting/tls.py": {"_flushing", "_lock"},
}
"""By module, the names that locks are given; ``GroupLock`` is handed one."""

LENT = {
    "pop/ack_scheduler.py": {"_changed"},
    "pop/receive_failures.py": {"_changed"},
    "pop/workers.py": {"_changed"},
}
"""The same of who is handed one by who makes it."""

AT_ONCE = {
    # tables of our own
    "items", "get", "keys", "values", "pop", "discard", "setdefault", "append", "appendleft", "popleft", "bytes", "len",
    "_Slot", "ConnectionPool", "_pause", "_is_something_new", "notify_all", "list", "min", "bool", "isinstance", "set",
    "all", "isdisjoint", "issuperset", "is_set", "is_alive",
    # the ledger, what is on its way, and what fails
    "count", "add_received", "add_exhausted", "start_batch", "replay_batch", "mark_completed", "add_completed",
    "claim", "mark_extended", "mark_extension_failed",
    "expire", "record_moves", "mark_acknowledged", "unclaim", "mark_released", "mark_expired", "zip", "schedule",
    "mark_responded", "failed", "mark_failed", "record_failure", "record_incomplete", "take_lines",
    "record_success", "may_try", "outages", "raise_expired", "set_targets", "targets", "broker_subject", "_clock",
    "conversion_subject", "difference", "intersection_update", "since_ms",
    "abandon", "claim_exhausted",
    "brokers_with", "brokers_due", "brokers_due_at_stop", "may_send", "may_receive", "is_failing",
    "shrink", "grow", "copy", "expect_redelivery", "recheck_empty_targets",
    # TLS in memory, and a socket of which only the end is told
    "read", "write", "write_eof", "shutdown", "close",
}  # fmt: skip
"""Calls that wait for nobody."""

LONGER = {
    ("consumer/member.py", "wait_for"): "lets go of its lock",
    **{
        ("metrics/prometheus.py", call): "counts, a few for each query and queue"
        for call in ("end", "samples", "update")
    },
    ("pop/ack_scheduler.py", "wait"): "lets go of its lock",
    ("pop/ack_scheduler.py", "wait_for"): "lets go of its lock",
    ("pop/grpc_transport.py", "_refresh"): "its requests have a time limit; only workers that need its routes wait",
    ("pop/receiver.py", "wait"): "lets go of its lock",
    ("pop/workers.py", "start"): "until the thread runs, which takes no lock before",
    ("remoting/memory.py", "wait_for"): "lets go of its lock",
    ("remoting/tls.py", "sendall"): "what the session has written leaves in one order; it has a time limit",
}
"""Calls under a lock that may take longer, and why they may."""

BY_HAND = {
    ("remoting/connection.py", "_gate"): "opens once, for who waits for an answer; nothing is done while it is shut",
    ("remoting/connection.py", "_sending"): "waits with a limit; what is sent meanwhile has the rest of that",
    ("remoting/pool.py", "opening"): "waits with a limit, for a connection to the same server that somebody else opens",
}
"""Locks that are taken without a ``with``, and what is done until they are released."""

WITHOUT_GROUP_LOCK = {"wait", "wait_for", "wait_for_change", "join", "sleep", "acquire", "send", "leave_group", "stop"}
"""Waiting for a thread, for time, or for heartbeats that nobody may answer."""


def trees() -> Iterator[tuple[str, ast.Module]]:
    for path in PACKAGE.rglob("*.py"):
        yield path.relative_to(PACKAGE).as_posix(), ast.parse(path.read_text(encoding="utf-8"))


def name_of(node: ast.AST) -> str:
    """The last word of a name, an attribute or what is called."""
    if isinstance(node, ast.Call):
        return name_of(node.func)
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def locks_made(tree: ast.Module) -> set[str]:
    """Names that are given to locks, or of who is handed one."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Call):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names |= {name_of(target) for target in targets if name_of(node.value) in MAKERS}
        elif isinstance(node, ast.Call) and any(name_of(given) in MAKERS for given in handed(node)):
            names.add(name_of(node))
    return names


def handed(call: ast.Call) -> list[ast.expr]:
    return [given for given in (*call.args, *(one.value for one in call.keywords)) if isinstance(given, ast.Call)]


def calls_under(tree: ast.Module, names: set[str]) -> set[str]:
    """What is called, itself, in a ``with`` block of one of these names."""
    return {
        name_of(node)
        for block in ast.walk(tree)
        if isinstance(block, ast.With) and any(name_of(item.context_expr) in names for item in block.items)
        for statement in block.body
        for node in ast.walk(statement)
        if isinstance(node, ast.Call)
    }


def test_all_locks_are_known() -> None:
    assert {name: made for name, tree in trees() if (made := locks_made(tree))} == LOCKS


def test_a_lock_is_held_for_a_moment() -> None:
    names = {name: LOCKS.get(name, set()) | LENT.get(name, set()) for name in LOCKS.keys() | LENT.keys()}
    longer = {(name, call) for name, tree in trees() for call in calls_under(tree, names.get(name, set())) - AT_ONCE}
    assert longer == LONGER.keys()


def acquired_by_hand(tree: ast.Module) -> set[str]:
    """Whose ``acquire`` is called."""
    calls = (node.func for node in ast.walk(tree) if isinstance(node, ast.Call))
    return {name_of(call.value) for call in calls if isinstance(call, ast.Attribute) and call.attr == "acquire"}


def test_no_other_lock_is_acquired_by_hand() -> None:
    assert {(name, lock) for name, tree in trees() for lock in acquired_by_hand(tree)} == BY_HAND.keys()


def test_the_group_lock_waits_for_servers_only() -> None:
    calls = {name: called for name, tree in trees() if (called := calls_under(tree, GROUP_LOCKS))}
    assert calls.keys() == {"consumer/member.py", "source/stream/batch_planner.py"}
    assert {name: called & WITHOUT_GROUP_LOCK for name, called in calls.items() if called & WITHOUT_GROUP_LOCK} == {}


def test_a_request_under_a_lock_and_a_wait_under_the_group_lock_are_found() -> None:
    tree = ast.parse("with self._lock:\n broker.ask(rpc)\nwith self.group_lock() as membership:\n thread.join()")
    assert calls_under(tree, {"_lock"}) - AT_ONCE == {"ask"}
    assert calls_under(tree, GROUP_LOCKS) & WITHOUT_GROUP_LOCK == {"join"}


def test_a_lock_is_found_however_it_is_made() -> None:
    made = "self._a = threading.Lock()\nb = Condition()\nGroupLock(m, threading.RLock())\nself._c: Gate = Semaphore(1)"
    assert locks_made(ast.parse(made)) == {"_a", "b", "GroupLock", "_c"}
    assert acquired_by_hand(ast.parse("if self._a.acquire(timeout=1):\n b.release()")) == {"_a"}
