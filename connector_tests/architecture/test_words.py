"""The package is named in the words of RocketMQ, Spark and the field, and its texts state who does what."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import rocketmq_spark

PACKAGE: Final = Path(rocketmq_spark.__file__).parent
ROOT: Final = PACKAGE.parent

WORDS: Final = {
    "anew": "again, re-created",
    "answer": "response, future",
    "answered": "acknowledged, responded",
    "answers": "responses",
    "anybody": "the actor",
    "ask": "call, send, request",
    "asked": "requested",
    "asks": "calls, requests",
    "away": "unavailable: not in the route",
    "bad": "invalid, undecodable",
    "believe": "assume, verify",
    "believed": "assumed",
    "believes": "assumes",
    "disown": "abandon",
    "disowned": "abandoned",
    "door": "entry point, port",
    "doors": "entry points, ports",
    "errand": "task of the ack scheduler",
    "errands": "ack scheduler",
    "everybody": "the actor",
    "excuse": "extend the retry deadline",
    "excused": "extended",
    "findings": "queue facts",
    "freeze": "start a batch",
    "frozen": "in flight, in batch n",
    "gathered": "collected",
    "gone": "deleted, removed",
    "hear": "receive",
    "heard": "received",
    "hears": "receives",
    "incarnation": "queue identity, assignment generation",
    "keeper": "offset store",
    "know": "cache, resolve",
    "knows": "has",
    "ledger": "in-flight messages",
    "life": "queue identity, assignment generation",
    "lives": "queue identities",
    "look": "probe, lookup",
    "looked": "probed",
    "looker": "prober",
    "looks": "probes, lookup",
    "manner": "consumer settings",
    "manners": "consumer settings",
    "namesake": "duplicate client ID",
    "newcomer": "joining member",
    "news": "change",
    "nobody": "the actor",
    "others": "other members, other queues",
    "outlook": "retryability",
    "patience": "retry deadline, timeout",
    "peer": "remoting client",
    "peers": "remoting clients",
    "promised": "expected",
    "proof": "completion",
    "proofs": "completions",
    "prove": "mark completed",
    "proved": "completed",
    "proven": "completed",
    "question": "request, RPC",
    "questions": "requests",
    "renew": "extend",
    "renewed": "extended",
    "room": "capacity, package",
    "rooms": "packages",
    "said": "logged, reported",
    "say": "log, report",
    "says": "logs, reports",
    "settle": "resolve positions, complete",
    "settled": "resolved, completed",
    "settlement": "position resolution",
    "silence": "timeout",
    "silent": "unresponsive: timed out",
    "somebody": "the actor",
    "speak": "log, set the log context",
    "speaks": "logs",
    "spent": "retries exhausted",
    "standing": "membership state",
    "stories": "end-to-end tests",
    "story": "end-to-end test",
    "survey": "metadata refresh, snapshot",
    "surveyed": "refreshed",
    "surveys": "refreshes",
    "taken": "acquired, accepted, claimed",
    "tell": "report, log, send",
    "tells": "reports",
    "told": "reported, logged",
    "trouble": "failure",
    "troubles": "failures",
    "turn": "group lock, round robin",
    "turns": "round robin",
    "twin": "native implementation",
    "wanted": "target, required",
    "who": "the actor",
    "whoever": "the actor",
    "whose": "the actor",
    "wish": "requirement",
    "wishes": "requirements",
}
"""Words that no identifier has, and the words to use."""

SEQUENCES: Final = {
    "come_again": "redelivered",
    "comes_again": "redelivered",
    "give_back": "release",
    "give_up": "skip ranges, retries exhausted",
    "given_back": "released",
    "given_up": "skipped, retries exhausted",
    "go_on": "resume",
    "goes_on": "resumes",
    "hand_out": "deliver",
    "hand_over": "release queues",
    "handed_out": "delivered",
    "handed_over": "released",
    "left_out": "missing",
    "put_back": "restore",
}
"""Neighbouring words that no identifier has, and the words to use."""

RIGHT: Final = {
    "AllocateMachineRoomNearby": "RocketMQ's class",
    "AllocateMessageQueueByMachineRoom": "RocketMQ's class",
    "GO_AWAY": "RocketMQ's ResponseCode",
    "MachineRoomResolver": "RocketMQ's interface",
    "PeerCertificate": "TLS's word for the certificate of the other end",
    "RENEW_INTERVAL_MS": "a lease on a queue lock is renewed; what is extended is an invisible duration",
    "_by_machine_room": "RocketMQ's machine rooms",
    "_members_by_room": "RocketMQ's machine rooms",
    "_peer": "the other end of a socket, as in getpeername",
    "_queues_by_room": "RocketMQ's machine rooms",
    "_require_room": "RocketMQ's machine rooms",
    "bad_messages": "the option badMessages",
    "frozen": "the parameter of Python's dataclass",
    "is_go_away": "RocketMQ's ResponseCode",
    "machine_room_resolver": "the option machineRoomResolver",
    "members_with_room": "RocketMQ's machine rooms",
    "peer": "the other end of a socket, as in getpeername",
    "renew_locks": "a lease on a queue lock is renewed; what is extended is an invisible duration",
    "room": "RocketMQ's machine rooms",
    "rooms": "RocketMQ's machine rooms",
}
"""Identifiers that have such a word, and why it is the right one there."""

PHRASES: Final = {
    r"any(?:body|one)": "name the actor: a member, a client, you",
    r"every(?:body|one)": "name the actors: all members, all clients",
    r"no(?:body| one)": "name the actor: no broker, no member",
    r"some(?:body|one)": "name the actor: a member, an operator",
    r"who(?:m|se)?ever": "name the actor",
    r"asks": "sends a request, calls",
    r"(?:is|are|was|were|be|been) asked": "receives a request",
    r"believes?": "assumes",
    r"hears?": "receives",
    r"knows": "has, lists, caches",
    r"looks": "checks, probes, searches",
    r"says?": "returns, reports, logs",
    r"speaks?": "uses, supports, sends",
    r"tells?": "returns, reports",
    r"(?:is|are|was|were|be|been) told": "is notified, receives",
    r"anew": "again, re-created",
    r"(?:comes?|came|coming) again": "is redelivered",
    r"(?:goes|go|went|going) on(?= at| from| with|[.,;:)])": "resumes, continues",
    r"(?:gives?|gave|given|giving) (?:it |them )?back": "releases",
    r"(?:hands?|handed|handing) (?:it |them )?out": "delivers",
    r"(?:hands?|handed|handing) (?:it |them )?over": "releases, passes",
    r"in vain": "without success",
    r"(?:is|are|was|were|be|been) taken": "is accepted, is acknowledged, is used",
    r"so (?:many|much|often|long as it takes)": "at most N, a number and its unit",
    r"dead letter (?:queue|topic)": "dead-letter topic (DLQ)",
    r"bad messages?": "undecodable message",
    r"(?:makes?|made|making) anew": "re-creates",
}
"""Patterns that no text for a user has, in any case and across line ends, and what to write."""

PAGES: Final = ("README.md", "docs/**/*.md")

QUOTED: Final = {
    "docs/design/voice.md": "it lists such words",
}
"""Pages that quote such words, and why."""

LOG_LEVELS: Final = {"debug", "info", "warning", "error", "critical", "exception"}

Found = Iterator[tuple[int, str]]
"""Lines of a file, and what is wrong there."""


# --------------------------------------------------------------------------------------------------- identifiers


def words_of(name: str) -> list[str]:
    """Return the words of an identifier, split at underscores and capitals, in lower case."""
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)]


def advice_for(name: str) -> str | None:
    """Return what is wrong with an identifier, or None."""
    if name in RIGHT:
        return None
    words = words_of(name)
    joined = f"_{'_'.join(words)}_"
    refused = [(word, WORDS[word]) for word in words if word in WORDS]
    refused += [(sequence, use) for sequence, use in SEQUENCES.items() if f"_{sequence}_" in joined]
    if not refused:
        return None
    return f"{name}: " + "; ".join(f"not {word!r}, but {use}" for word, use in refused)


def identifiers(tree: ast.Module) -> Found:
    """Yield all names that a module defines: of functions, classes, parameters, variables and attributes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.lineno, node.name
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.attr


def refused_names(path: Path) -> Found:
    text = path.read_text(encoding="utf-8")
    for line, name in {(1, path.stem), *identifiers(ast.parse(text))}:
        if (advice := advice_for(name)) is not None:
            yield line, advice


# --------------------------------------------------------------------------------------------------------- texts


def refused_phrases(text: str) -> Found:
    """Yield the lines in which ``text`` has a phrase of the list, counted from 1."""
    for pattern, use in PHRASES.items():
        regex = r"\b" + pattern.replace(" ", r"\s+") + (r"\b" if pattern[-1].isalpha() or pattern[-1] == "?" else "")
        for found in re.finditer(regex, text, re.IGNORECASE):
            yield text.count("\n", 0, found.start()) + 1, f"not {' '.join(found[0].split())!r}, but {use}"


def prose(page: str) -> str:
    """Return a page without its code, links' targets and comments, and with the lines that it had."""
    code = r"```.*?```|`[^`]*`|\]\([^)]*\)|<!--.*?-->|https?://\S+"
    return re.sub(code, lambda found: "\n" * found[0].count("\n"), page, flags=re.DOTALL)


def strings(node: ast.AST, docstrings: frozenset[int]) -> Iterator[tuple[int, str]]:
    for one in ast.walk(node):
        if isinstance(one, ast.Constant) and isinstance(one.value, str) and id(one) not in docstrings:
            yield one.lineno, one.value


def docstrings_of(tree: ast.Module) -> frozenset[int]:
    """Return the identities of strings that stand alone as statements."""
    return frozenset(id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr))


def is_log_call(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in LOG_LEVELS
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id in {"log", "logger"}
    )


def refused_strings(path: Path, *, all_strings: bool) -> Found:
    """Yield phrases in the strings of a module: in all of them, or in those of its log calls; but not in docstrings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    docstrings = docstrings_of(tree)
    roots: list[ast.AST] = [tree] if all_strings else [node for node in ast.walk(tree) if is_log_call(node)]
    for line, text in (one for root in roots for one in strings(root, docstrings)):
        for _, advice in refused_phrases(text):
            yield line, advice


# --------------------------------------------------------------------------------------------------------- tests


def pages() -> list[Path]:
    """Return the pages that state what is so now: decisions state what was so at a time."""
    found = {page for pattern in PAGES for page in ROOT.glob(pattern)}
    return sorted(page for page in found if "decisions" not in page.parts)


def modules() -> list[Path]:
    return sorted(path for path in PACKAGE.rglob("*.py") if not path.name.endswith("_pb2.py"))


def located(path: Path, found: Found) -> list[str]:
    return [f"{path.relative_to(ROOT).as_posix()}:{line}: {advice}" for line, advice in sorted(found)]


def test_identifiers_have_no_refused_words() -> None:
    found = [one for path in modules() for one in located(path, refused_names(path))]
    assert not found, "\n".join(["", *found])


def test_each_exception_is_an_identifier_that_exists() -> None:
    names = {name for path in modules() for _, name in identifiers(ast.parse(path.read_text(encoding="utf-8")))}
    assert sorted(RIGHT.keys() - names) == []


def test_pages_have_no_refused_phrases() -> None:
    read = [page for page in pages() if page.relative_to(ROOT).as_posix() not in QUOTED]
    found = [one for page in read for one in located(page, refused_phrases(prose(page.read_text(encoding="utf-8"))))]
    assert not found, "\n".join(["", *found])


def test_options_and_conditions_have_no_refused_phrases() -> None:
    read = [path for path in modules() if path.parent.name in {"options", "conditions"}]
    found = [one for path in read for one in located(path, refused_strings(path, all_strings=True))]
    assert not found, "\n".join(["", *found])


def test_log_calls_have_no_refused_phrases() -> None:
    found = [one for path in modules() for one in located(path, refused_strings(path, all_strings=False))]
    assert not found, "\n".join(["", *found])


def test_a_refused_name_is_found_with_its_line(tmp_path: Path) -> None:
    module = tmp_path / "errands.py"
    module.write_text(
        "class LateProofs:\n    def take(self, room_bytes, whoever):\n        self._told = toldest = 1\n"
        "class LongPoll:\n    def left_out(self, machine_room_resolver):\n        GIVE_BACK_MS = 1\n"
    )
    found = sorted(refused_names(module))
    assert [(line, advice.partition(":")[0]) for line, advice in found] == [
        (1, "LateProofs"),
        (1, "errands"),
        (2, "room_bytes"),
        (2, "whoever"),
        (3, "_told"),
        (5, "left_out"),
        (6, "GIVE_BACK_MS"),
    ]
    assert found[0][1] == "LateProofs: not 'proofs', but completions"


def test_a_refused_phrase_is_found_across_line_ends() -> None:
    page = "A broker\nsays so.\n\n`nobody`\n\n```\nnobody\n```\n[it](nobody.md) Whoever reads\nit goes\non with that.\n"
    assert sorted(refused_phrases(prose(page))) == [
        (2, "not 'says', but returns, reports, logs"),
        (9, "not 'Whoever', but name the actor"),
        (10, "not 'goes on', but resumes, continues"),
    ]


def test_strings_are_read_and_docstrings_are_not(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text(
        '"""It says nothing."""\nTEXT = "nobody"\n\n'
        'def f():\n    """Nobody."""\n    log.info("at most so "\n        "many of %s", "x")\n    print("anew")\n'
    )
    assert [line for line, _ in refused_strings(module, all_strings=True)] == [2, 6, 8]
    assert [line for line, _ in refused_strings(module, all_strings=False)] == [6]
