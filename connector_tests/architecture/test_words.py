"""The package is named in the words of RocketMQ, Spark and the field, and its texts state who does what."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator, Set
from pathlib import Path
from typing import Final

import pytest

import rocketmq_spark
from connector_tests.support.refused_words import SEQUENCES, WORDS, Place, refused_phrases, refused_words

PACKAGE: Final = Path(rocketmq_spark.__file__).parent
ROOT: Final = PACKAGE.parent

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

PAGES: Final = ("README.md", "DESIGN.md", "CONTRIBUTING.md", "docs/**/*.md")

IN_TESTS: Final = frozenset({"others", "renewed", "room", "rooms", "whose"})
"""Words that names of tests may have: sentences need pronouns, mutants and machines have rooms, locks are renewed."""

OF_THE_MODEL: Final = {"in_turn", "has_news", "is_answered", "is_wanted", "newcomer", "proven"}
MODEL: Final = ("properties/test_join", "support/simulated_", "support/join_", "support/omitted_", "support/steady_")
"""Names of the simulated group, which its users share, and the files that define them."""

TEXTS_OF_BROKERS: Final = {"meanings.py"}
"""Modules whose strings are remarks of brokers, as these write them."""

OF_MACHINE_ROOMS: Final = {"allocation.py", "strategy_names.py"}
"""Modules whose docstrings have RocketMQ's machine rooms."""

Found = Iterator[tuple[int, str]]
"""Lines of a file, and what is wrong there."""


# --------------------------------------------------------------------------------------------------- identifiers


def words_of(name: str) -> list[str]:
    """Return the words of an identifier, split at underscores and capitals, in lower case."""
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)]


def advice_for(name: str, allowed: Set[str] = frozenset()) -> str | None:
    """Return what is wrong with an identifier, or None. ``allowed``: words that are right where it is."""
    if name in RIGHT:
        return None
    words = words_of(name)
    joined = f"_{'_'.join(words)}_"
    refused = [(word, WORDS[word]) for word in words if word in WORDS.keys() - allowed]
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


def refused_names(path: Path, allowed: Set[str] = frozenset()) -> Found:
    text = path.read_text(encoding="utf-8")
    for line, name in {(1, path.stem), *identifiers(ast.parse(text))}:
        if (advice := advice_for(name, allowed)) is not None:
            yield line, advice


# --------------------------------------------------------------------------------------------------------- texts


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


def refused_strings(path: Path, place: Place) -> Found:
    """Yield phrases in the strings of a module, but not in docstrings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for line, text in strings(tree, docstrings_of(tree)):
        for _, advice in refused_phrases(text, place):
            yield line, advice


def docstrings_and_comments(code: str) -> str:
    """Return the docstrings and comments of a module at their lines, without what is in double backticks. The lines of
    code have a full stop, which ends a phrase."""
    lines = ["."] * (code.count("\n") + 1)
    tree = ast.parse(code)
    of_docstrings = docstrings_of(tree)
    docstrings = [one for one in ast.walk(tree) if isinstance(one, ast.Constant) and id(one) in of_docstrings]
    texts = [(one.lineno, one.value) for one in docstrings if isinstance(one.value, str)]
    tokens = tokenize.generate_tokens(io.StringIO(code).readline)
    texts += [(token.start[0], token.string) for token in tokens if token.type == tokenize.COMMENT]
    for first_line, text in texts:
        plain = re.sub(r"``[^`]*``", lambda found: "\n" * found[0].count("\n"), text).split("\n")
        lines[first_line - 1 : first_line - 1 + len(plain)] = plain
    return "\n".join(lines)


def refused_docstrings(path: Path) -> Found:
    """Yield words and phrases in the docstrings and comments of a module, each once."""
    allowed = frozenset({"room", "rooms"}) if path.name in OF_MACHINE_ROOMS else frozenset[str]()
    text = docstrings_and_comments(path.read_text(encoding="utf-8"))
    found = (*refused_words(text, allowed), *refused_phrases(text, Place.DOCSTRING))
    yield from {(line, advice.partition(",")[0]): (line, advice) for line, advice in found}.values()


# --------------------------------------------------------------------------------------------------------- tests


def pages() -> list[Path]:
    """Return the pages that state what is so now: decisions state what was so at a time."""
    found = {page for pattern in PAGES for page in ROOT.glob(pattern)}
    return sorted(page for page in found if "decisions" not in page.parts)


def place_of(page: Path) -> Place:
    is_for_maintainers = {"dev", "benchmarks", "DESIGN.md", "CONTRIBUTING.md"} & set(page.parts)
    return Place.MAINTAINERS_PAGE if is_for_maintainers else Place.USERS_PAGE


def modules() -> list[Path]:
    return sorted(path for path in PACKAGE.rglob("*.py") if not path.name.endswith("_pb2.py"))


def modules_and_tools() -> list[Path]:
    return [*modules(), *sorted((ROOT / "tools").glob("*.py"))]


def modules_of_tests() -> list[Path]:
    """Return the modules of tests, but for the model of a group."""
    folder = ROOT / "connector_tests"
    found = sorted(folder.rglob("*.py"))
    return [path for path in found if not path.relative_to(folder).as_posix().startswith(MODEL)]


def located(path: Path, found: Found) -> list[str]:
    return [f"{path.relative_to(ROOT).as_posix()}:{line}: {advice}" for line, advice in sorted(found)]


def test_identifiers_have_no_refused_words() -> None:
    found = [one for path in modules() for one in located(path, refused_names(path))]
    assert not found, "\n".join(["", *found])


def test_identifiers_of_tests_have_no_refused_words() -> None:
    refused = ((path, advice) for path in modules_of_tests() for advice in refused_names(path, IN_TESTS))
    named = [(path, advice) for path, advice in refused if advice[1].partition(":")[0] not in OF_THE_MODEL]
    found = [one for path, advice in named for one in located(path, iter([advice]))]
    assert not found, "\n".join(["", *found])


def test_each_exception_is_an_identifier_that_exists() -> None:
    names = {name for path in modules() for _, name in identifiers(ast.parse(path.read_text(encoding="utf-8")))}
    assert sorted(RIGHT.keys() - names) == []


def test_pages_have_no_refused_phrases() -> None:
    texts = [(page, prose(page.read_text(encoding="utf-8"))) for page in pages()]
    found = [one for page, text in texts for one in located(page, refused_phrases(text, place_of(page)))]
    assert not found, "\n".join(["", *found])


@pytest.mark.parametrize(("package", "place"), [("options", Place.OPTION), ("conditions", Place.CONDITION)])
def test_options_and_conditions_have_no_refused_phrases(package: str, place: Place) -> None:
    read = [path for path in modules() if path.parent.name == package]
    found = [one for path in read for one in located(path, refused_strings(path, place))]
    assert read
    assert not found, "\n".join(["", *found])


def test_messages_and_their_parts_have_no_refused_phrases() -> None:
    """Causes and problems, which errors and log lines quote, are strings anywhere in the package."""
    read = [path for path in modules() if path.name not in TEXTS_OF_BROKERS]
    found = [one for path in read for one in located(path, refused_strings(path, Place.MESSAGE))]
    assert not found, "\n".join(["", *found])


def test_docstrings_and_comments_have_no_refused_words() -> None:
    found = [one for path in modules_and_tools() for one in located(path, refused_docstrings(path))]
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
    assert sorted(refused_phrases(prose(page), Place.MAINTAINERS_PAGE)) == [
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
    assert [line for line, _ in refused_strings(module, Place.OPTION)] == [2, 6, 8]


def test_refused_words_of_docstrings_and_comments_are_found(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text(
        '"""Look up.\n\nThe broker takes a lock, which takes effect ``who`` knows."""\n'
        'TEXT = "gone"  # It looks at rooms.\n\n\ndef f():\n    """Nobody takes 3 ms."""\n'
    )
    assert [(line, advice.partition(",")[0]) for line, advice in sorted(refused_docstrings(module))] == [
        (3, "not 'knows'"),
        (3, "not 'takes'"),
        (4, "not 'looks'"),
        (4, "not 'rooms'"),
        (8, "not 'Nobody'"),
    ]


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("Nobody reads it.", set(Place)),
        ("The broker told it.", set(Place) - {Place.MAINTAINERS_PAGE, Place.DOCSTRING}),
        ("An answer of the broker.", {Place.CONDITION, Place.MESSAGE}),
        ("The topic is not there yet.", {Place.CONDITION}),
        ("The broker redelivers the message.", set()),
    ],
)
def test_each_group_of_phrases_is_refused_in_its_places_only(text: str, places: set[Place]) -> None:
    assert {place for place in Place if list(refused_phrases(text, place))} == places
